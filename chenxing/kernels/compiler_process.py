"""A process that compiles kernels: this very chenxing, whatever folder the user stands in.

`python -m` would look for chenxing in the current folder first: another checkout there would compile other sources.
"""

import atexit
import json
import subprocess
import sys
from pathlib import Path

from chenxing.children import OWN_GROUP

_MODULE = "chenxing.kernels.compile"
_START = f"""
import sys
from importlib.machinery import PathFinder
from importlib.util import module_from_spec
sys.path[:] = [path for path in sys.argv[2:] if path]
spec = PathFinder.find_spec("chenxing", [sys.argv[1]])
sys.modules["chenxing"] = package = module_from_spec(spec)
spec.loader.exec_module(package)
from {_MODULE} import main
main()
"""


def start_compiler(isa: str, kernels: dict[str, str]) -> subprocess.Popen:
    """Compiles kernels {reference: path of the object} and prints a line for each that is done.

    The caller reads both pipes and hands the process to `end_compiler`. It does not outlive a program that ends before.
    """
    pipe = subprocess.PIPE
    process = subprocess.Popen(
        _command(), stdin=pipe, stdout=pipe, stderr=pipe, encoding="utf-8", errors="replace", **OWN_GROUP
    )
    for last in (process.wait, process.kill):  # the latest comes first
        atexit.register(last)
    assert process.stdin is not None
    json.dump({"isa": isa, "kernels": kernels}, process.stdin)
    process.stdin.close()
    return process


def _command() -> list[str]:
    """A Python that finds chenxing where this one has it from, all else on our path, and nothing in its own folder."""
    if getattr(sys, "frozen", False):
        return [sys.executable, "-m", _MODULE]  # the desktop program's entry takes this for an order to compile
    return [sys.executable, "-P", "-c", _START, str(Path(__file__).parents[2]), *sys.path]


def end_compiler(process: subprocess.Popen) -> None:
    """Kill it, unless it has ended, and close its pipes."""
    process.kill()
    process.wait()
    for last in (process.wait, process.kill):
        atexit.unregister(last)
    for pipe in (process.stdout, process.stderr):
        if pipe:
            pipe.close()
