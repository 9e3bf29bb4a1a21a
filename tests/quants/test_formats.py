"""Every registered weight format passes the same tests: packing, decoding, and products equal to the twin's bit by bit.

The twin knows nothing of instruction sets, so equality with it on each of them is equality among them (law L1).
"""

from functools import cache

import gguf
import numpy as np
import pytest
from gguf import GGMLQuantizationType as Type
from reference import naive
from reference.emulation import AMX, EMULATED
from reference.emulation import compiled as compiled_here
from reference.native import RUNNABLE, Linear, call, f32_bits, kernels, q8_rows, q8k_rows

from chenxing.kernels.layout import SPARE_ROWS
from chenxing.kernels.memory import address, aligned
from chenxing.models.packing import pack_matrix
from chenxing.quants import QUANTS, TILE_ROWS

pytestmark = pytest.mark.slow

NAMES = sorted(QUANTS)
QUANTISED = [name for name in NAMES if Type[name] not in naive.FLOATS]
SIGNED = ["Q8_0", "IQ4_NL", "IQ4_XS"]
FILLS = (0x00, 0xFF, 0x80, 0x7F)


@cache
def compiled(isa: str) -> dict[str, int]:
    """All kernels of all formats, compiled in one go."""
    return kernels(isa, [f"chenxing.quants.kernels:{kind}({name})" for name in NAMES for kind in ("linear", "embed")])


def n_blocks_of(name: str, n_blocks: int) -> int:
    """Blocks for a test: more of them if a block is a single value."""
    return n_blocks if name in QUANTISED else 48 * n_blocks


def width(blocks: np.ndarray, name: str) -> int:
    return blocks.shape[1] * QUANTS[name].type.block_size


def random_blocks(name: str, rows: int, n_blocks: int, seed: int = 0) -> np.ndarray:
    """u8[rows, n_blocks, type_size]: any bits, with scales of common size and either sign."""
    rng = np.random.default_rng(seed)
    kind, size = Type[name], QUANTS[name].type.type_size
    if kind in naive.FLOATS:
        values = rng.standard_normal((rows, n_blocks)).astype(np.float32)
        return gguf.quants.quantize(values, kind).view(np.uint8).reshape(rows, n_blocks, size)
    blocks = rng.integers(0, 256, (rows, n_blocks, size), dtype=np.uint8)
    set_scales(name, blocks, rng.uniform(-0.02, 0.02, (2, rows, n_blocks)))
    return blocks


def set_scales(name: str, blocks: np.ndarray, values: np.ndarray) -> None:
    """values [2, rows, n_blocks] become d and the minima's f16."""
    naive.set_f16(blocks, naive.SCALES[Type[name]].d, values[0])
    naive.set_f16(blocks, naive.SCALES[Type[name]].minimum, values[1])


def extreme_blocks(name: str, n_blocks: int) -> np.ndarray:
    """Rows of blocks at their limits: every byte the same, or each one of four; scales at f16's limits and zeros."""
    rng = np.random.default_rng(7)
    shape = (TILE_ROWS, n_blocks, QUANTS[name].type.type_size)
    blocks = rng.choice(np.array(FILLS, np.uint8), shape)
    for row, fill in enumerate(FILLS):
        blocks[row] = fill
    if name == "Q6_K":  # its largest weight: scale -128, quant 0 - 32
        blocks[4] = 0
        blocks[4, :, 192:208] = 0x80
    set_scales(name, blocks, rng.choice([65504, -65504, 2.0**-24, -(2.0**-24), 1, 0.0, -0.0], (2, *shape[:2])))
    return blocks


