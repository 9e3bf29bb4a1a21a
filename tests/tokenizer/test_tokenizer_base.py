"""Guards, joining and streaming, names of tokens, limits of time."""

import time
from pathlib import Path

import pytest

from chenxing.errors import TokenizerError
from chenxing.gguf import open_gguf
from chenxing.tokenizer import load_tokenizer

GUARD = "\ufdd0"
SMALL = ["bpe", "gemma4", "spm", "ugm", "wpm"]


def test_a_guard_keeps_control_tokens_text(load) -> None:
    tokenizer = load("bpe")
    start, end = tokenizer.find("<|im_start|>"), tokenizer.find("<|im_end|>")
    ids = tokenizer.encode(f"<|im_start|>say <|im_{GUARD}end|>!<|im_end|>", parse_special=True, guard=GUARD)
    assert ids[0] == start and ids[-1] == end and ids.count(end) == 1
    assert tokenizer.join(ids, special=True) == b"<|im_start|>say <|im_end|>!<|im_end|>"
    assert ids[1:-1] == tokenizer.encode("say <|im_end|>!", add_special=False)


def test_a_guard_may_stand_anywhere_in_a_special_text(load) -> None:
    tokenizer = load("bpe")
    for text in tokenizer.special_texts:
        for place in range(1, len(text)):
            guarded = text[:place] + GUARD + text[place:]
            ids = tokenizer.encode(f"a{guarded}b", add_special=False, parse_special=True, guard=GUARD)
            assert tokenizer.find(text) not in ids, text
            assert tokenizer.join(ids, special=True).decode() == f"a{text}b"


def test_guards_do_not_change_other_text(load) -> None:
    tokenizer = load("bpe")
    text = "def f():\n    <tool_call>  the star"
    guarded = GUARD + text[:3] + GUARD * 2 + text[3:-2] + GUARD + text[-2:]
    assert tokenizer.encode(guarded, parse_special=True, guard=GUARD) == tokenizer.encode(text, parse_special=True)
    guarded = text.replace("tool", f"to{GUARD}ol")
    assert tokenizer.find("<tool_call>") not in tokenizer.encode(guarded, parse_special=True, guard=GUARD)


def test_guarded_text_makes_no_control_token_by_merging(load) -> None:
    """SPM merges <s and > to <s>, in llama.cpp too; content of a message must not become BOS that way."""
    tokenizer = load("spm", add_space_prefix=False)
    assert tokenizer.encode("<s>", add_special=False) == [tokenizer.bos_id]
    ids = tokenizer.encode(f"<{GUARD}s>", add_special=False, parse_special=True, guard=GUARD)
    assert tokenizer.bos_id not in ids
    assert tokenizer.join(ids) == b"<s>"


def test_special_texts_are_those_that_are_never_text(load) -> None:
    texts = load("bpe").special_texts
    assert {"<|im_start|>", "<|unk|>", "<|user|>"} <= set(texts)
    assert not {"<tool_call>", "  ", "the"} & set(texts)
    assert texts == sorted(texts, key=len, reverse=True)


@pytest.mark.parametrize("name", SMALL)
def test_tokens_by_id(load, name: str) -> None:
    tokenizer = load(name)
    for token in range(tokenizer.n_vocab):
        assert tokenizer.find(tokenizer.token_text(token)) == token
        if tokenizer.decode([token]) != tokenizer.decode([token], special=True):
            assert tokenizer.is_special(token)
    with pytest.raises(TokenizerError, match=f"token id {tokenizer.n_vocab}: expected 0 to {tokenizer.n_vocab - 1}"):
        tokenizer.token_bytes(tokenizer.n_vocab)
    with pytest.raises(TokenizerError, match="token id -1"):
        tokenizer.decode([-1])


@pytest.mark.parametrize("name", ["bpe", "gemma4", "spm"])
def test_text_comes_back(load, name: str) -> None:
    """Vocabularies that have all bytes lose nothing; bpe lacks 0xFE and gemma4 0xFF, which no text has."""
    tokenizer = load(name)
    text = "The  star's\n\t清晨 🌟 e\u0301 ½ < s >  "
    ids = tokenizer.encode(text, add_special=False)
    assert tokenizer.join(ids).decode().removeprefix(" ") == text


@pytest.mark.parametrize("name", SMALL)
def test_stream_is_join(load, name: str) -> None:
    tokenizer = load(name)
    for text in ("🌟 stars 清晨的", b"a\xf0\x9f\x98b\xff\xfe", b"\xe6\x97", "<|im_end|>the"):
        ids = tokenizer.encode(text, parse_special=True)
        for special in (False, True):
            decoder = tokenizer.stream_decoder(special=special)
            pieces = [decoder.push(token) for token in ids]
            assert "".join(pieces) + decoder.finish() == tokenizer.join(ids, special=special).decode(errors="replace")


def test_stream_waits_for_whole_characters(load) -> None:
    tokenizer = load("spm")
    decoder = tokenizer.stream_decoder()
    pieces = [decoder.push(token) for token in tokenizer.encode("𝄞", add_special=False)]
    assert pieces[-1] == "𝄞" and all(piece in ("", " ") for piece in pieces[:-1]) and len(pieces) >= 4
    assert decoder.finish() == ""
    decoder.push(tokenizer.find("<0xF0>"))
    assert decoder.finish() == "\ufffd"


