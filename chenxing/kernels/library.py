"""Addresses of kernels: from the cache on disk, or compiled once in processes of their own and kept there.

The key of a kernel is a digest of the sources of kernels/ and quants/ that are compiled or compile, the versions of
numba and llvmlite, the instruction set and the kernel's reference. Objects do not depend on the machine beyond its
instruction set.
"""

import subprocess
import tempfile
import threading
from collections.abc import Callable, Iterable
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import xxhash

from chenxing.config import settings
from chenxing.cores import cores
from chenxing.errors import KernelError
from chenxing.kernels import builds
from chenxing.kernels.compiler_process import end_compiler, start_compiler
from chenxing.kernels.isa import ISA, choose, host_features
from chenxing.kernels.objects import Loader, read_object

Progress = Callable[[str, float], None]
# what runs beside kernels and leaves no trace in them
_NOT_IN_OBJECTS = {"builds.py", "compiler_process.py", "cut.py", "library.py", "memory.py", "team.py", "__init__.py"}


@cache
def build_id() -> str:
    """Digest of everything but the kernel that an object depends on."""
    digest = xxhash.xxh3_128()
    root = Path(__file__).parent.parent
    for folder in ("kernels", "quants"):
        for path in sorted((root / folder).glob("*.py")):
            if path.name not in _NOT_IN_OBJECTS:
                digest.update(path.name.encode() + b"\0" + path.read_bytes())
    for package in ("numba", "llvmlite"):
        digest.update(_version_file(package))
    return digest.hexdigest()


def _version_file(package: str) -> bytes:
    """The package's generated _version.py: found and read in a tenth of the time that importlib.metadata takes."""
    spec = find_spec(package)
    if spec is None or spec.origin is None:
        raise KernelError(f"the package {package!r} is missing: install chenxing with its dependencies")
    return Path(spec.origin).with_name("_version.py").read_bytes()


def host_isa(wanted: str | None = None) -> ISA:
    """The instruction set of this name, else the environment's, else the best one. Raises KernelError."""
    name = wanted or settings().isa
    return choose(host_features(name), name)


class KernelLibrary:
    """Kernels for one instruction set. `addresses` is filled by `require`."""

    def __init__(self, isa: ISA | None = None) -> None:
        self.isa = isa or host_isa()
        self.addresses: dict[str, int] = {}
        self._loader = Loader()
        self._temporary: tempfile.TemporaryDirectory | None = None
        self._lock = threading.Lock()

    def require(self, references: Iterable[str], on_progress: Progress | None = None) -> None:
        """Make these kernels callable; compiles those that are in no cache."""
        with self._lock:
            wanted = sorted(set(references) - self.addresses.keys())
            folder = builds.folder() / build_id()
            missing = [r for r in wanted if not self._load(r, folder)]
            if missing:
                self._compile(missing, folder, on_progress)
                builds.remove_old(folder)
            builds.mark_used(folder)

    def has(self, references: Iterable[str]) -> bool:
        """All these kernels are callable, or in the cache: nothing would be compiled."""
        folder = builds.folder() / build_id()
        return all(r in self.addresses or self._path(r, folder).exists() for r in references)

    def _path(self, reference: str, folder: Path) -> Path:
        name = "".join(c if c.isalnum() else "_" for c in reference.removeprefix("chenxing."))
        return folder / f"{name}.{self.isa.name}.o"

    def _load(self, reference: str, folder: Path) -> bool:
        data = read_object(self._path(reference, folder))
        if data is None:
            return False
        self.addresses[reference] = self._loader.load(data)
        return True

    def _compile(self, references: list[str], folder: Path, on_progress: Progress | None) -> None:
        """One compiler at a time on this machine: who waited finds the objects and compiles what is left."""
        from filelock import FileLock

        try:
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            with FileLock(folder / builds.LOCK):
                missing = [r for r in references if not self._load(r, folder)]
                self._compile_in(missing, folder, on_progress)
        except OSError:  # unwritable or full: this process compiles for itself
            self._temporary = self._temporary or tempfile.TemporaryDirectory(prefix="chenxing-kernels-")
            missing = [r for r in references if r not in self.addresses]
            self._compile_in(missing, Path(self._temporary.name), on_progress)

    def _compile_in(self, references: list[str], folder: Path, on_progress: Progress | None) -> None:
        n = min(len(references), cores().n_threads, 4)
        if not n:
            return
        jobs = [{r: str(self._path(r, folder)) for r in references[i::n]} for i in range(n)]
        processes = [start_compiler(self.isa.name, job) for job in jobs]
        try:
            self._await(processes, len(references), on_progress)
        finally:
            for process in processes:  # none outlives an error or an interrupt here
                end_compiler(process)
        for r in references:
            if not self._load(r, folder):
                raise KernelError(f"{self._path(r, folder)}: the compiled kernel could not be read back")

    def _await(self, processes: list[subprocess.Popen], n_kernels: int, on_progress: Progress | None) -> None:
        """Read a line for each kernel that is done; raises KernelError with a compiler's last words."""
        stage, done = f"compile kernels for {self.isa.name}", 0
        for process in processes:
            assert process.stdout is not None and process.stderr is not None
            for _ in process.stdout:
                done += 1
                if on_progress:
                    on_progress(stage, done / n_kernels)
            if process.wait():
                lines = [line for line in process.stderr.read().splitlines() if line and not line.startswith("[PYI-")]
                last = lines[-1] if lines else f"exit code {process.returncode}"  # [PYI-: a frozen program's own words
                raise KernelError(f"the kernels could not be compiled for {self.isa.name}: {last}")
