"""Stop strings never leak, wherever the text is cut, and hold nothing back for longer than needed."""

from itertools import pairwise

import numpy as np
import pytest

from chenxing.engine.stops import StopFilter


def run(stops: list[str], pieces: list[str]) -> tuple[str, bool]:
    filter_ = StopFilter(stops)
    out = "".join(filter_.push(p) for p in pieces)
    return (out, True) if filter_.stopped else (out + filter_.finish(), False)


@pytest.mark.parametrize("stops", [["END"], ["aab", "ab"], ["</s>", "<"], ["aaa"], ["\n\n", "User:"]])
def test_any_cut_gives_the_text_before_the_first_stop(stops):
    rng = np.random.default_rng(len(stops[0]))
    letters = sorted(set("".join(stops)) | {"x", "y"})
    for _ in range(2000):
        text = "".join(rng.choice(letters, rng.integers(1, 24)))
        cuts = sorted(set(rng.integers(0, len(text) + 1, rng.integers(0, 6)).tolist()) | {0, len(text)})
        pieces = [text[a:b] for a, b in pairwise(cuts)]
        # the first stop to be complete wins; of those complete at once, the one that began first
        ends = [(i, s) for i in range(len(text) + 1) for s in stops if text[:i].endswith(s)]
        out, stopped = run(stops, pieces)
        assert stopped == bool(ends)
        if not ends:
            assert out == text
        else:
            assert not any(s in out for s in stops) and text.startswith(out)


def test_text_that_cannot_be_a_stop_goes_at_once():
    filter_ = StopFilter(["###"])
    assert filter_.push("abc#") == "abc"
    assert filter_.push("d") == "#d"
    assert filter_.push("##") == ""
    assert filter_.finish() == "##"


def test_no_stops():
    assert run([], ["a", "b"]) == ("ab", False)
    assert run([""], ["a", "b"]) == ("ab", False)
