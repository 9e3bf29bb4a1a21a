"""VNNI, AMX and Arm on machines without them: the same kernels, with their intrinsics spelled out in plain IR.

What is tested so is everything but the instructions themselves: offsets of signed weights, cuts into 512, 256 or 128
bits, groups of eight rows, layouts and shapes of AMX's tiles.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from typing import Any
from unittest.mock import patch

from llvmlite import ir

from chenxing.kernels.isa import ISA, ISAS, host_features, supported
from chenxing.kernels.objects import Loader

_I8, _I16, _I32 = ir.IntType(8), ir.IntType(16), ir.IntType(32)
_BEST = supported(host_features())[0]


def _emulated(name: str) -> ISA:
    """An instruction set's lowering with the features of this machine's best."""
    best = {"cpu": _BEST.cpu, "fma": _BEST.fma, "f16c": _BEST.f16c, "features": _BEST.features}
    return replace(ISAS[name], name=f"{name} emulated", **best)


AMX = _emulated("amx")
EMULATED = [_emulated(name) for name in ("avx512vnni", "avxvnni", "neon-dotprod", "neon")]


@cache
def _loader() -> Loader:
    return Loader()


@cache
def compiled(reference: str, isa: ISA) -> int:
    """Address of a kernel, compiled in this process."""
    from chenxing.kernels.compile import compile_kernel, configure

    with _spelled_out():
        configure(isa)
        return _loader().load(compile_kernel(reference, isa))


@contextmanager
def _spelled_out() -> Iterator[None]:
    from chenxing.kernels import amx, dot_sums, simd, simd_dot
    from reference import amx_in_memory

    def call(b: Any, name: str, ret: ir.Type, *args: Any) -> Any:
        for part, build in _BUILDERS.items():
            if part in name:
                return build(b, *args)
        return simd.call(b, name, ret, *args)

    in_memory = patch.object(amx, "call", amx_in_memory.call)
    with patch.object(simd_dot, "call", call), patch.object(dot_sums, "call", call), in_memory:
        yield


def _widened(b: Any, v: Any, extend: Callable) -> Any:
    return extend(v, ir.VectorType(_I32, v.type.count))


def _sums_of(b: Any, v: Any, n: int) -> Any:
    """i32 vector -> sums of every n neighbours."""
    undefined = ir.Constant(v.type, ir.Undefined)
    total = None
    for i in range(n):
        lanes = list(range(i, v.type.count, n))
        part = b.shuffle_vector(v, undefined, ir.Constant(ir.VectorType(_I32, len(lanes)), lanes))
        total = part if total is None else b.add(total, part)
    return total


def _vpdpbusd(b: Any, acc: Any, u: Any, s: Any) -> Any:
    u, s = (b.bitcast(v, ir.VectorType(_I8, acc.type.count * 4)) for v in (u, s))
    products = b.mul(_widened(b, u, b.zext), _widened(b, s, b.sext))
    return b.add(acc, _sums_of(b, products, 4))


def _sdot(b: Any, acc: Any, x: Any, y: Any) -> Any:
    return b.add(acc, _sums_of(b, b.mul(_widened(b, x, b.sext), _widened(b, y, b.sext)), 4))


def _vpmaddwd(b: Any, x: Any, y: Any) -> Any:
    return _sums_of(b, b.mul(_widened(b, x, b.sext), _widened(b, y, b.sext)), 2)


def _byte_shuffle(b: Any, values: Any, index: Any) -> Any:
    """Of every 16 bytes, those that index (0..15) names: vpshufb and Arm's tbl."""
    n = values.type.count
    out = values
    for i in range(16):
        lanes = ir.Constant(ir.VectorType(_I32, n), [lane // 16 * 16 + i for lane in range(n)])
        here = b.icmp_signed("==", index, ir.Constant(index.type, [i] * n))
        out = b.select(here, b.shuffle_vector(values, values, lanes), out)
    return out


_BUILDERS = {
    "vpdpbusd": _vpdpbusd,
    "sdot": _sdot,
    "pmaddw.d": _vpmaddwd,
    "pmadd.wd": _vpmaddwd,
    "pshuf.b": _byte_shuffle,
    "tbl1": _byte_shuffle,
}
