"""The tokens so far, prompt and answer, in one growing array."""

from collections.abc import Sequence

import numpy as np


class History:
    """Invariant: ids[:n] are the tokens; ids[:n_prompt] are those of the prompt."""

    def __init__(self, prompt: Sequence[int]) -> None:
        self.n = self.n_prompt = len(prompt)
        self._ids = np.empty(self.n + 256, dtype=np.int32)
        self._ids[: self.n] = prompt

    @property
    def n_generated(self) -> int:
        return self.n - self.n_prompt

    def append(self, token: int) -> None:
        if self.n == self._ids.size:
            self._ids = np.concatenate([self._ids, np.empty_like(self._ids)])
        self._ids[self.n] = token
        self.n += 1

    def window(self, n_last: int) -> np.ndarray:
        """i32[m], the latest n_last tokens or what there is; all for -1. A view, valid until the next append."""
        return self._ids[max(0, self.n - n_last) if n_last >= 0 else 0 : self.n]
