"""The date that a conversation shows. Templates print today's; a conversation that goes on past midnight would become
another text from its first lines on, and nothing that was computed for it would be found again.
"""

import json
from datetime import datetime
from itertools import takewhile
from typing import Protocol

from xxhash import xxh3_128_digest

from chenxing.chat.messages import Message

_WORDS = ("strftime_now", "date_string", "datetime")


class FirstTimes(Protocol):
    """Remembers when a conversation was rendered first: turns.py."""

    def first_time(self, conversation: bytes, now: datetime, *, is_new: bool) -> datetime: ...


def shows_date(source: str) -> bool:
    """Whether a template may print the date. A template that says so in a comment only costs a line of memory."""
    return any(word in source for word in _WORDS)


def frozen_time(messages: list[Message], now: datetime, first_times: FirstTimes) -> datetime:
    """The time to show in a conversation: that of its first rendering.

    A conversation is known by its beginning: all messages up to the first of the user, which include the system prompt.
    Without an answer it is a new one each day: who asks the same on another day gets that day's date.
    """
    n = 1 + sum(1 for _ in takewhile(lambda message: message["role"] != "user", messages))
    beginning = [[message["role"], message["content"]] for message in messages[:n]]
    text = json.dumps(beginning, sort_keys=True, separators=(",", ":"))
    return first_times.first_time(xxh3_128_digest(text.encode()), now, is_new=len(messages) <= n)
