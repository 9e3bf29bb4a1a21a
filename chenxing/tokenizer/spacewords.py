"""Words of vocabularies that have no pre-tokenizer: places that no token reaches across.

SPM and UGM treat a text as one piece, in which spaces are U+2581. But a token that holds U+2581 behind another
character is rare, and only such a token makes the two sides of a space depend on each other. So the text may be cut
before every U+2581 whose predecessor stands before none in any token, and the words, which then come again and again,
are tokenised each for itself, with the same result.
"""

import re
from collections.abc import Callable, Iterator
from operator import itemgetter

import numpy as np

from chenxing.tokenizer.cache import Arrays

SPACE = "▁"
SPACE_BYTES = SPACE.encode()

_WHOLE = itemgetter(0)  # of a match
_BEFORE_SPACE = re.compile(f"(.)(?={SPACE})", re.DOTALL)


def find_joints(texts: list[bytes]) -> Arrays:
    """Arrays for `word_finder`: the characters that stand before U+2581 in a token."""
    joints: set[str] = set()
    for text in texts:
        if text.find(SPACE_BYTES, 1) > 0:
            joints.update(_BEFORE_SPACE.findall(text.decode(errors="replace")))
    return {"joints": np.array(sorted(map(ord, joints)), np.uint32)}


def word_finder(arrays: Arrays) -> Callable[[str], Iterator[str]]:
    """Finds all words of a text in which spaces are escaped, one by one: findall would keep other threads waiting."""
    joints = "".join(re.escape(chr(point)) for point in arrays["joints"].tolist())
    inner = f"(?:[^{SPACE}]|(?<=[{joints}]){SPACE})*" if joints else f"[^{SPACE}]*"
    find = re.compile("." + inner, re.DOTALL).finditer
    return lambda text: map(_WHOLE, find(text))
