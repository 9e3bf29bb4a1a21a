"""Token ids equal llama.cpp's: on the real models, on the small vocabularies, with every pre-tokenizer.

llama.cpp is asked through the C API that the xllamacpp extension exports: bytes that are no UTF-8 do not pass through
its server's JSON. `python tests/peers/test_tokenizer_peer.py` writes the golden files in tests/data/tokenizer anew.

Source  llama.h of llama.cpp b11549 (llama_model_params); the layout is checked against its defaults
"""

from __future__ import annotations

import ctypes
import json
import random
import re
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import gguf
import pytest

from chenxing.config import Paths, Settings
from chenxing.gguf import open_gguf
from chenxing.tokenizer import Tokenizer, load_tokenizer
from chenxing.tokenizer.pretokenizers import PRE_TOKENIZERS

xllamacpp = pytest.importorskip("xllamacpp", reason="the peer extra is not installed")
pytestmark = pytest.mark.peer

DATA = Path(__file__).parents[1] / "data" / "tokenizer"
SMALL = ("bpe", "gemma4", "spm", "ugm", "wpm")
N_REAL, N_SMALL, N_PRE = 8_000, 1_000, 100

_VOCAB_ONLY, _FLAGS = 72, slice(72, 78)  # vocab_only, check_tensors, use_extra_bufts, no_host, no_alloc, load_mtp
_i32, _ptr = ctypes.c_int32, ctypes.c_void_p


class _ModelParams(ctypes.Structure):
    """Larger than the struct of any version: an argument by value this size is copied, never parsed."""

    _fields_ = [("raw", ctypes.c_uint8 * 256)]


@ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_char_p, _ptr)
def _silent(level: int, text: bytes, user_data: int) -> None:
    """A module global, since the library keeps the pointer."""


class LlamaVocab:
    """A file's vocabulary in llama.cpp."""

    def __init__(self, path: Path) -> None:
        self._model = None
        self._lib = lib = ctypes.CDLL(xllamacpp.xllamacpp.__file__)
        if not hasattr(lib, "llama_tokenize"):
            pytest.skip("this platform's xllamacpp hides llama.cpp's C API")
        lib.llama_log_set(_silent, None)
        lib.llama_model_default_params.restype = _ModelParams
        lib.llama_model_load_from_file.restype = _ptr
        lib.llama_model_load_from_file.argtypes = [ctypes.c_char_p, _ModelParams]
        lib.llama_model_get_vocab.restype, lib.llama_model_get_vocab.argtypes = _ptr, [_ptr]
        lib.llama_model_free.argtypes = [_ptr]
        buffer, flag = ctypes.POINTER(_i32), ctypes.c_bool
        lib.llama_tokenize.argtypes = [_ptr, ctypes.c_char_p, _i32, buffer, _i32, flag, flag]
        lib.llama_detokenize.argtypes = [_ptr, buffer, _i32, ctypes.c_char_p, _i32, flag, flag]
        params = lib.llama_model_default_params()
        assert bytes(params.raw[_FLAGS])[:5] == b"\0\0\1\0\0", "llama_model_params has moved"
        params.raw[_VOCAB_ONLY] = 1
        self._model = lib.llama_model_load_from_file(str(path).encode(), params)
        assert self._model, f"llama.cpp does not load {path}"
        self._vocab = lib.llama_model_get_vocab(self._model)

    def encode(self, text: bytes, add_special: bool, parse_special: bool) -> list[int]:
        room = len(text) + 8
        ids = (_i32 * room)()
        n = self._lib.llama_tokenize(self._vocab, text, len(text), ids, room, add_special, parse_special)
        if n < 0:  # characters that become several, such as a ligature
            ids = (_i32 * -n)()
            n = self._lib.llama_tokenize(self._vocab, text, len(text), ids, -n, add_special, parse_special)
        return ids[:n]

    def decode(self, ids: list[int], special: bool) -> bytes:
        room = 64 * len(ids) + 64
        text = ctypes.create_string_buffer(room)
        n = self._lib.llama_detokenize(self._vocab, (_i32 * len(ids))(*ids), len(ids), text, room, False, special)
        assert n >= 0, f"llama_detokenize wants {-n} bytes"
        return text.raw[:n]

    def identity(self, name: str) -> int | None:
        function = getattr(self._lib, f"llama_vocab_{name}")
        function.argtypes = [_ptr]
        token = function(self._vocab)
        return token if token >= 0 else None

    def eog_ids(self, n: int) -> set[int]:
        self._lib.llama_vocab_is_eog.argtypes = [_ptr, _i32]
        self._lib.llama_vocab_is_eog.restype = ctypes.c_bool
        return {token for token in range(n) if self._lib.llama_vocab_is_eog(self._vocab, token)}

    def __del__(self) -> None:
        if self._model:
            self._lib.llama_model_free(self._model)


