"""An answer's text, in whatever pieces it comes, into content, reasoning and calls.

White space at the ends of a thought, and between content and a call, is the form's, and is dropped. Everything else
comes out: what begins like a call and is none is content, be it malformed, of an unknown tool, or cut off before the
tool was known. A call that is cut off later ends with the arguments that there are, as with llama.cpp. Under the
grammar of `grammar.py` only the last can happen, when tokens run out.

Nothing depends on where the text is cut: a marker that may yet be completed is held back.
"""

import string
from collections.abc import Callable, Collection
from random import Random

from chenxing.chat.tools.call_scanner import CallScanner
from chenxing.chat.tools.events import ArgumentsDelta, CallStart, ContentDelta, Done, Event, ReasoningDelta
from chenxing.chat.tools.form import ToolForm
from chenxing.chat.tools.reasoning import CLOSE_TAG, OPEN_TAG, Reasoning

_ID_CHARACTERS = string.ascii_letters + string.digits


class AnswerParser:
    """form   how calls are written, None if there can be none
    names  of the tools that may be called
    rng    makes the calls' ids

    Invariant: `_text` is what has come and is not decided yet; a state takes from its front, or waits for more.
    """

    def __init__(self, reasoning: Reasoning, form: ToolForm | None, names: Collection[str], rng: Random) -> None:
        self._form, self._names, self._rng = form, names, rng
        self._text = ""
        self._events: list[Event] = []
        self._n_calls = 0
        self._at_line_start = True
        self._after_call = False  # and nothing but white space since
        self._gap = ""  # between the content and what may become a call
        self._scanned: list[str] = []
        self._started = False
        self._scanner = CallScanner(names)
        states = {Reasoning.NONE: self._content, Reasoning.POSSIBLE: self._beginning, Reasoning.OPEN: self._thought}
        self._state: Callable[[bool], bool] = states[reasoning]
        self._thought_began = False

    def feed(self, text: str) -> list[Event]:
        """The next piece of the answer."""
        self._text += text
        return self._run(at_end=False)

    def finish(self) -> list[Event]:
        """What was held back, and Done."""
        return [*self._run(at_end=True), Done(self._n_calls)]

    def _run(self, at_end: bool) -> list[Event]:
        while self._state(at_end):
            pass
        events, self._events = self._events, []
        return events

    # states: each returns whether another one can go on with the text

    def _beginning(self, at_end: bool) -> bool:
        """A thought may begin here."""
        stripped = self._text.lstrip()
        if stripped.startswith(OPEN_TAG):
            self._text, self._state = stripped[len(OPEN_TAG) :], self._thought
        elif OPEN_TAG.startswith(stripped) and not at_end:
            return False
        else:
            self._state = self._content
        return True

    def _thought(self, at_end: bool) -> bool:
        if not self._thought_began:
            self._text = self._text.lstrip()
            self._thought_began = bool(self._text)
        end = self._text.find(CLOSE_TAG)
        if end < 0:
            cut = len(self._text) if at_end else _before_partial(self._text, CLOSE_TAG)
            self._emit(ReasoningDelta, cut if at_end else len(self._text[:cut].rstrip()))
            return False
        self._emit(ReasoningDelta, len(self._text[:end].rstrip()))
        self._text = self._text.lstrip()[len(CLOSE_TAG) :]
        self._state = self._after_thought
        return True

    def _after_thought(self, at_end: bool) -> bool:
        self._text = self._text.lstrip()
        self._state = self._content if self._text else self._after_thought
        return bool(self._text)

    def _content(self, at_end: bool) -> bool:
        start = self._find_opening()
        if start is not None:
            assert self._form is not None
            self._emit_content(len(self._text[:start].rstrip()))
            start = len(self._text) - len(self._text.lstrip())
            self._begin_call(start, start + self._form.n_before)
            return True
        if at_end:
            if not (self._after_call and self._text.isspace()):
                self._emit_content(len(self._text))
            self._text = ""
        else:
            self._emit_content(self._n_certain())
        return False

    def _call(self, at_end: bool) -> bool:
        n = self._scanner.feed(self._text)
        self._scanned.append(self._text[:n])
        self._text = self._text[n:]
        if self._scanner.is_call:
            self._emit_call()
        if self._scanner.is_done:
            self._state = self._closing
        elif self._scanner.has_failed or at_end:
            self._give_up()
        else:
            return False
        return True

    def _closing(self, at_end: bool) -> bool:
        assert self._form is not None
        closing, stripped = self._form.closing, self._text.lstrip()
        if closing and stripped.startswith(closing):
            self._text = stripped[len(closing) :]
        elif closing and closing.startswith(stripped):
            if at_end:
                self._text = ""
            return False
        self._state, self._after_call, self._at_line_start = self._content, True, False
        return True

    # content

    def _find_opening(self) -> int | None:
        if self._form is None:
            return None
        start = self._text.find(self._form.opening)
        while start >= 0 and not self._may_open(start):
            start = self._text.find(self._form.opening, start + 1)
        return start if start >= 0 else None

    def _may_open(self, at: int) -> bool:
        assert self._form is not None
        starts_line = self._text[at - 1] == "\n" if at else self._at_line_start
        return starts_line or not self._form.at_line_start

    def _n_certain(self) -> int:
        """How much of the text is content whatever comes next."""
        if self._form is None:
            return len(self._text)
        cut = _before_partial(self._text, self._form.opening)
        if not self._may_open(cut):
            cut = len(self._text)
        return len(self._text[:cut].rstrip())

    def _emit_content(self, n: int) -> None:
        if n:
            self._after_call, self._at_line_start = False, self._text[n - 1] == "\n"
            self._emit(ContentDelta, n)

    def _emit(self, kind: type[ContentDelta] | type[ReasoningDelta], n: int) -> None:
        if n:
            self._events.append(kind(self._text[:n]))
            self._text = self._text[n:]

    # calls

    def _begin_call(self, start: int, n: int) -> None:
        """start, n: where the opening begins and where its JSON object does."""
        self._gap, self._scanned = self._text[:start], [self._text[start:n]]
        self._text, self._scanner, self._started = self._text[n:], CallScanner(self._names), False
        self._state = self._call

    def _emit_call(self) -> None:
        if not self._started:
            assert self._scanner.name is not None
            self._events.append(CallStart(self._n_calls, self._new_id(), self._scanner.name))
            self._started, self._n_calls = True, self._n_calls + 1
        if text := self._scanner.take_arguments():
            self._events.append(ArgumentsDelta(self._n_calls - 1, text))

    def _give_up(self) -> None:
        """It was no call: it is content, and what comes next is looked at anew."""
        rest = self._text
        if not self._started:
            self._text = self._gap + "".join(self._scanned)
            self._emit_content(len(self._text))
        self._text, self._state = rest, self._content

    def _new_id(self) -> str:
        return "call_" + "".join(self._rng.choices(_ID_CHARACTERS, k=24))


def _before_partial(text: str, marker: str) -> int:
    """Where the longest end of `text` begins that the marker begins with: its length if there is none."""
    for n in range(min(len(marker) - 1, len(text)), 0, -1):
        if text.endswith(marker[:n]):
            return len(text) - n
    return len(text)
