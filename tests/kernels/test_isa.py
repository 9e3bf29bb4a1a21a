"""The choice of an instruction set from a CPU's features."""

import pytest

from chenxing.errors import KernelError
from chenxing.kernels.isa import ISAS, choose, supported


def cpu(*names: str) -> dict[str, bool]:
    """The features of a CPU that runs these instruction sets."""
    return {feature: True for name in names for feature in ISAS[name].features}


def test_the_best_that_the_cpu_has():
    assert choose(cpu("sse")).name == "sse"
    assert choose(cpu("sse", "avx2")).name == "avx2"
    assert choose(cpu("sse", "avx2", "avxvnni")).name == "avxvnni"
    assert choose(cpu("sse", "avx512vnni")).name == "avx512vnni"
    assert choose(cpu("neon")).name == "neon"
    assert [isa.name for isa in supported(cpu("sse", "avx512vnni"))] == ["avx512vnni", "avx2", "sse"]


def test_one_missing_feature_is_enough():
    for feature in ISAS["avx2"].features:
        assert choose({**cpu("sse", "avx2"), feature: False}).name == "sse"


def test_a_wish_is_granted_or_refused_by_name():
    assert choose(cpu("sse", "avx2"), "sse").name == "sse"
    with pytest.raises(KernelError, match="cannot run 'avx512vnni'; it can run: avx2, sse"):
        choose(cpu("sse", "avx2"), "avx512vnni")
    with pytest.raises(KernelError, match="'avx3' is not known; this CPU can run: avx2, sse"):
        choose(cpu("sse", "avx2"), "avx3")
    with pytest.raises(KernelError, match="no instruction set for this CPU"):
        choose({})
