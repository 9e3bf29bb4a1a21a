"""The compiler of kernels/compile.py, with the same job on stdin, but for 64-bit Arm Linux on whatever machine this is.

A process of its own, as the compiler is: what kernels are compiled for is one per process.
"""

from unittest.mock import patch

import llvmlite.binding as ll

TRIPLE = "aarch64-unknown-linux-gnu"


def main() -> None:
    ll.initialize_all_targets()
    ll.initialize_all_asmprinters()
    there = ll.Target.from_triple(TRIPLE)
    with (
        patch.object(ll, "get_process_triple", lambda: TRIPLE),
        patch.object(ll.Target, "from_default_triple", lambda: there),
    ):
        from chenxing.kernels import compile as compiler

        compiler.main()


if __name__ == "__main__":
    main()
