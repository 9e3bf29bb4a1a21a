"""Answers: into content, reasoning and calls, the same however the text is cut."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tool_texts import FORMS, GENERIC, HERMES, OFF, PARIS, read, said, whole, written

from chenxing.chat.tools import ArgumentsDelta, CallStart, ContentDelta, Done, Reasoning, ReasoningDelta

PARIS_CALL, OFF_CALL = ("get_weather", '{"city": "Paris"}'), ("light", '{"on": false}')


def test_the_events_of_an_answer():
    text = f"<think>Hm.</think>\n\nLet me look.\n{written(HERMES, PARIS)}"
    events = read(text, reasoning=Reasoning.POSSIBLE)
    kinds = [type(event) for event in events]
    assert [kind for i, kind in enumerate(kinds) if kind not in kinds[:i]] == [
        *(ReasoningDelta, ContentDelta, CallStart, ArgumentsDelta, Done)
    ]
    start = next(event for event in events if isinstance(event, CallStart))
    assert (start.index, start.name) == (0, "get_weather")
    assert start.id.startswith("call_") and len(start.id) == 29 and start.id[5:].isalnum()
    assert whole(events)[:2] == ("Hm.", "Let me look.")
    assert "".join(e.text for e in events if isinstance(e, ArgumentsDelta)) == PARIS_CALL[1]


@pytest.mark.parametrize("form", FORMS)
def test_calls(form):
    paris, off = written(form, PARIS), written(form, OFF)
    assert said(paris, form=form) == ("", "", [PARIS_CALL])
    assert said(f"{paris}\n{off}", form=form) == ("", "", [PARIS_CALL, OFF_CALL])
    assert said(f"Look:\n\n{paris}\n", form=form) == ("", "Look:", [PARIS_CALL])
    assert said(f"\n\n{paris}", form=form) == ("", "", [PARIS_CALL])
    assert said(f"{paris}\n\nDone. \n", form=form) == ("", "\n\nDone. \n", [PARIS_CALL])
    assert said(f"{paris}\nThen\n{off}", form=form) == ("", "\nThen", [PARIS_CALL, OFF_CALL])


def test_every_call_has_an_id_of_its_own_from_the_given_generator():
    text = f"{written(HERMES, PARIS)}{written(HERMES, PARIS)}"
    ids = [call[0] for call in whole(read([text]))[2]]
    assert len(set(ids)) == 2
    assert ids == [call[0] for call in whole(read(text))[2]]


def test_arguments_are_what_the_model_wrote():
    arguments = '{"city" :"a } \\" </tool_call> {", "n": [1,{"x":  1.50}], "unit":"C"}'
    text = f'<tool_call>{{ "name":"get_weather","arguments":{arguments} }}</tool_call>'
    assert said(text) == ("", "", [("get_weather", arguments)])
    swapped = f'<tool_call>{{"arguments": {arguments}, "id": 3, "name": "get_weather"}}</tool_call>'
    assert said(swapped) == ("", "", [("get_weather", arguments)])


@pytest.mark.parametrize(
    "text",
    [
        "a < b, <tool_ and <tool_calls>, </tool_call>",
        "  spaces  \n",
        "\n",
        "Write <tool_call> and then JSON.",
        '<tool_call>\n{"name": "unknown", "arguments": {}}\n</tool_call>',
        '<tool_call>{"name": "light"}</tool_call>',
        '<tool_call>{"name": "light", "arguments": "on"}</tool_call>',
        '<tool_call>{"name": "light", "name": "light", "arguments": {}}</tool_call>',
        '<tool_call>{"name": 3, "arguments": {}}</tool_call>',
        '<tool_call>["light"]</tool_call>',
        '<tool_call>\n{"name": "li',
        '\n <tool_call>\n{"name": "light", "arg',
        "Text <tool_cal",
        "Text \n",
    ],
)
def test_what_is_no_call_is_content(text):
    assert said(text) == ("", text, [])


@pytest.mark.parametrize(
    "text",
    [
        '{"name": "Bob", "arguments": {}}',
        f"Like this: {PARIS}",
        f" {PARIS}",
        '{"name": "light", "age": 3}',
        '{"name',
        '```json\n{"name": "x"}\n```',
    ],
)
def test_other_json_is_content_in_the_generic_form(text):
    assert said(text, form=GENERIC) == ("", text, [])


def test_a_call_may_follow_what_was_none():
    paris = written(HERMES, PARIS)
    assert said(f"<tool_call>{paris}") == ("", "<tool_call>", [PARIS_CALL])
    assert said(f'<tool_call>{{"name": "x"}}</tool_call> {paris}') == (
        *("", '<tool_call>{"name": "x"}</tool_call>'),
        [PARIS_CALL],
    )
    assert said(f'{{"name": "x"}}\n{PARIS}', form=GENERIC) == ("", '{"name": "x"}', [PARIS_CALL])


def test_a_call_that_is_cut_off_keeps_the_arguments_that_there_are():
    text = written(HERMES, PARIS)
    cut = text.index("aris")
    assert said(text[:cut]) == ("", "", [("get_weather", '{"city": "P')])
    for end in range(text.index("}}") + 1, len(text)):
        assert said(text[:end]) == ("", "", [PARIS_CALL])


@pytest.mark.parametrize(
    ("text", "reasoning", "content"),
    [
        ("<think>\nHm.\n</think>\n\nYes", "Hm.", "Yes"),
        ("\n<think> a </b> < /think> </think>Yes", "a </b> < /think>", "Yes"),
        ("<think>\n\n</think>\n\nYes", "", "Yes"),
        ("<think>Hm", "Hm", ""),
        ("<think>Hm\n</thi", "Hm\n</thi", ""),
        ("\n<thi", "", "\n<thi"),
        ("<thin air", "", "<thin air"),
        ("Yes <think>no</think>", "", "Yes <think>no</think>"),
        ("<think>a</think> <think>b</think>", "a", "<think>b</think>"),
        ("<think>a</think>\n\n", "a", ""),
    ],
)
def test_thoughts(text, reasoning, content):
    assert said(text, reasoning=Reasoning.POSSIBLE) == (reasoning, content, [])
    assert said(text, reasoning=Reasoning.NONE) == ("", text, [])
    assert said(text, reasoning=Reasoning.POSSIBLE, form=None) == (reasoning, content, [])


def test_a_thought_that_the_prompt_has_opened():
    text = f"\nHm {written(HERMES, OFF)} hm\n</think>\n{written(HERMES, PARIS)}"
    expected = f"Hm {written(HERMES, OFF)} hm", "", [PARIS_CALL]
    assert said(text, reasoning=Reasoning.OPEN) == expected


def test_content_is_not_held_back_without_need():
    assert read(["Hello", " a<"])[:2] == [ContentDelta("Hello"), ContentDelta(" a")]
    assert read(["{", "x"], form=GENERIC)[0] == ContentDelta("{x")
    assert read(["a {", "x"], form=GENERIC)[0] == ContentDelta("a {")
    assert read(["<", " \n"], form=None)[:2] == [ContentDelta("<"), ContentDelta(" \n")]


_FRAGMENTS = st.sampled_from(
    [
        *("<tool_call>", "</tool_call>", "<think>", "</think>", '{"name"', ': "light"', ', "arguments": ', "{}", "}"),
        *('{"on": "a\\"}', '"', "<tool", "_call>", "</th", "{", "\n", " ", "é", "a", ",", PARIS, OFF),
        *(written(HERMES, PARIS), f"\n{OFF}\n", '{"name": "x", "arguments": {"name": "light"}}', "[1]", "\\"),
    ]
)
_TEXTS = st.lists(_FRAGMENTS, max_size=12).map("".join)


@given(_TEXTS, st.sampled_from([*FORMS, None]), st.sampled_from(Reasoning), st.randoms(use_true_random=False))
def test_cuts_change_nothing(text, form, reasoning, random):
    cuts = sorted({0, len(text), *(random.randint(0, len(text)) for _ in range(random.randint(0, 8)))})
    pieces = [text[a:b] for a, b in pairwise(cuts)]
    expected = whole(read([text], form=form, reasoning=reasoning))
    assert whole(read(pieces, form=form, reasoning=reasoning)) == expected
    assert whole(read(text, form=form, reasoning=reasoning)) == expected  # character by character


@given(_TEXTS, st.sampled_from([*FORMS, None]))
def test_nothing_is_lost(text, form):
    """No tool has a name, so nothing is a call, and all is content to the last space."""
    assert said(text, form=form, names=()) == ("", text, [])


@given(_TEXTS, st.sampled_from(FORMS))
def test_calls_are_found_in_front_of_anything(text, form):
    _, _, calls = said(f"{written(form, PARIS)}\n{text}", form=form)
    assert calls[0] == PARIS_CALL
