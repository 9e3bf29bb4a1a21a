"""SentencePiece's compiled normaliser: a double array of replacements, as T5 and XLM-R vocabularies carry it.

Layout: u32 length in bytes of the array; the array, u32 units of Darts-clone; zero-terminated replacements.
unit: bits 0-7 label, bit 8 has a leaf, bits 10-30 offset (bit 9: times 256), bit 31 and value in a leaf.

Source  google/sentencepiece, src/normalizer.cc; s-yata/darts-clone; llama.cpp b11434, src/llama-vocab.cpp:
        llm_tokenizer_ugm_session::normalize_prefix
"""

from array import array

from chenxing.errors import TokenizerError


class CharsMap:
    """Replacements of the longest known prefix."""

    def __init__(self, data: bytes) -> None:
        n_bytes = int.from_bytes(data[:4], "little")
        if len(data) < 4 or 4 + n_bytes >= len(data):
            raise _damaged(f"expected more than {4 + n_bytes} bytes, found {len(data)}")
        self._units = array("I", data[4 : 4 + n_bytes // 4 * 4])
        self._replacements = data[4 + n_bytes :]
        self.plain = self._plain_bytes()

    def longest(self, data: bytes, start: int) -> tuple[int, bytes] | None:
        """(length, replacement) of the longest key that data has at start."""
        units, node, found = self._units, 0, None
        try:
            node = _offset(units[node])
            for place in range(start, len(data)):
                byte = data[place]
                node ^= byte
                unit = units[node]
                if byte == 0 or unit & 0x800000FF != byte:
                    break
                node ^= _offset(unit)
                if unit >> 8 & 1:
                    found = place + 1 - start, units[node] & 0x7FFFFFFF
        except IndexError:
            raise _damaged("it points beyond its end") from None
        if found is None:
            return None
        length, first = found
        end = self._replacements.find(b"\0", first)
        if end < 0:
            raise _damaged("a replacement has no end")
        return length, self._replacements[first:end]

    def _plain_bytes(self) -> bytes:
        """ASCII bytes that stay as they are unless a byte beyond ASCII follows."""
        plain = []
        for byte in range(1, 128):
            if self.longest(bytes([byte]), 0) is None and not any(self._continues(byte, n) for n in range(1, 128)):
                plain.append(byte)
        return bytes(plain)

    def _continues(self, first: int, second: int) -> bool:
        """Whether a key begins with these two bytes."""
        units = self._units
        node = _offset(units[0]) ^ first
        if node >= len(units) or units[node] & 0x800000FF != first:
            return False
        node ^= _offset(units[node]) ^ second
        return node < len(units) and units[node] & 0x800000FF == second


def _offset(unit: int) -> int:
    return unit >> 10 << ((unit & 1 << 9) >> 6)


def _damaged(what: str) -> TokenizerError:
    hint = "Get the model from another source, or convert it again"
    return TokenizerError(f"tokenizer.ggml.precompiled_charsmap is damaged: {what}. {hint}")
