import json
from pathlib import Path

import pytest
from fake_llm import FakeLLM

from chenxing.errors import ChenxingError, UsageError
from chenxing.sampling import SamplingParams
from chenxing.terminal.commands import COMMANDS, find_command, run_command
from chenxing.terminal.session import Options, Session


@pytest.fixture
def session() -> Session:
    session = Session(FakeLLM(["Hello"], ["again"]), Options(SamplingParams()))
    generation = session.ask("Hi")
    list(generation)
    session.record(generation)
    return session


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("/help", ("/help", "")),
        ("  /HELP  ", ("/help", "")),
        ("/set temperature 0.2", ("/set", "temperature 0.2")),
        ("/system line one\nline two", ("/system", "line one\nline two")),
        ("/?", ("/?", "")),
        ("/etc/hosts is missing", None),
        ("/ is the root", None),
        ("hello /help", None),
        ("// a comment", None),
        ("", None),
    ],
)
def test_what_is_a_command(text: str, expected: tuple[str, str] | None) -> None:
    assert find_command(text) == expected


def test_help_names_every_command(session) -> None:
    text = run_command(session, "/help", "").text
    for command in COMMANDS.values():
        assert command.usage in text and command.help in text


def test_an_unknown_command_brings_the_nearest(session) -> None:
    with pytest.raises(UsageError, match=r"unknown command /sve: did you mean /save or /set\? \(/help"):
        run_command(session, "/sve", "")
    with pytest.raises(UsageError, match=r"unknown command /frobnicate \(/help"):
        run_command(session, "/frobnicate", "")


def test_an_argument_that_nobody_reads_is_refused(session) -> None:
    with pytest.raises(UsageError, match="/clear takes no argument, found 'all'"):
        run_command(session, "/clear", "all")
    assert session.messages


def test_system_shows_sets_and_removes(session) -> None:
    assert run_command(session, "/system", "").text.startswith("There is no system prompt.")
    run_command(session, "/system", "Be short.")
    assert session.messages[0] == {"role": "system", "content": "Be short."} and len(session.messages) == 3
    assert "Be short." in run_command(session, "/system", "").text
    run_command(session, "/system", '""')
    assert [message["role"] for message in session.messages] == ["user", "assistant"]


def test_clear(session) -> None:
    session.system = "Be short."
    assert "the system prompt stays" in run_command(session, "/clear", "").text
    assert session.messages == [{"role": "system", "content": "Be short."}]


def test_set(session) -> None:
    assert run_command(session, "/set", "temperature 0.2").text == "temp is 0.2"
    assert run_command(session, "/set", "top_k=7").text == "top_k is 7"
    assert (session.options.params.temp, session.options.params.top_k) == (0.2, 7)
    assert run_command(session, "/set", "top-k").text == "top_k is 7"
    assert "penalty_repeat" in run_command(session, "/set", "").text


def test_save_and_load(session, tmp_path: Path) -> None:
    path = tmp_path / "my talk.json"
    assert run_command(session, "/save", str(path)).text == f"Saved 2 messages to {path}."
    messages = list(session.messages)
    assert json.loads(path.read_text()) == messages
    session.clear()
    assert run_command(session, "/load", str(path)).text == f"Loaded 2 messages from {path}."
    assert session.messages == messages


def test_a_broken_file_leaves_the_conversation_alone(session, tmp_path: Path) -> None:
    path, messages = tmp_path / "broken.json", list(session.messages)
    path.write_text('[{"role": "user"}]')
    for argument in (str(path), str(tmp_path / "missing.json")):
        with pytest.raises(ChenxingError):
            run_command(session, "/load", argument)
    assert session.messages == messages


def test_file_names_must_be_there(session) -> None:
    for name in ("/save", "/load"):
        with pytest.raises(UsageError, match=f"{name} FILE: the file name is missing"):
            run_command(session, name, "")


def test_nothing_to_save() -> None:
    with pytest.raises(UsageError, match="nothing to save"):
        run_command(Session(FakeLLM(), Options(SamplingParams())), "/save", "x.json")


def test_a_base_model_has_no_conversation_to_load(tmp_path: Path) -> None:
    session = Session(FakeLLM(template=False), Options(SamplingParams()))
    with pytest.raises(UsageError, match="needs a chat template"):
        run_command(session, "/load", str(tmp_path / "x.json"))


def test_stats(session) -> None:
    text = run_command(session, "/stats", "").text
    assert "fake.gguf (llama)" in text and "2048 tokens of 8192 trained" in text and "avx2, 2 threads" in text
    assert "prompt 20 tokens (5 cached) 500 tok/s · answer 1 token" in text
    assert "21 of 2048 tokens (1%)" in text


@pytest.mark.parametrize(
    ("name", "action"), [("/exit", "leave"), ("/quit", "leave"), ("/bye", "leave"), ("/regen", "regenerate")]
)
def test_actions(session, name: str, action: str) -> None:
    assert run_command(session, name, "").action == action
