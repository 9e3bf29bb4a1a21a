"""Object files of kernels: their format on disk, and loading them into this process.

File     magic 8 bytes, xxh3-128 of the rest 16 bytes, ELF/Mach-O/COFF object
A file that is damaged, truncated or not ours reads as None: a miss, never an error.
"""

import os
import tempfile
from pathlib import Path

import xxhash

from chenxing.errors import KernelError

MAGIC = b"CXKERN\x00\x01"
ENTRY = "kernel"


def write_object(path: Path, data: bytes) -> None:
    """Write so that readers see nothing or the whole."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=path.name)
    try:
        with os.fdopen(handle, "wb") as f:
            f.write(MAGIC + xxhash.xxh3_128_digest(data) + data)
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def read_object(path: Path) -> bytes | None:
    """The object, or None if there is no sound one."""
    try:
        blob = path.read_bytes()
    except OSError:
        return None
    data = blob[24:]
    if blob[:8] != MAGIC or blob[8:24] != xxhash.xxh3_128_digest(data):
        return None
    return data


class Loader:
    """Maps objects into this process and keeps them for its life. Not thread-safe: one user at a time."""

    def __init__(self) -> None:
        import llvmlite.binding as ll

        ll.initialize_native_target()
        ll.initialize_native_asmprinter()
        self._ll = ll
        self._engines: list = []  # they own the code

    def load(self, data: bytes) -> int:
        """Address of the kernel in an object. Raises KernelError if it refers to something unknown."""
        ll = self._ll
        machine = ll.Target.from_default_triple().create_target_machine()
        engine = ll.create_mcjit_compiler(ll.parse_assembly(""), machine)
        engine.add_object_file(ll.object_file.ObjectFileRef.from_data(data))
        engine.finalize_object()
        address = engine.get_function_address(ENTRY)
        if not address:
            raise KernelError("a kernel object has no entry point: clear the kernel cache")
        self._engines.append(engine)
        return address