@pytest.mark.parametrize("name", SMALL)
@pytest.mark.parametrize("text", ["Z" * 131_072, "日" * 36_000, " " * 131_072, "\n" * 131_072, "9" * 131_072])
def test_long_runs_take_no_quadratic_time(load, name: str, text: str) -> None:
    tokenizer = load(name)
    start = time.process_time()  # not by the clock: the machine may be busy
    tokenizer.encode(text)
    assert time.process_time() - start < 2


@pytest.mark.model
@pytest.mark.parametrize(("name", "seconds"), [("smollm2", 0.1), ("gemma3", 0.3)])
def test_real_models_load_fast_from_the_second_time_on(
    name: str, seconds: float, request: pytest.FixtureRequest
) -> None:
    model = open_gguf(request.getfixturevalue(f"{name}_path"))
    load_tokenizer(model)
    start = time.process_time()
    load_tokenizer(model)
    assert time.process_time() - start < seconds


@pytest.mark.model
@pytest.mark.parametrize("name", ["smollm2", "gemma3"])
def test_real_models_encode_fast(name: str, request: pytest.FixtureRequest) -> None:
    tokenizer = load_tokenizer(open_gguf(request.getfixturevalue(f"{name}_path")))
    text = Path(__file__).read_text() * 20
    tokenizer.encode(text)
    start = time.process_time()
    tokenizer.encode(text)
    assert len(text) / (time.process_time() - start) > 500_000  # 1 to 5 million on an idle core
    for run in ("Z" * 131_072, "日" * 36_000, " " * 131_072, "\n" * 131_072):
        start = time.process_time()
        tokenizer.encode(run)
        assert time.process_time() - start < 2


class Known:
    """Says of one text what its ids are, wherever plain text ends with it."""

    def __init__(self, text: bytes, ids: list[int]) -> None:
        self.text, self.ids = text, ids

    def find(self, data: bytes, start: int, end: int) -> tuple[int, list[int]] | None:
        ends_so = data[start:end].endswith(self.text) and self.text
        return (end - len(self.text), self.ids) if ends_so else None


def _letters(tokenizer, text: str) -> list[int]:
    return [token for letter in text for token in tokenizer.encode(letter, add_special=False)]


def test_a_known_spelling_is_taken_at_the_end_of_plain_text(load) -> None:
    tokenizer = load("bpe")
    spelt = _letters(tokenizer, "the star")
    assert spelt != tokenizer.encode("the star", add_special=False)
    known, text = Known(b"the star", spelt), "see the star<|im_end|>the star and<|im_end|>the star"
    ids = tokenizer.encode(text, parse_special=True, spellings=known)
    end = tokenizer.find("<|im_end|>")
    see, middle = (tokenizer.encode(part, add_special=False) for part in ("see ", "the star and"))
    assert ids == [*see, *spelt, end, *middle, end, *spelt]


def test_spellings_in_a_row_are_taken_from_the_end_backwards(load) -> None:
    tokenizer = load("bpe")
    spelt = _letters(tokenizer, "the")
    ids = tokenizer.encode("see thethe", add_special=False, spellings=Known(b"the", spelt))
    assert ids == [*tokenizer.encode("see ", add_special=False), *spelt, *spelt]


@pytest.mark.parametrize("name", ["bpe", "spm", "gemma4"])
def test_a_spelling_that_is_not_the_text_is_not_taken(name, load) -> None:
    tokenizer = load(name)
    plain = tokenizer.encode("a star", parse_special=True)
    other = _letters(tokenizer, "stop")
    for ids in (other, other[:2], [], [tokenizer.n_vocab], [-1], [tokenizer.eos_id]):
        assert tokenizer.encode("a star", parse_special=True, spellings=Known(b"star", ids)) == plain, ids


@pytest.mark.parametrize("name", ["bpe", "spm", "gemma4"])
def test_no_spelling_makes_a_special_token_of_text(name, load) -> None:
    """Law L7: neither where the text of one is guarded, nor where the tokenizer would not look for it."""
    tokenizer = load(name)
    for text in tokenizer.special_texts:
        known = Known(text.encode(), [tokenizer.find(text)])
        guarded = text[:1] + GUARD + text[1:]
        for prompt, guard in ((f"say {guarded}", GUARD), (f"say {guarded} now", GUARD)):
            plain = tokenizer.encode(prompt, parse_special=True, guard=guard)
            assert tokenizer.encode(prompt, parse_special=True, guard=guard, spellings=known) == plain
        assert tokenizer.encode(text, spellings=known) == tokenizer.encode(text)


def test_a_spelling_does_not_hide_a_special_token(load) -> None:
    """Ordinary tokens that together are the text of a control token: where the template wrote it, it is that token."""
    tokenizer = load("bpe")
    known = Known(b"ok<|im_end|>", _letters(tokenizer, "ok<|im_end|>"))
    ids = tokenizer.encode("ok<|im_end|>", parse_special=True, spellings=known)
    assert ids == tokenizer.encode("ok<|im_end|>", parse_special=True) and tokenizer.find("<|im_end|>") in ids
