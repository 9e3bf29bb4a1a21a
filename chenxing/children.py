"""Child processes that do a part of this one's work, and that it ends itself.

OWN_GROUP is for Popen: a terminal's Ctrl-C then goes to this process alone. A child that died of it would look like a
failure of its work. On Windows the child has to die of it: a process that waits for a pipe does not hear of Ctrl-C.
"""

import sys
from typing import Any

OWN_GROUP: dict[str, Any] = {} if sys.platform == "win32" else {"process_group": 0}
