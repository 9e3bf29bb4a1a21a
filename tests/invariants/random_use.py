"""Random use of caches, checked after each step against the plainest model: a tree of dicts of all known tokens."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from kvcache.pattern import PAGE_BYTES, check, compute

from chenxing.kernels.layout import PAGE
from chenxing.kvcache import KVCache, Sequence

N_CTX = 5 * PAGE
MAX_SEQUENCES = 6


@dataclass(frozen=True)
class Setting:
    """Budgets in pages. exact: nothing is ever lost, so reuse is just what the model says; else it is at most that."""

    ram_pages: int
    disk_pages: int | None
    n_caches: int = 1
    exact: bool = False


class Known:
    """Every prefix that was ever committed (full pages) or kept (all tokens)."""

    def __init__(self) -> None:
        self.root: dict[int, Any] = {}

    def add(self, ids: list[int]) -> None:
        here = self.root
        for i in ids:
            here = here.setdefault(i, {})

    def cut(self, ids: list[int], n: int) -> None:
        """Of these, no more than n are known any longer."""
        here = self.root
        for i in ids[:n]:
            here = here[i]
        if n < len(ids):
            here.pop(ids[n], None)

    def longest(self, ids: list[int]) -> int:
        here, n = self.root, 0
        for i in ids:
            if i not in here:
                break
            here, n = here[i], n + 1
        return n


@dataclass
class RandomUse:
    folder: Path
    setting: Setting
    rng: np.random.Generator
    known: Known = field(default_factory=Known)
    texts: list[list[int]] = field(default_factory=list)
    live: list[tuple[int, Sequence, list[int]]] = field(default_factory=list)
    n_reused: int = 0

    def __post_init__(self) -> None:
        self.caches = [self.open() for _ in range(self.setting.n_caches)]

    def open(self) -> KVCache:
        disk = self.setting.disk_pages
        return KVCache(
            PAGE_BYTES,
            ram_bytes=self.setting.ram_pages * PAGE_BYTES,
            folder=None if disk is None else self.folder,
            fingerprint={"name": "pattern"},
            disk_bytes=(disk or 0) * PAGE_BYTES,
            extent_bytes=4 * PAGE_BYTES,
        )

    def step(self) -> None:
        actions = [self.begin] * 6 + [self.extend] * 8 + [self.truncate] * 3 + [self.fork] * 2 + [self.release] * 5
        actions += [self.reserve, self.reserve, self.flush, self.trim]
        actions += [self.forget]
        if self.rng.random() < 0.01:
            actions = [self.reopen]
        actions[self.rng.integers(len(actions))]()
        for cache in self.caches:
            cache.check_integrity()

    def text(self) -> list[int]:
        """Often the beginning of an earlier one."""
        old = self.texts[self.rng.integers(len(self.texts))] if self.texts and self.rng.random() < 0.9 else []
        kept = old[: self.rng.integers(len(old) + 1)] if self.rng.random() < 0.5 else old
        n_new = int(self.rng.integers(1, 2 * PAGE)) if self.rng.random() < 0.5 else int(self.rng.integers(1, 4))
        new = [*kept, *self.rng.integers(0, 3, n_new).tolist()][:N_CTX]
        self.texts.append(new)
        if len(self.texts) > 40:
            del self.texts[self.rng.integers(len(self.texts))]
        return new

    def begin(self) -> None:
        if len(self.live) >= MAX_SEQUENCES:
            self.release()
            return
        ids, at = self.text(), int(self.rng.integers(len(self.caches)))
        cache = self.caches[at]
        expected = self.known.longest(ids[:-1])
        matched = cache.match(ids)
        sequence = cache.begin(ids, N_CTX)
        assert sequence.n_cached <= expected
        if self.setting.exact:
            assert sequence.n_cached == matched == expected
        check(sequence, ids[: sequence.n_cached])
        self.n_reused += sequence.n_cached
        self.live.append((at, sequence, ids[: sequence.n_cached]))
        self.compute(len(self.live) - 1, ids[sequence.n_cached :])

    def extend(self) -> None:
        if self.live:
            i = int(self.rng.integers(len(self.live)))
            n = int(self.rng.integers(1, PAGE + 8)) if self.rng.random() < 0.5 else 1
            new = self.rng.integers(0, 3, min(n, N_CTX - len(self.live[i][2]))).tolist()
            if new:
                self.compute(i, new)

    def compute(self, i: int, new: list[int]) -> None:
        _, sequence, ids = self.live[i]
        if compute(sequence, new):
            ids += new
            self.known.add(ids[: len(ids) // PAGE * PAGE])
        else:
            assert not self.setting.exact
        check(sequence, ids)

    def reserve(self) -> None:
        """More than is needed, as a draft does."""
        if self.live:
            _, sequence, ids = self.live[self.rng.integers(len(self.live))]
            room = sequence.reserve(min(N_CTX, len(ids) + int(self.rng.integers(2 * PAGE))))
            assert room or not self.setting.exact
            check(sequence, ids)

    def truncate(self) -> None:
        if self.live:
            _, sequence, ids = self.live[self.rng.integers(len(self.live))]
            n = int(self.rng.integers(len(ids) + 1))
            for _ in range(2):  # a second time changes nothing
                sequence.truncate(n)
            del ids[n:]
            check(sequence, ids)

    def fork(self) -> None:
        if self.live and len(self.live) < MAX_SEQUENCES:
            at, sequence, ids = self.live[self.rng.integers(len(self.live))]
            self.live.append((at, sequence.fork(), list(ids)))
            check(self.live[-1][1], ids)

    def release(self) -> None:
        if self.live:
            _, sequence, ids = self.live.pop(int(self.rng.integers(len(self.live))))
            check(sequence, ids)
            keep = bool(self.rng.random() < 0.8)
            sequence.release(keep)
            if keep:
                self.known.add(ids)

    def forget(self) -> None:
        if not self.texts:
            return
        cache = self.caches[self.rng.integers(len(self.caches))]
        ids = self.texts[self.rng.integers(len(self.texts))]
        n_known = cache.match([*ids, 9])
        n_gone = cache.forget(ids)
        if self.setting.exact:
            assert cache.match([*ids, 9]) == n_known - n_gone
            self.known.cut(ids, n_known - n_gone)

    def flush(self) -> None:
        self.caches[self.rng.integers(len(self.caches))].flush()

    def trim(self) -> None:
        self.caches[self.rng.integers(len(self.caches))].trim()

    def reopen(self) -> None:
        """Close one cache, whose role as the writer another may take, and open it anew."""
        at = int(self.rng.integers(len(self.caches)))
        for item in [item for item in self.live if item[0] == at]:
            self.live.remove(item)
            item[1].release()
            self.known.add(item[2])
        self.caches[at].close()
        self.caches[at] = self.open()
        if self.setting.disk_pages is None:
            self.known = Known()

    def finish(self) -> None:
        while self.live:
            self.release()
        for cache in self.caches:
            cache.check_integrity()
            cache.close()
