"""The kernels on 64-bit Arm, emulated by qemu: every result has the bits that this machine's own kernels give.

Those are compared with their twins elsewhere. Skipped where the emulator or the cross compiler is absent.
Over 300 lines because every kernel is called here, each with arguments of its own.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache

import gguf
import numpy as np
import pytest
from aarch64 import Arena, Program, require_tools
from gguf import GGMLQuantizationType as Type
from in_process import Compiler
from reference import naive
from reference.native import KERNEL, RUNNABLE, f32_bits, kernels, q8_rows, q8k_rows

from chenxing.kernels import layout as L
from chenxing.kernels.attention_layout import scratch_bytes
from chenxing.kernels.isa import ISAS
from chenxing.models.packing import pack_matrix
from chenxing.quants import QUANTS

pytestmark = pytest.mark.slow

NAMES = sorted(QUANTS)
FORMS, ACTIVATIONS, FUNCTIONS = ("q8", "q8k", "f32"), ("silu", "gelu"), ("exp2", "exp", "tanh", "silu", "gelu")
LINEAR = "chenxing.quants.kernels:linear({})"
ROWS, ATTENTION, ROPE = (f"chenxing.kernels.{name}:" for name in ("rows", "attention", "rope"))
DOTS = ["dot_kernels:unsigned(15)", "dot_kernels:unsigned(127)", "dot_kernels:signed()", "dot_kernels:byte_fields"]
PAIRS = "dot_kernels:pairs"
MATHS = [f"kernels_under_test:apply({name})" for name in FUNCTIONS]
SINGLE = [f"kernels_under_test:apply_{name}" for name in ("sincos", "fma", "f16")]
INTEGERS = [LINEAR.format(name) for name in NAMES if Type[name] not in naive.FLOATS] + DOTS + [PAIRS]
FLOATS = [LINEAR.format(name) for name in NAMES if Type[name] in naive.FLOATS] + MATHS + SINGLE
FLOATS += [f"{ROWS}{kind}({form})" for kind in ("norm", "convert") for form in FORMS]
FLOATS += [f"{ROWS}gated({activation},{form})" for activation in ACTIVATIONS for form in FORMS]
FLOATS += [ROWS + "norm_add", ROWS + "cap", ROPE + "rope_table", ROPE + "rope_kv(f16)", ATTENTION + "attend(64,f16)"]
# only products of integers differ between the two
BY_ISA = {"neon-dotprod": INTEGERS + FLOATS, "neon": INTEGERS}


@dataclass
class Both:
    """This machine and the emulated one, over the same memory."""

    program: Program
    arena: Arena

    def same(self, reference: str, args: list, out: Iterable[np.ndarray], n_chunks: int = 1) -> None:
        """Run a kernel here, then there on what was here before: `out` must have changed, and to the same bits."""
        out = list(out)
        words = self.arena.place(np.array([a.ctypes.data if isinstance(a, np.ndarray) else a for a in args], np.int64))
        before = [o.copy() for o in out]
        kernel = KERNEL(_here(reference))
        for chunk in range(n_chunks):
            kernel(words.ctypes.data, chunk, 0)
        here = [o.copy() for o in out]
        for o, old in zip(out, before, strict=True):
            o[...] = old
        self.program.call(reference, self.arena, words, n_chunks)
        for o, old, expected in zip(out, before, here, strict=True):
            assert expected.tobytes() != old.tobytes()
            assert np.array_equal(o.view(np.uint8), expected.view(np.uint8)), reference


@cache
def _compiler() -> Compiler:
    return Compiler()


@cache
def _here(reference: str) -> int:
    """Address of this machine's own kernel: those of the package from the cache, all compiled in one go."""
    if reference.startswith("chenxing."):
        return kernels(RUNNABLE[0], [r for r in INTEGERS + FLOATS if r.startswith("chenxing.")])[reference]
    return _compiler().address(reference, ISAS[RUNNABLE[0]])


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Both]:
    """By instruction set; the memory is empty again for each test."""
    require_tools()
    arena = Arena(tmp_path_factory.mktemp("arena") / "memory")

    @cache
    def program(isa: str) -> Program:
        return Program(isa, BY_ISA[isa], tmp_path_factory.mktemp(isa))

    def both(isa: str) -> Both:
        arena.clear()
        return Both(program(isa), arena)

    return both