# --- random texts -------------------------------------------------------------------------------------------------

_WORDS = [
    "the",
    "star",
    "harbour",
    "We'll",
    "they're",
    "IT'S",
    "naïve",
    "Zażółć",
    "ﬁne",
    "don't",
    "CamelCase",
    "x_y2",
    "http://a.b/c",
]
_SCRIPTS = [
    "Утренняя звезда", "清晨的星星，在太阳升起之前", "朝の星は太陽より先に", "아침 별은 해보다", "نجمة الصباح ١٢٣",
    "सुबह का तारा १२३", "ดาวรุ่งขึ้นก่อน", "เช้า ກຂຄ កខគ",
    "Ǆ ǅ ʰ ª Ⅳ ½ ² 𝟙𝟚 〇", "K Å ẞ İ ı ſ", "ࠀ 가각힣 ᄀᄁ 㐀 𠀀 豈 更 ⼀ ･ｱﾟ ㄅㄆ ㄱㅏ",
    "e\u0301a\u0308\u0304", "\u200ca\u200db\u200c", "👩‍👩‍👧‍👦🇩🇪👍🏽❤️✅",
]  # fmt: skip
_SPACES = [
    " ", "  ", "   ", "     ", " " * 40, "\n", "\n\n", "\n\n\n", "\n" * 9, "\t", "\r\n", "\r", " \n", "\n ", "\x0b",
    "\x0c", "\x1c", "\x85", "\u00a0", "\u1680", "\u2003", "\u2028", "\u202f", "\u3000", "\u200b", "\ufeff",
]  # fmt: skip
_SIGNS = [
    *"!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~",
    "...",
    "'s",
    "'S",
    "'re",
    "'LL",
    "’s",
    "…",
    "。",
    "，",
    "،",
    "।",
    "->",
    "!=",
    "/\n",
]
_NUMBERS = ["7", "42", "123", "1234", "12345", "1234567", "3.14", "1,000,000", "١٢٣٤", "12٣45", "²³", "IMGIMGABZ"]
_BROKEN = [
    b"\xff",
    b"\x80",
    b"\xc3",
    b"\xe2\x96",
    b"\xf0\x9f\x98",
    b"\xc0\x80",
    b"\xed\xa0\x80",
    b"\xe0\x80\xaf",
    b"\xf0\x80\x80\xaf",
]


def random_texts(n: int, seed: int, tokenizer: Tokenizer) -> Iterator[bytes]:
    """Scripts, spaces, signs, digits, pieces and special tokens of the vocabulary, mixed; a tenth is broken UTF-8."""
    rng = random.Random(seed)
    special = [*tokenizer.special_texts[:30], *tokenizer.special_texts[-10:]]
    for i in range(n):
        parts = [_part(rng, tokenizer, special) for _ in range(rng.randrange(1, 7))]
        text = (" " if rng.random() < 0.4 else "").join(parts).encode()
        if i % 10 == 0:
            for _ in range(rng.randrange(1, 4)):
                place = rng.randrange(len(text) + 1)
                text = text[:place] + rng.choice(_BROKEN) + text[place + rng.randrange(2) :]
        # llama.cpp throws an exception at code points beyond U+10FFFF
        yield re.sub(rb"[\xf4-\xf7]", b"", text)


