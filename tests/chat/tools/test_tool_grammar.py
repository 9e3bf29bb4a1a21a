"""Grammars of answers, followed byte by byte."""

import json
from random import Random

import pytest
from llguidance import LLMatcher, LLTokenizer
from tool_texts import FORMS, GENERIC, HERMES, OFF, PARIS, TOOLS, read, whole, written

from chenxing.chat.tools import Reasoning, tool_request
from chenxing.chat.tools.arguments import argument_schema
from chenxing.chat.tools.grammar import answer_grammar

LIGHT_ONLY = {"type": "function", "function": {"name": "light"}}
END = 256


class _Bytes:
    """A vocabulary of the 256 bytes and an end, as LLTokenizer asks for it."""

    is_tokenizer_wrapper = True
    tokens = (*(bytes([i]) for i in range(END)), b"<end>")
    special_token_ids = (END,)
    eos_token_id, bos_token_id = END, None

    def __call__(self, text):
        return list(text.encode() if isinstance(text, str) else text)


TOKENIZER = LLTokenizer(_Bytes(), n_vocab=END + 1, eos_token=END)


def matcher(form, choice="auto", parallel=None, reasoning=Reasoning.NONE, tools=TOOLS):
    lark = answer_grammar(form, tool_request(tools, choice, parallel), reasoning)
    made = LLMatcher(TOKENIZER, LLMatcher.grammar_from_lark(lark), log_level=0)
    assert not made.is_error(), made.get_error()
    return made


def takes(text, form, choice="auto", parallel=None, reasoning=Reasoning.NONE, tools=TOOLS):
    """The whole text is one of the grammar's."""
    followed = matcher(form, choice, parallel, reasoning, tools)
    data = text.encode()
    return followed.try_consume_tokens(list(data)) == len(data) and followed.is_accepting()


@pytest.mark.parametrize("form", FORMS)
def test_auto(form):
    paris, off = written(form, PARIS), written(form, OFF)
    for text in ("", "Hi!\n", "{} <tool", paris, f"Look.\n{paris}", f"\n\n{paris}\n{off}"):
        assert takes(text, form), text
    for text in (f"{paris} and more", paris[:-2], f"Look.\n{paris[:-2]}", paris.replace("city", "town")):
        assert not takes(text, form), text
    assert takes(paris, form, parallel=False) and not takes(f"{paris}\n{off}", form, parallel=False)


def test_what_opens_a_call():
    assert not takes("a <tool_call> b", HERMES)
    assert takes(f'{{"name": "Bob"}}\nLike this: {PARIS} or so', GENERIC)
    assert not takes('{"name" :\n"light"}', GENERIC)


@pytest.mark.parametrize("form", FORMS)
def test_none(form):
    for text in ("", "Hi!\n", '{"name": "Bob"}', "a < b <tool"):
        assert takes(text, form, "none"), text
    assert not takes(written(form, PARIS), form, "none")
    assert not takes(f"Look.\n{written(form, PARIS)}", form, "none")


@pytest.mark.parametrize("form", FORMS)
def test_required_and_named(form):
    paris, off = written(form, PARIS), written(form, OFF)
    assert takes(paris, form, "required") and takes(f"{paris}\n{off}\n{off}", form, "required")
    assert takes(paris, form, "required", False) and not takes(f"{paris}\n{off}", form, "required", False)
    assert takes(off, form, LIGHT_ONLY)
    for text in (paris, f"{off}\n{off}"):
        assert not takes(text, form, LIGHT_ONLY), text
    for text in ("", "Hi", f"Hi\n{paris}", f"{paris}\nHi"):
        assert not takes(text, form, "required"), text


def test_required_forces_what_has_no_choice():
    assert matcher(HERMES, LIGHT_ONLY).compute_ff_bytes().startswith(b"<tool_call>")
    assert matcher(GENERIC, LIGHT_ONLY).compute_ff_bytes().startswith(b'{"name": "light", "arguments": {')


@pytest.mark.parametrize("form", FORMS)
def test_thoughts_come_first_where_the_model_has_them(form):
    paris = written(form, PARIS)
    thought = f"Hm, {paris}\n{paris} or\n</think>\n\n"
    for choice, answer in (("auto", "Hi"), ("auto", paris), ("none", "Hi"), ("required", paris)):
        assert takes(f"<think>{thought}{answer}", form, choice, reasoning=Reasoning.POSSIBLE)
        assert takes(answer, form, choice, reasoning=Reasoning.POSSIBLE)
        assert takes(thought + answer, form, choice, reasoning=Reasoning.OPEN)
        assert not takes("Hm, ", form, choice, reasoning=Reasoning.OPEN)
    assert not takes(f"<think>{thought}", form, "required", reasoning=Reasoning.POSSIBLE)
    assert not takes(f"<think>{thought}{paris}", form, "required", reasoning=Reasoning.NONE)


