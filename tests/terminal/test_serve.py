"""What the flags of `chenxing serve` mean."""

import pytest

from chenxing.engine import SpecOptions
from chenxing.errors import UsageError
from chenxing.terminal import last_model, serve
from chenxing.terminal.parser import Parser


def options(*words: str) -> dict:
    parser = Parser(prog="chenxing")
    subparsers = parser.add_subparsers()
    found: list[dict] = []
    serve.add_parsers(subparsers, lambda given: found.append(given) or 0)
    args = subparsers.choices["serve"].parse(list(words))
    args.run(args)
    return found[0]


def test_defaults():
    given = options("toy")
    assert given["model"] == "toy" and given["hosts"] == ("127.0.0.1",) and given["port"] == 8080
    assert given["api_keys"] == () and given["cors_origins"] is None and given["n_ctx_slot"] is None
    assert given["model_options"]["n_ctx"] is None and given["n_predict"] is None
    assert given["model_options"]["disk_cache"] is True
    assert options("toy", "--no-disk-cache")["model_options"]["disk_cache"] is False


def test_a_model_that_was_loaded_is_the_last_one(monkeypatch):
    remembered: list[str] = []
    monkeypatch.setattr(last_model, "remember", remembered.append)
    ready = options("toy")["on_ready"]
    assert remembered == []
    ready("http://127.0.0.1:8080")
    assert remembered == ["toy"]


def test_llama_servers_spelling():
    words = "-m toy --alias a,b --parallel 4 -c 1024 --temp 0.5 -n 7 --no-slots --metrics -fa on -ub 32"
    given = options(*words.split())
    assert given["aliases"] == ("a", "b") and given["n_slots"] == 4 and given["n_ctx_slot"] == 256
    assert given["sampling"] == {"temp": 0.5} and given["n_predict"] == 7
    assert given["has_metrics"] and not given["has_slots"]
    assert options("toy", "-np", "4", "-c", "1024", "--kv-unified")["n_ctx_slot"] is None


def test_what_drafts():
    words = "toy --spec-type draft-simple --model-draft small --spec-draft-n-min 4 --spec-draft-n-max 8"
    assert options(*words.split())["model_options"]["speculation"] == SpecOptions("draft-simple", "small", 8, 4)
    assert options("toy")["model_options"]["speculation"].kind == "ngram-simple"
    assert options("toy", "-md", "small")["model_options"]["speculation"].kind == "draft-simple"


def test_reasoning_is_a_value_of_the_template():
    assert options("toy", "--reasoning", "off")["template_kwargs"] == {"enable_thinking": False}
    assert options("toy")["template_kwargs"] == {"enable_thinking": True}


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.2", "127.0.0.1,0.0.0.0"])
def test_beyond_this_machine_only_with_a_key_or_the_users_word(host):
    with pytest.raises(UsageError, match="--allow-no-key"):
        options("toy", "--host", host)
    assert options("toy", "--host", host, "--api-key", "k1,k2")["api_keys"] == ("k1", "k2")
    assert options("toy", "--host", host, "--allow-no-key")["api_keys"] == ()


def test_keys_from_a_file(tmp_path):
    path = tmp_path / "keys"
    path.write_text("k1\n\nk2\n")
    assert options("toy", "--api-key-file", str(path))["api_keys"] == ("k1", "k2")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("", "expected one model"),
        ("toy -m other", "expected one model"),
        ("toy --paralel 3", "--parallel"),
        ("toy --port 70000", "--port"),
        ("toy --slot-save-path /no/such/folder", "--slot-save-path"),
        ("toy -np 8 -c 8", "-c 8"),
        ("toy --host ,", "--host"),
        ("toy --top-p 3", "top_p"),
    ],
)
def test_mistakes_are_named(words, message):
    with pytest.raises(UsageError, match=message):
        options(*words.split())
