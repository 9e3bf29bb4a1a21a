import io
import json
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from fake_llm import FakeLLM
from prompt_toolkit.application import create_app_session
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.output import DummyOutput

from chenxing import config
from chenxing.errors import ContextError
from chenxing.sampling import SamplingParams
from chenxing.terminal.chat import Chat
from chenxing.terminal.progress import ProgressLine
from chenxing.terminal.render import Screen
from chenxing.terminal.session import Options, Session

ENTER, ALT_ENTER, CTRL_C, CTRL_D = "\r", "\x1b\r", "\x03", "\x04"


def press_ctrl_c(_generation) -> None:
    signal.raise_signal(signal.SIGINT)


@pytest.fixture
def home(tmp_path: Path, monkeypatch) -> Iterator[Path]:
    monkeypatch.setenv("CHENXING_HOME", str(tmp_path))
    config.settings.cache_clear()
    yield tmp_path
    config.settings.cache_clear()


@contextmanager
def keyboard(keys: str):
    with create_pipe_input() as pipe:
        pipe.send_text(keys)
        with create_app_session(input=pipe, output=DummyOutput()):
            yield


def talk(llm: FakeLLM, keys: str, **options: object) -> tuple[str, Session, int]:
    """(what was printed, the session, the exit code) of a chat in which `keys` are typed."""
    out = io.StringIO()
    session = Session(llm, Options(SamplingParams(), **options))
    with keyboard(keys):
        code = Chat(session, Screen(out), ProgressLine(io.StringIO())).run()
    return out.getvalue(), session, code


def test_a_question_is_answered_with_its_figures(home) -> None:
    shown, session, code = talk(FakeLLM(["Hel", "lo!"]), f"Hi{ENTER}{CTRL_D}")
    assert code == 0
    assert shown == "Hello!\n[prompt 20 tokens (5 cached) 500 tok/s · answer 2 tokens 100 tok/s]\n\n"
    assert [message["content"] for message in session.messages] == ["Hi", "Hello!"]


def test_the_next_question_knows_the_first(home) -> None:
    llm = FakeLLM(["One"], ["Two"])
    talk(llm, f"1?{ENTER}2?{ENTER}/exit{ENTER}")
    assert [message["content"] for message in llm.calls[1].prompt] == ["1?", "One", "2?"]


def test_ctrl_c_stops_the_answer_and_keeps_the_session(home) -> None:
    llm = FakeLLM(["One ", press_ctrl_c, "two"], ["Fine."])
    shown, session, code = talk(llm, f"Count{ENTER}How are you?{ENTER}{CTRL_D}")
    assert code == 0
    assert "One \n[stopped · prompt" in shown and "two" not in shown and "Fine." in shown
    assert [message["content"] for message in session.messages] == ["Count", "One ", "How are you?", "Fine."]


def test_two_ctrl_c_in_one_answer_abandon_it_and_keep_the_session(home) -> None:
    llm = FakeLLM(["One ", press_ctrl_c, press_ctrl_c, "two"], ["Fine."])
    shown, session, code = talk(llm, f"Count{ENTER}How are you?{ENTER}{CTRL_D}")
    assert code == 0 and "Fine." in shown
    assert [message["content"] for message in session.messages] == ["How are you?", "Fine."]


def test_ctrl_c_twice_at_the_empty_prompt_leaves(home) -> None:
    shown, _, code = talk(FakeLLM(), f"{CTRL_C}{CTRL_C}")
    assert code == 0 and shown == "Ctrl-C again or Ctrl-D leaves.\n"


def test_ctrl_c_once_does_not_leave(home) -> None:
    shown, _, _ = talk(FakeLLM(["Hello"]), f"{CTRL_C}Hi{ENTER}{CTRL_C}{CTRL_D}")
    assert "Hello" in shown and shown.count("Ctrl-C again") == 2


def test_ctrl_c_empties_a_line_that_was_begun(home) -> None:
    llm = FakeLLM(["Hello"])
    shown, _, _ = talk(llm, f"wrong{CTRL_C}right{ENTER}{CTRL_D}")
    assert llm.calls[0].prompt[-1]["content"] == "right" and "Ctrl-C again" not in shown


