"""Servers of OpenAI's protocol, those without tools among them."""

import asyncio
import json

import pytest
from fake_server import FakeServer, call_chunks, chunk, text_chunks

from chenxing.agent.model import Answer, Call, Piece, Usage
from chenxing.agent.remote import RemoteModel
from chenxing.agent.tools.calculator import calculator_tool
from chenxing.errors import AgentError

HI = [{"role": "user", "content": "hi"}]
TOOLS = [calculator_tool().described]
USED = Usage(20, 16, 5)
SUM = {"expression": "1+1"}
NO_TOOLS = (501, {"error": {"message": "This server does not support tools", "code": 501}})


def ask(server, tools=TOOLS, choice="auto", pieces=None, **options):
    model = RemoteModel(server.url, "m", **options)
    return asyncio.run(model.answer(HI, tools, choice, (pieces if pieces is not None else []).append))


def test_text_comes_as_it_is_streamed():
    with FakeServer([[chunk({"reasoning_content": "hm"}), *text_chunks("Hey 星")]]) as server:
        pieces = []
        assert ask(server, [], pieces=pieces, api_key="k", options={"temperature": 0}) == Answer(
            "Hey 星", "hm", (), USED
        )
    assert pieces[:2] == [Piece("thought", "hm"), Piece("text", "H")] and len(pieces) == 6
    assert server.headers[0]["Authorization"] == "Bearer k"
    assert {"model": "m", "stream": True, "temperature": 0, "max_tokens": 1024, "messages": HI}.items() <= server.asked[
        0
    ].items()
    assert "tools" not in server.asked[0]


def test_calls():
    with FakeServer([call_chunks("calculator", SUM)]) as server:
        answer = ask(server, choice="required")
    assert answer == Answer("", "", (Call("c1", "calculator", json.dumps(SUM)),), USED, "tool_calls")
    assert server.asked[0]["tools"] == TOOLS and server.asked[0]["tool_choice"] == "required"


def test_two_calls_at_once():
    deltas = [
        {"index": i, "id": f"c{i}", "function": {"name": "calculator", "arguments": json.dumps(SUM)}} for i in range(2)
    ]
    with FakeServer([[chunk({"tool_calls": deltas}), chunk({}, "tool_calls")]]) as server:
        assert [call.id for call in ask(server).calls] == ["c0", "c1"]


def test_a_server_without_tools_gets_them_described_and_is_read_for_calls():
    call = f'{{"name": "calculator", "arguments": {json.dumps(SUM)}}}'
    with FakeServer([NO_TOOLS, text_chunks(f"I compute.\n{call}"), text_chunks("It is 2.")]) as server:
        model = RemoteModel(server.url, "m")
        answer = asyncio.run(model.answer(HI, TOOLS, "auto", lambda piece: None))
        assert answer.text == "I compute." and [(c.name, json.loads(c.arguments)) for c in answer.calls] == [
            ("calculator", SUM)
        ]
        told = [*HI, answer.message, {"role": "tool", "tool_call_id": answer.calls[0].id, "content": "2"}]
        assert asyncio.run(model.answer(told, TOOLS, "auto", lambda piece: None)).text == "It is 2."
    assert "tools" not in server.asked[1] and "tools" not in server.asked[2]
    system, user, assistant, result = server.asked[2]["messages"]
    assert '"name": "calculator"' in system["content"] and user == HI[0]
    assert assistant == {"role": "assistant", "content": f"I compute.\n\n{call}"}
    assert result == {"role": "user", "content": "Result of calculator:\n2"}


def test_tools_as_text_from_the_beginning():
    with FakeServer([text_chunks('{"name": "calculator", "arguments": {}}')]) as server:
        assert len(ask(server, tools_as_text=True).calls) == 1
    assert "tools" not in server.asked[0]


def test_a_choice_of_none_reads_no_calls():
    with FakeServer([text_chunks('{"name": "calculator", "arguments": {}}')]) as server:
        assert ask(server, choice="none", tools_as_text=True).calls == ()


def test_a_server_that_does_not_stream():
    whole = {"choices": [{"message": {"role": "assistant", "content": "Hey"}, "finish_reason": "stop"}]}
    with FakeServer([(200, whole)]) as server:
        assert ask(server, []) == Answer("Hey")


@pytest.mark.parametrize(
    ("reply", "message"),
    [
        ((401, {"error": {"message": "no tools for strangers"}}), "HTTP 401: no tools for strangers"),
        ((400, {"error": "bad"}), "HTTP 400: bad"),
        ((404, []), "HTTP 404"),
        ([chunk({"content": "Hey"})], "ended without a finish_reason"),
        ([{"error": {"message": "out of memory"}}], "out of memory"),
    ],
)
def test_failures(reply, message):
    with FakeServer([reply]) as server:
        with pytest.raises(AgentError, match=message):
            ask(server)


def test_no_server():
    with pytest.raises(AgentError, match=r"http://127\.0\.0\.1:9/v1/chat/completions: "):
        asyncio.run(RemoteModel("http://127.0.0.1:9/v1", "m").answer(HI, [], "auto", lambda piece: None))
    with pytest.raises(AgentError, match="expected an address"):
        RemoteModel("localhost:8080", "m")
