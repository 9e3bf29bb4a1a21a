"""The choice of an instruction set from a CPU's features."""

import sys

import pytest

from chenxing.errors import KernelError
from chenxing.kernels import isa as isa_module
from chenxing.kernels.isa import ISAS, choose, completed, host_features, permitted, supported


def cpu(*names: str) -> dict[str, bool]:
    """The features of a CPU that runs these instruction sets."""
    return {feature: True for name in names for feature in ISAS[name].features}


def test_the_best_that_the_cpu_has():
    assert choose(cpu("sse")).name == "sse"
    assert choose(cpu("sse", "avx2")).name == "avx2"
    assert choose(cpu("sse", "avx2", "avxvnni")).name == "avxvnni"
    assert choose(cpu("sse", "avx512vnni")).name == "avx512vnni"
    assert choose(cpu("neon")).name == "neon"
    assert choose(cpu("neon", "neon-dotprod")).name == "neon-dotprod"
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


@pytest.mark.parametrize("architecture", ["aarch64", "arm64", "arm64e"])
@pytest.mark.parametrize("reported", [{}, {"neon": True, "fp-armv8": True, "crc": True}])
def test_arm_where_llvm_reports_little(reported: dict[str, bool], architecture: str):
    """Nothing on macOS; on Linux some features, of which dot products are none. The system knows them."""
    assert choose(completed(reported, architecture, lambda: True)).name == "neon-dotprod"
    assert choose(completed(reported, architecture, lambda: False)).name == "neon"


def test_arm_where_llvm_reports_all():
    def never() -> bool:
        raise AssertionError("the system is asked for what is known")

    assert choose(completed({"neon": True, "dotprod": True}, "aarch64", never)).name == "neon-dotprod"


def test_nothing_is_added_to_other_architectures():
    def never() -> bool:
        raise AssertionError("the system is asked about Arm")

    assert completed({"sse2": True}, "x86_64", never) == {"sse2": True}
    assert completed({}, "riscv64", never) == {}


@pytest.mark.parametrize(("granted", "chosen"), [(True, "amx"), (False, "avx512vnni")])
def test_amx_takes_the_systems_permission(granted: bool, chosen: str):
    features = permitted(cpu("sse", "avx2", "avx512vnni", "amx"), lambda: granted)
    assert choose(features).name == chosen
    if not granted:
        with pytest.raises(KernelError, match="cannot run 'amx'; it can run: avx512vnni, avx2, sse"):
            choose(features, "amx")


def test_nobody_asks_for_amx_without_need():
    def never() -> bool:
        raise AssertionError("the system is asked for what the CPU lacks")

    assert permitted(cpu("avx512vnni"), never) == cpu("avx512vnni")


@pytest.mark.skipif(host_features().get("amx-tile", False), reason="this machine has AMX")
def test_a_refusal_is_no_error():
    """Linux, or another kind of machine, says no; elsewhere nobody is asked."""
    assert isa_module._may_use_amx.__wrapped__() is False


def test_amx_is_linux_only(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sys, "platform", "win32")
    assert isa_module._may_use_amx.__wrapped__() is False


def test_amx_is_for_those_who_name_it(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(isa_module, "completed", lambda *_: cpu("sse", "avx2", "avx512vnni", "amx"))
    monkeypatch.setattr(isa_module, "_may_use_amx", lambda: True)
    assert choose(host_features()).name == "avx512vnni"
    assert choose(host_features("amx"), "amx").name == "amx"


def test_this_machine_has_an_instruction_set():
    assert supported(host_features())
