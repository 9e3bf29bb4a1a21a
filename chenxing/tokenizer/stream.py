"""Text of tokens as they come, never a broken character."""

import codecs
from collections.abc import Callable


class StreamDecoder:
    """Bytes of tokens in, whole characters out.

    What was pushed and finished, put together, is `Tokenizer.join` of the same ids, with U+FFFD for what is no UTF-8.
    """

    def __init__(self, piece: Callable[[int], bytes]) -> None:
        self._piece = piece
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def push(self, token_id: int) -> str:
        """The text that this token completes; an unfinished character is kept for the next one."""
        return self._decoder.decode(self._piece(token_id))

    def finish(self) -> str:
        """U+FFFD if a character is left unfinished."""
        return self._decoder.decode(b"", final=True)
