"""From a model file to its tokenizer.

Source  llama.cpp b11434, src/llama-vocab.cpp: llama_vocab::impl::load
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from chenxing.errors import ModelFileError, TokenizerError, UnsupportedModelError
from chenxing.gguf import GGUF
from chenxing.tokenizer import bpe, spm, ugm, wpm
from chenxing.tokenizer.base import Encoder, Rules, Tokenizer
from chenxing.tokenizer.cache import Arrays, cached
from chenxing.tokenizer.charsmap import CharsMap
from chenxing.tokenizer.identities import Identities, identify, mark_stripping
from chenxing.tokenizer.normalizer import Normalizer
from chenxing.tokenizer.pretokenizers import PRE_TOKENIZERS, PreTokenizer
from chenxing.tokenizer.tables import build_text_table
from chenxing.tokenizer.vocabulary import Attr, Stored, Vocabulary, content_key, read_stored, token_texts

_KEYS = "tokenizer.ggml."
_MayMake = Callable[[int], bool] | None


@dataclass(frozen=True)
class _Kind:
    """A value of tokenizer.ggml.model, and what llama.cpp assumes for it."""

    defaults: Identities
    add_bos: bool = False
    add_eos: bool = False
    add_sep: bool = False
    add_space_prefix: bool = False
    clean_spaces: bool = False


_KINDS = {
    "llama": _Kind(Identities(bos_id=1, eos_id=2, unk_id=0), add_bos=True, add_space_prefix=True),
    "gpt2": _Kind(Identities(bos_id=11, eos_id=11)),
    "gemma4": _Kind(Identities()),
    "bert": _Kind(
        Identities(bos_id=101, unk_id=100, sep_id=102, pad_id=0, mask_id=103),
        add_bos=True,
        add_sep=True,
        clean_spaces=True,
    ),
    "t5": _Kind(Identities(eos_id=1, unk_id=2, pad_id=0), add_eos=True),
}


def load_tokenizer(model: GGUF) -> Tokenizer:
    """The tokenizer of a model, or of a file that holds a vocabulary only.

    Raises UnsupportedModelError for a tokenizer that is not known, ModelFileError for one that is incomplete,
    TokenizerError for one that contradicts itself.
    """
    name = model.require(_KEYS + "model", str)
    kind = _KINDS.get(name)
    if kind is None:
        raise UnsupportedModelError(
            f"{model.path}: tokenizer model {name!r} is not supported. Known are {', '.join(sorted(_KINDS))}"
        )
    pre = _pre_tokenizer(model, name)
    stored = read_stored(model)
    key = content_key(name, stored)
    tables = cached(key, lambda: _build(model, name, stored))
    vocabulary = Vocabulary(stored, tables)
    defaults = kind.defaults
    if pre and not pre.has_default_bos:
        defaults = Identities(eos_id=defaults.eos_id)
    identities = identify(model, vocabulary, defaults)
    mark_stripping(model, vocabulary, model.get(_KEYS + "pre", str) or "")
    rules = _rules(model, kind, pre, identities)
    encoders = _encoders(model, vocabulary, tables, pre, rules, identities)
    return Tokenizer(vocabulary, identities, rules, encoders, key)


def _pre_tokenizer(model: GGUF, name: str) -> PreTokenizer | None:
    """None for models that have none."""
    if name not in ("gpt2", "gemma4"):
        return None
    pre = "gemma4" if name == "gemma4" else model.get(_KEYS + "pre", str)
    if not pre:
        import logging

        logging.getLogger(__name__).warning(
            "%s names no pre-tokenizer (tokenizer.ggml.pre): llama.cpp's default is used, and answers may be worse "
            "than the model's. A newer conversion of the model would have it",
            model.path,
        )
        pre = "default"
    if pre not in PRE_TOKENIZERS:
        raise UnsupportedModelError(
            f"{model.path}: pre-tokenizer {pre!r} is not supported. Known are {', '.join(sorted(PRE_TOKENIZERS))}"
        )
    return PRE_TOKENIZERS[pre]


def _build(model: GGUF, name: str, stored: Stored) -> Arrays:
    texts = token_texts(stored.tokens)
    arrays = build_text_table(texts)
    if name == "llama":
        return arrays | spm.build_tables(texts, stored.scores)
    if name == "t5":
        return arrays | ugm.build_tables(texts, stored.types)
    if name == "bert":
        return arrays | wpm.build_tables(texts)
    if stored.merges is None and model.get(_KEYS + "pre", str) != "kimi-k2":  # which llama.cpp takes without
        hint = "A BPE vocabulary needs it: convert the model again"
        raise ModelFileError(model.path, f"metadata key '{_KEYS}merges'", "a list of merges", "no such key", hint)
    return arrays | bpe.build_tables(texts, stored.merges.to_bytes() if stored.merges else [])


def _rules(model: GGUF, kind: _Kind, pre: PreTokenizer | None, ids: Identities) -> Rules:
    def flag(key: str, default: bool) -> bool:
        value = model.get(f"{_KEYS}{key}", bool)
        return default if value is None else value

    name = model.require(_KEYS + "model", str)
    add_bos = flag("add_bos_token", pre.add_bos if pre else kind.add_bos) or (pre is not None and pre.force_bos)
    add_eos = flag("add_eos_token", kind.add_eos)
    begin, end = (ids.bos_id if add_bos else None), (ids.eos_id if add_eos else None)
    if name == "bert":
        begin, end = ids.bos_id, ids.sep_id
    return Rules(
        model=name,
        pre=model.get(_KEYS + "pre", str),
        add_bos=add_bos and ids.bos_id is not None,
        add_eos=add_eos and ids.eos_id is not None,
        add_sep=flag("add_sep_token", pre.add_sep if pre else kind.add_sep),
        add_space_prefix=flag("add_space_prefix", kind.add_space_prefix),
        clean_spaces=pre.clean_spaces if pre else kind.clean_spaces,
        byte_level=pre is not None and pre.byte_level,
        begin=() if begin is None else (begin,),
        end=() if end is None else (end,),
    )


def _encoders(
    model: GGUF, vocabulary: Vocabulary, tables: Arrays, pre: PreTokenizer | None, rules: Rules, ids: Identities
) -> Callable[[_MayMake], Encoder]:
    """A function that makes the encoder; its argument says which tokens may come out of merging."""
    if pre is not None:
        return lambda may_make: bpe.Bpe(vocabulary, tables, pre, may_make)
    if rules.model == "llama":
        return lambda may_make: spm.Spm(vocabulary, tables, rules.add_space_prefix, may_make)
    if rules.model == "bert":
        return lambda _: _wpm(model, vocabulary, tables, ids)
    return lambda _: _ugm(model, vocabulary, tables, rules, ids)


def _wpm(model: GGUF, vocabulary: Vocabulary, tables: Arrays, ids: Identities) -> wpm.Wpm:
    lowercase = model.get(_KEYS + "normalizer.lowercase", bool, True)
    strip_accents = model.get(_KEYS + "normalizer.strip_accents", bool, lowercase)
    return wpm.Wpm(vocabulary, tables, ids.unk_id, wpm.Normalised(lowercase, strip_accents))


def _ugm(model: GGUF, vocabulary: Vocabulary, tables: Arrays, rules: Rules, ids: Identities) -> ugm.Ugm:
    charsmap = model.get(_KEYS + "precompiled_charsmap", np.ndarray)
    if ids.unk_id is None:
        raise TokenizerError(f"{model.path}: a t5 vocabulary needs an unknown token, and this one has none")
    normalizer = Normalizer(
        CharsMap(charsmap.tobytes()) if charsmap is not None and len(charsmap) else None,
        [vocabulary.text(token) for token in vocabulary.ids(Attr.USER_DEFINED)],
        rules.add_space_prefix,
        model.get(_KEYS + "remove_extra_whitespaces", bool, False),
    )
    return ugm.Ugm(vocabulary, tables, normalizer, ids.unk_id)
