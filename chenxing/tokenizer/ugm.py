"""Unigram vocabularies (tokenizer.ggml.model = t5): of all ways to write a text in tokens, that of the highest score.

Own code: the tokenizers library takes a unigram vocabulary only as JSON or Python objects (for 250,048 tokens 1.6 s of
CPU time at every start, against 0.02 s here), and has neither user-defined tokens nor llama.cpp's rule for ties.

Source  llama.cpp b11434, src/llama-vocab.cpp: llm_tokenizer_ugm_session::tokenize; Kudo 2018, arXiv:1804.10959
"""

from math import inf

import numpy as np

from chenxing.tokenizer import utf8
from chenxing.tokenizer.cache import Arrays
from chenxing.tokenizer.normalizer import Normalizer
from chenxing.tokenizer.spacewords import find_joints, word_finder
from chenxing.tokenizer.vocabulary import TokenType, Vocabulary
from chenxing.tokenizer.words import WordCache

_UNKNOWN_PENALTY = np.float32(10)
_MATCHED = (TokenType.NORMAL, TokenType.USER_DEFINED, TokenType.UNUSED)
_MAX_PIECES = 1 << 18

# Scores are added up from the start of a text. Words may be taken one by one only if the sum before them rounds
# nothing away: whole multiples of 2^-24 have at most 52 bits below 2^28, and a double holds them exactly.
_EXACT_UNITS = 2.0**24


def build_tables(texts: list[bytes], types: np.ndarray) -> Arrays:
    """Where words may be cut, and how long tokens are at most by their first character."""
    longest: dict[str, int] = {}
    for text, matched in zip(texts, np.isin(types, _MATCHED).tolist(), strict=True):
        if matched:
            characters = utf8.decode(text)
            longest[characters[0]] = max(len(characters), longest.get(characters[0], 0))
    return find_joints(texts) | {
        "first.characters": np.array(list(map(ord, longest)), np.uint32),
        "first.longest": np.array(list(longest.values()), np.uint32),
    }


class Ugm:
    def __init__(self, vocabulary: Vocabulary, tables: Arrays, normalizer: Normalizer, unk_id: int) -> None:
        self._vocabulary, self._normalizer, self._unk_id = vocabulary, normalizer, unk_id
        points, longest = tables["first.characters"].tolist(), tables["first.longest"].tolist()
        self._longest = dict(zip(map(chr, points), longest, strict=True))
        normal = vocabulary.scores[vocabulary.types == TokenType.NORMAL]
        lowest = normal.min() if len(normal) else np.finfo(np.float32).max
        self._unknown_score = float(lowest - _UNKNOWN_PENALTY)
        self._split = word_finder(tables) if _is_exact(vocabulary.scores) else lambda text: [text]
        self._pieces: dict[str, tuple[int, float] | None] = {}
        self._words = WordCache(self._encode_word)

    def encode(self, data: bytes, after_special: bool) -> list[int]:
        """Ids of a text without special tokens. Neighbouring unknown characters are one unknown token."""
        ids = self._words.encode(self._split(self._normalizer.normalize(data)))
        unk = self._unk_id
        if unk not in ids:
            return ids
        return [token for i, token in enumerate(ids) if token != unk or i == 0 or ids[i - 1] != unk]

    def _encode_word(self, word: str) -> list[int]:
        """Viterbi over characters; the first of equally good ways stays."""
        n, piece, longest = len(word), self._piece, self._longest
        scores, starts, tokens = [0.0] + [-inf] * n, [0] * (n + 1), [self._unk_id] * (n + 1)
        for start in range(n):
            base, single = scores[start], False
            for end in range(start + 1, min(n, start + longest.get(word[start], 0)) + 1):
                found = piece(word[start:end])
                if found:
                    single = single or end == start + 1
                    token, score = found
                    if base + score > scores[end]:
                        scores[end], starts[end], tokens[end] = base + score, start, token
            if not single and base + self._unknown_score > scores[start + 1]:
                scores[start + 1] = base + self._unknown_score
                starts[start + 1], tokens[start + 1] = start, self._unk_id
        ids, end = [], n
        while end > 0:
            ids.append(tokens[end])
            end = starts[end]
        return ids[::-1]

    def _piece(self, text: str) -> tuple[int, float] | None:
        """(token, score) of a token that may be matched."""
        if text in self._pieces:
            return self._pieces[text]
        if len(self._pieces) >= _MAX_PIECES:
            self._pieces.clear()
        token = self._vocabulary.find(utf8.to_bytes(text))
        found = None
        if token is not None and self._vocabulary.types[token] in _MATCHED:
            is_user_defined = self._vocabulary.types[token] == TokenType.USER_DEFINED
            found = token, 0.0 if is_user_defined else float(self._vocabulary.scores[token])
        self._pieces[text] = found
        return found


def _is_exact(scores: np.ndarray) -> bool:
    units = scores.astype(np.float64) * _EXACT_UNITS
    return bool((units == np.round(units)).all())
