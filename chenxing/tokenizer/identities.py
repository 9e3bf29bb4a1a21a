"""Which tokens are BOS, EOS, end of turn, fill-in-the-middle and so on: by the file's keys, else by their texts.

Source  llama.cpp b11434, src/llama-vocab.cpp: llama_vocab::impl::load; the plamo and ifm names: b11549
"""

from dataclasses import dataclass, replace

from chenxing.gguf import GGUF
from chenxing.tokenizer.vocabulary import Attr, Vocabulary


@dataclass(frozen=True)
class Identities:
    """Token ids, None where the vocabulary has no such token. eog_ids: tokens that end a generation."""

    bos_id: int | None = None
    eos_id: int | None = None
    eot_id: int | None = None
    eom_id: int | None = None
    unk_id: int | None = None
    sep_id: int | None = None
    pad_id: int | None = None
    mask_id: int | None = None
    fim_pre_id: int | None = None
    fim_suf_id: int | None = None
    fim_mid_id: int | None = None
    fim_pad_id: int | None = None
    fim_rep_id: int | None = None
    fim_sep_id: int | None = None
    eog_ids: frozenset[int] = frozenset()


# a later key wins; the last three are deprecated
_KEYS = {
    "bos_token_id": "bos_id", "eos_token_id": "eos_id", "eot_token_id": "eot_id", "eom_token_id": "eom_id",
    "unknown_token_id": "unk_id", "seperator_token_id": "sep_id", "padding_token_id": "pad_id",
    "mask_token_id": "mask_id", "fim_pre_token_id": "fim_pre_id", "fim_suf_token_id": "fim_suf_id",
    "fim_mid_token_id": "fim_mid_id", "fim_pad_token_id": "fim_pad_id", "fim_rep_token_id": "fim_rep_id",
    "fim_sep_token_id": "fim_sep_id", "prefix_token_id": "fim_pre_id", "suffix_token_id": "fim_suf_id",
    "middle_token_id": "fim_mid_id",
}  # fmt: skip

# llama.cpp takes whichever its hash table has first, which differs between platforms; here the first of the list wins.
# Qwen's end of turn stands before its end of text
_TEXTS = {
    "eot_id": (
        "<|eot_id|> <|im_end|> <|end|> <end_of_turn> <|endoftext|> <|end_of_text|> <EOT> _<EOT> [EOT] "
        "<｜end▁of▁sentence｜> <end_of_utterance>"
    ),
    "eom_id": "<|eom_id|>",
    "fim_pre_id": (
        "<|fim_prefix|> <fim-prefix> <fim_prefix> <｜fim▁begin｜> <PRE> ▁<PRE> <|code_prefix|> <|prefix|> "
        "<|plamo:fim_prefix|>"
    ),
    "fim_suf_id": (
        "<|fim_suffix|> <fim-suffix> <fim_suffix> <｜fim▁hole｜> <SUF> ▁<SUF> <|code_suffix|> <|suffix|> "
        "<|plamo:fim_suffix|>"
    ),
    "fim_mid_id": (
        "<|fim_middle|> <fim-middle> <fim_middle> <｜fim▁end｜> <MID> ▁<MID> <|code_middle|> <|middle|> "
        "<|plamo:fim_middle|>"
    ),
    "fim_pad_id": "<|fim_pad|> <fim-pad> <fim_pad> <PAD> [PAD]",
    "fim_rep_id": "<|fim_repo|> <|repo_name|> <fim-repo> <REPO> <reponame>",
    "fim_sep_id": "<|file_sep|> <|plamo:file_separator|>",
}
_END_OF_GENERATION = (
    "<|eot_id|> <|im_end|> <|end|> <|return|> <|call|> <|flush|> <|calls|> <end_of_turn> <|endoftext|> </s> <|eom_id|> "
    "<EOT> _<EOT> [EOT] [EOS] <|end_of_text|> <end_of_utterance> <eos> <turn|> <|tool_response> <｜end▁of▁sentence｜> "
    "[e~[ <|ifm|im_end|>"
)
_ALWAYS_RENDERED = "<|channel|> <|message|> <|start|> <|constrain|>"