SMALL = {
    "type": "object",
    "properties": {"n": {"enum": [1, 2]}, "on": {"type": "boolean"}, "in": {"properties": {"x": {"const": "}"}}}},
    "required": ["n"],
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("reasoning", [Reasoning.NONE, Reasoning.OPEN])
def test_whatever_follows_the_grammar_is_read_as_calls(form, reasoning):
    """Random answers: at each byte one of those that the grammar permits."""
    tools = [{"type": "function", "function": {"name": name, "parameters": SMALL}} for name in ("f", "f.g/h-1", "fg")]
    names = {tool["function"]["name"] for tool in tools}
    seen, rng = set(), Random(3)
    for _ in range(40):
        followed = matcher(form, "required", reasoning=reasoning, tools=tools)
        text = b""
        if reasoning is Reasoning.OPEN:
            text = b"Hm</think>"
            assert followed.consume_tokens(list(text))
        while True:
            bits = followed.compute_bitmask()
            token = rng.choice([i for i in range(END + 1) if bits[i >> 3] >> (i & 7) & 1])
            if token == END:
                break
            assert followed.consume_token(token)
            text += bytes([token])
        thought, content, calls = whole(read([text.decode()], form=form, reasoning=reasoning, names=names))
        assert (thought, content) == ("Hm" if reasoning is Reasoning.OPEN else "", "")
        assert calls
        for _, name, arguments in calls:
            value = json.loads(arguments)
            assert value["n"] in (1, 2) and value.keys() <= {"n", "on", "in"}
            seen.add(name)
    assert seen == names


def test_many_tools():
    """An agent's: still within llguidance's limits."""
    tools = [{"type": "function", "function": {"name": f"server_tool_{i}", "parameters": SMALL}} for i in range(100)]
    for form in FORMS:
        call = written(form, '{"name": "server_tool_9", "arguments": {"n": 2}}')
        assert takes(f"Look.\n{call}", form, tools=tools)


def schema_of(parameters, strict=False):
    function = {"name": "f", "parameters": parameters, "strict": strict}
    (made,) = tool_request([{"type": "function", "function": function}]).functions
    return argument_schema(made)


def test_listed_properties_are_all():
    inner = {"type": "object", "properties": {"x": {}}}
    schema = schema_of({"properties": {"a": inner, "b": {"items": inner}, "c": {"anyOf": [inner, {"type": "null"}]}}})
    closed = {**inner, "additionalProperties": False}
    assert schema["additionalProperties"] is False
    assert schema["properties"] == {"a": closed, "b": {"items": closed}, "c": {"anyOf": [closed, {"type": "null"}]}}


@pytest.mark.parametrize(
    "parameters",
    [
        {"type": "object"},
        {"properties": {"a": {}}, "additionalProperties": True},
        {"properties": {"a": {}}, "patternProperties": {"^x": {}}},
        {"properties": {"a": {}}, "required": ["a", "b"]},
        {"properties": {"a": {}}, "anyOf": [{"required": ["a"]}, {"required": ["b"]}]},
        {"allOf": [{"properties": {"a": {}}}, {"properties": {"b": {}}}]},
        {
            "properties": {"a": {"$ref": "#/$defs/x", "properties": {"n": {}}}},
            "$defs": {"x": {"properties": {"m": {}}}},
        },
    ],
)
def test_other_objects_stay_as_they_are(parameters):
    schema = schema_of(parameters)
    del schema["x-guidance"]
    assert schema == {**parameters, "type": "object"}


def test_names_of_properties_are_no_keywords():
    schema = schema_of({"properties": {"properties": {"type": "string"}, "required": {"type": "string"}}})
    assert schema["properties"] == {"properties": {"type": "string"}, "required": {"type": "string"}}


def test_strict_tools_refuse_what_the_grammar_cannot_express():
    parameters = {"properties": {"a": {"type": "array", "uniqueItems": True}, "b": {"type": "string", "format": "x"}}}

    def error(strict):
        tools = [{"type": "function", "function": {"name": "f", "parameters": parameters, "strict": strict}}]
        lark = answer_grammar(HERMES, tool_request(tools), Reasoning.NONE)
        return LLMatcher.validate_grammar_with_warnings(LLMatcher.grammar_from_lark(lark))

    assert error(strict=True)[0]
    is_error, warnings = error(strict=False)
    assert not is_error and any("uniqueItems" in warning for warning in warnings)