def test_texts_of_many_lines(home) -> None:
    llm = FakeLLM(["a"], ["b"], ["c"])
    keys = f"one{ALT_ENTER}two{ENTER}"
    keys += f'"""three{ENTER}four{ENTER}"""{ENTER}'
    keys += f"\x1b[200~five\r\nsix\n\x1b[201~{ENTER}"  # what a terminal sends for a paste
    talk(llm, keys + CTRL_D)
    assert [call.prompt[-1]["content"] for call in llm.calls] == ["one\ntwo", "three\nfour", "five\nsix\n"]


def test_an_empty_line_asks_nothing(home) -> None:
    llm = FakeLLM()
    talk(llm, f"{ENTER}  {ENTER}{CTRL_D}")
    assert llm.calls == []


def test_regen_answers_again(home) -> None:
    shown, session, _ = talk(FakeLLM(["first"], ["second"]), f"Hi{ENTER}/regen{ENTER}{CTRL_D}")
    assert "first\n" in shown and "second\n" in shown
    assert [message["content"] for message in session.messages] == ["Hi", "second"]


def test_regen_without_an_answer_says_so(home) -> None:
    assert talk(FakeLLM(), f"/regen{ENTER}{CTRL_D}")[0] == "there is nothing to answer again yet\n"


def test_a_wrong_command_is_told_and_the_chat_goes_on(home) -> None:
    shown, _, _ = talk(FakeLLM(["Hello"]), f"/hlep{ENTER}/set temp hot{ENTER}Hi{ENTER}{CTRL_D}")
    assert "unknown command /hlep: did you mean /help?" in shown
    assert "/set temp: expected a number, found 'hot'" in shown and "Hello" in shown


def test_settings_hold_for_the_next_answer(home) -> None:
    llm = FakeLLM(["a"])
    talk(llm, f"/set temperature 0.2{ENTER}/set n_predict 5{ENTER}/system Be short.{ENTER}Hi{ENTER}{CTRL_D}")
    (call,) = llm.calls
    assert (call.params.temp, call.max_tokens) == (0.2, 5)
    assert call.prompt[0] == {"role": "system", "content": "Be short."}


def test_a_saved_session_goes_on(home, tmp_path: Path) -> None:
    path = tmp_path / "talk.json"
    talk(FakeLLM(["Hello"]), f"Hi{ENTER}/save {path}{ENTER}{CTRL_D}")
    assert json.loads(path.read_text())[1]["content"] == "Hello"
    llm = FakeLLM(["Fine"])
    talk(llm, f"/load {path}{ENTER}And you?{ENTER}{CTRL_D}")
    assert [message["content"] for message in llm.calls[0].prompt] == ["Hi", "Hello", "And you?"]


@pytest.mark.parametrize("late", [False, True])
def test_an_error_of_the_model_takes_the_question_back(home, late: bool) -> None:
    error = ContextError(5000, 2048)
    llm = FakeLLM(["one", error] if late else error, ["Fine"])
    shown, session, code = talk(llm, f"Too long{ENTER}Short{ENTER}{CTRL_D}")
    assert code == 0 and "the prompt has 5000 tokens, the context holds 2048" in shown
    assert [message["content"] for message in session.messages] == ["Short", "Fine"]


def test_why_an_answer_is_cut_off(home) -> None:
    shown, _, _ = talk(FakeLLM(["a", "b", "c"]), f"Hi{ENTER}{CTRL_D}", max_tokens=2)
    assert "ab\n[cut off after 2 tokens (-n) · prompt" in shown


def test_a_base_model_completes_each_text(home) -> None:
    llm = FakeLLM([" time"], [" end"], template=False)
    talk(llm, f"Once upon a{ENTER}The{ENTER}{CTRL_D}")
    assert [(call.prompt, call.raw) for call in llm.calls] == [("Once upon a", True), ("The", True)]


def test_history_is_kept_for_the_next_session_and_for_this_user_alone(home) -> None:
    talk(FakeLLM(["a"]), f"Remember me{ENTER}{CTRL_D}")
    llm = FakeLLM(["b"])
    talk(llm, f"\x1b[A{ENTER}{CTRL_D}")
    assert llm.calls[0].prompt[-1]["content"] == "Remember me"
    (history,) = home.rglob("history")
    if os.name == "posix":  # Windows has no such bits
        assert history.stat().st_mode & 0o077 == 0


def test_a_folder_that_cannot_be_written_costs_the_history_only(home) -> None:
    (home / "data").write_text("a file where the folder should be")
    shown, _, code = talk(FakeLLM(["Hello"]), f"Hi{ENTER}{CTRL_D}")
    assert code == 0 and "Hello" in shown
