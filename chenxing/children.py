"""Child processes that do a part of this one's work, and that it ends itself.

OWN_GROUP is for Popen: a terminal's Ctrl-C then goes to this process alone. A child that died of it would look like a
failure of its work.
"""

import subprocess
import sys
from typing import Any

if sys.platform == "win32":
    OWN_GROUP: dict[str, Any] = {"creationflags": subprocess.CREATE_NEW_PROCESS_GROUP}
else:
    OWN_GROUP: dict[str, Any] = {"process_group": 0}
