"""What the desktop program runs: the command line, and what other Pythons would be started for.

The program is its own Python. chenxing starts `sys.executable -m MODULE` for two modules, which are imported here by
name so that they are bundled: the compiler of kernels, and pip, which fetches the built-in models.
"""

import os
import sys
from collections.abc import Callable


def main() -> int:
    _restore_library_path()
    if sys.argv[1:] == ["-m", "chenxing.kernels.compile"]:
        from chenxing.kernels.compile import main as compile_kernels

        compile_kernels()
        return 0
    if sys.argv[1:3] == ["-m", "pip"]:
        from pip._internal.cli.main import main as pip

        return pip(sys.argv[3:])
    from chenxing import cli

    if len(sys.argv) == 1:
        from chenxing.terminal.double_click import open_terminal, was_double_clicked

        if was_double_clicked():
            return _open(cli.main, open_terminal)
    return cli.main()


def _open(main: Callable[[list[str]], int], open_terminal: Callable[[list[str]], bool]) -> int:
    """`chenxing app` in a window; where there is none to be had, without one."""
    if sys.platform != "win32" and open_terminal([sys.executable, "app"]):
        return 0
    code = main(["app"])
    if code and sys.platform == "win32":
        input("Press Enter to close this window. ")
    return code


def _restore_library_path() -> None:
    """The program's own libraries are found; what it starts (a browser, a terminal) shall use the system's."""
    for name in ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH"):
        original = os.environ.pop(f"{name}_ORIG", None)
        if original is not None:
            os.environ[name] = original
        elif getattr(sys, "frozen", False):
            os.environ.pop(name, None)


if __name__ == "__main__":
    raise SystemExit(main())
