"""`chenxing selfcheck`: it passes on a sound build, and each check notices what it is there for."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from chenxing import cli, config
from chenxing.engine import Engine
from chenxing.gguf import open_gguf
from chenxing.kernels.library import KernelLibrary
from chenxing.kvcache import KVCache
from chenxing.models import Model
from chenxing.terminal import selfcheck, selfcheck_checks
from chenxing.terminal.selfcheck_checks import CHECKS, Broken, Unchecked, Verdict, judge
from chenxing.terminal.selfcheck_subject import N_PROMPT, Subject, digest
from chenxing.terminal.selfcheck_toy import write_toy
from chenxing.tokenizer import load_tokenizer


@pytest.fixture(scope="module")
def toy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_toy(tmp_path_factory.mktemp("selfcheck") / "toy.gguf")


@pytest.fixture
def subject(toy: Path, tmp_path: Path) -> Subject:
    gguf = open_gguf(toy)
    return Subject(gguf, load_tokenizer(gguf), 2, tmp_path / "kv", KernelLibrary(), is_toy=True)


def test_the_toy_is_always_the_same(toy: Path, tmp_path: Path) -> None:
    assert write_toy(tmp_path / "again.gguf").read_bytes() == toy.read_bytes()


def test_a_sound_build_passes(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    store = config.settings().paths.cache / "kv"
    before = sorted(store.rglob("*"))
    monkeypatch.setattr(selfcheck, "DEFAULT_MODEL", "no-such-model")
    assert cli.main(["selfcheck"]) == cli.EXIT_OK
    first, *lines, last = capsys.readouterr().out.splitlines()
    assert first.startswith("a tiny model with random weights, ")
    assert [line[2:30].rstrip() for line in lines] == list(CHECKS)
    assert all(line[0] == "✓" for line in lines[:-1]) and lines[-1][0] in "✓–"
    assert "hold" in last
    assert sorted(store.rglob("*")) == before


def test_json_and_the_exit_code(toy: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(subject: Subject) -> str:
        raise Broken("1 and 2 threads give different logits")

    monkeypatch.setattr(selfcheck_checks, "CHECKS", {"fine": lambda subject: "all", "broken": broken})
    assert cli.main(["selfcheck", str(toy), "--json", "-t", "2"]) == cli.EXIT_ERROR
    found = json.loads(capsys.readouterr().out)
    assert (found["model"], found["n_threads"], found["passed"]) == ("toy.gguf", 2, False)
    assert [(c["title"], c["passed"], c["text"]) for c in found["checks"]] == [
        ("fine", True, "all"),
        ("broken", False, "1 and 2 threads give different logits"),
    ]
    assert cli.main(["selfcheck", str(toy)]) == cli.EXIT_ERROR
    assert capsys.readouterr().out.splitlines()[-1].startswith("1 of 2 checks failed")


def test_a_missing_model_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["selfcheck", "missing.gguf"]) == cli.EXIT_ERROR
    assert "missing.gguf: no such file" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("error", "passed", "text"),
    [
        (Broken("it differs"), False, "it differs"),
        (AssertionError(), False, "stopped by AssertionError"),
        (OSError("disk"), False, "stopped by OSError: disk"),
        (Unchecked("nothing to compare"), None, "nothing to compare"),
    ],
)
def test_what_a_check_raises_is_its_verdict(error: Exception, passed: bool | None, text: str, subject: Subject) -> None:
    def check(subject: Subject) -> str:
        raise error

    verdict = judge("title", check, subject)
    assert verdict == Verdict("title", passed, verdict.seconds, text)


# each fault, and the checks that have to notice it


def _scrambled(logits: np.ndarray) -> np.ndarray:
    """The largest logit goes down by one bit, and another one becomes the largest."""
    logits = logits.copy()
    logits[..., 5] = logits.max() + 1
    return logits


def rows_that_depend_on_the_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    step = Model.step

    def faulty(self: Model, runs):
        logits = step(self, runs)
        return _scrambled(logits) if len(runs) > 1 else logits

    monkeypatch.setattr(Model, "step", faulty)


def rows_that_depend_on_the_chunk(monkeypatch: pytest.MonkeyPatch) -> None:
    step = Model.step

    def faulty(self: Model, runs):
        logits = step(self, runs)
        return _scrambled(logits) if runs[0].position == 64 and len(runs[0].tokens) == 1 else logits

    monkeypatch.setattr(Model, "step", faulty)


def rows_that_depend_on_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    step = Model.step

    def faulty(self: Model, runs):
        logits = step(self, runs)
        return _scrambled(logits) if self.team.n_threads == 1 else logits

    monkeypatch.setattr(Model, "step", faulty)


def rows_that_depend_on_time(monkeypatch: pytest.MonkeyPatch) -> None:
    step, n_steps = Model.step, iter(range(10**6))

    def faulty(self: Model, runs):
        logits = step(self, runs)
        return _scrambled(logits) if next(n_steps) == 12 else logits

    monkeypatch.setattr(Model, "step", faulty)


def a_prefix_that_is_not_found(monkeypatch: pytest.MonkeyPatch) -> None:
    begin = KVCache.begin
    monkeypatch.setattr(KVCache, "begin", lambda self, ids, n_ctx: begin(self, [*ids[:40], ids[40] ^ 1], n_ctx))


def rolling_back_too_far(monkeypatch: pytest.MonkeyPatch) -> None:
    truncate = Engine.truncate
    monkeypatch.setattr(Engine, "truncate", lambda self, n: truncate(self, n - 1))


def a_page_that_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    def leaky(self: KVCache) -> None:
        self._tiers.allocate()
        assert self._tiers.pool.n_used == 0

    monkeypatch.setattr(KVCache, "check_integrity", leaky)


FAULTS = {
    rows_that_depend_on_the_batch: {"alone or among others"},
    rows_that_depend_on_the_chunk: {"any cut of a prompt"},
    rows_that_depend_on_threads: {"any number of threads"},
    rows_that_depend_on_time: {"the same text twice"},
    a_prefix_that_is_not_found: {"known prompts are found", "restored after a restart"},
    rolling_back_too_far: {"rolled back without a trace"},
    a_page_that_is_lost: {"no page is lost"},
}


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
def test_faults_are_noticed(fault, subject: Subject, monkeypatch: pytest.MonkeyPatch) -> None:
    fault(monkeypatch)
    failed = {title for title in FAULTS[fault] if judge(title, CHECKS[title], subject).passed is False}
    assert failed == FAULTS[fault]


def test_every_check_but_the_last_has_a_fault_that_it_notices() -> None:
    assert set().union(*FAULTS.values()) == set(CHECKS) - {"any instruction set"}


def test_instruction_sets(subject: Subject, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(selfcheck_checks, "supported", lambda features: [subject.library.isa])
    with pytest.raises(Unchecked, match="alone"):
        selfcheck_checks.instruction_sets(subject)
    other = replace(subject.library.isa, name="other")
    monkeypatch.setattr(selfcheck_checks, "supported", lambda features: [subject.library.isa, other])
    with pytest.raises(Unchecked, match="--all-isas compiles kernels for other too"):
        selfcheck_checks.instruction_sets(subject)


def test_the_branch_shares_exactly_what_it_says(subject: Subject) -> None:
    ids = subject.prompt()
    branch = selfcheck_checks._branch(subject, ids)
    n_shared = next(i for i, (a, b) in enumerate(zip(ids, branch, strict=False)) if a != b)
    assert len(ids) == N_PROMPT and n_shared == 70


def test_a_digest_is_of_the_bits() -> None:
    zero = np.zeros(4, np.float32)
    assert digest(zero) == digest(zero.copy()) and digest(zero) != digest(-zero)
