"""Arrays of strings: a vocabulary of 262,144 tokens is scanned in bulk and decoded only where it is asked for.

In the file each string is a u64 length and its bytes, so the place of one depends on all before it. The bulk scan
guesses and proves: in a window, every position whose eight bytes make a number below 256 is taken for a length, and
the guess is kept as far as each string ends exactly where the next one is guessed to begin. A chain that starts at a
known string and links so is the array itself, whatever the bytes are. Empty strings, strings of 256 bytes and more
and zero bytes in texts break the chain; there the scan goes on one by one for a while.
"""

import builtins
import struct
from collections.abc import Iterator

import numpy as np

from chenxing.gguf.cursor import Cursor

_WINDOW_BYTES = 1 << 16
_BULK_MINIMUM = 1024  # fewer strings than this from a window took longer than one by one
_ONE_BY_ONE, _MOST_ONE_BY_ONE = 1 << 12, 1 << 16  # strings until the next try in bulk, doubled while tries fail
_STRING_BYTES = 16  # what a string is charged beside its bytes: its place, and the time that it takes

_U64 = struct.Struct("<Q")


class StringArray:
    """A metadata array of strings, as bytes in the mapped file and the places of its strings.

    raw       the array as it is in the file, lengths included, read-only: equal raw means equal strings
    headers   i64[n + 1]: where in raw each string's length stands, and raw's end
    """

    __slots__ = ("headers", "raw")

    def __init__(self, raw: memoryview, headers: np.ndarray) -> None:
        self.raw, self.headers = raw, headers

    def __len__(self) -> int:
        return len(self.headers) - 1

    def bytes(self, i: int) -> builtins.bytes:
        """String i as it is in the file."""
        i = range(len(self))[i]
        return bytes(self.raw[int(self.headers[i]) + 8 : int(self.headers[i + 1])])

    def __getitem__(self, i: int) -> str:
        """String i; bytes that are not UTF-8 become U+FFFD."""
        return self.bytes(i).decode(errors="replace")

    def __iter__(self) -> Iterator[str]:
        return iter(self.to_list())

    def __repr__(self) -> str:
        return f"StringArray({len(self)} strings, {len(self.raw)} bytes)"

    def to_bytes(self) -> list[builtins.bytes]:
        """All strings as they are in the file."""
        raw, headers = bytes(self.raw), self.headers
        spans = zip((headers[:-1] + 8).tolist(), headers[1:].tolist(), strict=True)
        return [raw[start:end] for start, end in spans]

    def to_list(self) -> list[str]:
        """All strings; bytes that are not UTF-8 become U+FFFD."""
        return [text.decode(errors="replace") for text in self.to_bytes()]


def read_strings(cursor: Cursor, n: int, field: str) -> StringArray:
    """The n strings at the cursor. Only their places are computed: nothing is copied from the file."""
    first = cursor.position
    cursor.need(8 * n, field)
    cursor.charge(_STRING_BYTES * n, field)
    headers = np.empty(n + 1, np.int64)
    done, one_by_one = 0, _ONE_BY_ONE
    while done < n:
        places, end = _scan_bulk(cursor.data, cursor.position, n - done)
        if len(places) >= min(_BULK_MINIMUM, n - done):
            one_by_one = _ONE_BY_ONE
        else:
            places, end = _scan_one_by_one(cursor, done, min(n - done, one_by_one), field)
            one_by_one = min(2 * one_by_one, _MOST_ONE_BY_ONE)
        cursor.charge(end - cursor.position, field)  # not copied, but read: this bounds the time
        headers[done : done + len(places)] = places
        done += len(places)
        cursor.position = end
    headers[n] = cursor.position
    headers -= first
    return StringArray(cursor.data[first : cursor.position], headers)


def _scan_bulk(data: memoryview, start: int, n: int) -> tuple[np.ndarray, int]:
    """Places of at most n strings from start on that are proven to follow each other, and the end of the last."""
    window = max(0, min(_WINDOW_BYTES, len(data) - start - 7))
    numbers = np.ndarray((window,), "<u8", data, start, (1,))  # the eight bytes at every position
    places = np.flatnonzero(numbers < 256)
    if len(places) == 0 or places[0] != 0:
        return places[:0], start
    ends = places + 8 + numbers[places].astype(np.int64)
    links = ends[:-1] == places[1:]
    n_linked = len(places) if links.all() else int(links.argmin()) + 1
    n = min(n, n_linked)
    if start + ends[n - 1] > len(data):  # only the last can reach past the window
        n -= 1
    return places[:n] + start, start + int(ends[n - 1]) if n else start


def _scan_one_by_one(cursor: Cursor, done: int, n: int, field: str) -> tuple[np.ndarray, int]:
    """Places of up to n strings from string `done` on (fewer near the file's end), and the end of the last."""
    cursor.need(8, f"length of string {done} of {field}")
    data, position, last = cursor.data, cursor.position, len(cursor.data) - 8
    unpack = _U64.unpack_from
    places: list[int] = []
    for _ in range(n):
        places.append(position)
        position += 8 + unpack(data, position)[0]
        if position > last:
            break
    if position > len(data):
        cursor.position = places[-1] + 8
        cursor.need(position - cursor.position, f"string {done + len(places) - 1} of {field}")
    return np.array(places, np.int64), position