def _part(rng: random.Random, tokenizer: Tokenizer, special: list[str]) -> str:
    kind = rng.randrange(12)
    if kind < 3:
        return rng.choice(_WORDS)
    if kind < 5:
        return rng.choice(_SPACES)
    if kind == 5:
        script = rng.choice(_SCRIPTS)
        start = rng.randrange(len(script))
        return script[start : start + rng.randrange(1, 9)]
    if kind == 6:
        return rng.choice(_SIGNS)
    if kind == 7:
        return rng.choice(_NUMBERS)
    if kind == 8:
        text = rng.choice(special)
        return text[rng.randrange(-2, 2) :] if rng.random() < 0.3 else text
    if kind == 9:
        return "".join(_character(rng) for _ in range(rng.randrange(1, 4)))
    if kind == 10:
        return rng.choice("Za9 日-") * rng.randrange(1, 70)
    return tokenizer.token_bytes(rng.randrange(tokenizer.n_vocab)).decode(errors="ignore")


def _character(rng: random.Random) -> str:
    point = rng.choice((rng.randrange(0x20), rng.randrange(0x250), rng.randrange(0x3000), rng.randrange(0x33000)))
    return "" if 0xD800 <= point < 0xE000 else chr(point)


# --- tests --------------------------------------------------------------------------------------------------------


@pytest.fixture(autouse=True, scope="module")
def _own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    home = tmp_path_factory.mktemp("cache")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("chenxing.tokenizer.cache.settings", lambda: Settings(Paths(home, home, home)))
        yield


def _disagreements(ours: Tokenizer, theirs: LlamaVocab, texts: Iterator[bytes], parse_special: bool) -> list[str]:
    found = []
    for i, text in enumerate(texts):
        expected = theirs.encode(text, i % 2 == 0, parse_special)
        ids = ours.encode(text, add_special=i % 2 == 0, parse_special=parse_special)
        if ids != expected:
            found.append(f"{text!r}: {ids}, llama.cpp {expected}")
        elif ours.decode(ids, special=i % 3 == 0) != theirs.decode(ids, i % 3 == 0):
            found.append(
                f"{ids}: {ours.decode(ids, special=i % 3 == 0)!r}, llama.cpp {theirs.decode(ids, i % 3 == 0)!r}"
            )
    return found


@pytest.mark.model
@pytest.mark.slow
@pytest.mark.parametrize("parse_special", [False, True])
@pytest.mark.parametrize("model", ["smollm2_path", "gemma3_path"])
def test_real_models(model: str, parse_special: bool, request: pytest.FixtureRequest) -> None:
    path = request.getfixturevalue(model)
    ours = load_tokenizer(open_gguf(path))
    assert _disagreements(ours, LlamaVocab(path), random_texts(N_REAL, 7, ours), parse_special) == []


@pytest.mark.parametrize("parse_special", [False, True])
@pytest.mark.parametrize("name", SMALL)
def test_small_vocabularies(name: str, parse_special: bool) -> None:
    path = DATA / f"{name}.gguf"
    ours = load_tokenizer(open_gguf(path))
    assert _disagreements(ours, LlamaVocab(path), random_texts(N_SMALL, 3, ours), parse_special) == []


@pytest.mark.parametrize("pre", sorted(PRE_TOKENIZERS))
def test_pre_tokenizers(pre: str, tmp_path: Path) -> None:
    path = with_pre(pre, tmp_path)
    ours = load_tokenizer(open_gguf(path))
    assert _disagreements(ours, LlamaVocab(path), random_texts(N_PRE, 5, ours), parse_special=False) == []


