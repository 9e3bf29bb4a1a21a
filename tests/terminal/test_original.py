from pathlib import Path

import pytest
from tiny_vocabulary import BOS, EOS, FIRST_BYTE, IM_END, IM_START, token_id, write_vocabulary

from chenxing.terminal.load import open_vocabulary
from chenxing.terminal.original import original_text


@pytest.fixture(params=[True, False], ids=["spaces", "no spaces"])
def tokenizer(request, tmp_path: Path):
    return open_vocabulary(str(write_vocabulary(tmp_path / "v.gguf", spaces=request.param)))[1]


@pytest.mark.parametrize(
    "text",
    ["he", " he", "  he", "", " ", "<|im_start|>he x<|im_end|> a", "<s>", "<s><s>x", "he </s>  x", "\n"],
)
@pytest.mark.parametrize("added", [True, False])
def test_it_undoes_encode(tokenizer, text: str, added: bool) -> None:
    ids = tokenizer.encode(text, add_special=added, parse_special=True)
    assert original_text(tokenizer, ids, added=added) == text.encode()


def test_only_what_encode_adds_is_taken_away(tokenizer) -> None:
    assert original_text(tokenizer, [IM_START, BOS, IM_END, EOS], added=True) == b"<|im_start|><s><|im_end|></s>"
    assert original_text(tokenizer, [BOS, BOS], added=True) == b"<s>"
    assert original_text(tokenizer, [BOS], added=False) == b"<s>"


def test_bytes_stay_bytes(tokenizer) -> None:
    assert original_text(tokenizer, [FIRST_BYTE + 0xE6, token_id("a"), FIRST_BYTE + 0xFF], added=False) == b"\xe6a\xff"