def identify(model: GGUF, vocabulary: Vocabulary, defaults: Identities) -> Identities:
    """Special tokens of the file. Changes attributes of those that the file does not mark as control."""
    ids = {name: _in_range(getattr(defaults, name), vocabulary) for name in _KEYS.values()}
    for key, name in _KEYS.items():
        found = _in_range(model.get(f"tokenizer.ggml.{key}", int), vocabulary)
        ids[name] = ids[name] if found is None else found
    for name, texts in _TEXTS.items():
        if ids[name] is None:
            for token in _found(vocabulary, texts)[:1]:
                ids[name] = token
                vocabulary.mark([token], Attr.CONTROL)
    identities = Identities(**ids, eog_ids=frozenset())
    return replace(identities, eog_ids=frozenset(_end_of_generation(vocabulary, identities)))


def _in_range(token: int | None, vocabulary: Vocabulary) -> int | None:
    return token if token is not None and 0 <= token < vocabulary.n else None


def _found(vocabulary: Vocabulary, texts: str) -> list[int]:
    tokens = (vocabulary.find(text.encode()) for text in texts.split())
    return [token for token in tokens if token is not None]


def _end_of_generation(vocabulary: Vocabulary, ids: Identities) -> set[int]:
    by_text = _found(vocabulary, _END_OF_GENERATION)
    vocabulary.mark(by_text, Attr.CONTROL)
    vocabulary.attrs[_found(vocabulary, _ALWAYS_RENDERED)] = Attr.USER_DEFINED
    named = (ids.fim_pad_id, ids.fim_rep_id, ids.fim_sep_id, ids.eos_id, ids.eot_id, ids.eom_id)
    eog = {*by_text, *(token for token in named if token is not None)}
    texts = {vocabulary.text(token).decode(errors="replace"): token for token in eog}
    calls = {"<|call|>", "<|calls|>"} & texts.keys()
    if calls and "<|end|>" in texts and {"<|return|>", "<|flush|>"} & texts.keys():
        # gpt-oss and Solar Open end a message with it, not the turn
        vocabulary.attrs[texts["<|end|>"]] = Attr.USER_DEFINED
        eog.discard(texts["<|end|>"])
    if "</s>" in texts and {"<|tool_response>", "<|plamo:eos|>"} & texts.keys():
        # Gemma 4 and PLaMo have it as an ordinary token: HTML
        vocabulary.attrs[texts["</s>"]] = Attr.NORMAL
        eog.discard(texts["</s>"])
    return eog


def mark_stripping(model: GGUF, vocabulary: Vocabulary, pre: str) -> None:
    """Tokens that take white space beside them with them. Files do not say so: it goes by the names of models."""
    name = (model.get("general.name", str) or "").lower()
    architecture = model.get("general.architecture", str) or ""
    by_pre, by_architecture = "jina-v2-de jina-v2-es jina-v2-code mmbert", "nomic-bert-moe jina-bert-v3"
    if _has_any(pre, by_pre) or _has_any(architecture, by_architecture):
        vocabulary.mark(_found(vocabulary, "<mask>"), Attr.LSTRIP)
    elif _has_any(name, "phi-3 phi3"):
        special = vocabulary.ids(Attr.CONTROL | Attr.USER_DEFINED | Attr.UNKNOWN)
        vocabulary.mark(special + _found(vocabulary, "</s>"), Attr.RSTRIP)
        vocabulary.unmark(_found(vocabulary, "<unk> <s> <|endoftext|>"), Attr.RSTRIP)
    elif _has_any(name, "modern-bert"):
        vocabulary.mark(_found(vocabulary, "[MASK]"), Attr.LSTRIP)


def _has_any(text: str, parts: str) -> bool:
    return any(part in text for part in parts.split())
