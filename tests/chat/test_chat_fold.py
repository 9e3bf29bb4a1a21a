"""Folding keeps what was said and the order of it."""

from hypothesis import given, settings
from hypothesis import strategies as st

from chenxing.chat import fold


def system(text):
    return {"role": "system", "content": text}


def user(text):
    return {"role": "user", "content": text}


def assistant(text, **more):
    return {"role": "assistant", "content": text, **more}


def call(**arguments):
    return {"id": "7", "type": "function", "function": {"name": "look", "arguments": arguments}}


def test_system_goes_into_the_next_user_message():
    assert fold.system_into_user([system("S"), user("U")]) == [user("S\n\nU")]
    assert fold.system_into_user([system("S"), system("T"), user("U")]) == [user("S\n\nT\n\nU")]
    assert fold.system_into_user([user("U"), assistant("A"), system("S"), user("V")]) == [
        user("U"),
        assistant("A"),
        user("S\n\nV"),
    ]


def test_system_without_a_user_message_becomes_one():
    assert fold.system_into_user([system("S")]) == [user("S")]
    assert fold.system_into_user([system("S"), assistant("A")]) == [user("S"), assistant("A")]


def test_the_first_system_message_may_stay():
    messages = [system("S"), user("U"), system("T"), user("V")]
    assert fold.system_into_user(messages, keep_first=True) == [system("S"), user("U"), user("T\n\nV")]


def test_runs_are_joined_with_a_blank_line():
    messages = [user("a"), user("b"), assistant("c"), assistant("d", reasoning_content="r"), user("e")]
    assert fold.runs_joined(messages) == [user("a\n\nb"), assistant("c\n\nd", reasoning_content="r"), user("e")]


def test_joined_messages_keep_their_calls_and_thoughts():
    messages = [
        assistant("a", tool_calls=[call(x=1)], reasoning_content="r"),
        assistant("", tool_calls=[call(x=2)], reasoning_content="s"),
    ]
    assert fold.runs_joined(messages) == [assistant("a", tool_calls=[call(x=1), call(x=2)], reasoning_content="r\n\ns")]


def test_parts_are_joined_to_text():
    parts = user([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}])
    assert fold.runs_joined([parts, user("c")]) == [user("a\nb\n\nc")]


def test_results_name_their_tool():
    messages = [
        assistant("", tool_calls=[call(x=1)]),
        {"role": "tool", "tool_call_id": "7", "content": "r"},
        {"role": "tool", "name": "other", "content": "s"},
        {"role": "tool", "content": "t"},
    ]
    folded = fold.results_into_user(messages)
    assert [m["content"] for m in folded[1:]] == ["Result of look:\nr", "Result of other:\ns", "Result of the tool:\nt"]
    assert {m["role"] for m in folded[1:]} == {"user"}


def test_calls_become_json():
    text_call = call()
    text_call["function"]["arguments"] = '{"y": "é"}'
    assert fold.calls_into_text([assistant("Let me see.", tool_calls=[call(x=1), text_call])]) == [
        assistant('Let me see.\n\n{"name": "look", "arguments": {"x": 1}}\n{"name": "look", "arguments": {"y": "é"}}')
    ]


def test_the_user_speaks_first():
    assert fold.user_first([assistant("A")]) == [user(""), assistant("A")]
    assert fold.user_first([system("S"), assistant("A")]) == [system("S"), user(""), assistant("A")]
    assert fold.user_first([user("U"), assistant("A")]) == [user("U"), assistant("A")]


@settings(derandomize=True, deadline=None)
@given(st.lists(st.sampled_from(["system", "user", "assistant", "tool"]), min_size=1, max_size=12))
def test_all_folded_alternates_and_loses_nothing(roles):
    messages = [{"role": role, "content": f"<{i}>"} for i, role in enumerate(roles)]
    folded = fold.all_folded(messages)
    assert [m["role"] for m in folded] == [("user", "assistant")[i % 2] for i in range(len(folded))]
    text = "".join(m["content"] for m in folded)
    places = [text.index(f"<{i}>") for i in range(len(messages))]
    assert places == sorted(places)
    assert text.count("<") == len(messages)
    assert fold.all_folded(folded) == folded
