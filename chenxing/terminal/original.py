"""From token ids back to the very text that they were made of.

Tokenizer.decode is llama.cpp's llama_detokenize, which tidies spaces up for a reader. Here encoding is undone instead:
what it adds is taken away again, and nothing else. Vocabularies that drop spaces or case (WPM, UGM) have no way back.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from chenxing.tokenizer import Tokenizer

_WHOLE = ("UNKNOWN", "CONTROL", "USER_DEFINED")  # token types that are cut out of a text before the rest is encoded


def original_text(tokenizer: "Tokenizer", ids: list[int], *, added: bool) -> bytes:
    """The text whose encoding is `ids`; `added` says that it was encoded with add_special."""
    ids = _without_added(tokenizer, ids) if added else ids
    spaced = tokenizer.join(tokenizer.encode(b"a", add_special=False)).startswith(b" ")
    pieces, begins = [], True
    for token_id in ids:
        piece = tokenizer.token_bytes(token_id)
        whole = tokenizer.token_type(token_id).name in _WHOLE
        # SPM puts a space before every stretch of plain text: at the beginning and behind each special token
        pieces.append(piece.removeprefix(b" ") if spaced and begins and not whole else piece)
        begins = whole
    return b"".join(pieces)


def _without_added(tokenizer: "Tokenizer", ids: list[int]) -> list[int]:
    if tokenizer.add_bos and ids[:1] == [tokenizer.bos_id]:
        ids = ids[1:]
    end = tokenizer.sep_id if tokenizer.add_sep else tokenizer.eos_id if tokenizer.add_eos else None
    return ids[:-1] if end is not None and ids[-1:] == [end] else ids
