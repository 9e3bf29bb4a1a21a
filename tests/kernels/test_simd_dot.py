"""Every operation of kernels/simd_dot.py against numpy, on all instruction sets: those of this machine, and VNNI with
its instructions spelled out."""

import numpy as np
import pytest
from reference.emulation import EMULATED, compiled
from reference.native import call

from chenxing.kernels.isa import ISA, host_features, supported
from chenxing.kernels.memory import address, aligned

pytestmark = pytest.mark.slow  # it compiles, in this process

ALL = [*supported(host_features()), *EMULATED]
VALUES = np.array([-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113], np.int8)


@pytest.fixture(params=ALL, ids=lambda isa: isa.name.replace(" ", "-"))
def every_isa(request: pytest.FixtureRequest) -> ISA:
    return request.param


def run(isa: ISA, reference: str, *args: object) -> None:
    words = [address(a) if isinstance(a, np.ndarray) else a for a in args]
    call(compiled(f"dot_kernels:{reference}", isa), words)


def matrix(weights: np.ndarray) -> np.ndarray:
    """[8, 64] vectors of 16 rows x 4 k -> i64[16 rows, 32 k]"""
    return weights.reshape(8, 16, 4).transpose(1, 0, 2).reshape(16, 32).astype(np.int64)


def activations(kind: str) -> np.ndarray:
    """i8[2, 48]: rows 48 bytes apart, 32 of them used"""
    rng = np.random.default_rng(5)
    x = aligned((2, 48), np.int8)
    x[:, :32] = rng.integers(-127, 128, (2, 32)) if kind == "random" else np.array([[127], [-127]])
    return x


@pytest.mark.parametrize("kind", ["random", "largest"])
@pytest.mark.parametrize("largest", [15, 31, 63, 127])  # 8, 4, 2 and 1 products fit in an i16
def test_dot_unsigned(every_isa: ISA, largest: int, kind: str) -> None:
    """With all weights at their largest and all activations at +-127, sums that do not fit in i16 would show."""
    w, out, x = aligned((8, 64)), aligned((2, 16), np.int32), activations(kind)
    w[:] = np.random.default_rng(6).integers(0, largest + 1, w.shape) if kind == "random" else largest
    run(every_isa, f"unsigned({largest})", w, x, 48, out)
    assert np.array_equal(out, x[:, :32].astype(np.int64) @ matrix(w).T)


@pytest.mark.parametrize("kind", ["random", "largest"])
def test_dot_signed(every_isa: ISA, kind: str) -> None:
    w, out, x = aligned((8, 64), np.int8), aligned((2, 16), np.int32), activations(kind)
    w[:] = np.random.default_rng(6).integers(-128, 128, w.shape) if kind == "random" else -128
    sums = aligned((2, 2), np.int32)
    sums[:, 0] = x.sum(axis=1)
    run(every_isa, "signed()", w, x, 48, out, sums)
    assert np.array_equal(out, x[:, :32].astype(np.int64) @ matrix(w).T)


@pytest.mark.parametrize("kind", ["random", "largest"])
@pytest.mark.parametrize("first", [0, 4])
@pytest.mark.parametrize("largest", [0, 3, 7, 15, 31, 63])
def test_dot_scaled(every_isa: ISA, largest: int, first: int, kind: str) -> None:
    """Four of eight vectors, times a scale a row, on top of what was there; largest 0 is signed weights."""
    rng = np.random.default_rng(11)
    w, out, x = aligned((8, 64), np.int8), aligned((2, 16), np.int32), activations(kind)
    least, most = (0, largest) if largest else (-128, 127)
    w[:] = rng.integers(least, most + 1, w.shape) if kind == "random" else largest or -128
    scales, start, corrections = aligned(16, np.int32), aligned((2, 16), np.int32), aligned((2, 16), np.int32)
    sc = rng.integers(-128, 128, 16) if kind == "random" else np.repeat([-128, 127], 8)
    scales.view(np.int16)[:] = np.repeat(sc, 2)
    start[:] = rng.integers(-(10**6), 10**6, start.shape)
    part = x[:, :16].astype(np.int64)  # the group's vectors meet the activations from 0 on
    corrections[:] = part.sum(axis=1, keepdims=True) * sc
    run(every_isa, f"scaled({first},{largest})", w, x, 48, out, scales, start, corrections)
    assert np.array_equal(out, start + (part @ matrix(w)[:, 4 * first : 4 * first + 16].T) * sc)


def test_offset_start(every_isa: ISA) -> None:
    sums, out = aligned((2, 2), np.int32), aligned((2, 16), np.int32)
    sums[:, 0] = 4064, -4064
    run(every_isa, "offset(16)", sums, out)
    assert np.array_equal(out, np.broadcast_to(-16 * sums[:, :1], (2, 16)))


def test_pairs(every_isa: ISA) -> None:
    rng = np.random.default_rng(8)
    both, x, nibbles = aligned((16, 2), np.int8), aligned((2, 4), np.int16), aligned((16, 2))
    both[:] = rng.integers(-128, 128, both.shape)
    x[:] = rng.integers(-2032, 2033, x.shape)
    nibbles[:] = rng.integers(0, 256, nibbles.shape)
    out = aligned((6, 16), np.int32)
    run(every_isa, "pairs", both, x, nibbles, out)
    dots = x[:, :2].astype(np.int64) @ both.T.astype(np.int64)
    assert np.array_equal(out[:2], dots)
    assert np.array_equal(out[2].view(np.int16).reshape(16, 2), both[:, [0, 0]])
    assert np.array_equal(out[3].view(np.int16).reshape(16, 2), both[:, [1, 1]])
    assert np.array_equal(out[4].view(np.int16).reshape(16, 2), nibbles & 15)
    assert np.array_equal(out[5].view(np.int16).reshape(16, 2), nibbles >> 4)


def test_bytes(every_isa: ISA) -> None:
    """All 256 values of a byte, each beside neighbours that must not leak into it."""
    q, out = aligned((4, 64)), aligned((19, 64))
    q[:] = np.random.default_rng(9).permutation(256).reshape(4, 64)
    run(every_isa, "byte_fields", q, out)
    first, second = q[0], q[1]
    crumbs = [first >> 2 * j & 3 for j in range(4)]
    assert np.array_equal(out[0], first >> 3 & 7)
    assert np.array_equal(out[1:5], q >> 4)
    assert np.array_equal(out[5:9], crumbs)
    assert np.array_equal(out[9:11], [first & 15, first >> 4])
    assert np.array_equal(out[11:15], [crumbs[j] | (second >> 4 + j & 1) << 2 for j in range(4)])
    assert np.array_equal(out[15:19].view(np.int8), VALUES[q >> 4])
