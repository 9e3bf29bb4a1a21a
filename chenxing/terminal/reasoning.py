"""Reasoning models think aloud between <think> and </think> before they answer; here the two are told apart."""

from typing import Literal

OPEN, CLOSE = "<think>", "</think>"

Part = tuple[Literal["reasoning", "answer"], str]


class ReasoningSplitter:
    """Splits a streamed answer into reasoning and answer text; tags and the blank space around them are dropped.

    Only a tag at the very start opens reasoning: later in an answer, `<think>` is what the answer talks about.
    `opened` says that the prompt already ended with the tag, as the templates of some models do.
    """

    def __init__(self, *, opened: bool = False) -> None:
        self._state: Literal["start", "reasoning", "after", "answer"] = "reasoning" if opened else "start"
        self._held = ""  # text that may still turn out to be a tag or the space beside one
        self._reasoned = False

    def feed(self, piece: str) -> list[Part]:
        """The parts that are certain once `piece` has come; none is empty."""
        self._held += piece
        parts: list[Part] = []
        while part := self._next():
            if part[1]:
                parts.append(part)
        return parts

    def finish(self) -> list[Part]:
        """What was still held back when the stream ended."""
        text, self._held = self._held, ""
        if self._state == "after":
            return []
        kind: Literal["reasoning", "answer"] = "answer" if self._state in ("start", "answer") else "reasoning"
        text = text.rstrip() if kind == "reasoning" else text
        return [(kind, text)] if text else []

    def _next(self) -> Part | None:
        if self._state == "start":
            return self._at_start()
        if self._state == "reasoning":
            return self._in_reasoning()
        if self._state == "after":
            self._held = self._held.lstrip()
            if not self._held:
                return None
            self._state = "answer"
        text, self._held = self._held, ""
        return ("answer", text) if text else None

    def _at_start(self) -> Part | None:
        text = self._held.lstrip()
        if text.startswith(OPEN):
            self._state, self._held = "reasoning", text.removeprefix(OPEN)
            return self._in_reasoning()
        if OPEN.startswith(text):
            return None
        self._state = "answer"
        return self._next()

    def _in_reasoning(self) -> Part | None:
        if not self._reasoned:
            self._held = self._held.lstrip()
        text, tag, rest = self._held.partition(CLOSE)
        if tag:
            self._state, self._held = "after", rest
            return ("reasoning", text.rstrip())
        keep = _tag_start(text)
        self._held = text[keep:]
        self._reasoned |= keep > 0
        return ("reasoning", text[:keep]) if keep else None


def split_reasoning(text: str, *, opened: bool = False) -> tuple[str, str]:
    """(reasoning, answer) of a whole text; reasoning is empty where there is none."""
    splitter = ReasoningSplitter(opened=opened)
    parts = splitter.feed(text) + splitter.finish()
    reasoning = "".join(part for kind, part in parts if kind == "reasoning")
    return reasoning, "".join(part for kind, part in parts if kind == "answer")


def _tag_start(text: str) -> int:
    """Where the trailing blank space or beginning of CLOSE starts, which must be held back."""
    for n in range(min(len(CLOSE) - 1, len(text)), 0, -1):
        if text.endswith(CLOSE[:n]):
            return len(text[:-n].rstrip())
    return len(text.rstrip())
