"""Bounded reading of a mapped GGUF file: every read is checked against the file, every kept byte against a budget."""

import struct
from pathlib import Path

from chenxing.errors import ModelFileError

DAMAGED = "The file is incomplete or damaged: fetch it again"

# What the header (metadata and tensor list) may cost. A vocabulary of 200k tokens and 446k merges, the largest of 2025,
# is charged about 25 MB; a file that wants far more is hostile or broken, and is refused within a second and 64 MB.
HEADER_BUDGET_BYTES = 48 << 20

_U32 = struct.Struct("<I")
_U64 = struct.Struct("<Q")


def shown(name: str) -> str:
    """A name from a file, fit for one line of a message: quoted, without control characters, not too long."""
    return repr(name if len(name) <= 80 else name[:77] + "...")


class Cursor:
    """A position in a mapped file, and what reading so far has cost.

    Invariant: 0 <= position <= len(data). `spent` is the sum of what was charged.
    All methods take `field`, the name that an error gives to what is read, and raise ModelFileError.
    """

    def __init__(self, path: Path, data: memoryview) -> None:
        self.path, self.data, self.position, self.spent = path, data, 0, 0

    def error(self, field: str, expected: str, found: str, hint: str = "") -> ModelFileError:
        """The error for `field` of this file, to be raised by the caller."""
        return ModelFileError(self.path, field, expected, found, hint)

    def need(self, n_bytes: int, field: str) -> None:
        """Check that the file still holds n_bytes."""
        left = len(self.data) - self.position
        if n_bytes > left:
            raise self.error(
                field, f"{n_bytes} bytes at {self.position}", f"{left} bytes up to the file's end", DAMAGED
            )

    def charge(self, n_bytes: int, field: str) -> None:
        """Account for n_bytes of memory, before they are allocated."""
        self.spent += n_bytes
        if self.spent > HEADER_BUDGET_BYTES:
            limit = f"a header that fits {HEADER_BUDGET_BYTES >> 20} MiB"
            raise self.error(
                field, limit, f"{self.spent} bytes and more", "No known model needs that: get another file"
            )

    def take(self, n_bytes: int, field: str) -> memoryview:
        """The next n_bytes, not copied."""
        self.need(n_bytes, field)
        self.position += n_bytes
        return self.data[self.position - n_bytes : self.position]

    def u32(self, field: str) -> int:
        return _U32.unpack(self.take(4, field))[0]

    def u64(self, field: str) -> int:
        return _U64.unpack(self.take(8, field))[0]

    def u64s(self, n: int, field: str) -> tuple[int, ...]:
        return struct.unpack(f"<{n}Q", self.take(8 * n, field))

    def count(self, item_bytes: int, field: str) -> int:
        """A count of items that take at least item_bytes each: no larger than what the file can hold."""
        n = self.u64(field)
        left = len(self.data) - self.position
        if n > left // item_bytes:
            raise self.error(field, f"at most {left // item_bytes} items in the {left} bytes left", str(n), DAMAGED)
        return n

    def string(self, field: str) -> bytes:
        """A length and that many bytes, copied."""
        length = self.u64(f"length of {field}")
        self.need(length, field)
        self.charge(2 * length, field)  # once as bytes, once as text
        return bytes(self.take(length, field))

    def name(self, field: str) -> str:
        """A key or a tensor's name: strict UTF-8, as two different names must never be read as one."""
        raw = self.string(field)
        try:
            return raw.decode()
        except UnicodeDecodeError:
            raise self.error(field, "a name in UTF-8", shown(raw.decode(errors="replace")), DAMAGED) from None

    def text(self, field: str) -> str:
        """A string value. Bytes that are not UTF-8 become U+FFFD: a damaged licence is no reason to refuse a model."""
        raw = self.string(field)
        if not raw.isascii():
            self.charge(3 * len(raw), field)  # one character beyond U+FFFF makes Python keep four bytes for each
        return raw.decode(errors="replace")