@pytest.fixture(params=BY_ISA)
def integers(request: pytest.FixtureRequest, machine: Callable[[str], Both]) -> Both:
    """Each of the two instruction sets."""
    return machine(request.param)


@pytest.fixture
def floats(machine: Callable[[str], Both]) -> Both:
    """One of them."""
    return machine("neon-dotprod")


def slots(module: object, **values: object) -> list:
    """Arguments by the names of their slots."""
    table: list = [0] * 24
    for name, value in values.items():
        table[getattr(module, name) // 8] = value
    return table


def step(n_rows: int) -> np.ndarray:
    return np.array([1, n_rows, 0, 0, 0, 0, 0, 0], np.int64)


# ---- products ----


def file_blocks(name: str) -> np.ndarray:
    """u8[32 rows, n_blocks, type_size]: rows of random bits, then rows at the limits; scales of both signs."""
    rng, kind, size = np.random.default_rng(1), Type[name], QUANTS[name].type.type_size
    if kind in naive.FLOATS:
        return (
            gguf.quants.quantize(rng.standard_normal((32, 96)).astype(np.float32), kind)
            .view(np.uint8)
            .reshape(32, 96, size)
        )
    blocks = rng.integers(0, 256, (32, 512 // QUANTS[name].type.block_size, size), dtype=np.uint8)
    blocks[16:] = rng.choice(np.array([0x00, 0xFF, 0x80, 0x7F], np.uint8), blocks[16:].shape)
    blocks[16:20] = np.array([0x00, 0xFF, 0x80, 0x7F], np.uint8)[:, None, None]
    for offset in (naive.SCALES[kind].d, naive.SCALES[kind].minimum):
        naive.set_f16(blocks, offset, rng.uniform(-0.02, 0.02, blocks.shape[:2]))
    return blocks


def activation_rows(name: str, n: int, k: int) -> np.ndarray:
    """n rows in the format's form, two of them of +-127 throughout."""
    rng = np.random.default_rng(2)
    q = rng.integers(-127, 128, (n, k), dtype=np.int8)
    q[0], q[1] = 127, -127
    form = QUANTS[name].activation
    d = rng.uniform(1e-3, 0.1, (n, k // {"q8": 32, "q8k": 256, "f32": 1}[form])).astype(np.float32)
    return q * d if form == "f32" else (q8_rows if form == "q8" else q8k_rows)(q, d)


def product(both: Both, name: str) -> None:
    from chenxing.kernels import matmul

    blocks, n = file_blocks(name), 11  # rows in groups, and some left over
    packed = both.arena.place(pack_matrix(QUANTS[name], blocks))
    x = both.arena.place(activation_rows(name, n, blocks.shape[1] * QUANTS[name].type.block_size))
    y = both.arena.place(np.full((n, 32), np.nan, np.float32))
    counters = both.arena.place(step(n))
    args = slots(
        matmul, W=packed, X=x, X_ROW=x.strides[0], N_BLOCKS=packed.shape[1], N_TILES=2, PER_CHUNK=1, Y=y,
        Y_ROW=y.strides[0], SCALE=f32_bits(0.75), STEP=counters, UNIT=L.N_ROWS,
    )  # fmt: skip
    both.same(LINEAR.format(name), args, [y], n_chunks=2)


@pytest.mark.parametrize("name", [n for n in NAMES if Type[n] not in naive.FLOATS])
def test_product(integers: Both, name: str) -> None:
    product(integers, name)


@pytest.mark.parametrize("name", [n for n in NAMES if Type[n] in naive.FLOATS])
def test_product_of_floats(floats: Both, name: str) -> None:
    product(floats, name)


@pytest.mark.parametrize("reference", DOTS)
def test_dots_and_bytes(integers: Both, reference: str) -> None:
    """The operations by themselves, with all weights at their largest in half of the vectors."""
    place, rng = integers.arena.place, np.random.default_rng(3)
    if reference.endswith("byte_fields"):
        q, out = place(rng.permutation(256).astype(np.uint8)), place(np.full(19 * 64, 0xAA, np.uint8))
        return integers.same(reference, [q, out], [out])
    low, high = {"dot_kernels:unsigned(15)": (0, 15), "dot_kernels:unsigned(127)": (0, 127)}.get(reference, (-128, 127))
    w = rng.integers(low, high + 1, (8, 64)).astype(np.int8)
    w[::2] = high if low == 0 else low
    x = place(rng.choice(np.array([-127, 127, 5], np.int8), (2, 48)))
    sums, out = place(np.zeros((2, 2), np.int32)), place(np.full((2, 16), -1, np.int32))
    return integers.same(reference, [place(w), x, 48, out, sums], [out])


def test_pairs(integers: Both) -> None:
    place, rng = integers.arena.place, np.random.default_rng(4)
    pairs, nibbles = (
        place(rng.integers(-128, 128, 32).astype(np.int8)),
        place(rng.integers(0, 256, 32).astype(np.uint8)),
    )
    x, out = place(rng.integers(-2032, 2033, 8).astype(np.int16)), place(np.full((7, 16), -1, np.int32))
    integers.same(PAIRS, [pairs, x, nibbles, out], [out])


# ---- f32 ----


def points(low: float, high: float) -> np.ndarray:
    """f32[8192], half of them near zero"""
    rng = np.random.default_rng(5)
    small = np.exp2(rng.uniform(-30, 0, 4096)) * rng.choice([-1, 1], 4096)
    return np.concatenate([rng.uniform(low, high, 4096), small]).astype(np.float32)


@pytest.mark.parametrize("reference", MATHS)
def test_maths(floats: Both, reference: str) -> None:
    x, y = floats.arena.place(points(-100, 100)), floats.arena.place(np.zeros(8192, np.float32))
    floats.same(reference, [x, y, 8192], [y])


def test_sincos(floats: Both) -> None:
    x = floats.arena.place(np.random.default_rng(6).uniform(-(2**20), 2**20, 4096))
    y = floats.arena.place(np.zeros((2, 4096), np.float32))
    floats.same(SINGLE[0], [x, y, 4096], [y])


def test_fma(floats: Both) -> None:
    """Addends that nearly cancel the product: where a second rounding shows."""
    x, y = points(-8, 8), points(-8, 8)[::-1]
    z = -(x * y) * np.random.default_rng(7).choice(np.array([1, 1 + 2**-23, 2**-24, 3e8], np.float32), len(x))
    x, y, z = (floats.arena.place(a) for a in (x, y, z))
    out = floats.arena.place(np.zeros_like(x))
    floats.same(SINGLE[1], [x, y, z, out, len(x)], [out])


def test_f16(floats: Both) -> None:
    x = floats.arena.place(points(-60000, 60000))
    half, wide = floats.arena.place(np.zeros(8192, np.float16)), floats.arena.place(np.zeros(8192, np.float32))
    floats.same(SINGLE[2], [x, half, wide, 8192], [half, wide])


# ---- rows ----


def row_bytes(form: str, n: int) -> int:
    return {"q8": n // 32 * L.Q8_BLOCK, "q8k": n // 256 * L.Q8K_BLOCK, "f32": n * 4}[form]


@pytest.mark.parametrize("reference", [r for r in FLOATS if r.startswith(ROWS) and "cap" not in r])
def test_rows(floats: Both, reference: str) -> None:
    """Norms, copies and gated activations, in each form; and the norm that is added."""
    from chenxing.kernels import rows

    n, n_rows, place, rng = 512, 5, floats.arena.place, np.random.default_rng(8)
    form = reference.rstrip(")").split("(")[-1].split(",")[-1] if "(" in reference else "f32"
    x, other = (place((rng.standard_normal((n_rows, n)) * 3).astype(np.float32)) for _ in range(2))
    x[2] = 0  # a row whose scale is 0
    weight, scratch = place(rng.standard_normal(n).astype(np.float32)), place(np.zeros(n, np.float32))
    out = place(np.ones((n_rows, row_bytes(form, n) // 4), np.float32)).view(np.uint8)
    args = slots(
        rows, SRC=x, SRC_ROW=n * 4, N=n, DST=out, DST_ROW=out.shape[1], WEIGHT=weight, EPS=f32_bits(1e-5),
        STEP=place(step(n_rows)), SCRATCH=scratch, SRC2=other,
    )  # fmt: skip
    floats.same(reference, args, [out], n_rows)


def test_cap(floats: Both) -> None:
    x = floats.arena.place(points(-100, 100).reshape(16, 512))
    floats.same(ROWS + "cap", [x, 2048, 512, f32_bits(30.0), f32_bits(1 / 30.0)], [x], 16)


# ---- attention ----


@pytest.mark.parametrize(("window", "cap"), [(1 << 40, 0.0), (40, 5.0)])
def test_attention(floats: Both, window: int, cap: float) -> None:
    """Three kernels in a row: cosines and sines, rotation and the writing of KV pages, attention over them."""
    from chenxing.kernels import attention as A
    from chenxing.kernels import rope as R

    place, rng = floats.arena.place, np.random.default_rng(9)
    n, hd, n_head, n_kv, n_rot = 70, 64, 4, 2, 32
    positions = place(np.arange(n))
    table = place(np.zeros((n, 2, n_rot // 2), np.float32))
    freqs = place(10000.0 ** -(np.arange(n_rot // 2) / (n_rot // 2)))
    args = slots(R, FREQS=freqs, POSITIONS=positions, TABLE=table, N_FREQS=n_rot // 2, MSCALE=f32_bits(1.25))
    floats.same(ROPE + "rope_table", args, [table], n)

    page_bytes = 2 * n_kv * hd * L.PAGE * 2
    pool = place(np.zeros((4, page_bytes), np.uint8))
    pages = place(pool.ctypes.data + np.array([2, 0, 1]) * page_bytes)
    page_at = place(pages[np.arange(n) // L.PAGE])
    row = place(rng.standard_normal((n, (n_head + 2 * n_kv) * hd)).astype(np.float32))
    norms = place((1 + rng.uniform(-0.5, 0.5, (2, hd))).astype(np.float32))
    ready, scratch = place(np.zeros((n, n_head, hd), np.float32)), place(np.zeros(scratch_bytes(hd, 2) + 128, np.uint8))
    at = row.ctypes.data
    args = slots(
        R, Q=at, K=at + n_head * hd * 4, V=at + (n_head + n_kv) * hd * 4, ROW=row.strides[0], N_HEAD=n_head,
        N_HEAD_KV=n_kv, HEAD_DIM=hd, N_ROT=n_rot, ROPE=table, Q_NORM=norms[0], K_NORM=norms[1], EPS=f32_bits(1e-5),
        PAGES=page_at, SLOTS=place(np.arange(n) % L.PAGE), Q_OUT=ready, Q_SCALE=f32_bits(0.18), SCRATCH=scratch,
    )  # fmt: skip
    floats.same(ROPE + "rope_kv(f16)", args, [pool, ready], n)

    tasks = place(np.array([(first, min(32, n - first), pages.ctypes.data, 0, 0) for first in range(0, n, 32)]))
    out = place(np.zeros((n, n_head * hd), np.float32))
    args = slots(
        A, A_Q=ready, A_N_HEAD=n_head, A_N_KV=n_kv, A_TASKS=tasks, A_WINDOW=window, A_CAP=f32_bits(cap),
        A_OUT=out, A_OUT_ROW=out.strides[0], A_SCRATCH=scratch, A_POSITIONS=positions, A_HEAD_DIM=hd,
    )  # fmt: skip
    floats.same(ATTENTION + "attend(64,f16)", args, [out], len(tasks) * n_kv)
