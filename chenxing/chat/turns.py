"""What is remembered of conversations so that their next prompt is the same tokens: spellings and first times.

Memory and file hold the most recent ones. A loss, in whatever way, is a miss: the text is then tokenised as any other,
and a conversation gets today's date. What is found is checked by its user: the tokenizer takes no ids that are not the
very bytes, so a damaged, foreign or forged file cannot change a prompt's text or make a special token of it.
"""

import contextlib
import threading
from collections import defaultdict
from collections.abc import Iterable, Sequence
from datetime import datetime
from pathlib import Path

from chenxing.chat.journal import Journal
from chenxing.chat.spelling import Spelling

LIMIT_BYTES = 16 << 20
"""Of memory and of the file: the answers of some two million tokens."""

_OVERHEAD_BYTES = 400  # of an entry in memory, beside its text and ids
_SPELLING, _TIME = b"s", b"t"
_KEY_BYTES = 16

_Key = tuple[bytes, bytes]


class Turns:
    """May be used by several threads, and its file by several processes.

    folder  for the file, None for memory only
    key     names the vocabulary: ids mean nothing to another one, and all models that have it may share them
    """

    def __init__(self, folder: Path | None, key: bytes, *, limit_bytes: int = LIMIT_BYTES) -> None:
        self._journal = Journal(folder / f"{key.hex()}.turns", limit_bytes) if folder else None
        self._limit = limit_bytes
        self._spellings: dict[_Key, Spelling] = {}  # the most recent last
        self._by_end: defaultdict[int, dict[_Key, Spelling]] = defaultdict(dict)  # likewise
        self._times: dict[bytes, datetime] = {}  # likewise
        self._n_bytes = 0
        self._lock = threading.Lock()
        self._is_loaded = False

    def find(self, data: bytes, start: int, end: int) -> tuple[int, Sequence[int]] | None:
        """Of the prompt text `data`: where an answer begins, at start or later, that ends at `end`, and its ids."""
        with self._lock:
            self._load()
            for spelling in reversed(self._by_end.get(end, {}).values()):
                if spelling.at >= start and spelling.stands_in(data):
                    self._put(spelling)
                    return spelling.at, spelling.token_ids()
        return None

    def remember(self, spellings: Iterable[Spelling]) -> None:
        """Keep these, in memory and in the file."""
        spellings = list(spellings)
        with self._lock:
            self._load()
            for spelling in spellings:
                self._put(spelling)
            self._save([_SPELLING + spelling.pack() for spelling in spellings])

    def first_time(self, conversation: bytes, now: datetime, *, is_new: bool) -> datetime:
        """When a conversation was rendered first, which may be now.

        conversation  16 bytes that name its beginning
        is_new        it has nothing but this beginning, so it is another one if the day is another one
        """
        with self._lock:
            self._load()
            first = self._times.get(conversation)
            if first is not None and (not is_new or first.date() == now.date()):
                return first
            self._put_time(conversation, now)
            self._save([_packed_time(conversation, now)])
        return now

    # memory

    def _put(self, spelling: Spelling) -> None:
        self._drop((spelling.context, spelling.text))
        key = spelling.context, spelling.text
        self._spellings[key] = self._by_end[spelling.end][key] = spelling
        self._n_bytes += _size(spelling)
        while self._n_bytes > self._limit:
            self._drop(next(iter(self._spellings)))

    def _drop(self, key: _Key) -> None:
        spelling = self._spellings.pop(key, None)
        if spelling is None:
            return
        self._n_bytes -= _size(spelling)
        same_end = self._by_end[spelling.end]
        del same_end[key]
        if not same_end:
            del self._by_end[spelling.end]

    def _put_time(self, conversation: bytes, time: datetime) -> None:
        self._times.pop(conversation, None)
        self._times[conversation] = time
        while len(self._times) * _OVERHEAD_BYTES > self._limit // 16:
            del self._times[next(iter(self._times))]

    # file

    def _load(self) -> None:
        if not self._is_loaded and self._journal:
            with contextlib.suppress(OSError):
                self._apply(self._journal.read())
        self._is_loaded = True

    def _save(self, bodies: list[bytes]) -> None:
        """In the file, unless it cannot be written: then they are remembered by this process alone."""
        if not bodies or not self._journal:
            return
        with contextlib.suppress(OSError), self._journal.locked() as is_locked:
            if not is_locked:
                return
            self._apply(self._journal.read())
            if self._journal.has_room(bodies):
                self._journal.append(bodies)
            else:
                self._journal.replace(self._newest_half())

    def _apply(self, bodies: Iterable[bytes]) -> None:
        for body in bodies:
            if body[:1] == _SPELLING:
                if spelling := Spelling.unpack(body[1:]):
                    self._put(spelling)
            elif body[:1] == _TIME:
                with contextlib.suppress(ValueError):
                    time = datetime.fromisoformat(body[1 + _KEY_BYTES :].decode())
                    self._put_time(body[1 : 1 + _KEY_BYTES], time)

    def _newest_half(self) -> list[bytes]:
        """The records of a new file: what was used last, up to half of the limit, oldest first."""
        bodies, n_bytes = [], 0
        for spelling in reversed(self._spellings.values()):
            n_bytes += _size(spelling)
            if n_bytes > self._limit // 2:
                break
            bodies.append(_SPELLING + spelling.pack())
        return [_packed_time(*item) for item in self._times.items()] + bodies[::-1]


def _size(spelling: Spelling) -> int:
    return len(spelling.text) + len(spelling.ids) + _OVERHEAD_BYTES


def _packed_time(conversation: bytes, time: datetime) -> bytes:
    assert len(conversation) == _KEY_BYTES
    return _TIME + conversation + time.replace(tzinfo=None).isoformat().encode()
