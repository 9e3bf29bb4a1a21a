"""A vocabulary as llguidance wants it, and its masks as numbers to add to logits."""

from collections.abc import Set
from functools import cached_property
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from chenxing.errors import TokenizerError

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from llguidance import LLMatcher, LLTokenizer

    from chenxing.tokenizer import Tokenizer


_PENALTIES = np.array([-np.inf, 0], dtype=np.float32)


class MaskTable:
    """The tokens of one model. Immutable, so it is shared by all constraints.

    n_vocab   length of a row of logits, which may be more than the tokenizer has tokens
    eog_ids   i64[m], tokens that end a generation

    Special tokens are no text: no grammar permits them, whatever their spelling.
    """

    def __init__(self, tokenizer: "Tokenizer", n_vocab: int) -> None:
        assert n_vocab >= tokenizer.n_vocab
        self._tokenizer, self.n_vocab = tokenizer, n_vocab
        self.eog_set = frozenset(tokenizer.eog_ids)
        self.eog_ids = np.array(sorted(self.eog_set), dtype=np.int64)
        self.only_the_end = np.full(n_vocab, -np.inf, dtype=np.float32)
        self.only_the_end[self.eog_ids] = 0

    @cached_property
    def thread(self) -> "Executor":
        """On which masks are computed early."""
        from concurrent.futures import ThreadPoolExecutor  # 30 ms, which only answers with a grammar need

        return ThreadPoolExecutor(1, thread_name_prefix="chenxing-masks")

    @cached_property
    def ll_tokenizer(self) -> "LLTokenizer":
        """0.3 s for 150,000 tokens, once for a model and only if a grammar is asked for."""
        from llguidance import LLTokenizer

        spelling = _Spelling(self._tokenizer, self._never_text())
        return LLTokenizer(cast(Any, spelling), n_vocab=self._tokenizer.n_vocab, eos_token=spelling.eos_token_id)

    def token_bytes(self, token_id: int) -> bytes:
        return self._tokenizer.token_bytes(token_id)

    def tokens_of(self, text: bytes) -> list[int]:
        """Tokens whose bytes, one behind the other, are the text."""
        return list(self.ll_tokenizer.tokenize_bytes(text))

    def penalty(self, matcher: "LLMatcher") -> np.ndarray:
        """f32[n_vocab], to add to logits: -inf for what the matcher does not permit next, else 0.

        Tokens that end the generation are permitted where the text may end.

        llguidance works without the GIL. Its errors are left in the matcher.
        """
        bits = np.zeros(-(-self.n_vocab // 32), dtype=np.uint32)
        words = bits[: -(-self._tokenizer.n_vocab // 32)]
        matcher.unsafe_compute_mask_ptr(words.ctypes.data, words.nbytes)
        permitted = np.unpackbits(bits.view(np.uint8), count=self.n_vocab, bitorder="little")
        permitted[self._unspellable] = 0
        permitted[self.eog_ids] = matcher.is_accepting()
        return _PENALTIES[permitted]

    @cached_property
    def _unspellable(self) -> np.ndarray:
        """i64[m]: tokens that no grammar permits."""
        return np.array(sorted(self._never_text()), dtype=np.int64)

    def _never_text(self) -> set[int]:
        tokenizer = self._tokenizer
        special = {token for text in tokenizer.special_texts if (token := tokenizer.find(text)) is not None}
        return special | {token for token in range(tokenizer.n_vocab) if not tokenizer.token_bytes(token)}


class _Spelling:
    """What LLTokenizer asks a tokenizer for."""

    is_tokenizer_wrapper = True

    def __init__(self, tokenizer: "Tokenizer", special: Set[int]) -> None:
        self.tokens = [tokenizer.token_bytes(token) for token in range(tokenizer.n_vocab)]
        self.special_token_ids = sorted(special | tokenizer.eog_ids)
        ends = [tokenizer.eos_id, *sorted(tokenizer.eog_ids), 0]
        self.eos_token_id = next(token for token in ends if token is not None)
        self.bos_token_id = tokenizer.bos_id
        self._tokenizer = tokenizer
        hidden = set(self.special_token_ids)
        self._by_text = {text: token for token, text in enumerate(self.tokens) if token not in hidden}
        self._longest = max(map(len, self._by_text), default=1)

    def __call__(self, text: bytes | str) -> list[int]:
        """Tokens that spell the text to the byte: the tokenizer's own, unless it puts a space in front, as SPM does."""
        text = text.encode() if isinstance(text, str) else text
        ids = self._tokenizer.encode(text, add_special=False)
        return ids if self._tokenizer.join(ids) == text else self._longest_matches(text)

    def _longest_matches(self, text: bytes) -> list[int]:
        ids, at = [], 0
        while at < len(text):
            ends = range(min(at + self._longest, len(text)), at, -1)
            end = next((end for end in ends if text[at:end] in self._by_text), None)
            if end is None:
                raise TokenizerError(f"no token of the vocabulary spells {text[at : at + 1]!r}")
            ids.append(self._by_text[text[at:end]])
            at = end
        return ids
