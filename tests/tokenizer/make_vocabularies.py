"""Writes the small vocabularies in tests/data/tokenizer: python tests/tokenizer/make_vocabularies.py

Trained on the sentences below with the tokenizers library, then bent so that every rule has something to bite on:
tokens across words, equal scores, user-defined and control tokens, texts that are no tokens, bytes without a token.
The ids that llama.cpp makes of texts with them are written by tests/peers/test_tokenizer_peer.py.
"""

from __future__ import annotations

import json
import struct
from pathlib import Path

import gguf
import numpy as np
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

FOLDER = Path(__file__).parents[1] / "data" / "tokenizer"
NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = range(1, 7)
SPACE = "▁"

SENTENCES = """\
The morning star rises before the sun, and nobody in the harbour town is awake to see it.
She said: "We'll meet at 7:30, won't we?" They're late; I'm not, and he'd rather stay. IT'S TRUE, WE'VE SEEN IT.
Counting 1, 22, 333, 4444, 55555, 666666 and 1234567890 sheep costs 3.14 coins or 1,000,000 beads in 2024.
def add(left, right):\n    return left + right  # two\n\n\nclass Star:\n\tname = 'star'\n\tdef __init__(self): pass
for (int i = 0; i < n; ++i) { total += values[i] * 2; }  // the sum of all values
if (a != b && c->next == NULL) return -1; else printf("%d\\n", a / b);
<p class="first">A page about <b>stars</b> &amp; harbours</p> {"key": [1, 2, 3], "other": null}
XMLHttpRequest camelCaseWords snake_case_words CONSTANT_VALUE http://example.org/path?query=1#part
Утренняя звезда встаёт раньше солнца, и никто в портовом городе этого не видит. Сколько звёзд? 12345.
清晨的星星在太阳升起之前出现，港口小镇里没有人醒着看到它。一共有3颗星。今天天气很好！
朝の星は太陽より先に昇り、港町では誰も目を覚ましていません。カタカナとひらがな、２０２４年。
아침 별은 해보다 먼저 떠오르고 항구 마을에서는 아무도 깨어 있지 않습니다.
تشرق نجمة الصباح قبل الشمس، ولا أحد في المدينة يراها. ١٢٣ نجمة
सुबह का तारा सूरज से पहले उगता है और कोई उसे नहीं देखता। १२३ तारे
ดาวรุ่งขึ้นก่อนดวงอาทิตย์ และไม่มีใครเห็น
Đêm qua tôi thấy một ngôi sao. Zażółć gęślą jaźń. Ünïcödé naïve café ﬁne ½ ² Ⅳ ǅ ʰ ª
🌟 stars 🌟🌟 and 👩‍👩‍👧‍👦 families 🇩🇪 ✅ ❤️ 👍🏽 … — “quoted” ‘single’ «guillemets» © ™ € £ § ° ± × ÷
aaaa aaaaaaaa AAAA AAAAAAAA zzzz ==== ---- .... !!!! ???? ________ //// \\\\\\\\ **** ####
      six spaces, then\ttab,\u00a0no-break,\u3000wide,\u2003em,\u200bzero,\u200djoiner,\u200cnon-joiner and the end   \n
"""


def train_bpe(lines: list[str], n: int, alphabet: list[str], special: list[str]) -> tuple[list[str], list[str]]:
    """(tokens, merges) of a BPE in which nothing keeps merges from crossing words."""
    trainer = trainers.BpeTrainer(vocab_size=n, initial_alphabet=alphabet, special_tokens=special, show_progress=False)
    tokenizer = Tokenizer(models.BPE())
    tokenizer.train_from_iterator(lines * 3, trainer)
    tokens = sorted(tokenizer.get_vocab(), key=tokenizer.get_vocab().__getitem__)
    merges = json.loads(tokenizer.to_str())["model"]["merges"]
    return tokens, [" ".join(pair) for pair in merges]


def byte_level(text: str) -> str:
    return "".join(
        piece for piece, _ in pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False).pre_tokenize_str(text)
    )


