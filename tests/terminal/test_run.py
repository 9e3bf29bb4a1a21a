import io
import sys
from pathlib import Path

from fake_llm import FakeLLM

from chenxing import cli


class Tty(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_file_is_taken_as_it_is(model, tmp_path: Path) -> None:
    path = tmp_path / "prompt.txt"
    path.write_bytes(b'print("a\\n")\n\n')
    assert cli.main(["run", "m", "-f", str(path)]) == 0
    assert model.question == 'print("a\\n")\n'


def test_piped_text_is_the_prompt_or_stands_before_it(model, pipe_in) -> None:
    pipe_in(b"a diff\n")
    assert cli.main(["run", "m", "-p", "What changed?"]) == 0
    assert model.question == "a diff\n\nWhat changed?"
    for argv in (["run", "m"], ["run", "m", "-f", "-"]):
        pipe_in("只有这个\n".encode())
        model.llm = FakeLLM(["ok"])
        assert cli.main(argv) == 0
        assert model.question == "只有这个"


def test_a_base_model_says_so_and_completes(model, capsys) -> None:
    model.llm = FakeLLM([" upon"], template=False)
    assert cli.main(["run", "m", "-p", "Once"]) == 0
    out, err = capsys.readouterr()
    assert out == " upon\n" and err == "chenxing: m has no chat template (a base model): it completes plain text\n"
    assert (model.llm.calls[0].prompt, model.llm.calls[0].raw) == ("Once", True)


def test_a_system_prompt_cannot_be_meant_for_a_base_model(model, capsys) -> None:
    model.llm = FakeLLM(["x"], template=False)
    assert cli.main(["run", "m", "-p", "a", "-sys", "b"]) == 2
    assert "a system prompt needs a chat template" in capsys.readouterr().err


def test_missing_files_are_1_and_nothing_is_loaded(model, capsys, tmp_path: Path) -> None:
    for flag in ("-f", "-sysf", "--chat-template-file"):
        assert cli.main(["run", "m", "-p", "a", flag, str(tmp_path / "missing")]) == 1
        assert "missing: No such file" in capsys.readouterr().err
    assert model.loaded == {}


def test_a_chat_needs_a_terminal_to_write_to(model, monkeypatch, capsys) -> None:
    monkeypatch.setattr(sys, "stdin", Tty())
    assert cli.main(["run", "m"]) == 2
    assert "a chat needs a terminal" in capsys.readouterr().err
    assert cli.main(["run", "m", "--json"]) == 2
    assert "--json needs a prompt" in capsys.readouterr().err
