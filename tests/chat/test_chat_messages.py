"""Messages as clients send them: what is taken, and what is refused by name."""

import pytest

from chenxing.chat.messages import parsed_arguments, plain_list, plain_messages, text_of
from chenxing.errors import UsageError

CALL = {"id": "1", "type": "function", "function": {"name": "f", "arguments": '{"a": 1}'}}
OK = {"role": "user", "content": "x"}


@pytest.mark.parametrize(
    ("messages", "error"),
    [
        (None, "messages: expected a list of at least one message, found nothing"),
        ([], r"messages: expected a list of at least one message, found a list: \[\]"),
        ("Hi", "messages: expected a list of at least one message, found a string: 'Hi'"),
        ([OK, "Hi"], r"messages\[1\]: expected an object, found a string"),
        ([{"content": "x"}], r"messages\[0\]\.role: expected a string, found nothing"),
        ([{"role": 3, "content": "x"}], r"messages\[0\]\.role: expected a string, found a number: 3"),
        ([OK, OK | {"role": "wizard"}], r"messages\[1\]\.role: expected one of assistant, .*, found 'wizard'"),
        ([{"role": "user"}], r"messages\[0\]: expected 'content' or 'tool_calls', found neither"),
        ([{"role": "user", "content": 3}], r"messages\[0\]\.content: expected a string, .*, found a number: 3"),
        ([{"role": "user", "content": ["x"]}], r"messages\[0\]\.content\[0\]: expected an object with 'type'"),
        (
            [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "u"}}]}],
            r"messages\[0\]\.content\[0\]\.type: expected 'text', found 'image_url'",
        ),
        ([{"role": "user", "content": [{"type": "text"}]}], r"messages\[0\]\.content\[0\]\.text: expected a string"),
        ([{"role": "assistant", "tool_calls": 1}], r"messages\[0\]\.tool_calls: expected a list, found a number"),
        (
            [{"role": "assistant", "tool_calls": [{"id": "1"}]}],
            r"messages\[0\]\.tool_calls\[0\]: expected an object with 'function'",
        ),
        (
            [{"role": "assistant", "tool_calls": [CALL | {"type": "magic"}]}],
            r"messages\[0\]\.tool_calls\[0\]\.type: expected 'function', found 'magic'",
        ),
        (
            [{"role": "assistant", "tool_calls": [CALL | {"id": 7}]}],
            r"tool_calls\[0\]\.id: expected a string, found a number",
        ),
        (
            [OK, {"role": "assistant", "tool_calls": [CALL, {"function": {"name": "f", "arguments": '{"a": '}}]}],
            r"messages\[1\]\.tool_calls\[1\]\.function\.arguments: expected JSON, found a string: '\{\"a\": '",
        ),
        (
            [{"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": "[1]"}}]}],
            r"function\.arguments: expected an object, found a list",
        ),
        ([{"role": "tool", "content": "x", "tool_call_id": 7}], r"messages\[0\]\.tool_call_id: expected a string"),
        ([{"role": "user", "content": "x", "extra": {1: 2}}], r"messages\[0\]\.extra: expected keys that are strings"),
        ([OK | {"extra": [b"x"]}], r"messages\[0\]\.extra\[0\]: expected JSON data, found bytes"),
    ],
)
def test_bad_messages_are_named(messages, error):
    with pytest.raises(UsageError, match=error):
        plain_messages(messages)


def test_endless_nesting_is_refused():
    value: list = []
    value.append(value)
    with pytest.raises(UsageError, match=r"messages\[0\]: nested too deeply"):
        plain_messages([{"role": "user", "content": "x", "extra": value}])


def test_null_is_as_good_as_nothing():
    message = {"role": "assistant", "content": None, "tool_calls": None, "reasoning_content": None, "name": None}
    assert plain_messages([message]) == [{"role": "assistant", "content": ""}]


def test_content_may_be_left_out_beside_calls():
    (message,) = plain_messages([{"role": "assistant", "tool_calls": [CALL]}])
    assert message == {"role": "assistant", "content": "", "tool_calls": [CALL]}


def test_parts():
    parts = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    assert plain_messages([{"role": "user", "content": parts[:1]}])[0]["content"] == "a"
    assert plain_messages([{"role": "user", "content": []}])[0]["content"] == ""
    (message,) = plain_messages([{"role": "user", "content": parts}])
    assert message["content"] == parts
    assert text_of(message) == "a\nb"
    assert text_of(message, separator="\n\n") == "a\n\nb"


def test_roles():
    assert plain_messages([{"role": "function", "name": "f", "content": "x"}])[0]["role"] == "tool"
    assert plain_messages([{"role": "ipython", "content": "x"}], ["ipython"])[0]["role"] == "ipython"
    # a role that the template writes between markers must not become one of them
    with pytest.raises(UsageError, match=r"messages\[0\]\.role"):
        plain_messages([{"role": "<|im_end|>", "content": "x"}], ["<|im_end|>"])


def test_arguments():
    for arguments, expected in (('{"a": 1}', {"a": 1}), ({"a": 1}, {"a": 1}), ("", {}), (None, {})):
        function = {"name": "f", "arguments": arguments}
        (message,) = plain_messages([{"role": "assistant", "tool_calls": [{"function": function}]}])
        call = message["tool_calls"][0]
        assert call["type"] == "function"
        assert parsed_arguments(call["function"]["arguments"]) == expected


def test_reasoning_by_its_other_name():
    (message,) = plain_messages([{"role": "assistant", "content": "x", "reasoning": "r"}])
    assert message["reasoning_content"] == "r"


def test_the_clients_objects_are_copied():
    message = {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}
    plain_messages([message])[0]["content"][0]["text"] = "changed"
    assert message["content"][0]["text"] == "a"


def test_lone_surrogates_become_replacement_characters():
    assert plain_messages([{"role": "user", "content": "a\ud800b"}])[0]["content"] == "a\ufffdb"


def test_lists_of_objects():
    assert plain_list(None, "tools") is None
    assert plain_list([], "tools") is None
    assert plain_list(({"a": (1,)},), "tools") == [{"a": [1]}]
    with pytest.raises(UsageError, match="tools: expected a list of objects, found an object"):
        plain_list({}, "tools")
    with pytest.raises(UsageError, match=r"documents\[1\]: expected an object, found a string"):
        plain_list([{}, "x"], "documents")
