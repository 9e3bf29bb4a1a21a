"""Drafts without a second model: what followed the last tokens when they stood in the text before.

Source  Saxena 2023 (prompt lookup decoding); llama.cpp b11434, common/ngram-map.cpp, whose `ngram-simple` searches the
whole text for every token, where this one keeps an index.
"""

from collections.abc import Sequence

from chenxing.engine.request import Request

N_GRAM = 3  # tokens that must have stood together before
LONGER = (5, 8, 16)  # matched tokens from which on a draft is of the next kind
AT_ONCE = 8192  # tokens of a long prompt that are read between two steps: some milliseconds
_BITS = 21  # of an id in the key of an n-gram
_KEY = (1 << N_GRAM * _BITS) - 1


class NGramIndex:
    """Where in some ids their last tokens stood before. Each further id takes the same small time.

    at        index of the id that followed them there, and is the guess; None: they are new
    n_matched tokens before `at` that are known to be the last ones, at least N_GRAM
    n_read    ids that it knows of
    """

    def __init__(self) -> None:
        self.at: int | None = None
        self.n_matched = self.n_read = 0
        self._key = 0  # the last N_GRAM ids
        self._after: dict[int, int] = {}  # key -> index of what followed those ids, the latest time

    def read(self, ids: Sequence[int]) -> None:
        """Go on with what was added to the same ids since the last call, AT_ONCE of them at most."""
        end = min(len(ids), self.n_read + AT_ONCE)
        for i in range(self.n_read, end):
            self._push(ids, i)
        self.n_read = end

    def guess(self, ids: Sequence[int], n: int) -> list[int]:
        """The next n ids, if it goes on as it did there; a repetition that reaches the end goes on repeating."""
        assert self.at is not None and self.n_read == len(ids)
        period = len(ids) - self.at
        return [ids[self.at + i % period] for i in range(n)]

    def _push(self, ids: Sequence[int], i: int) -> None:
        """Take the i-th id in: follow the match on, or look for another one."""
        self._key = (self._key << _BITS | ids[i]) & _KEY
        if i + 1 < N_GRAM:
            return
        if self.at is not None and ids[self.at] == ids[i]:
            self.at, self.n_matched = self.at + 1, self.n_matched + 1
        else:
            self.at = self._after.get(self._key)
            self.n_matched = 0 if self.at is None else _n_before(ids, self.at, i + 1)
        self._after[self._key] = i + 1


class NGramDrafter:
    """Drafts from each request's own tokens, prompt and answer."""

    name = "ngram-simple"
    prior = (0.4, 0.5, 0.6, 0.8)  # of N_GRAM matched tokens, of LONGER[0] and more, ...

    def __init__(self) -> None:
        self._indices: dict[Request, NGramIndex] = {}

    def outlook(self, request: Request) -> int | None:
        index = self._indices.setdefault(request, NGramIndex())
        index.read(request.ids)
        if index.at is None or index.n_read < len(request.ids):
            return None
        return sum(index.n_matched >= n for n in LONGER)

    def draft(self, wanted: Sequence[tuple[Request, int]]) -> list[list[int] | None]:
        return [self._indices[request].guess(request.ids, n) for request, n in wanted]

    def forget(self, request: Request) -> None:
        self._indices.pop(request, None)

    def close(self) -> None:
        self._indices.clear()


def _n_before(ids: Sequence[int], a: int, b: int) -> int:
    """How many ids before index a are those before b, counted as far as it matters."""
    most = min(a, LONGER[-1])
    return next((n for n in range(N_GRAM, most) if ids[a - 1 - n] != ids[b - 1 - n]), most)
