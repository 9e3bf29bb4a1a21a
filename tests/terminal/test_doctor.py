"""`chenxing doctor`: each check by itself, then the command."""

import json
import socket
from pathlib import Path
from types import SimpleNamespace

import pytest
from reference.toys import TOYS

from chenxing import cli, config
from chenxing.cores import Cores
from chenxing.memory import machine_bytes, resident_bytes
from chenxing.terminal import app, doctor_checks, doctor_models


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("CHENXING_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("CHENXING_ISA", raising=False)
    monkeypatch.delenv("CHENXING_THREADS", raising=False)
    config.settings.cache_clear()
    yield tmp_path / "home"
    config.settings.cache_clear()


def test_every_check_is_shown(home, capsys):
    assert cli.main(["doctor"]) == 0
    lines = capsys.readouterr().out.splitlines()
    titles = [line.split()[0] for line in lines[: len(doctor_checks.CHECKS) + 1]]
    assert titles == ["versions", "system", "processor", "threads", "memory", "models", "cache", "port", "fit"]
    assert not home.exists()  # looking changes nothing


def test_json_has_the_facts(home, capsys):
    assert cli.main(["doctor", "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["processor"]["chosen"] == facts["processor"]["usable"][0]
    assert facts["threads"]["n_threads"] >= 1 and facts["cache"]["path"] == str(home / "cache")
    assert all(isinstance(check["advice"], list) for check in facts.values())
    assert set(facts["processor"]["used_features"]) <= set(facts["processor"]["features"])
    assert "aiohttp" in facts["versions"] and facts["cache"]["sections"]["kernels"] == 0


def test_an_instruction_set_that_cannot_run_is_said(home, monkeypatch):
    monkeypatch.setenv("CHENXING_ISA", "mmx")
    config.settings.cache_clear()
    finding = doctor_checks.check_cpu()
    assert finding.facts["chosen"] == "none" and "'mmx' is not known" in finding.advice[0]


def test_the_name_of_the_cpu(tmp_path):
    (tmp_path / "proc").mkdir()
    assert doctor_checks.cpu_name(tmp_path) == ""
    (tmp_path / "proc/cpuinfo").write_text("processor\t: 0\nmodel\t\t: 1\nmodel name\t: A CPU: fast\n")
    assert doctor_checks.cpu_name(tmp_path) == "A CPU: fast"


def test_threads_that_do_not_pay_are_said(home, monkeypatch):
    monkeypatch.setattr(doctor_checks, "cores", lambda: Cores(8, 8, 4, 4, 0.5))
    assert "quota is 0.5 CPUs" in doctor_checks.check_threads().advice[0]
    monkeypatch.setattr(doctor_checks, "cores", lambda: Cores(8, 8, 4, 4))
    assert doctor_checks.check_threads().advice == ()
    monkeypatch.setenv("CHENXING_THREADS", "8")
    config.settings.cache_clear()
    finding = doctor_checks.check_threads()
    assert finding.facts["n_threads"] == 8 and "8 threads are more than the 4 that pay here" in finding.advice[0]


def test_folders(home, monkeypatch):
    assert doctor_checks.check_cache().facts["used"] == 0
    (home / "cache").mkdir(parents=True)
    (home / "cache/file").write_bytes(bytes(500))
    monkeypatch.setattr(doctor_checks, "free_bytes", lambda path: 10**12)
    finding = doctor_checks.check_cache()
    assert finding.facts["used"] == 500 and finding.advice == ()
    monkeypatch.setattr(doctor_checks, "free_bytes", lambda path: 1000)
    assert "almost full. `chenxing cache clear all`" in doctor_checks.check_cache().advice[0]


def test_sections_of_the_cache_are_told(home, monkeypatch):
    (home / "cache/kernels").mkdir(parents=True)
    (home / "cache/kernels/x.o").write_bytes(bytes(700))
    finding = doctor_checks.check_cache()
    assert finding.text.endswith("\nkernels 700 B") and finding.facts["sections"]["kernels"] == 700


def test_the_port(monkeypatch):
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        s.listen()
        monkeypatch.setattr(doctor_checks, "_PORT", s.getsockname()[1])
        finding = doctor_checks.check_port()
        assert finding.facts["state"] == "taken" and "--port" in finding.advice[0]
    assert doctor_checks.check_port().facts["state"] == "free"
    monkeypatch.setattr(app, "is_ours", lambda port: True)
    assert doctor_checks.check_port().facts["state"] == "chenxing"


@pytest.fixture(scope="module")
def toy(tmp_path_factory) -> Path:
    return TOYS["llama"].write(tmp_path_factory.mktemp("toy"))


def test_a_model_that_fits(home, toy, monkeypatch):
    monkeypatch.setattr(doctor_models, "machine_bytes", lambda: (None, 10**9))
    finding = doctor_models.check_fit([str(toy)])
    facts = finding.facts[str(toy)]
    assert facts["n_ctx"] == facts["n_ctx_train"] and finding.text.endswith(": fits") and finding.advice == ()
    assert facts["needed"] > facts["weights"] == toy.stat().st_size


def test_the_context_that_fits(home, toy, monkeypatch):
    whole = doctor_models.check_fit([str(toy)]).facts[str(toy)]
    room = whole["weights"] + 150 * 10**6 + 70 * whole["kv_per_token"]  # two pages of 32 tokens and a bit
    monkeypatch.setattr(doctor_models, "machine_bytes", lambda: (10**12, room))
    monkeypatch.setattr(doctor_models, "_LITTLE_CTX", 64)
    finding = doctor_models.check_fit([str(toy)])
    assert finding.facts[str(toy)]["n_ctx"] == 64 and "fits with -c 64" in finding.text and finding.advice == ()
    monkeypatch.setattr(doctor_models, "_LITTLE_CTX", 96)
    finding = doctor_models.check_fit([str(toy)])
    assert finding.text.endswith("does not fit") and "too large for the memory" in finding.advice[0]


def test_what_is_no_model(home, tmp_path):
    (tmp_path / "x.gguf").write_bytes(b"no model")
    finding = doctor_models.check_fit(["no-such-model", str(tmp_path / "x.gguf")])
    assert finding.text.startswith("no-such-model: not on this machine\n") and "cannot be run" in finding.text
    assert "none is pulled" in doctor_models.check_fit([]).text


def test_a_folder_that_cannot_be_written_is_said(home):
    home.write_text("a file where the folder should be")
    assert any("cannot be written" in sentence for sentence in doctor_checks.check_models().advice)


def test_little_memory_is_said(monkeypatch):
    monkeypatch.setattr(doctor_checks, "machine_bytes", lambda: (8 * 10**9, 10**9))
    finding = doctor_checks.check_memory()
    assert finding.text == "8 GB, 1 GB available" and "Little memory is free" in finding.advice[0]
    monkeypatch.setattr(doctor_checks, "machine_bytes", lambda: (None, None))
    assert doctor_checks.check_memory() == doctor_checks.Finding(
        "memory", "not known on this system", {"total": None, "available": None}
    )


def test_memory_from_proc(tmp_path, monkeypatch):
    monkeypatch.setattr("chenxing.memory.sys", SimpleNamespace(platform="linux"))
    assert machine_bytes(tmp_path) == (None, None) and resident_bytes(tmp_path) is None
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/meminfo").write_text(
        "MemTotal:  100 kB\nMemFree: 1 kB\nMemAvailable:  40 kB\nHugePages_Total: 0\n"
    )
    (tmp_path / "proc/self/status").write_text("Name:\tpython\nVmHWM:\t 9 kB\nVmRSS:\t 7 kB\n")
    assert machine_bytes(tmp_path) == (102400, 40960) and resident_bytes(tmp_path) == 7168
