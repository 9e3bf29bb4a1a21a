"""Clients' bookkeeping in system messages is dropped: these lines in this place, and nothing else."""

import pytest

from chenxing.chat.client_lines import without_request_lines

LINES = [
    "x-anthropic-billing-header: cc_version=2.1.177.01c; cc_entrypoint=sdk-cli; cch=36ee5;",
    "x-anthropic-billing-header: cc_version=2.1.100.7b4; cc_entrypoint=cli; cch=eb6c6;",
    "x-anthropic-billing-header: cc_version=2.1.15; cc_entrypoint=cli;",
    "x-anthropic-billing-header: cc_version=2.1.15; cc_entrypoint=cli; \r",
]
IDENTITY = "You are Claude Code, Anthropic's official CLI for Claude."
HI = {"role": "user", "content": "Hi"}


def system(content):
    return {"role": "system", "content": content}


def part(text):
    return {"type": "text", "text": text}


@pytest.mark.parametrize("line", LINES)
def test_the_first_line_of_a_system_text(line):
    assert without_request_lines([system(f"{line}\n{IDENTITY}\n\nBe brief.\n"), HI]) == [
        system(f"{IDENTITY}\n\nBe brief.\n"),
        HI,
    ]
    assert without_request_lines([system(f"{line}\n\n{IDENTITY}"), HI]) == [system(IDENTITY), HI]


@pytest.mark.parametrize("line", LINES)
def test_a_part_or_a_message_of_its_own(line):
    parts = [part(line), part(IDENTITY), part("Be brief.")]
    assert without_request_lines([system(parts), HI]) == [system(parts[1:]), HI]
    assert without_request_lines([system(parts[:2]), HI]) == [system(IDENTITY), HI]
    assert without_request_lines([system(line), system(IDENTITY), HI]) == [system(IDENTITY), HI]
    assert without_request_lines([system(line), HI]) == [HI]
    assert without_request_lines([system(line)]) == [system("")]


def test_other_messages_keep_it():
    messages = [{"role": role, "content": f"{LINES[0]}\nWhat is this?"} for role in ("user", "assistant", "tool")]
    assert without_request_lines(messages) == messages


@pytest.mark.parametrize(
    "text",
    [
        "Explain: " + LINES[0],
        "First.\n" + LINES[0],
        LINES[0] + " And then?",
        "x-anthropic-billing-header: anything",
        "x-anthropic-billing-header:",
        "X-Anthropic-Billing-Header: cch=1;",
        "x-anthropic-billing-header: " + "a=1; " * 300,
        "",
        "\n",
    ],
)
def test_other_texts_stay(text):
    assert without_request_lines([system(text), HI]) == [system(text), HI]
    assert without_request_lines([system([part(text), part("")]), HI]) == [system([part(text), part("")]), HI]


def test_nothing_given_is_changed():
    messages = [system([part(LINES[0]), part("A")]), HI]
    copy = [system([part(LINES[0]), part("A")]), dict(HI)]
    without_request_lines(messages)
    assert messages == copy


def test_two_requests_of_one_conversation_are_one_prompt():
    from chenxing.chat.template import ChatTemplate

    template = ChatTemplate("{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}", bos="", eos="")
    prompts = {template.render([system([part(line), part(IDENTITY)]), HI]).text for line in LINES}
    assert prompts == {f"system: {IDENTITY}\nuser: Hi\n"}
