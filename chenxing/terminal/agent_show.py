"""What a person sees of a run: thoughts, calls and observations as they come, and the answer."""

import json
import re
import sys
from typing import Any, Protocol, TextIO

from chenxing.agent.events import Asked, Emitted, Event
from chenxing.agent.model import Answer, Piece, Usage
from chenxing.agent.react import Answered, Called, Observed, ReactState
from chenxing.agent.wire import as_json, end_as_json
from chenxing.terminal.agent_trace import Trace

_LINES = 12
"""Of an observation that are shown; the model is given all."""
_UNSAFE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")


def visible(text: str) -> str:
    """Text with nothing in it that a terminal would obey: control characters are spelt out, tabs and lines stay."""
    return _UNSAFE.sub(lambda match: f"\\x{ord(match[0]):02x}", text.replace("\r\n", "\n"))


class Watcher(Protocol):
    """Who is told of a run. can_ask: there is a person at a terminal."""

    can_ask: bool

    def begin(self, run: str) -> None: ...
    def event(self, event: Event) -> None: ...
    def question(self, text: str) -> None: ...
    def end(self, run: str, step: int, state: ReactState) -> None: ...


class JsonWatcher:
    """One object a line, on stdout."""

    can_ask = False

    def begin(self, run: str) -> None:
        self._print({"event": "run", "run": run})

    def event(self, event: Event) -> None:
        self._print(as_json(event))

    def question(self, text: str) -> None:
        """The event has said it."""

    def end(self, run: str, step: int, state: ReactState) -> None:
        self._print(end_as_json(run, step, state))

    def _print(self, item: dict[str, Any]) -> None:
        print(json.dumps(item), flush=True)


class TextWatcher:
    """On a terminal, everything on stdout; where stdout goes elsewhere, the answer alone, and the rest on stderr."""

    def __init__(self, out: TextIO | None = None, err: TextIO | None = None) -> None:
        self._out = out or sys.stdout
        self._is_apart = not self._out.isatty()
        self._trace = Trace((err or sys.stderr) if self._is_apart else self._out)
        self.can_ask = not self._is_apart and sys.stdin is not None and sys.stdin.isatty()
        self._is_open = False  # a line of streamed text

    def begin(self, run: str) -> None:
        self._note(f"[run {run}]")

    def event(self, event: Event) -> None:
        match event:
            case Emitted(_, _, Piece(kind, text)):
                self._trace.write(visible(text), "dim" if kind == "thought" else "")
                self._is_open = not text.endswith("\n")
            case Emitted(_, _, Answered(answer)):
                self._line()
                self._note(f"[{_counts(answer)}]")
            case Emitted(_, _, Called(call)):
                self._trace.line(f"→ {visible(call.name)} {visible(call.arguments)}", "cyan")
            case Emitted(_, _, Observed(_, observation)):
                style = "red" if observation.is_error else "green"
                self._trace.line(_indented(visible(observation.text)), style)
            case Asked():
                self._line()

    def question(self, text: str) -> None:
        self._trace.line(visible(text), "bold yellow")

    def end(self, run: str, step: int, state: ReactState) -> None:
        self._line()
        if state.ending == "length":
            self._note("[cut off: the answer reached -n, or the context is full]")
        if self._is_apart:
            print(state.answer.strip(), file=self._out, flush=True)

    def _note(self, text: str) -> None:
        self._trace.line(text, "dim")

    def _line(self) -> None:
        if self._is_open:
            self._trace.write("\n", "")
        self._is_open = False


def _counts(answer: Answer) -> str:
    usage: Usage = answer.usage
    cached = f" ({usage.n_cached} cached)" if usage.n_cached is not None else ""
    return f"prompt {usage.n_prompt} tokens{cached} · answer {usage.n_generated}"


def _indented(text: str) -> str:
    lines = text.splitlines() or [""]
    more = [f"[{len(lines) - _LINES} more lines]"] if len(lines) > _LINES else []
    first, *rest = [*lines[:_LINES], *more]
    return "\n".join([f"← {first}", *(f"  {line}" for line in rest)])
