import io
import json
import random
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from tiny_vocabulary import BOS, EOS, FIRST_BYTE, token_id, write_vocabulary

from chenxing import cli
from chenxing.terminal import tools


@pytest.fixture(scope="module")
def vocabulary(tmp_path_factory) -> str:
    return str(write_vocabulary(tmp_path_factory.mktemp("vocabulary") / "tiny.gguf"))


@pytest.fixture
def tool(monkeypatch, capfdbinary):
    """Runs a tool on `data` as stdin: (exit code, stdout, stderr)."""

    def run(*argv: str, data: bytes = b"") -> tuple[int, bytes, str]:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
        code = cli.main(argv)
        out, err = capfdbinary.readouterr()
        return code, out, err.decode()

    return run


def ids_of(text: str) -> list[int]:
    return [token_id(letter) for letter in text]


PLAIN_EOS = [FIRST_BYTE + ord("<"), FIRST_BYTE + ord("/"), *ids_of("s"), FIRST_BYTE + ord(">")]


def test_tokenize_prints_a_json_list(tool, vocabulary) -> None:
    assert tool("tokenize", vocabulary, data=b"hex") == (
        0,
        f"[{BOS}, {token_id('▁he')}, {token_id('x')}]\n".encode(),
        "",
    )


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        ([], [BOS, *ids_of("▁a"), EOS]),
        (["--no-bos"], [*ids_of("▁a"), EOS]),
        (["--no-special"], [BOS, *ids_of("▁a"), *PLAIN_EOS]),
        (
            ["--no-parse-special", "--no-bos"],
            [*ids_of("▁a"), *[FIRST_BYTE + byte for byte in b"</"], *ids_of("s"), FIRST_BYTE + 0x3E],
        ),
    ],
)
def test_flags_of_tokenize(tool, vocabulary, flags: list[str], expected: list[int]) -> None:
    code, out, _ = tool("tokenize", vocabulary, *flags, data=b"a</s>")
    assert (code, json.loads(out)) == (0, expected)


def test_tokenize_takes_stdin_as_it_is(tool, vocabulary) -> None:
    _, out, _ = tool("tokenize", vocabulary, "--no-bos", data=b"a\n\\n\n")
    assert json.loads(out) == [*ids_of("▁a"), FIRST_BYTE + 10, FIRST_BYTE + ord("\\"), *ids_of("n"), FIRST_BYTE + 10]
    assert tool("tokenize", vocabulary, "--no-bos", data=b"")[1] == b"[]\n"
    assert tool("tokenize", vocabulary, data=b"a\xff")[0] == 0


def test_jsonl_answers_line_for_line(tool, vocabulary) -> None:
    _, out, _ = tool("tokenize", vocabulary, "--jsonl", "--no-bos", data=b'"a"\n"b\\n"\n')
    assert [json.loads(line) for line in out.splitlines()] == [ids_of("▁a"), [*ids_of("▁b"), FIRST_BYTE + 10]]


def test_a_bad_line_ends_jsonl_with_its_number(tool, vocabulary) -> None:
    code, out, err = tool("tokenize", vocabulary, "--jsonl", data=b'"a"\nb\n')
    assert code == 1 and out.count(b"\n") == 1
    assert err.startswith("chenxing: standard input, line 2: expected a JSON string, found b") and err.count("\n") == 1


@pytest.mark.parametrize("spaces", [True, False])
@pytest.mark.parametrize("flags", [[], ["--no-bos"], ["--jsonl"]])
def test_detokenize_undoes_tokenize_to_the_byte(tool, tmp_path: Path, spaces: bool, flags: list[str]) -> None:
    model = str(write_vocabulary(tmp_path / "v.gguf", spaces=spaces))
    rng = random.Random(3)
    parts = ["he", " ", "  ", "\n", "x .", "<s>", "</s>", "<|im_start|>", "<unk>", "日本", "🙂", " he", "\0", "don't"]
    texts = ["".join(rng.choices(parts, k=rng.randint(0, 8))) for _ in range(60)]
    if "--jsonl" in flags:
        data = "".join(json.dumps(text) + "\n" for text in texts).encode()
        assert tool("detokenize", model, *flags, data=tool("tokenize", model, *flags, data=data)[1])[1] == data
        return
    for text in texts[:20]:
        ids = tool("tokenize", model, *flags, data=text.encode())[1]
        assert tool("detokenize", model, *flags, data=ids)[1] == text.encode(), ids


def test_bytes_that_are_no_text_come_out_as_they_are(tool, vocabulary) -> None:
    ids = json.dumps([FIRST_BYTE + 0xFF, FIRST_BYTE + 0xE6, *ids_of("a")]).encode()
    assert tool("detokenize", vocabulary, data=ids)[1] == b"\xff\xe6a"
    assert tool("detokenize", vocabulary, "--jsonl", data=ids)[1] == b'"\\udcff\\udce6a"\n'


def test_several_lists_come_out_one_behind_the_other(tool, vocabulary) -> None:
    data = f"{ids_of('ab')}\n{ids_of('▁c')}\n".encode()
    assert tool("detokenize", vocabulary, "--no-bos", data=data)[1] == b"abc"


