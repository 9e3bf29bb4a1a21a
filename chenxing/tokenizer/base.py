"""The tokenizer of a model: text to ids, ids to text, and what is special about which id."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import Protocol

from chenxing.tokenizer import utf8
from chenxing.tokenizer.identities import Identities
from chenxing.tokenizer.pieces import Pieces, clean_spaces
from chenxing.tokenizer.special import SpecialTokens
from chenxing.tokenizer.stream import StreamDecoder
from chenxing.tokenizer.vocabulary import Attr, TokenType, Vocabulary


class Spellings(Protocol):
    """Knows of texts which tokens they were made of, such as a model's answers: not always those of `encode`."""

    def find(self, data: bytes, start: int, end: int) -> tuple[int, Sequence[int]] | None:
        """Of data[start:end]: where a known text begins that reaches to its end, and the text's ids."""


class Encoder(Protocol):
    """One kind of model: spm.py, bpe.py, wpm.py, ugm.py."""

    def encode(self, data: bytes, after_special: bool) -> list[int]: ...


@dataclass(frozen=True)
class Rules:
    """What the file, or its tokenizer's name, says about using the vocabulary.

    model, pre    tokenizer.ggml.model and .pre
    begin, end    the tokens that add_special puts around a text
    clean_spaces  decode removes spaces before punctuation
    byte_level    tokens are spelt in GPT-2's characters for bytes
    """

    model: str
    pre: str | None
    add_bos: bool
    add_eos: bool
    add_sep: bool
    add_space_prefix: bool
    clean_spaces: bool
    byte_level: bool
    begin: tuple[int, ...]
    end: tuple[int, ...]


