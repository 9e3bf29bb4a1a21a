"""The kernel cache: compiled once, found again, and a bad file is a miss."""

import os
import sys
import threading
from pathlib import Path

import pytest

from chenxing import config
from chenxing.kernels import library as library_module
from chenxing.kernels.isa import ISAS
from chenxing.kernels.library import KernelLibrary
from chenxing.kernels.objects import read_object, write_object

CAP = "chenxing.kernels.rows:cap"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("CHENXING_HOME", str(tmp_path))
    config.settings.cache_clear()
    yield tmp_path
    config.settings.cache_clear()


@pytest.fixture
def no_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*args: object) -> None:
        raise AssertionError("a compiler was started")

    monkeypatch.setattr(library_module, "start_compiler", fail)


@pytest.fixture
def compiled(home: Path) -> Path:
    """The object file of CAP, compiled into the cache."""
    stages = []
    KernelLibrary().require([CAP], lambda stage, fraction: stages.append((stage, fraction)))
    assert len(stages) == 1 and stages[0][0].startswith("compile kernels for ") and stages[0][1] == 1.0
    (path,) = home.rglob("*.o")
    return path


def test_compiled_once_and_found_again(compiled, no_compiler):
    library = KernelLibrary()
    library.require([CAP])
    library.require([CAP])
    assert library.addresses[CAP] != 0


@pytest.mark.slow  # compiles three times
def test_a_bad_file_is_compiled_again(compiled):
    good = compiled.read_bytes()
    for bad in (good[:-1], good[:100] + bytes([good[100] ^ 1]) + good[101:]):
        compiled.write_bytes(bad)
        assert read_object(compiled) is None
        KernelLibrary().require([CAP])
        assert read_object(compiled) == good[24:]


def test_what_is_no_object(tmp_path):
    for data in (b"", b"CXKERN\x00\x01", b"\x7fELF" + bytes(100), bytes(24)):
        path = tmp_path / "x.o"
        path.write_bytes(data)
        assert read_object(path) is None
    assert read_object(tmp_path / "missing.o") is None
    assert read_object(tmp_path) is None
    write_object(path, b"payload")
    assert read_object(path) == b"payload"


@pytest.mark.slow
def test_first_starts_at_the_same_time_compile_once(home, monkeypatch):
    started = []
    start = library_module.start_compiler

    def counted(isa, kernels):
        started.append(sorted(kernels))
        return start(isa, kernels)

    monkeypatch.setattr(library_module, "start_compiler", counted)
    libraries = [KernelLibrary() for _ in range(3)]
    threads = [threading.Thread(target=library.require, args=([CAP],)) for library in libraries]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert started == [[CAP]] and all(library.addresses[CAP] for library in libraries)


@pytest.mark.slow
def test_a_cache_that_cannot_be_written_is_done_without(home):
    (home / "cache").write_text("a file where the folder should be")
    library = KernelLibrary()
    library.require([CAP])
    assert library.addresses[CAP]
    assert [p.name for p in home.iterdir()] == ["cache"]


def test_instruction_sets_have_files_of_their_own(home):
    here = KernelLibrary()
    other = KernelLibrary(ISAS["sse"] if here.isa.name != "sse" else ISAS["avx2"])
    folder = Path("x")
    assert here._path(CAP, folder) != other._path(CAP, folder)


def test_another_chenxing_in_the_current_folder_is_not_ours(home, monkeypatch):
    (home / "chenxing/kernels").mkdir(parents=True)
    for name in ("chenxing/__init__.py", "chenxing/kernels/__init__.py", "chenxing/kernels/compile.py", "json.py"):
        (home / name).write_text("raise SystemExit('another checkout')")
    monkeypatch.chdir(home)
    library = KernelLibrary()
    library.require([CAP])
    assert library.addresses[CAP]


def test_compilers_end_with_the_program(tmp_path):
    """It ends while another thread waits for one, as a server does that is stopped before it has loaded."""
    import subprocess

    code = (
        "from chenxing.kernels.compiler_process import start_compiler;"
        f"print(start_compiler('sse', {{{CAP!r}: {str(tmp_path / 'x.o')!r}}}).pid)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    if sys.platform != "win32":
        with pytest.raises(ProcessLookupError):
            os.kill(int(done.stdout), 0)
    assert not (tmp_path / "x.o").exists()


def test_a_warm_start_does_not_import_numba(compiled, no_compiler):
    import subprocess

    code = (
        "import sys; from chenxing.kernels.library import KernelLibrary; "
        f"KernelLibrary().require([{CAP!r}]); assert 'numba' not in sys.modules"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
