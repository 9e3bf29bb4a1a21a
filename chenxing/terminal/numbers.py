"""Numbers of the command line."""

import argparse
import re
from collections.abc import Callable


def at_least(least: int) -> Callable[[str], int]:
    """Reads a number of `least` or more, for argparse."""

    def read(text: str) -> int:
        number = int(text) if re.fullmatch(r"-?\d{1,18}", text) else least - 1
        if number < least:
            raise argparse.ArgumentTypeError(f"expected {least} or more, found {text!r}")
        return number

    return read


def one_or_more(text: str) -> int | None:
    """Reads 1 or more, or -1, which is llama.cpp's word for the default, here None."""
    return None if text == "-1" else at_least(1)(text)
