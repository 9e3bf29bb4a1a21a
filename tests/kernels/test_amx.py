"""AMX: its instructions as they are emulated here and as they are emitted, and what of a product goes its way.

tests/quants has the products of every format on it.
"""

from unittest.mock import patch

import llvmlite.binding as ll
import numpy as np
import pytest
from gguf import GGMLQuantizationType as Type
from reference import naive
from reference.emulation import AMX, compiled
from reference.native import Linear, call, kernels, q8_rows

from chenxing.kernels import amx
from chenxing.kernels.isa import ISAS
from chenxing.kernels.memory import address, aligned
from chenxing.models.packing import pack_matrix
from chenxing.quants import QUANTS

ON_X86 = ll.get_process_triple().startswith("x86_64")


def test_shapes_of_the_registers() -> None:
    """By the manual: palette 1, row bytes as u16 from byte 16 on, rows from byte 48 on, all else 0."""
    data = amx.configuration(32)
    assert len(data) == 64 and data[0] == 1 and not any(data[1:16]) and not any(data[32:48]) and not any(data[56:])
    assert np.frombuffer(data, "<u2", 8, 16).tolist() == [64] * 4 + [32] * 2 + [64] * 2
    assert list(data[48:56]) == [16] * 6 + [8] * 2
    assert list(amx.configuration(64)[48:56]) == [16] * 8


@pytest.mark.parametrize("unsigned", [0, 1])
@pytest.mark.parametrize("depth", [32, 64])
def test_instructions(depth: int, unsigned: int) -> None:
    """Bytes of every value, and the extreme ones; what lies beyond `depth` takes no part."""
    rng = np.random.default_rng(3)
    x, w, out = aligned((16, 64), np.int8), aligned((16, 64)), aligned((3, 16, 16), np.int32)
    x[:], w[:], out[:] = rng.integers(-128, 128, x.shape), rng.integers(0, 256, w.shape), -1
    x[0], w[:, :4] = -128, 0x80
    call(compiled(f"reference.amx_kernels:instructions({depth},{unsigned})", AMX), [address(a) for a in (x, w, out)])
    matrix = w[: depth // 4].view(np.uint8 if unsigned else np.int8).reshape(-1, 16, 4).transpose(0, 2, 1)
    expected = x[:, :depth].astype(np.int64) @ matrix.reshape(depth, 16).astype(np.int64)
    assert np.array_equal(out, [np.zeros((16, 16)), 3 * expected, np.zeros((16, 16))])


@pytest.mark.slow  # it compiles the whole product
def test_rows_of_both_ways() -> None:
    """A row alone, up to a group of eight and more; 128 rows that share an unpacked block, and what is left of them."""
    kernel, rng = compiled("chenxing.quants.kernels:linear(Q8_0)", AMX), np.random.default_rng(0)
    blocks = rng.integers(0, 256, (40, 9, 34), dtype=np.uint8)
    naive.set_f16(blocks, 0, rng.uniform(-0.02, 0.02, blocks.shape[:2]))
    packed = pack_matrix(QUANTS["Q8_0"], blocks)
    q, d = rng.integers(-127, 128, (160, 288), dtype=np.int8), rng.uniform(1e-3, 0.1, (160, 9)).astype(np.float32)
    expected = naive.finish(naive.linear_quantised(Type.Q8_0, blocks, q, d))
    for n in [*range(1, 42), 127, 128, 129, 136, 137, 145, 160]:
        y = np.full((n, 48), np.nan, np.float32)
        for chunk in range(2):
            Linear(y, per_chunk=2).run(kernel, packed, q8_rows(q[:n], d[:n]), chunks=[chunk])
        assert np.array_equal(y[:, :40].view(np.int32), expected[:n].view(np.int32)), n


@pytest.mark.skipif(not ON_X86, reason="compiles for this machine's architecture")
@pytest.mark.parametrize(("name", "multiplications"), [("Q8_0", {"tdpbssd"}), ("Q4_K", {"tdpbssd", "tdpbsud"})])
def test_what_is_emitted(name: str, multiplications: set[str]) -> None:
    """Registers are configured once before their first use and released after the last, and eight suffice."""
    from chenxing.kernels.compile import compile_kernel, configure

    ll.initialize_native_target()
    ll.initialize_native_asmprinter()
    configure(ISAS["amx"])
    with patch.object(ll.TargetMachine, "emit_object", ll.TargetMachine.emit_assembly):
        text = compile_kernel(f"reference.amx_kernels:product({name})", ISAS["amx"])
    words = [line.split()[0] for line in text.splitlines() if line.startswith("\t") and not line.startswith("\t.")]
    tiles = [word for word in words if word.startswith(("tile", "tdp", "ldtilecfg", "sttilecfg"))]
    assert tiles[0] == "ldtilecfg" and tiles.count("ldtilecfg") == 1 and tiles.count("tilerelease") == 1
    assert set(tiles) == {"ldtilecfg", "tilezero", "tileloadd", "tilestored", "tilerelease", *multiplications}
    assert "zmm" in text and "call" not in "".join(words)


@pytest.mark.slow
@pytest.mark.skipif(not ON_X86, reason="compiles for this machine's architecture")
def test_products_compile() -> None:
    """As a user's first start does, in a process of its own, and the objects load."""
    assert all(kernels("amx", [f"chenxing.quants.kernels:linear({name})" for name in ("Q6_K", "Q4_0")]).values())