class Tokenizer:
    """Ids equal to llama.cpp's. Made by `load_tokenizer`. May be used by several threads.

    key                      16 bytes that name the vocabulary: the same in two files is the same here
    n_vocab                  number of tokens
    bos_id, eos_id, ...      token ids, None where the vocabulary has no such token
    eog_ids                  tokens that end a generation
    add_bos, add_eos, ...    what add_special does
    """

    def __init__(
        self,
        vocabulary: Vocabulary,
        identities: Identities,
        rules: Rules,
        make_encoder: Callable[[Callable[[int], bool] | None], Encoder],
        key: bytes,
    ) -> None:
        self.key = key
        self.n_vocab = vocabulary.n
        self.model, self.pre = rules.model, rules.pre
        self.add_bos, self.add_eos, self.add_sep = rules.add_bos, rules.add_eos, rules.add_sep
        self.bos_id, self.eos_id, self.eot_id, self.eom_id = (
            identities.bos_id, identities.eos_id, identities.eot_id, identities.eom_id,
        )  # fmt: skip
        self.unk_id, self.sep_id, self.pad_id, self.mask_id = (
            identities.unk_id, identities.sep_id, identities.pad_id, identities.mask_id,
        )  # fmt: skip
        self.fim_pre_id, self.fim_suf_id, self.fim_mid_id = (
            identities.fim_pre_id, identities.fim_suf_id, identities.fim_mid_id,
        )  # fmt: skip
        self.fim_pad_id, self.fim_rep_id, self.fim_sep_id = (
            identities.fim_pad_id, identities.fim_rep_id, identities.fim_sep_id,
        )  # fmt: skip
        self.eog_ids = identities.eog_ids
        self._vocabulary, self._rules, self._make_encoder = vocabulary, rules, make_encoder
        self._special = SpecialTokens(vocabulary)
        self._pieces = Pieces(vocabulary, rules.byte_level)
        self._encoder = make_encoder(None)

    @cached_property
    def _guarded_encoder(self) -> Encoder:
        """One that makes no control token out of text: SPM merges "<", "s" and ">" to BOS where it can."""
        control = frozenset(self._vocabulary.ids(Attr.CONTROL))
        return self._make_encoder(lambda token: token not in control)

    def encode(
        self,
        text: str | bytes,
        *,
        add_special: bool = True,
        parse_special: bool = False,
        guard: str | None = None,
        spellings: Spellings | None = None,
    ) -> list[int]:
        """Token ids of text.

        text           bytes need not be UTF-8; nor need a str, whose U+DC80..U+DCFF are bytes (surrogateescape)
        add_special    put BOS, EOS, SEP around it, as the vocabulary wants them
        parse_special  the texts of control tokens in it become those tokens; of user-defined ones they always do
        guard          a noncharacter. It is dropped, but no special token is matched across a place where it stood,
                       and no control token comes out of plain text
        spellings      are preferred to the encoder's choice where plain text ends with what they know. Special tokens
                       are found before, so they are the same ones with and without; and ids are taken only if none of
                       them is special and together they are the very bytes

        Raises TokenizerError where the vocabulary cannot represent the text.
        """
        data = utf8.encode(text) if isinstance(text, str) else text
        guards: list[int] = []
        if guard:
            parts = data.split(utf8.encode(guard))
            data, guards = b"".join(parts), list(accumulate(map(len, parts[:-1])))
        encoder = self._guarded_encoder if guard else self._encoder
        ids = list(self._rules.begin) if add_special else []
        after_special = True
        for start, end, token in self._special.partition(data, parse_special, guards):
            if token is not None:
                ids.append(token)
            else:
                cut, known = self._known_end(data, start, end, spellings) if spellings else (end, [])
                ids += encoder.encode(data[start:cut], after_special) if start < cut else []
                ids += known
            after_special = token is not None
        if add_special:
            ids += self._rules.end
        return ids

    def _known_end(self, data: bytes, start: int, end: int, spellings: Spellings) -> tuple[int, list[int]]:
        """Where the end of the plain text data[start:end] begins whose spelling is known, and its ids."""
        known: list[Sequence[int]] = []
        while start < end and (found := spellings.find(data, start, end)):
            at, ids = found
            if not start <= at < end or not self._spells(ids, data[at:end]):
                break
            known.append(ids)
            end = at
        return end, [token for ids in reversed(known) for token in ids]

    def _spells(self, ids: Sequence[int], text: bytes) -> bool:
        in_range = all(0 <= token < self.n_vocab for token in ids)
        return in_range and self._special.ids.isdisjoint(ids) and self.join(ids) == text

    def decode(self, ids: Iterable[int], *, special: bool = False) -> bytes:
        """The text of a whole sequence, as llama.cpp's llama_detokenize: without the space that SPM puts in front of a
        text, and, if the vocabulary asks for it, without spaces before punctuation. special: control tokens too."""
        ids = list(ids)
        data = self.join(ids, special=special)
        if self._rules.add_space_prefix and ids and self.join(ids[:1], special=special).startswith(b" "):
            data = data[1:]
        return clean_spaces(data) if self._rules.clean_spaces else data

    def join(self, ids: Iterable[int], *, special: bool = False) -> bytes:
        """The bytes of the tokens, one behind the other: the text of a part of a sequence, such as an answer."""
        piece = self._pieces.with_special if special else self._pieces.without_special
        return b"".join(map(piece, ids))

    def stream_decoder(self, *, special: bool = False) -> StreamDecoder:
        """For the tokens of an answer as they come."""
        return StreamDecoder(self._pieces.with_special if special else self._pieces.without_special)

    def token_bytes(self, token_id: int) -> bytes:
        """The token's text as bytes; of special tokens, their text. Raises TokenizerError for an id out of range."""
        return self._pieces.with_special(token_id)

    def token_text(self, token_id: int) -> str:
        """The token as the file spells it, e.g. Ġthe or ▁the."""
        return self._vocabulary.text(self._vocabulary.checked(token_id)).decode(errors="replace")

    def token_type(self, token_id: int) -> TokenType:
        """The token's type in the file."""
        return TokenType(int(self._vocabulary.types[self._vocabulary.checked(token_id)]))

    def is_special(self, token_id: int) -> bool:
        """Whether its text is matched as a whole, before plain text is split: a control or user-defined token."""
        return token_id in self._special.ids

    def find(self, text: str) -> int | None:
        """The token that the file spells so."""
        return self._vocabulary.find(utf8.encode(text))

    @property
    def special_texts(self) -> list[str]:
        """Texts that are to be guarded in content: of control and unknown tokens, and of user-defined ones that shape
        conversations, such as <|user|>. Longest first."""
        texts = [text.decode(errors="replace") for text in self._special.never_text]
        return sorted(texts, key=len, reverse=True)
