"""Our exp, tanh, sin and cos against f64, and the exactness of fma and f16 without hardware."""

import fractions

import numpy as np
import pytest
from in_process import HERE

from chenxing.kernels.isa import ISA


def run(compiler, isa: ISA, name: str, x: np.ndarray) -> np.ndarray:
    x = np.ascontiguousarray(np.resize(x, -(-len(x) // 16) * 16), np.float32)
    y = np.empty_like(x)
    compiler.call(f"kernels_under_test:apply({name})", isa, x, y, len(x))
    return y


def ulps(y: np.ndarray, truth: np.ndarray) -> float:
    """The largest error in units of the last place of f32 results, which must not be subnormal."""
    return float((np.abs(y - truth) / np.spacing(np.abs(truth).astype(np.float32))).max())


def points(low: float, high: float, n: int = 1 << 18) -> np.ndarray:
    rng = np.random.default_rng(1)
    near_zero = np.exp2(rng.uniform(-30, 0, n)) * rng.choice([-1, 1], n)
    return np.concatenate([rng.uniform(low, high, n), near_zero]).astype(np.float32)


BOUNDS = [
    ("exp2", np.exp2, -126.0, 126.0, 1.0),
    ("exp", np.exp, -87.0, 87.0, 1.0),
    ("tanh", np.tanh, -9.0, 9.0, 2.0),
    ("silu", lambda x: x / (1 + np.exp(-x)), -80.0, 80.0, 4.0),
]


@pytest.mark.parametrize(("name", "truth", "low", "high", "bound"), BOUNDS, ids=[b[0] for b in BOUNDS])
def test_error_bounds(compiler, isa, name, truth, low, high, bound):
    x = points(low, high)
    assert ulps(run(compiler, isa, name, x), truth(x.astype(np.float64))) < bound


def test_gelu_is_close_to_its_formula(compiler, isa):
    x = points(-8.0, 8.0)
    x64 = x.astype(np.float64)
    truth = 0.5 * x64 * (1 + np.tanh(np.sqrt(2 / np.pi) * (x64 + 0.044715 * x64**3)))
    # absolute, because 1 + tanh cancels for negative x: an ulp of 1 times |x| / 2
    assert np.abs(run(compiler, isa, "gelu", x) - truth).max() < 8 * 2.0**-23


def test_exact_points(compiler, isa):
    assert run(compiler, isa, "exp2", np.array([0, 1, -1, 10, -126.6, -1e30, -np.inf])).tolist()[:7] == [
        1, 2, 0.5, 1024, 0, 0, 0,
    ]  # fmt: skip
    assert run(compiler, isa, "exp", np.array([0, -1e30, -np.inf])).tolist()[:3] == [1, 0, 0]
    assert run(compiler, isa, "tanh", np.array([0, 20, -20, 1e30])).tolist()[:4] == [0, 1, -1, 1]


@pytest.mark.parametrize("name", ["exp2", "exp", "tanh", "silu", "gelu"])
def test_the_same_bits_on_every_instruction_set(compiler, name):
    x = points(-20.0, 20.0, 1 << 14)
    first, *others = [run(compiler, isa, name, x) for isa in HERE]
    for other in others:
        assert np.array_equal(first.view(np.int32), other.view(np.int32))


def test_sincos(compiler, isa):
    rng = np.random.default_rng(2)
    x = np.concatenate([rng.uniform(-(2**20), 2**20, 1 << 16), rng.uniform(-4, 4, 1 << 16), [0.0]])
    y = np.empty((2, len(x)), np.float32)
    compiler.call("kernels_under_test:apply_sincos", isa, x, y, len(x))
    # results are rounded to f32: half an ulp of 1, and what f64 lost before
    assert np.abs(y[0] - np.sin(x)).max() <= 2.0**-25 + 1e-13
    assert np.abs(y[1] - np.cos(x)).max() <= 2.0**-25 + 1e-13


def test_fma_rounds_once(compiler, isa):
    rng = np.random.default_rng(3)
    n = 4096
    x, y = (rng.standard_normal(n).astype(np.float32) * np.float32(2.0) ** rng.integers(-20, 20, n) for _ in range(2))
    x, y = x.astype(np.float32), y.astype(np.float32)
    # addends that cancel the product nearly or wholly, and addends that are far smaller: where two roundings differ
    z = -(x * y) * rng.choice(np.array([1, 1 + 2**-23, 2**-24, 2**-30, 3e8], np.float32), n)
    out = np.empty(n, np.float32)
    compiler.call("kernels_under_test:apply_fma", isa, x, y, z.astype(np.float32), out, n)
    for a, b, c, got in zip(x, y, z.astype(np.float32), out, strict=True):
        exact = fractions.Fraction(float(a)) * fractions.Fraction(float(b)) + fractions.Fraction(float(c))
        assert got == nearest_f32(exact), (a, b, c)


def nearest_f32(value: fractions.Fraction) -> np.float32:
    """The f32 nearest to an exact value; ties to even."""
    guess = np.float32(float(value))
    around = [np.nextafter(guess, np.float32(-np.inf)), guess, np.nextafter(guess, np.float32(np.inf))]
    return min(around, key=lambda f: (abs(fractions.Fraction(float(f)) - value), int(f.view(np.int32)) & 1))


def test_f16_conversions_are_ieee(compiler, isa):
    every = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    finite = every[np.isfinite(every)].astype(np.float32)
    middle = (finite[:-1].astype(np.float64) + finite[1:]) / 2  # ties
    x = np.concatenate([finite, middle.astype(np.float32), points(-60000, 60000, 1 << 14)])
    x = x[np.abs(x) < 65504]
    x = np.resize(x, len(x) // 16 * 16)
    half, wide = np.empty(len(x), np.float16), np.empty(len(x), np.float32)
    compiler.call("kernels_under_test:apply_f16", isa, x, half, wide, len(x))
    assert np.array_equal(half.view(np.uint16), x.astype(np.float16).view(np.uint16))
    assert np.array_equal(wide.view(np.uint32), x.astype(np.float16).astype(np.float32).view(np.uint32))
