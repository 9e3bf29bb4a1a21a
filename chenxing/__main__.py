"""The program `chenxing`: ready for Ctrl-C before it imports anything else.

Until a command runs there is nothing to put in order: Ctrl-C ends the process at once, and it says nothing. `cli.py`
has it raise KeyboardInterrupt while a command runs.
"""

# signal.py is made of this module and of enums, which take long enough to import for a key to be pressed
from _signal import SIG_DFL, SIGINT, default_int_handler, getsignal, signal


def main() -> int:
    """Runs this process's arguments. -> the exit code."""
    if getsignal(SIGINT) is default_int_handler:  # who started this may want it ignored
        signal(SIGINT, SIG_DFL)
    from chenxing import cli

    return cli.main()


if __name__ == "__main__":
    raise SystemExit(main())