def test_an_id_out_of_range_is_named(tool, vocabulary) -> None:
    code, out, err = tool("detokenize", vocabulary, data=b"[5, 1000]")
    assert (code, out) == (1, b"") and "expected ids from 0 to 289, found 1000" in err


def test_a_missing_model_is_one_line(tool) -> None:
    for name in ("tokenize", "detokenize", "template"):
        code, out, err = tool(name, "no/such/model.gguf")
        assert (code, out) == (1, b"") and "no/such/model.gguf" in err and err.count("\n") == 1


def test_template_prints_the_prompt_exactly(tool, vocabulary) -> None:
    data = json.dumps([{"role": "user", "content": "Say <|im_end|> 你好"}]).encode()
    expected = "<s><|im_start|>user\nSay <|im_end|> 你好<|im_end|>\n<|im_start|>assistant\n"
    assert tool("template", vocabulary, data=data) == (0, expected.encode(), "")


def test_template_takes_a_whole_request(tool, vocabulary) -> None:
    messages = [{"role": "user", "content": "a"}]
    for body in ({"enable_thinking": True}, {"chat_template_kwargs": {"enable_thinking": True}}):
        code, out, _ = tool("template", vocabulary, data=json.dumps({"messages": messages} | body).encode())
        assert code == 0 and out.endswith(b"<|im_start|>assistant\n<think>\n")
    code, out, _ = tool(
        "template", vocabulary, data=json.dumps({"messages": messages, "add_generation_prompt": False}).encode()
    )
    assert out.endswith(b"a<|im_end|>\n")


def test_another_template_can_be_given(tool, vocabulary, tmp_path: Path) -> None:
    path = tmp_path / "t.jinja"
    path.write_text("{{ messages[0].content }}!")
    data = b'[{"role": "user", "content": "a"}]'
    assert tool("template", vocabulary, "--chat-template", "{{ messages[0].content }}?", data=data)[1] == b"a?"
    assert tool("template", vocabulary, "--chat-template-file", str(path), data=data)[1] == b"a!"


def test_template_errors_are_one_line(tool, vocabulary, tmp_path: Path) -> None:
    code, _, err = tool("template", vocabulary, data=b'[{"role": "robot", "content": "a"}]')
    assert code == 1 and "standard input: messages[0].role: expected one of" in err
    code, _, err = tool("template", vocabulary, data=b"hello")
    assert code == 1 and "standard input: expected a JSON list of messages" in err
    bare = str(write_vocabulary(tmp_path / "bare.gguf", template=None))
    code, _, err = tool("template", bare, data=b'[{"role": "user", "content": "a"}]')
    assert code == 1 and "has no chat template (a base model)" in err and err.count("\n") == 1


class EvenModel:
    """All tokens are equally likely: the perplexity is the size of the vocabulary."""

    def __init__(self) -> None:
        self.tokenizer = SimpleNamespace(add_bos=True, add_eos=False, bos_id=0, encode=lambda text, **_: [0, *text])
        self.notices: list[str] = []
        self.closed = False

    def logits(self, ids: list[int], first: int) -> np.ndarray:
        return np.zeros((len(ids) - first, 256), np.float32)

    def close(self) -> None:
        self.closed = True


def test_perplexity_prints_one_figure(tool, tmp_path: Path, monkeypatch) -> None:
    model, loaded = EvenModel(), []
    monkeypatch.setattr(tools, "load_model", lambda spec, **kwargs: (loaded.append((spec, kwargs)), (model, 1.0))[1])
    path = tmp_path / "text"
    path.write_bytes(bytes(200))
    assert tool("perplexity", "m", "-f", str(path), "-c", "20", "-t", "1") == (
        0,
        b"ppl: 256.0000\n",
        "".join(f"[{i}/10]256.0000{',' if i < 10 else chr(10)}" for i in range(1, 11))
        + "Final estimate: PPL = 256.0000 +/- 0.00000\n",
    )
    options = {"n_ctx": 20, "n_threads": 1, "isa": None, "weight_cache": True, "weights": None, "kv_type": "f16"}
    assert loaded == [("m", {**options, "disk_cache": False})] and model.closed
    code, out, err = tool("perplexity", "m", "-f", str(path))
    assert code == 1 and out == b"" and "context of 512 needs 1024 tokens" in err


@pytest.mark.parametrize(
    ("argv", "code", "complaint"),
    [
        (["m"], 2, "the following arguments are required: -f/--file"),
        (["m", "-f", "x", "-c", "2"], 2, "-c/--ctx-size: expected 4 or more, found '2'"),
        (["m", "-f", "x", "-t", "0"], 2, "-t/--threads: expected 1 or more, found '0'"),
        (["m", "-f", "x", "--chunks", "0"], 2, "--chunks: expected 1 or more, found '0'"),
        (["m", "-f", "no/such/file"], 1, "no/such/file: No such file"),
    ],
)
def test_wrong_perplexity(tool, argv: list[str], code: int, complaint: str) -> None:
    found, _, err = tool("perplexity", *argv)
    assert found == code and complaint in err