def test_golden_files_are_llama_cpps(tmp_path: Path) -> None:
    for name in SMALL:
        assert json.loads((DATA / f"golden_{name}.json").read_text()) == golden(DATA / f"{name}.gguf")
    assert json.loads((DATA / "golden_pre_tokenizers.json").read_text()) == golden_pre_tokenizers(tmp_path)


@pytest.mark.model
@pytest.mark.parametrize("model", ["smollm2", "gemma3"])
def test_real_golden_files_are_llama_cpps(model: str, request: pytest.FixtureRequest) -> None:
    path = request.getfixturevalue(f"{model}_path")
    assert json.loads((DATA / f"golden_{model}.json").read_text()) == golden(path)


# --- golden files -------------------------------------------------------------------------------------------------


def with_pre(pre: str, folder: Path) -> Path:
    """bpe.gguf with another pre-tokenizer's name."""
    path = folder / f"{pre}.gguf"
    writer = gguf.GGUFWriter(path, "llama")
    metadata = open_gguf(DATA / "bpe.gguf").metadata
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(pre)
    writer.add_token_list(metadata["tokenizer.ggml.tokens"].to_bytes())
    writer.add_token_types(metadata["tokenizer.ggml.token_type"].tolist())
    writer.add_token_merges(metadata["tokenizer.ggml.merges"].to_bytes())
    for key in ("bos", "eos"):
        writer.add_uint32(f"tokenizer.ggml.{key}_token_id", metadata[f"tokenizer.ggml.{key}_token_id"])
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()
    return path


def golden(path: Path) -> dict:
    """What llama.cpp makes of texts.json. Bytes that are no UTF-8 are surrogate escapes."""
    theirs = LlamaVocab(path)
    n = len(open_gguf(path).metadata["tokenizer.ggml.tokens"])
    texts = [text.encode(errors="surrogateescape") for text in json.loads((DATA / "texts.json").read_text())]
    plain = [theirs.encode(text, True, False) for text in texts]
    parsed = [theirs.encode(text, False, True) for text in texts]
    decoded = [
        [theirs.decode(ids, special).decode(errors="surrogateescape") for ids in parsed] for special in (False, True)
    ]
    names = ("bos", "eos", "sep", "pad", "mask", "fim_pre", "fim_suf", "fim_mid", "fim_pad", "fim_rep", "fim_sep")
    return {
        "identities": {f"{name}_id": theirs.identity(name) for name in names},
        "eog_ids": sorted(theirs.eog_ids(n)),
        "plain": plain,
        "parsed": parsed,
        "decoded": decoded[0],
        "decoded_special": decoded[1],
    }


def golden_pre_tokenizers(folder: Path) -> dict[str, list[list[int]]]:
    """Ids of texts.json by names of pre-tokenizers; names with the same ids share an entry."""
    texts = [text.encode(errors="surrogateescape") for text in json.loads((DATA / "texts.json").read_text())]
    names: dict[str, list[str]] = defaultdict(list)
    for pre in sorted(PRE_TOKENIZERS):
        theirs = LlamaVocab(with_pre(pre, folder))
        names[json.dumps([theirs.encode(text, True, False) for text in texts])].append(pre)
    return {" ".join(group): json.loads(ids) for ids, group in names.items()}


def _write(name: str, content: dict) -> None:
    lines = [f"{json.dumps(key)}: {json.dumps(value, separators=(',', ':'))}" for key, value in content.items()]
    (DATA / f"golden_{name}.json").write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    from tempfile import TemporaryDirectory

    for name in SMALL:
        _write(name, golden(DATA / f"{name}.gguf"))
    with TemporaryDirectory() as folder:
        _write("pre_tokenizers", golden_pre_tokenizers(Path(folder)))
    for argument in sys.argv[1:]:  # name=path of a real model
        name, _, path = argument.partition("=")
        _write(name, golden(Path(path)))
