"""How fast this process's threads read memory."""

import time

import numpy as np

from chenxing.kernels import layout as L
from chenxing.kernels.library import KernelLibrary
from chenxing.kernels.memory import address, aligned
from chenxing.kernels.team import Team
from chenxing.models.program import Part, Program

N_BYTES = 256 << 20  # more than the last cache of almost every CPU
_CHUNK_BYTES = 64 << 10
_N_CHUNKS = N_BYTES // _CHUNK_BYTES
_READ_AHEAD = 8192  # the kernel prefetches this far beyond what it sums


class PlainRead:
    """Call it for the bytes per second of one pass over a buffer, by the team's threads, as a step of its own.

    Holds N_BYTES of memory. It must live as long as the team.
    """

    def __init__(self, library: KernelLibrary, team: Team) -> None:
        self._team = team
        self._buffer = aligned(N_BYTES + _READ_AHEAD)
        self._buffer[:] = 1  # untouched memory would all be the system's one zero page
        self._sums = aligned((_N_CHUNKS, 16), np.int32)
        self._counters = aligned(L.STEP_WORDS, np.int64)
        self._counters[[L.ONE, L.N_ROWS]] = 1
        self._program = Program()
        args = [address(self._buffer), _CHUNK_BYTES, address(self._sums)]
        self._program.add([Part("chenxing.kernels.read:read", args, _N_CHUNKS)])
        self._program.finish(library)

    def __call__(self) -> float:
        start = time.perf_counter()
        self._program.run(self._team, self._counters)
        return N_BYTES / (time.perf_counter() - start)
