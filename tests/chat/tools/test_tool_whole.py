"""What events add up to."""

import pytest

from chenxing.chat.tools import (
    ArgumentsDelta,
    CallStart,
    ContentDelta,
    Done,
    ReasoningDelta,
    WholeAnswer,
    WholeCall,
    finish_reason,
)

EVENTS = [
    ReasoningDelta("Hm"),
    ContentDelta("Let "),
    ReasoningDelta("."),
    ContentDelta("me look."),
    CallStart(0, "call_a", "weather"),
    ArgumentsDelta(0, '{"city": '),
    CallStart(1, "call_b", "light"),
    ArgumentsDelta(0, '"Paris"}'),
    Done(2),
]


def test_pieces_are_joined_each_call_for_itself():
    answer = WholeAnswer()
    assert (answer.content, answer.reasoning, answer.calls) == ("", "", [])
    for event in EVENTS:
        answer.add(event)
    assert (answer.content, answer.reasoning) == ("Let me look.", "Hm.")
    assert answer.calls == [WholeCall("call_a", "weather", '{"city": "Paris"}'), WholeCall("call_b", "light", "")]


@pytest.mark.parametrize(
    ("text", "n_calls", "reason"),
    [("stop", 0, "stop"), ("stop", 2, "tool_calls"), ("length", 2, "length"), ("length", 0, "length")],
)
def test_why_it_ended(text: str, n_calls: int, reason: str):
    assert finish_reason(text, n_calls) == reason
