import io
import json
import signal
import sys

import pytest
from fake_llm import FakeLLM

from chenxing import cli
from chenxing.engine import SpecOptions
from chenxing.errors import ContextError


def test_one_answer(model, capsys) -> None:
    assert cli.main(["run", "smollm2", "-p", "Hi"]) == 0
    assert capsys.readouterr() == ("Hello!\n", "")
    assert model.llm.calls[0].prompt == [{"role": "user", "content": "Hi"}]
    default = {"n_ctx": 0, "n_threads": None, "isa": None, "weight_cache": True, "weights": None, "chat_template": None}
    cache = {"kv_type": "f16", "disk_cache": True, "cache_disk_bytes": None, "cache_ram_bytes": None}
    assert model.loaded == {"model": "smollm2", **default, **cache, "speculation": SpecOptions()}
    assert model.llm.closed


def test_raw_completes_the_text_itself(model, capsys) -> None:
    assert cli.main(["run", "m", "--raw", "-p", "Once"]) == 0
    (call,) = model.llm.calls
    assert (call.prompt, call.raw) == ("Once", True)
    assert capsys.readouterr() == ("Hello!\n", "")


def test_json(model, capsys) -> None:
    assert cli.main(["run", "smollm2", "-p", "Hi", "--json", "-n", "2"]) == 0
    out, err = capsys.readouterr()
    assert err == "" and out.count("\n") == 1
    assert json.loads(out) == {
        "model": "smollm2",
        "prompt_tokens": 20,
        "cached_tokens": 5,
        "completion_tokens": 2,
        "finish_reason": "length",
        "text": "Hello",
        "timings": {
            "load_ms": 12.0,
            "cache_n": 5,
            "cache_disk_n": 0,
            "prompt_n": 15,
            "prompt_ms": 30.0,
            "prompt_per_second": 500.0,
            "predicted_n": 2,
            "predicted_ms": 10.0,
            "predicted_per_second": 100.0,
        },
    }


@pytest.mark.parametrize("flags", [[], ["--json"]])
def test_ctrl_c_ends_the_answer_with_130(model, capsys, flags: list[str]) -> None:
    model.llm = FakeLLM(["One ", lambda _: signal.raise_signal(signal.SIGINT), "two"])
    assert cli.main(["run", "m", "-p", "Count", *flags]) == 130
    out, err = capsys.readouterr()
    assert "One " in out and "two" not in out and err == ""
    assert model.llm.closed


def test_verbose_tells_what_is_loaded_and_how_fast_it_was(model, capsys) -> None:
    assert cli.main(["run", "m", "-p", "Hi", "-v", "-n", "1"]) == 0
    out, err = capsys.readouterr()
    assert out == "Hel\n"
    lines = err.splitlines()
    assert lines[:2] == ["models/fake.gguf: llama", "kernels: avx2"] and lines[2].startswith("threads: 2 (")
    assert lines[3:5] == [
        "weights: 98 MB, mapped from the cache",
        "context: 2048 tokens, trained for 8192",
    ]
    assert lines[5].startswith("memory: 47 MB for the keys and values of a full context")
    assert "cut off after 1 token (-n) · prompt 20 tokens (5 cached)" in err


def test_what_a_user_should_know_of_a_model_is_said_in_any_case(model, capsys) -> None:
    model.llm.notices.append("12 tensors of type IQ3_S are decoded to F16 (no kernel of their own): 2.1 GB")
    assert cli.main(["run", "m", "-p", "Hi"]) == 0
    notice = "chenxing: 12 tensors of type IQ3_S are decoded to F16 (no kernel of their own): 2.1 GB\n"
    assert capsys.readouterr().err == notice


def test_an_error_of_the_model_is_one_line(model, capsys) -> None:
    model.llm = FakeLLM(ContextError(5000, 2048))
    assert cli.main(["run", "m", "-p", "Hi"]) == 1
    out, err = capsys.readouterr()
    assert out == "" and err.startswith("chenxing: the prompt has 5000 tokens") and err.count("\n") == 1
    assert model.llm.closed


class Tty(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_on_a_terminal_an_answer_is_markdown_and_raw_text_is_not(model, monkeypatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    for flags, expected in ([], "\x1b[1mbold\x1b[0m"), (["--raw"], "**bold**\n"):
        out = Tty()
        monkeypatch.setattr(sys, "stdout", out)
        model.llm = FakeLLM(["**bo", "ld**"])
        assert cli.main(["run", "m", "-p", "Hi", *flags]) == 0
        assert expected in out.getvalue()
