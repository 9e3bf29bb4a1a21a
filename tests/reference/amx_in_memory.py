"""AMX's instructions as loops over tiles that lie in memory, built in the place of their intrinsics.

One state for all threads. Where a CPU would fault (no configuration, shapes that do not fit) nothing happens, so that
results are wrong.

Source  Intel 64 and IA-32 Architectures Software Developer's Manual, volume 2: what LDTILECFG, TILERELEASE, TILEZERO,
        TILELOADD, TILESTORED, TDPBSSD and TDPBSUD do
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from llvmlite import ir
from numba.core import cgutils

_I8, _I16, _I32, _I64 = (ir.IntType(n) for n in (8, 16, 32, 64))
_TILE, _CONFIGURATION = 1024, 64  # bytes; the configuration lies behind the eight tiles
_STATE = ir.ArrayType(_I8, 8 * _TILE + _CONFIGURATION)


def call(b: Any, name: str, ret: ir.Type, *args: Any) -> None:
    """In the place of vectors.py's: a call of a function that does what the intrinsic of this name does."""
    ours = name.replace("llvm.x86.", "in_memory_")
    function = b.module.globals.get(ours)
    if function is None:
        function = ir.Function(b.module, ir.FunctionType(ret, [a.type for a in args]), ours)
        function.linkage = "linkonce_odr"
        function.attributes.add("noinline")  # there are dozens of calls, and LLVM would unroll the loops of each
        body = ir.IRBuilder(function.append_basic_block())
        _BUILDERS[name.removeprefix("llvm.x86.")](body, *function.args)
        body.ret_void()
    b.call(function, args)


def _state(b: Any, offset: Any) -> Any:
    """Address of a byte of the state."""
    found = b.module.globals.get("in_memory_tiles")
    if found is None:
        found = ir.GlobalVariable(b.module, _STATE, "in_memory_tiles")
        found.linkage, found.initializer = "linkonce_odr", ir.Constant(_STATE, None)  # one for all linked modules
    return b.gep(found, [_I64(0), offset])


def _width(b: Any, tile: Any) -> Any:
    """Bytes of a row."""
    at = _state(b, b.add(_I64(8 * _TILE + 16), b.mul(_I64(2), b.zext(tile, _I64))))
    return b.zext(b.load(b.bitcast(at, _I16.as_pointer())), _I64)


def _height(b: Any, tile: Any) -> Any:
    return b.zext(b.load(_state(b, b.add(_I64(8 * _TILE + 48), b.zext(tile, _I64)))), _I64)


def _element(b: Any, tile: Any, row: Any, byte: Any) -> Any:
    """Address of a byte of a tile."""
    start = b.mul(b.zext(tile, _I64), _I64(_TILE))
    return _state(b, b.add(start, b.add(b.mul(row, _I64(64)), byte)))


@contextmanager
def _each(b: Any, n: Any) -> Iterator[Any]:
    """A loop over 0 .. n - 1."""
    with cgutils.for_range(b, n) as loop:
        yield loop.index


def _ldtilecfg(b: Any, source: Any) -> None:
    with _each(b, _I64(8 * _TILE)) as i:
        b.store(_I8(0), _state(b, i))
    with _each(b, _I64(_CONFIGURATION)) as i:
        b.store(b.load(b.gep(source, [i])), _state(b, b.add(_I64(8 * _TILE), i)))


def _tilerelease(b: Any) -> None:
    with _each(b, _I64(8 * _TILE + _CONFIGURATION)) as i:
        b.store(_I8(0), _state(b, i))


def _tilezero(b: Any, tile: Any) -> None:
    with _each(b, _I64(_TILE)) as i:
        b.store(_I8(0), _element(b, tile, _I64(0), i))


def _tileloadd64(b: Any, tile: Any, source: Any, stride: Any) -> None:
    """Rows and bytes beyond the tile's shape become 0."""
    _tilezero(b, tile)
    with _each(b, _height(b, tile)) as row, _each(b, _width(b, tile)) as byte:
        value = b.load(b.gep(source, [b.add(b.mul(row, stride), byte)]))
        b.store(value, _element(b, tile, row, byte))


def _tilestored64(b: Any, tile: Any, target: Any, stride: Any) -> None:
    with _each(b, _height(b, tile)) as row, _each(b, _width(b, tile)) as byte:
        b.store(b.load(_element(b, tile, row, byte)), b.gep(target, [b.add(b.mul(row, stride), byte)]))


def _dot(unsigned: bool) -> Any:
    """sums[m][n] += the 4 products of row m, bytes 4 k, of x with row k, bytes 4 n, of y; x is signed."""

    def build(b: Any, sums: Any, x: Any, y: Any) -> None:
        depth = b.udiv(_width(b, x), _I64(4))
        fits = b.icmp_unsigned("==", _height(b, sums), _height(b, x))
        fits = b.and_(fits, b.icmp_unsigned("==", _height(b, y), depth))
        fits = b.and_(fits, b.icmp_unsigned("==", _width(b, sums), _width(b, y)))
        n_columns = b.udiv(_width(b, sums), _I64(4))
        with b.if_then(fits):
            with _each(b, _height(b, sums)) as m, _each(b, n_columns) as n, _each(b, depth) as k:
                at = b.bitcast(_element(b, sums, m, b.mul(n, _I64(4))), _I32.as_pointer())
                total = b.load(at)
                for i in range(4):
                    left = b.load(_element(b, x, m, b.add(b.mul(k, _I64(4)), _I64(i))))
                    right = b.load(_element(b, y, k, b.add(b.mul(n, _I64(4)), _I64(i))))
                    extend = b.zext if unsigned else b.sext
                    total = b.add(total, b.mul(b.sext(left, _I32), extend(right, _I32)))
                b.store(total, at)

    return build


_BUILDERS = {
    "ldtilecfg": _ldtilecfg,
    "tilerelease": _tilerelease,
    "tilezero": _tilezero,
    "tileloadd64": _tileloadd64,
    "tilestored64": _tilestored64,
    "tdpbssd": _dot(unsigned=False),
    "tdpbsud": _dot(unsigned=True),
}
