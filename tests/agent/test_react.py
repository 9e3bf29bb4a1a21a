"""The loop of thinking and acting, with a scripted model."""

import json

import pytest
from scripted import ScriptedModel, says

from chenxing.agent import Asked, Checkpoints, Emitted, answered
from chenxing.agent.model import Answer, Call, Piece
from chenxing.agent.react import DECLINED, LAST, Answered, Called, Observed, question, react
from chenxing.agent.tools import Observation, Toolbox, tool
from chenxing.errors import NodeError

ADDED = ("add", {"a": 2, "b": 3})


def toolbox(done):
    @tool
    def add(a: int, b: int) -> int:
        done.append(("add", a, b))
        return a + b

    @tool(changes=True)
    def wipe(disk: str) -> str:
        done.append(("wipe", disk))
        return "wiped"

    return Toolbox([add, wipe])


def test_call_observation_answer():
    done = []
    model = ScriptedModel([says("I add.", ADDED), says("It is 5.")])
    events = list(react(model, toolbox(done)).stream(question("2 + 3?", system="Be brief.")))
    call = Call("call_0", "add", '{"a": 2, "b": 3}')
    assert [e.what for e in events if isinstance(e, Emitted)] == [
        Piece("text", "I add."),
        Answered(says("I add.", ADDED)),
        Called(call),
        Observed(call, Observation("5")),
        Piece("text", "It is 5."),
        Answered(says("It is 5.")),
    ]
    state = events[-1].state
    assert (state.answer, state.ending, state.n_answers, len(state.usage)) == ("It is 5.", "answer", 2, 2)
    assert done == [("add", 2, 3)]
    assert model.asked[1][0] == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "2 + 3?"},
        says("I add.", ADDED).message,
        {"role": "tool", "tool_call_id": "call_0", "name": "add", "content": "5"},
    ]


def test_several_calls_are_a_step_each_and_stored_one_by_one(tmp_path):
    done = []
    model = ScriptedModel([says("", ADDED, ("add", {"a": 1, "b": 1})), says("ok")])
    with Checkpoints(tmp_path / "runs.db") as store:
        react(model, toolbox(done)).invoke(question("?"), run="r", store=store)
        assert [at.next for at in store.history("r")] == [("think",), ("act",), ("act",), ("think",), ()]
    assert done == [("add", 2, 3), ("add", 1, 1)]


@pytest.mark.parametrize(
    ("answer", "expected"), [(True, "wiped"), (False, f"Error: {DECLINED}"), ("yes", f"Error: {DECLINED}")]
)
def test_a_call_that_changes_something_waits_for_a_yes(answer, expected):
    done = []
    model = ScriptedModel([says("", ADDED, ("wipe", {"disk": "C"})), says("ok")])
    graph = react(model, toolbox(done))
    events = list(graph.stream(question("?")))
    assert events[-2] == Asked("act", 3, {"tool": "wipe", "text": 'wipe {"disk": "C"}'}) and done == [("add", 2, 3)]
    state = graph.invoke(answered(events[-1].checkpoint, answer)).state
    assert state.messages[-2]["content"] == expected and state.answer == "ok"
    assert done == [("add", 2, 3)] + [("wipe", "C")] * (answer is True)


def test_errors_are_shown_to_the_model():
    model = ScriptedModel([says("", ("add", {"a": "x"})), says("", ("sub", {})), says("sorry")])
    state = react(model, toolbox([])).invoke(question("?")).state
    told = [m["content"] for m in state.messages if m["role"] == "tool"]
    assert told == [
        "Error: arguments: Expected `int`, got `str` - at `a`",
        "Error: there is no tool 'sub'; there are: add, wipe",
    ]


def test_the_last_answer_has_no_tools():
    model = ScriptedModel([says("", ("add", {"a": n, "b": n})) for n in range(2)] + [says("I give up.")])
    state = react(model, toolbox([]), max_answers=3).invoke(question("?")).state
    assert [choice for _, choice in model.asked] == ["auto", "auto", "none"]
    assert state.messages[-2] == {"role": "user", "content": LAST} and state.answer == "I give up."


def test_going_in_circles_ends():
    model = ScriptedModel([says("", ADDED)] * 3 + [says("It is 5.")])
    state = react(model, toolbox([]), max_answers=50).invoke(question("?")).state
    assert [choice for _, choice in model.asked] == ["auto"] * 3 + ["none"] and state.answer == "It is 5."


def test_the_first_answer_may_have_to_be_a_call():
    model = ScriptedModel([says("", ADDED), says("ok")])
    react(model, toolbox([]), first_choice="required").invoke(question("?"))
    assert [choice for _, choice in model.asked] == ["required", "auto"]


def test_an_answer_that_is_cut_off():
    state = react(ScriptedModel([says("It is", reason="length")]), toolbox([])).invoke(question("?")).state
    assert state.ending == "length"
    cut = Answer("", calls=(Call("c", "add", '{"a": 2, "b'),), finish_reason="length")
    state = react(ScriptedModel([cut, says("ok")]), toolbox([])).invoke(question("?")).state
    sent = state.messages[-3]["tool_calls"][0]["function"]["arguments"]
    assert json.loads(sent) == {} and "no JSON" in state.messages[-2]["content"] and state.answer == "ok"


def test_thoughts_stay_in_the_conversation():
    model = ScriptedModel([says("", ADDED, thought="hm"), says("ok")])
    react(model, toolbox([])).invoke(question("?"))
    assert model.asked[1][0][-2]["reasoning_content"] == "hm"


def test_a_run_goes_on_after_the_model_failed(tmp_path):
    def gone(messages):
        raise ConnectionError("gone")

    done = []
    with Checkpoints(tmp_path / "runs.db") as store:
        graph = react(ScriptedModel([says("", ADDED), gone]), toolbox(done))
        with pytest.raises(NodeError, match="node 'think', step 2: ConnectionError: gone"):
            graph.invoke(question("?"), run="r", store=store)
        state = react(ScriptedModel([says("5")]), toolbox(done)).invoke(store.latest("r"), store=store).state
    assert state.answer == "5" and done == [("add", 2, 3)]


def test_draw():
    lines = react(ScriptedModel([]), toolbox([])).draw().splitlines()
    assert '  think -.->|"calls"| act' in lines and '  think -.->|"no calls"| __end__' in lines
