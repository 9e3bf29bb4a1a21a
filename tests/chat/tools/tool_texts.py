"""What the tests of tools share: templates, two tools, calls as text, and answers put together."""

from functools import cache
from pathlib import Path
from random import Random

from chenxing.chat import ChatTemplate
from chenxing.chat.fallback import FALLBACKS
from chenxing.chat.tools import AnswerParser, ArgumentsDelta, CallStart, ContentDelta, Done, Reasoning, ReasoningDelta
from chenxing.chat.tools.generic import Generic
from chenxing.chat.tools.hermes import Hermes

TEMPLATES = Path(__file__).parents[2] / "data" / "chat" / "templates"
HI = [{"role": "user", "content": "Hi"}]
HERMES, GENERIC = Hermes(), Generic()
FORMS = [HERMES, GENERIC]
WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "The weather in a city",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string"}, "unit": {"enum": ["C", "F"]}},
            "required": ["city"],
        },
    },
}
LIGHT = {
    "type": "function",
    "function": {"name": "light", "parameters": {"type": "object", "properties": {"on": {"type": "boolean"}}}},
}
TOOLS = [WEATHER, LIGHT]
NAMES = ("get_weather", "light")
PARIS = '{"name": "get_weather", "arguments": {"city": "Paris"}}'
OFF = '{"name": "light", "arguments": {"on": false}}'


@cache
def template(name: str) -> ChatTemplate:
    """One of tests/data/chat, or else a fallback."""
    path = TEMPLATES / f"{name}.jinja"
    source = path.read_text(encoding="utf-8") if path.exists() else FALLBACKS[name]
    return ChatTemplate(source, bos="<s>", eos="</s>")


def written(form, call: str) -> str:
    return f"<tool_call>\n{call}\n</tool_call>" if form is HERMES else call


def read(pieces, form=HERMES, reasoning=Reasoning.NONE, names=NAMES):
    """All events of an answer that comes in these pieces."""
    parser = AnswerParser(reasoning, form, names, Random(7))
    return [event for piece in pieces for event in parser.feed(piece)] + parser.finish()


def whole(events):
    """(reasoning, content, [(id, name, arguments), ...])"""
    assert [e for e in events if isinstance(e, Done)] == events[-1:]
    calls = [(e.id, e.name) for e in events if isinstance(e, CallStart)]
    assert [e.index for e in events if isinstance(e, CallStart)] == list(range(len(calls)))
    assert events[-1].n_calls == len(calls)
    arguments = [""] * len(calls)
    for event in events:
        if isinstance(event, ArgumentsDelta):
            arguments[event.index] += event.text
    reasoning = "".join(e.text for e in events if isinstance(e, ReasoningDelta))
    content = "".join(e.text for e in events if isinstance(e, ContentDelta))
    return reasoning, content, [(*call, text) for call, text in zip(calls, arguments, strict=True)]


def said(text, **kwargs):
    """As `whole`, without ids, of an answer in one piece."""
    reasoning, content, calls = whole(read([text], **kwargs))
    return reasoning, content, [call[1:] for call in calls]
