"""Kernels for 64-bit Arm under qemu's user emulation, called with the same pointers as this machine's own.

Everything that a kernel touches lies in one `Arena`: a file that this process and the emulated one map at the same
address. A program holds all kernels of one instruction set: objects from emit_aarch64.py, linked by gcc with
aarch64_harness.c.
"""

import ctypes
import json
import mmap
import os
import shutil
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pytest
import xxhash

from chenxing.config import settings
from chenxing.kernels.layout import ALIGN
from chenxing.kernels.library import build_id
from chenxing.kernels.objects import ENTRY, read_object

HERE = Path(__file__).parent
TOOLS = {  # program: Debian's package
    "qemu-aarch64": "qemu-user",
    "aarch64-linux-gnu-gcc": "gcc-aarch64-linux-gnu",
    "aarch64-linux-gnu-objcopy": "binutils-aarch64-linux-gnu",
}
ADDRESS, SIZE = 1 << 36, 1 << 25  # far from where Linux puts programs, libraries and stacks
_FIXED_NOREPLACE = 0x100000


def require_tools() -> None:
    """Skip the test, saying what to install, where kernels cannot be linked or run."""
    missing = [f"{tool} (Debian: {package})" for tool, package in TOOLS.items() if not shutil.which(tool)]
    if missing or sys.platform != "linux":
        pytest.skip(f"64-bit Arm cannot be emulated here; missing: {', '.join(missing) or 'Linux'}")


class Arena:
    """Memory at a fixed address, shared with emulated programs: one a process. Arrays in it live until `clear`."""

    def __init__(self, path: Path) -> None:
        self.path, self._used = path, 0
        with path.open("wb+") as file:
            file.truncate(SIZE)
            libc = ctypes.CDLL(None, use_errno=True)
            libc.mmap.restype = ctypes.c_void_p
            libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
            flags = mmap.MAP_SHARED | _FIXED_NOREPLACE
            found = libc.mmap(ADDRESS, SIZE, mmap.PROT_READ | mmap.PROT_WRITE, flags, file.fileno(), 0)
        assert found == ADDRESS, os.strerror(ctypes.get_errno())
        self.bytes = np.frombuffer((ctypes.c_uint8 * SIZE).from_address(ADDRESS), np.uint8)

    def clear(self) -> None:
        self.bytes[: self._used] = 0
        self._used = 0

    def place(self, array: np.ndarray) -> np.ndarray:
        """A copy in the arena, on a cache line."""
        start = self._used
        self._used += -(-array.nbytes // ALIGN) * ALIGN
        assert self._used <= SIZE - 65536  # kernels prefetch beyond, and vectors may be read whole
        copy = self.bytes[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
        copy[...] = array
        return copy


class Program:
    """Kernels of one instruction set, linked into a program for the emulator."""

    def __init__(self, isa: str, references: Iterable[str], folder: Path) -> None:
        self._index = {reference: i for i, reference in enumerate(references)}
        objects = _emitted(isa, list(self._index))
        for i, reference in enumerate(self._index):
            (folder / f"{i}.plain").write_bytes(objects[reference])
            _run(
                "aarch64-linux-gnu-objcopy", "--redefine-sym", f"{ENTRY}=k{i}", folder / f"{i}.plain", folder / f"{i}.o"
            )
        names = [f"k{i}" for i in range(len(self._index))]
        declared = "".join(f"void {name}(long, long, long);\n" for name in names)
        (folder / "table.c").write_text(
            f"{declared}void (*const kernels[])(long, long, long) = {{{', '.join(names)}}};\n"
        )
        self._program = folder / "program"
        linked = [folder / f"{i}.o" for i in range(len(names))]
        sources = [folder / "table.c", HERE / "aarch64_harness.c"]
        _run("aarch64-linux-gnu-gcc", "-O1", "-static", "-o", self._program, *sources, *linked)

    def call(self, reference: str, arena: Arena, args: np.ndarray, n_chunks: int) -> None:
        """Run all chunks over the arena; args i64[...] lies in it."""
        words = [self._index[reference], args.ctypes.data, n_chunks, arena.path, ADDRESS, SIZE]
        _run("qemu-aarch64", "-cpu", "max", self._program, *words)


def _run(*command: object) -> None:
    subprocess.run([str(word) for word in command], check=True, timeout=300)


def _emitted(isa: str, references: list[str]) -> dict[str, bytes]:
    """Objects, from the cache beside this machine's own, or compiled by two processes."""
    key = xxhash.xxh3_128(build_id().encode())
    for name in ("emit_aarch64.py", "kernels_under_test.py", "dot_kernels.py"):
        key.update((HERE / name).read_bytes())
    folder = settings().paths.cache / "kernels" / f"aarch64-{key.hexdigest()}"
    paths = {r: folder / f"{''.join(c if c.isalnum() else '_' for c in r)}.{isa}.o" for r in references}
    missing = [r for r in references if read_object(paths[r]) is None]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    environment |= {"NUMBA_CPU_NAME": "generic", "NUMBA_CPU_FEATURES": ""}  # numba would ask for this machine's
    processes = [_emitter(isa, {r: str(paths[r]) for r in missing[i::2]}, environment) for i in range(2)]
    assert [process.wait() for process in processes] == [0] * len(processes)
    objects = {r: read_object(paths[r]) for r in references}
    assert all(objects.values())
    return objects


def _emitter(isa: str, kernels: dict[str, str], environment: dict[str, str]) -> subprocess.Popen:
    command = [sys.executable, str(HERE / "emit_aarch64.py")]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, env=environment, text=True)
    assert process.stdin is not None
    json.dump({"isa": isa, "kernels": kernels}, process.stdin)
    process.stdin.close()
    return process
