"""Runs before all else in the desktop program: until a command runs, Ctrl-C ends it in silence.

As chenxing/__main__.py does, which is imported after PyInstaller's own modules only.
"""

from _signal import SIG_DFL, SIGINT, default_int_handler, getsignal, signal

if getsignal(SIGINT) is default_int_handler:
    signal(SIGINT, SIG_DFL)
