"""Kernels -> object files. Runs in a process of its own, with a job on stdin (compiler_process.py).

A kernel is named by a reference, "module:factory" or "module:factory(argument, ...)": the factory, called with the
arguments, returns a plain function (int64, int64, int64) -> None over addresses. numba compiles it for the job's
instruction set; llvmlite wraps it in a function of C's calling convention called `kernel`, and emits an object.
The only place that drives numba: a process that finds its objects in the cache never imports it.
"""

import gc
import importlib
import json
import re
import sys
from pathlib import Path
from typing import Any

import llvmlite.binding as ll

from chenxing.kernels.isa import ISA, ISAS
from chenxing.kernels.objects import ENTRY, write_object

_REFERENCE = re.compile(r"^([\w.]+):(\w+)(?:\((.*)\))?$")


def resolve(reference: str) -> Any:
    """The plain Python function that a reference names."""
    match = _REFERENCE.match(reference)
    assert match, reference
    module, factory, text = match.groups()
    args = [int(a) if a.lstrip("-").isdigit() else a for a in (p.strip() for p in text.split(","))] if text else []
    return getattr(importlib.import_module(module), factory)(*args)


def _features(isa: ISA) -> str:
    names = [f"+{f}" for f in isa.features]
    return ",".join([*names, "-prefer-256-bit"] if isa.bits == 512 else names)


def target_machine(isa: ISA) -> ll.TargetMachine:
    """Absolute 64-bit addresses: the loader may put an object's code and constants further apart than 2 GiB.

    macOS knows no such objects; there LLVM's defaults for just-in-time code hold, as for numba's own.
    """
    reloc, codemodel = ("default", "jitdefault") if sys.platform == "darwin" else ("static", "large")
    target = ll.Target.from_default_triple()
    return target.create_target_machine(cpu=isa.cpu, features=_features(isa), opt=3, reloc=reloc, codemodel=codemodel)


def configure(isa: ISA) -> None:
    """Generate for this instruction set from now on: a numba target context that runs nothing in this process.

    With numba's JIT the module that is linked later would already have been through code generation, whose address
    arithmetic (inttoptr of an index, then getelementptr) becomes undefined when inlining makes the index 0.
    """
    from numba.core.codegen import AOTCodeLibrary, AOTCPUCodegen
    from numba.core.registry import cpu_target

    from chenxing.kernels.simd import Target

    class KernelCode(AOTCodeLibrary):
        """numba would optimise every function by itself; `compile_kernel` optimises the whole, once."""

        def _optimize_functions(self, ll_module: Any) -> None:
            pass

        def _optimize_final_module(self) -> None:
            pass

    class KernelCodegen(AOTCPUCodegen):
        _library_class = KernelCode

        def _customize_tm_features(self) -> str:
            return _features(isa)

    Target.isa = isa
    codegen = KernelCodegen("chenxing", cpu_name=isa.cpu)
    Target.context = cpu_target.target_context.subtarget(_internal_codegen=codegen, aot_mode=True)


def _wrapper(symbol: str) -> str:
    """C's calling convention around numba's, which returns a status and writes None through its first pointer."""
    return f"""
declare i32 @"{symbol}"(ptr, ptr, i64, i64, i64)
define void @{ENTRY}(i64 %a, i64 %b, i64 %c) {{
  %r = alloca [2 x ptr]
  %s = call i32 @"{symbol}"(ptr %r, ptr %r, i64 %a, i64 %b, i64 %c)
  ret void
}}
"""


def compile_kernel(reference: str, isa: ISA) -> bytes:
    """The object file of one kernel, after `configure` for the same instruction set."""
    from numba.core import types
    from numba.core.compiler_lock import global_compiler_lock

    from chenxing.kernels.simd import compile_function

    machine = target_machine(isa)
    with global_compiler_lock:
        compiled = compile_function(resolve(reference), (types.int64,) * 3, types.void)
        symbol = compiled.fndesc.llvm_func_name
        module = ll.parse_assembly(f'target triple="{ll.get_process_triple()}"\n' + _wrapper(symbol))
        module.data_layout = str(machine.target_data)
        module.link_in(compiled.library._get_module_for_linking(), preserve=True)
    for f in module.functions:
        if not f.is_declaration and f.name != ENTRY:
            f.linkage = "internal"
    for g in module.global_variables:
        if not g.is_declaration and g.linkage.name not in ("private", "appending"):
            g.linkage = "internal"
    module.verify()
    options = ll.create_pipeline_tuning_options(speed_level=3)
    ll.create_pass_builder(machine, options).getModulePassManager().run(
        module, ll.create_pass_builder(machine, options)
    )
    return machine.emit_object(module)


def main() -> None:
    """stdin: {"isa": name, "kernels": {reference: path of the object to write}}; a line on stdout for each done."""
    gc.disable()  # an eighth of the time, for 5 MB a kernel that are given back when this process ends
    job = json.load(sys.stdin)
    isa = ISAS[job["isa"]]
    ll.initialize_native_target()
    ll.initialize_native_asmprinter()
    ll.initialize_native_asmparser()  # simd_dot.py's empty assembly
    configure(isa)
    for reference, path in job["kernels"].items():
        write_object(Path(path), compile_kernel(reference, isa))
        print(reference, flush=True)


if __name__ == "__main__":
    main()
