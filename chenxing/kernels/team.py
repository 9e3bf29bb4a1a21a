"""The thread team: Python threads inside one nogil kernel each, and the call that runs a program's step.

Between steps the workers spin briefly, then sleep in Python until the next step. A step never waits for a sleeper:
ops end when their chunks are done (executor.py), so a worker that wakes late merely comes late.
"""

import ctypes
import threading

import numpy as np

from chenxing.kernels import layout as L
from chenxing.kernels.cut import Cut, StepCut
from chenxing.kernels.library import KernelLibrary
from chenxing.kernels.memory import address, aligned

STEP, WORKER = "chenxing.kernels.executor:step", "chenxing.kernels.executor:worker"
KERNELS = (STEP, WORKER)
_C_KERNEL = ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)


class Team:
    """n threads, the caller of `run` being the first. Programs must live as long as the team.

    cut  what ends its steps early; several teams that run in turn may share it

    Not thread-safe: one `run` at a time.
    """

    def __init__(self, library: KernelLibrary, n_threads: int, cut: Cut | None = None) -> None:
        assert 1 <= n_threads <= L.MAX_THREADS
        library.require(KERNELS)
        self.n_threads, self._cut = n_threads, cut or Cut()
        self._library = library  # it owns the code that the threads are in
        self._control = aligned(L.CONTROL_BYTES // 8, np.int64)
        self._args = aligned(8, np.int64)
        self._control_at, self._args_at = address(self._control), address(self._args)
        self._step = _C_KERNEL(library.addresses[STEP])
        self._worker = _C_KERNEL(library.addresses[WORKER])
        # an event for each: one that all shared could be cleared by the first before the second has seen it
        self._wake = [threading.Event() for _ in range(n_threads)]
        self._asleep = [False] * n_threads
        self._threads = [
            threading.Thread(target=self._work, args=(tid,), name=f"chenxing-{tid}", daemon=True)
            for tid in range(1, n_threads)
        ]
        for thread in self._threads:
            thread.start()

    def run(self, program: int, n_ops: int, step: int, plan: int) -> None:
        """Run one step: addresses of the op table, the step's counters, and n_ops x 8 bytes for the plan.

        Raises StepCut if it did not run to its end, or may not have.
        """
        self._args[:6] = program, n_ops, step, plan, self._control_at, self._cut.address
        if True in self._asleep:
            for tid in range(1, self.n_threads):
                self._wake[tid].set()
        self._step(self._args_at, self.n_threads, 0)
        if self._cut.is_set:
            raise StepCut

    def close(self) -> None:
        """Stop the workers. The team cannot run afterwards."""
        self._control[L.STOP // 8] = 1
        for wake in self._wake:
            wake.set()
        for thread in self._threads:
            thread.join()

    def _work(self, tid: int) -> None:
        while not self._control[L.STOP // 8]:
            self._worker(self._control_at, tid, self.n_threads)
            self._asleep[tid] = True
            self._wake[tid].wait()
            self._wake[tid].clear()
            self._asleep[tid] = False
