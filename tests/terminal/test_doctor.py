"""`chenxing doctor`: each check by itself, then the command."""

import json
from pathlib import Path
from types import SimpleNamespace

import pytest

from chenxing import cli, config
from chenxing.cores import Cores
from chenxing.memory import machine_bytes, resident_bytes
from chenxing.terminal import doctor_checks


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
    titles = [line.split()[0] for line in lines[: len(doctor_checks.CHECKS)]]
    assert titles == ["versions", "system", "processor", "threads", "memory", "models", "cache"]
    assert not home.exists()  # looking changes nothing


def test_json_has_the_facts(home, capsys):
    assert cli.main(["doctor", "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["processor"]["chosen"] == facts["processor"]["usable"][0]
    assert facts["threads"]["n_threads"] >= 1 and facts["cache"]["path"] == str(home / "cache")
    assert all(isinstance(check["advice"], list) for check in facts.values())


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
