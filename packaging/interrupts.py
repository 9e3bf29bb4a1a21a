"""Runs before all else in the desktop program: until a command runs, Ctrl-C ends it in silence.

As chenxing/__main__.py does, which comes after PyInstaller's own modules. No module but built-in ones is there yet.
"""

from _signal import SIG_DFL, SIGINT, default_int_handler, getsignal, signal

if getsignal(SIGINT) is default_int_handler:
    signal(SIGINT, SIG_DFL)