def write(name: str, model: str, keys: dict, **arrays: list) -> None:
    writer = gguf.GGUFWriter(FOLDER / f"{name}.gguf", "llama")
    writer.add_tokenizer_model(model)
    writer.add_token_list(arrays["tokens"])
    writer.add_token_types(arrays["types"])
    if "scores" in arrays:
        writer.add_token_scores(arrays["scores"])
    if "merges" in arrays:
        writer.add_token_merges(arrays["merges"])
    for key, value in keys.items():
        add = {bool: writer.add_bool, int: writer.add_uint32, str: writer.add_string, bytes: writer.add_array}[
            type(value)
        ]
        add(f"tokenizer.ggml.{key}", value)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()


def bpe() -> None:
    """Byte-level BPE. The token of "star" is taken away, so that a merge makes a text that is none; so is byte 0xFE."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokens, merges = train_bpe([byte_level(line) for line in SENTENCES.split("\n")], 1200, alphabet, [])
    tokens = [token for token in tokens if token not in (byte_level("star"), "þ")]
    types = [NORMAL] * len(tokens)
    for text, kind in (
        ("<|endoftext|>", CONTROL), ("<|im_start|>", CONTROL), ("<|im_end|>", CONTROL), ("<|unk|>", UNKNOWN),
        ("<tool_call>", USER_DEFINED), ("<|user|>", USER_DEFINED), ("  ", USER_DEFINED), ("    ", USER_DEFINED),
        ("<fim_prefix>", NORMAL), ("<fim_suffix>", CONTROL), ("<fim_middle>", CONTROL), ("ab<tool", USER_DEFINED),
        ("", UNUSED),
    ):  # fmt: skip
        tokens.append(text)
        types.append(kind)
    # a second way to a text that merges already make, a merge that is there twice, one that names no pair
    merges += ["th e", merges[3], "nothing"]
    last = {text: len(tokens) - 1 - i for i, text in enumerate(reversed(tokens))}
    keys = {"pre": "gpt-2", "bos_token_id": last["<|endoftext|>"], "eos_token_id": last["<|im_end|>"]}
    write("bpe", "gpt2", keys, tokens=tokens, types=types, merges=merges)


def spm() -> None:
    """SentencePiece-BPE: four pieces share each score, a few pieces reach across a space, no token is for ñ alone."""
    lines = [line.replace(" ", SPACE) for line in SENTENCES.split("\n")]
    tokens, _ = train_bpe(lines, 1100, [], [])
    # only pieces within a word, as SentencePiece makes them, but for three
    pieces = [token for token in tokens if SPACE not in token.lstrip(SPACE)] + [".▁", "r▁t", "ñañ", "▁▁", "▁▁▁▁"]
    pieces = list(dict.fromkeys(pieces))
    special = ["<unk>", "<s>", "</s>", "<|user|>", "<start_of_turn>", "<end_of_turn>", "\n\n", "<unused0>", "<s"]
    kinds = [UNKNOWN, CONTROL, CONTROL, USER_DEFINED, CONTROL, CONTROL, USER_DEFINED, UNUSED, NORMAL]
    bytes_ = [f"<0x{byte:02X}>" for byte in range(256)]
    write(
        "spm", "llama",
        {"pre": "default", "bos_token_id": 1, "eos_token_id": 2, "unknown_token_id": 0, "add_space_prefix": True},
        tokens=special + bytes_ + pieces,
        types=kinds + [BYTE] * 256 + [NORMAL] * len(pieces),
        scores=[0.0] * (len(special) + 256) + [-float(rank // 4) for rank in range(len(pieces))],
    )  # fmt: skip


def spm_bpe() -> None:
    """BPE on UTF-8 with U+2581 for spaces, as Gemma 4 has it."""
    lines = [part for line in SENTENCES.split("\n") for part in line.replace(" ", SPACE).split("\n")]
    tokens, merges = train_bpe(lines, 1000, [], [])
    special = [
        "<pad>",
        "<eos>",
        "<bos>",
        "<unk>",
        "<turn|>",
        "<|turn>",
        "<|tool_response>",
        "</s>",
        "\n",
        "\n\n",
        "\n\n\n\n",
    ]
    kinds = [CONTROL, CONTROL, CONTROL, UNKNOWN, CONTROL, CONTROL, USER_DEFINED, NORMAL, NORMAL, NORMAL, NORMAL]
    bytes_ = [f"<0x{byte:02X}>" for byte in range(255)]
    tokens = [token for token in tokens if token not in special]
    write(
        "gemma4", "gemma4",
        {"bos_token_id": 2, "eos_token_id": 1, "unknown_token_id": 3, "padding_token_id": 0, "add_bos_token": False},
        tokens=special + bytes_ + tokens,
        types=kinds + [BYTE] * 255 + [NORMAL] * len(tokens),
        merges=merges,
    )  # fmt: skip


def wpm() -> None:
    trainer = trainers.WordPieceTrainer(
        vocab_size=900, special_tokens=["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"], show_progress=False
    )
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    tokenizer.train_from_iterator([SENTENCES.lower()] * 3, trainer)
    vocabulary = tokenizer.get_vocab()
    tokens = sorted(vocabulary, key=vocabulary.__getitem__)
    pieces = [token.removeprefix("##") if token.startswith("##") else SPACE + token for token in tokens[5:]]
    write(
        "wpm", "bert",
        {"bos_token_id": 2, "seperator_token_id": 3, "unknown_token_id": 1, "padding_token_id": 0, "mask_token_id": 4,
         "cls_token_id": 2, "token_type_count": 2},
        tokens=tokens[:5] + pieces,
        types=[CONTROL, UNKNOWN, CONTROL, CONTROL, CONTROL] + [NORMAL] * len(pieces),
    )  # fmt: skip


def ugm() -> None:
    trainer = trainers.UnigramTrainer(
        vocab_size=900, special_tokens=["<pad>", "</s>", "<unk>"], unk_token="<unk>", show_progress=False
    )
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.train_from_iterator([SENTENCES] * 3, trainer)
    more = ["<extra_0>", "s▁a", "zz", "zzz"]
    pieces = [piece for piece in json.loads(tokenizer.to_str())["model"]["vocab"][3:] if piece[0] not in more]
    tokens = ["<pad>", "</s>", "<unk>"] + [text for text, _ in pieces] + more
    scores = [0.0, 0.0, 0.0] + [score for _, score in pieces] + [0.0, -9.0, -8.0, -12.0]
    types = [CONTROL, CONTROL, UNKNOWN] + [NORMAL] * len(pieces) + [USER_DEFINED, NORMAL, NORMAL, UNUSED]
    changes = {
        "\t": " ", "\n": " ", "\u00a0": " ", "\u3000": " ", "\u00ad": "", "ﬁ": "fi", "½": "1/2", "²": "2", "…": "...",
        "e\u0301": "é", "a\u0308": "ä", "a\u0308\u0304": "ǟ", "Ａ": "A", "２": "2", "ª": "a", "\x01": "",
    }  # fmt: skip
    write(
        "ugm", "t5",
        {"eos_token_id": 1, "unknown_token_id": 2, "padding_token_id": 0, "add_space_prefix": True,
         "remove_extra_whitespaces": True, "precompiled_charsmap": compiled(changes)},
        tokens=tokens, types=types, scores=scores,
    )  # fmt: skip


def compiled(changes: dict[str, str]) -> bytes:
    """SentencePiece's form of a replacement table: a double array over the keys' bytes, then the replacements."""
    replacements = bytearray()
    tree: dict = {}
    for key, value in changes.items():
        node = tree
        for byte in key.encode():
            node = node.setdefault(byte, {})
        node[None] = len(replacements)
        replacements += value.encode() + b"\0"
    units = np.zeros(1 << 12, np.uint32)
    free = np.ones(len(units), bool)
    free[0] = False

    bases: set[int] = set()  # no two nodes may share one: a child is known by its label only

    def fits(base: int, labels: list[int]) -> bool:
        return base not in bases and all(free[base ^ label] for label in labels)

    def place(node: dict, at: int) -> None:
        labels = [0 if byte is None else byte for byte in node]
        base = next(base for base in range(256, len(units) - 256) if fits(base, labels))
        bases.add(base)
        free[[base ^ label for label in labels]] = False
        units[at] |= (at ^ base) << 10 | (None in node) << 8
        for byte, child in node.items():
            if byte is None:
                units[base] = 1 << 31 | child
            else:
                units[base ^ byte] = byte
                place(child, base ^ byte)

    place(tree, 0)
    used = int(np.flatnonzero(~free).max()) + 256
    return struct.pack("<I", used * 4) + units[:used].tobytes() + bytes(replacements)


if __name__ == "__main__":
    FOLDER.mkdir(parents=True, exist_ok=True)
    for make in (bpe, spm, spm_bpe, wpm, ugm):
        make()
