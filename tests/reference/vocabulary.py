"""Two small vocabularies, one SentencePiece-like with byte fallback, one byte-level BPE, that llama.cpp accepts."""

from __future__ import annotations

from typing import Any

import gguf

N_VOCAB = 384

WORDS = (
    "the and that with from this have will your which their about would there other into more time some could them "
    "than like now over only its also back after work first well even want because any these give day most us star"
)
IM_START, IM_END, END_OF_TEXT = "<|im_start|>", "<|im_end|>", "<|endoftext|>"

_NORMAL, _UNKNOWN, _CONTROL, _BYTE = (
    int(t) for t in (gguf.TokenType.NORMAL, gguf.TokenType.UNKNOWN, gguf.TokenType.CONTROL, gguf.TokenType.BYTE)
)


def _prefixes(space: str) -> list[str]:
    """Every beginning of a space and a word, shortest first: what merging from the left passes through."""
    found = {space + word[:n]: None for n in range(1, 8) for word in WORDS.split() if n <= len(word)}
    return sorted(found, key=len)


def sentencepiece(add_bos: bool = True) -> dict[str, Any]:
    """Metadata of a "llama" vocabulary: <unk> <s> </s>, 256 bytes, single characters, beginnings of words."""
    characters = [chr(c) for c in range(ord("a"), ord("z") + 1)] + ["▁", "▁▁", ".", ",", "晨", "星"]
    special, byte = ["<unk>", "<s>", "</s>"], [f"<0x{b:02X}>" for b in range(256)]
    pieces = characters + _prefixes("▁")
    pieces = pieces[: N_VOCAB - len(special) - len(byte)]
    tokens = special + byte + pieces
    assert len(tokens) == N_VOCAB == len(set(tokens)), len(tokens)
    return {
        "model": "llama",
        "pre": "default",
        "tokens": tokens,
        "scores": [0.0] * 259 + [-float(rank) for rank in range(len(pieces))],
        "token_type": [_UNKNOWN, _CONTROL, _CONTROL] + [_BYTE] * 256 + [_NORMAL] * len(pieces),
        "bos_token_id": 1,
        "eos_token_id": 2,
        "unknown_token_id": 0,
        "add_bos_token": add_bos,
        "add_space_prefix": True,
    }


def byte_pairs(pre: str) -> dict[str, Any]:
    """Metadata of a "gpt2" vocabulary: 256 bytes, beginnings of words, three control tokens; `pre` splits its text."""
    space = chr(256 + 32)  # GPT-2's stand-in for the byte 0x20
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    stand_ins = iter(range(256, 512))
    characters = [chr(b if b in printable else next(stand_ins)) for b in range(256)]
    special = [END_OF_TEXT, IM_START, IM_END]
    merged = _prefixes(space)[: N_VOCAB - len(characters) - len(special)]
    tokens = characters + merged + special
    assert len(tokens) == N_VOCAB == len(set(tokens)), len(tokens)
    return {
        "model": "gpt2",
        "pre": pre,
        "tokens": tokens,
        "token_type": [_NORMAL] * (N_VOCAB - 3) + [_CONTROL] * 3,
        "merges": [f"{text[:-1]} {text[-1]}" for text in merged],
        "bos_token_id": N_VOCAB - 3,
        "eos_token_id": N_VOCAB - 1,
        "add_bos_token": False,
    }