class Rows:
    """n rows of activations: int8 blocks with scales, or f32, as the format wants them."""

    def __init__(self, name: str, q: np.ndarray, seed: int = 1) -> None:
        rng = np.random.default_rng(seed)
        self.kind, form = Type[name], QUANTS[name].activation
        block = {"q8": 32, "q8k": 256, "f32": 1}[form]
        self.q, self.d = q, rng.uniform(1e-3, 0.1, (len(q), q.shape[1] // block)).astype(np.float32)
        self.x = None
        if form == "f32":
            self.x = aligned((len(q) + SPARE_ROWS, q.shape[1]), np.float32)[: len(q)]
            self.x[:] = self.q * self.d
        self.data = self.x if form == "f32" else (q8_rows if form == "q8" else q8k_rows)(q, self.d)

    def twin(self, blocks: np.ndarray) -> np.ndarray:
        """f32[n, rows]"""
        if self.x is None:
            return naive.finish(naive.linear_quantised(self.kind, blocks, self.q, self.d))
        weights = gguf.quants.dequantize(blocks.reshape(len(blocks), -1), self.kind)
        return naive.finish(naive.linear_floats(weights.reshape(len(blocks), -1), self.x))


def random_q(n: int, k: int, seed: int = 2) -> np.ndarray:
    return np.random.default_rng(seed).integers(-127, 128, (n, k), dtype=np.int8)


def extreme_q(n: int, k: int) -> np.ndarray:
    q = np.random.default_rng(3).choice(np.array([-127, 127], np.int8), (n, k))
    q[0], q[1], q[2] = 127, -127, 0
    return q


def product(isa: str, name: str, blocks: np.ndarray, rows: Rows) -> np.ndarray:
    """The kernel's f32[n, rows]."""
    return product_by(compiled(isa)[f"chenxing.quants.kernels:linear({name})"], name, blocks, rows)


def product_by(kernel: int, name: str, blocks: np.ndarray, rows: Rows) -> np.ndarray:
    packed = pack_matrix(QUANTS[name], blocks)
    y = np.full((len(rows.q), len(packed) * TILE_ROWS), np.nan, np.float32)
    Linear(y).run(kernel, packed, rows.data)
    return y[:, : len(blocks)]


def same_bits(a: np.ndarray, b: np.ndarray) -> bool:
    """Equal in every bit, so that -0 is not 0."""
    return a.shape == b.shape and np.array_equal(a.view(np.int32), b.view(np.int32))


def test_every_format_that_files_commonly_hold_is_registered() -> None:
    k_quants = {"Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K"}
    assert {*k_quants, "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "IQ4_NL", "IQ4_XS", "F16", "BF16", "F32"} <= set(QUANTS)


@pytest.mark.parametrize("name", NAMES)
def test_pack_gives_tiles_of_sixteen_rows(name: str) -> None:
    blocks = random_blocks(name, 48, 3)
    packed = QUANTS[name].pack(blocks)
    assert packed.dtype == np.uint8 and packed.shape == (3, 3, QUANTS[name].packed_bytes)
    assert np.array_equal(packed[1], QUANTS[name].pack(blocks[16:32])[0])
    assert np.array_equal(packed[:, 2:], QUANTS[name].pack(blocks[:, 2:]))


@pytest.mark.parametrize("name", NAMES)
def test_pack_keeps_every_bit(name: str) -> None:
    """Flipping any bit of a block changes the tile."""
    blocks = random_blocks(name, 16, 1)
    before = QUANTS[name].pack(blocks)
    for bit in range(8 * blocks.shape[-1]):
        changed = blocks.copy()
        changed[5, 0, bit // 8] ^= 1 << bit % 8
        assert not np.array_equal(QUANTS[name].pack(changed), before), f"bit {bit} is lost"


@pytest.mark.parametrize("isa", RUNNABLE)
@pytest.mark.parametrize("name", NAMES)
def test_decode_is_the_gguf_packages(name: str, isa: str) -> None:
    """Bit by bit, through the embedding kernel: any bits, and scales up to f16's limits."""
    blocks = random_blocks(name, 40, n_blocks_of(name, 4))
    if name in QUANTISED:
        blocks = np.concatenate([blocks, extreme_blocks(name, 4)])
    expected = gguf.quants.dequantize(blocks.reshape(len(blocks), -1), Type[name]).reshape(len(blocks), -1)
    tokens = np.arange(len(blocks))[::-1].copy()
    out = np.full_like(expected, np.nan)
    args = [address(blocks), blocks.strides[0], out.shape[1], address(tokens), address(out), out.strides[0]]
    args.append(f32_bits(1.0))
    for row in range(len(blocks)):
        call(compiled(isa)[f"chenxing.quants.kernels:embed({name})"], args, row)
    assert same_bits(out, expected[tokens])


@pytest.mark.parametrize("isa", RUNNABLE)
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(("rows", "n_blocks", "n"), [(16, 1, 1), (40, 3, 5), (24, 8, 13), (32, 11, 70)])
def test_product_is_the_twins(name: str, isa: str, rows: int, n_blocks: int, n: int) -> None:
    """Whole and partial tiles; rows of activations alone, in groups, and more than share an unpacked block; blocks that
    are unpacked together, and what is left of them."""
    blocks = random_blocks(name, rows, n_blocks_of(name, n_blocks))
    x = Rows(name, random_q(n, width(blocks, name)))
    assert same_bits(product(isa, name, blocks, x), x.twin(blocks))


@pytest.mark.parametrize("isa", RUNNABLE)
@pytest.mark.parametrize("name", QUANTISED)
def test_product_at_the_limits_is_the_twins(name: str, isa: str) -> None:
    """The largest quants and scales with activations of +-127: what would saturate a 16-bit sum, saturates here."""
    blocks = extreme_blocks(name, 3)
    x = Rows(name, extreme_q(5, width(blocks, name)))
    assert same_bits(product(isa, name, blocks, x), x.twin(blocks))


@pytest.mark.parametrize("name", SIGNED)
def test_product_with_vnni_is_the_twins(name: str) -> None:
    """Signed weights need care with VNNI alone, of each format. Its instructions are spelled out for this machine."""
    blocks = np.concatenate([extreme_blocks(name, 3), random_blocks(name, 24, 3)])
    x = Rows(name, np.concatenate([extreme_q(5, width(blocks, name)), random_q(6, width(blocks, name))]))
    kernel = compiled_here(f"chenxing.quants.kernels:linear({name})", EMULATED[0])
    assert same_bits(product_by(kernel, name, blocks, x), x.twin(blocks))


@pytest.mark.parametrize("name", QUANTISED)
def test_product_with_amx_is_the_twins(name: str) -> None:
    """Whole and partial groups of 16 and 32 rows; blocks that are unpacked together, and what is left of them. The
    instructions are spelled out for this machine."""
    kernel = compiled_here(f"reference.amx_kernels:product({name})", AMX)
    blocks = np.concatenate([extreme_blocks(name, 9), random_blocks(name, 16, 9)])
    k = width(blocks, name)
    x = Rows(name, np.concatenate([extreme_q(7, k), random_q(36, k)]))
    packed, expected = pack_matrix(QUANTS[name], blocks), x.twin(blocks)
    for tile in range(2):
        for n in (1, 16, 17, 32, 33, 43):
            y = np.full((n + 1, TILE_ROWS), np.nan, np.float32)
            call(kernel, [address(packed[tile]), packed.shape[1], address(x.data), x.data.strides[0], n, address(y)])
            assert same_bits(y[:n], np.ascontiguousarray(expected[:n, 16 * tile : 16 * tile + 16])), n
            assert np.isnan(y[n]).all()


@pytest.mark.parametrize("isa", [name for name in ("avx512vnni",) if name not in RUNNABLE])
def test_kernels_compile_for_other_machines(isa: str) -> None:
    """Emitted and loaded, not run; an instruction that cannot be selected ends the compiler."""
    assert all(kernels(isa, [f"chenxing.quants.kernels:linear({name})" for name in NAMES]).values())


@pytest.mark.parametrize("isa", RUNNABLE)
@pytest.mark.parametrize("name", NAMES)
def test_one_row_alone_is_the_row_among_others(name: str, isa: str) -> None:
    blocks = random_blocks(name, 32, n_blocks_of(name, 4))
    q = random_q(11, width(blocks, name))
    together = Rows(name, q)
    y = product(isa, name, blocks, together)
    for r in range(len(q)):
        alone = Rows(name, q[r : r + 1])
        alone.data = together.data[r : r + 1]
        assert same_bits(product(isa, name, blocks, alone), y[r : r + 1])
