"""A terminal's Ctrl-C goes to a group of processes."""

import os
import subprocess
import sys

import pytest

from chenxing.children import OWN_GROUP


@pytest.mark.skipif(os.name == "nt", reason="Windows does not tell a process's group")
def test_a_child_is_not_in_the_group_of_this_process():
    code = "import os; print(os.getpgid(0) == os.getpid())"
    assert subprocess.check_output([sys.executable, "-c", code], **OWN_GROUP) == b"True\n"
    assert subprocess.check_output([sys.executable, "-c", code]) == b"False\n"
