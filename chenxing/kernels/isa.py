"""Instruction sets that kernels are compiled for, and the choice of one for this CPU.

A kernel is written once over logical vectors of 16 lanes (simd.py). The instruction set decides how those are cut
into hardware registers and which instruction an operation becomes; it never changes a bit of any result.

Source  LLVM's feature names (llvm/lib/Target/X86/X86.td, AArch64Features.td at LLVM 22) and what it finds out about the
        host (llvm/lib/TargetParser/Host.cpp); Linux's asm/hwcap.h, asm/prctl.h and Documentation/arch/x86/xstate.rst;
        Windows' winnt.h.
"""

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache

from chenxing.errors import KernelError


@dataclass(frozen=True)
class ISA:
    """name    as in CHENXING_ISA
    cpu     LLVM's name of the plainest CPU of the family
    bits    width of one hardware vector
    dot     what sums 8-bit products: "vnni512", "vnni256", "maddubs", "madd" (16-bit ones), "sdot" or "smull"
    fma, f16c   in hardware; otherwise emulated exactly
    features    LLVM features to compile with, all of which the CPU must have
    amx     many rows at a time are multiplied in AMX's tile registers (amx_tiles.py)
    """

    name: str
    cpu: str
    bits: int
    dot: str
    fma: bool
    f16c: bool
    features: tuple[str, ...]
    amx: bool = False


_V3 = ("avx", "avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe", "popcnt", "sse3", "sse4.1", "sse4.2", "ssse3")
_V4 = (*_V3, "avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl", "avx512vnni")

ISAS: dict[str, ISA] = {
    isa.name: isa
    for isa in (  # best first
        ISA("amx", "x86-64", 512, "vnni512", True, True, (*_V4, "amx-tile", "amx-int8"), amx=True),
        ISA("avx512vnni", "x86-64", 512, "vnni512", True, True, _V4),
        ISA("avxvnni", "x86-64", 256, "vnni256", True, True, (*_V3, "avxvnni")),
        ISA("avx2", "x86-64", 256, "maddubs", True, True, _V3),
        ISA("sse", "x86-64", 128, "madd", False, False, ("sse2",)),
        ISA("neon-dotprod", "generic", 128, "sdot", True, True, ("neon", "dotprod")),
        ISA("neon", "generic", 128, "smull", True, True, ("neon",)),
    )
}


def host_features(wanted: str | None = None) -> dict[str, bool]:
    """LLVM features of the CPU that this process runs on, but for those that the system keeps from it.

    wanted  the instruction set that somebody asks for by name. AMX is there for those alone, until its kernels, which
            are tested under emulation, have been run on a CPU that has it
    """
    import llvmlite.binding as ll

    try:
        reported = ll.get_host_cpu_features()
    except RuntimeError:  # LLVM cannot tell on this system
        reported = {}
    features = completed(reported, ll.get_process_triple().partition("-")[0], _has_dot_products)
    return permitted(features, lambda: wanted == "amx" and _may_use_amx())


def completed(reported: Mapping[str, bool], architecture: str, dot_products: Callable[[], bool]) -> dict[str, bool]:
    """`reported` and what LLVM leaves out on 64-bit Arm: everything on macOS, dot products elsewhere.

    architecture    the first part of LLVM's triple
    dot_products    asks the system whether the CPU has sdot
    """
    if architecture not in ("aarch64", "arm64", "arm64e"):
        return dict(reported)
    return {**reported, "neon": True, "dotprod": reported.get("dotprod", False) or dot_products()}


def _has_dot_products() -> bool:
    """On 64-bit Arm. Every Mac of that kind has them."""
    import ctypes

    if sys.platform == "win32":
        return bool(ctypes.windll.kernel32.IsProcessorFeaturePresent(43))  # PF_ARM_V82_DP_INSTRUCTIONS_AVAILABLE
    if sys.platform == "linux":
        libc = ctypes.CDLL(None)
        libc.getauxval.restype, libc.getauxval.argtypes = ctypes.c_ulong, [ctypes.c_ulong]
        return bool(libc.getauxval(16) >> 20 & 1)  # AT_HWCAP, HWCAP_ASIMDDP
    return sys.platform == "darwin"


def permitted(features: Mapping[str, bool], may_use_amx: Callable[[], bool]) -> dict[str, bool]:
    """`features`, without AMX if the system does not let this process use it: the first touch would end it.

    may_use_amx     asks the system; only called if the CPU has AMX
    """
    if features.get("amx-tile", False) and not may_use_amx():
        return {**features, "amx-tile": False}
    return dict(features)


@cache
def _may_use_amx() -> bool:
    """Ask Linux, once, to keep AMX's registers for the threads of this process; other systems are not asked.

    It refuses if it is older than 5.16, or if the signal stack of a thread is too small for them.
    """
    if sys.platform != "linux":
        return False
    import ctypes

    arch_prctl, request_permission, tile_data = 158, 0x1023, 18  # x86-64; ARCH_REQ_XCOMP_PERM, XFEATURE_XTILE_DATA
    libc = ctypes.CDLL(None)
    libc.syscall.restype = ctypes.c_long
    return libc.syscall(*map(ctypes.c_long, (arch_prctl, request_permission, tile_data))) == 0


def supported(features: Mapping[str, bool]) -> list[ISA]:
    """The instruction sets that a CPU with these LLVM features can run, best first."""
    return [isa for isa in ISAS.values() if all(features.get(f, False) for f in isa.features)]


def choose(features: Mapping[str, bool], wanted: str | None = None) -> ISA:
    """The best instruction set of this CPU, or the wanted one. Raises KernelError if that cannot run here."""
    usable = supported(features)
    if not usable:
        raise KernelError("no instruction set for this CPU: expected x86-64, or 64-bit Arm with NEON")
    if wanted is None:
        return usable[0]
    names = ", ".join(isa.name for isa in usable)
    if wanted not in ISAS:
        raise KernelError(f"instruction set {wanted!r} is not known; this CPU can run: {names}")
    if ISAS[wanted] not in usable:
        raise KernelError(f"this CPU cannot run {wanted!r}; it can run: {names}")
    return ISAS[wanted]
