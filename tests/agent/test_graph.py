"""What a graph means: reducers, branches, joins, routes, cycles, questions, errors."""

import asyncio
import threading
import time
from operator import add
from typing import Annotated, TypedDict

import pytest

from chenxing.agent import END, START, Asked, Emitted, Graph, NodeEnd, NodeStart, StepEnd, answered
from chenxing.errors import AgentError, NodeError, StepLimitError


class State(TypedDict):
    log: Annotated[list[str], add]
    n: int


def logs(name):
    return lambda state: {"log": [name]}


def graph_of(nodes, edges, routes=()):
    graph = Graph(State)
    for name in nodes:
        graph.add_node(name, logs(name)) if isinstance(name, str) else graph.add_node(*name)
    for source, target in edges:
        graph.add_edge(source, target)
    for route in routes:
        graph.add_conditional_edges(*route)
    return graph


def log_of(graph, given=None, **options):
    return graph.invoke(given or {"log": []}, **options).state["log"]


def test_a_line():
    assert log_of(graph_of("ab", [(START, "a"), ("a", "b"), ("b", END)])) == ["a", "b"]


def test_branches_are_merged_in_the_order_in_which_nodes_were_added_not_in_which_they_end():
    async def slow(state):
        await asyncio.sleep(0.05)
        return {"log": ["slow"]}

    edges = [(START, "slow"), (START, "b"), ("slow", END), ("b", END)]
    assert log_of(graph_of([("slow", slow), "b"], edges)) == ["slow", "b"]


def test_branches_run_side_by_side_sync_or_async():
    both = threading.Barrier(2, timeout=30)

    def waits(state):
        both.wait()
        return {"log": ["w"]}

    edges = [(START, "a"), (START, "b"), ("a", END), ("b", END)]
    assert log_of(graph_of([("a", waits), ("b", waits)], edges)) == ["w", "w"]


def test_branches_see_the_same_state_and_none_of_each_others_changes():
    def spoils(state):
        state["log"].append("spoilt")
        return {"log": [f"{len(state['log'])}"]}

    edges = [(START, "a"), (START, "b"), ("a", END), ("b", END)]
    result = graph_of([("a", spoils), ("b", spoils)], edges).invoke({"log": ["0"]})
    assert result.state["log"] == ["0", "2", "2"]


def test_an_edge_with_two_sources_waits_for_the_longer_branch():
    edges = [(START, "a"), (START, "b"), ("b", "c"), (("a", "c"), "join"), ("join", END)]
    assert log_of(graph_of(["a", "b", "c", "join"], edges)) == ["a", "b", "c", "join"]


def test_two_edges_do_not_wait():
    edges = [(START, "a"), (START, "b"), ("b", "c"), ("a", "join"), ("c", "join"), ("join", END)]
    assert log_of(graph_of(["a", "b", "c", "join"], edges)) == ["a", "b", "c", "join", "join"]


def test_a_join_waits_anew_each_round():
    def count(state):
        return {"n": state["n"] + 1, "log": ["join"]}

    edges = [(START, "a"), (START, "b"), (("a", "b"), "join")]
    again = ("join", lambda state: ["a", "b"] if state["n"] < 2 else END, ["a", "b", END])
    graph = graph_of(["a", "b", ("join", count)], edges, [again])
    assert log_of(graph, {"log": [], "n": 0}) == ["a", "b", "join"] * 2


def test_a_join_that_can_never_be_reached_is_an_error():
    edges = [(START, "a"), (START, "b"), (("a", "b"), "join")]
    graph = graph_of(["a", "b", "join"], edges, [("join", lambda state: "a", ["a", END])])
    with pytest.raises(AgentError, match="step 2: 'join' waits for b, and nothing runs that could lead there"):
        graph.invoke({"log": []})


def test_a_branch_may_end_the_run_beside_a_join_that_waits():
    graph = graph_of(["a", "b", "join"], [(START, "a"), (START, "b"), (("a", "b"), "join"), ("join", END)])
    graph.edges[2] = (("a", "join"), "join")
    graph.add_edge("b", END)
    assert log_of(graph) == ["a", "b"]


def test_a_cycle_with_a_route():
    def count(state):
        return {"n": state["n"] + 1}

    graph = graph_of([("a", count)], [(START, "a")], [("a", lambda s: "more" if s["n"] < 4 else "enough",
                     {"more": "a", "enough": END})])  # fmt: skip
    assert graph.invoke({"n": 0}).state == {"n": 4}


def test_a_route_from_the_start_and_to_several():
    graph = graph_of("abc", [("a", END), ("b", END), ("c", END)], [(START, lambda s: ["c", "a"], ["a", "b", "c"])])
    assert log_of(graph) == ["a", "c"]


def test_the_step_limit():
    graph = graph_of("a", [(START, "a"), ("a", "a")])
    with pytest.raises(StepLimitError, match=r"not over after 3 steps; next: a"):
        graph.invoke({"log": []}, max_steps=3)


def test_nodes_may_be_objects_methods_and_return_nothing():
    class Node:
        async def __call__(self, state):
            return {"log": ["object"]}

    graph = graph_of([("a", Node()), ("b", lambda state: None)], [(START, "a"), ("a", "b"), ("b", END)])
    assert log_of(graph) == ["object"]


def test_events_come_while_a_node_runs():
    went_on = threading.Event()

    def node(state, context):
        context.emit("first")
        assert went_on.wait(30)
        context.emit("second")
        return {"log": ["x"]}

    seen = []
    for event in graph_of([("a", node)], [(START, "a"), ("a", END)]).stream({"log": []}, run="r"):
        seen.append(event)
        if event == Emitted("a", 0, "first"):
            went_on.set()
    assert seen[:4] == [NodeStart("a", 0), Emitted("a", 0, "first"), Emitted("a", 0, "second"),
                        NodeEnd("a", 0, {"log": ["x"]})]  # fmt: skip
    assert isinstance(seen[4], StepEnd) and seen[4].checkpoint.is_over and seen[4].state == {"log": ["x"]}


def test_an_async_stream():
    graph = graph_of("a", [(START, "a"), ("a", END)])

    async def gather():
        return [type(event) async for event in graph.astream({"log": []})]

    assert asyncio.run(gather()) == [NodeStart, NodeEnd, StepEnd]


def asking(state, context):
    first = context.interrupt("name?")
    second = context.interrupt({"hello": first})
    return {"log": [f"{first} {second}"]}


def test_questions_of_a_node_one_after_the_other():
    graph = graph_of([("a", asking)], [(START, "a"), ("a", END)])
    events = list(graph.stream({"log": []}))
    assert events[1] == Asked("a", 1, "name?") and not any(isinstance(event, NodeEnd) for event in events)
    at = events[-1].checkpoint
    assert at.asks == {"a": "name?"} and not at.is_over
    at = graph.invoke(answered(at, "Ada")).checkpoint
    assert at.asks == {"a": {"hello": "Ada"}}
    assert graph.invoke(answered(at, 7)).state == {"log": ["Ada 7"]}


def test_who_does_not_ask_runs_once_beside_one_who_does():
    runs = []

    def once(state):
        runs.append(1)
        return {"log": ["once"]}

    edges = [(START, "once"), (START, "a"), ("once", END), ("a", END)]
    graph = graph_of([("once", once), ("a", asking)], edges)
    at = graph.invoke({"log": []}).checkpoint
    for answer in ("x", "y"):
        result = graph.invoke(answered(at, answer))
        at = result.checkpoint
    assert result.state == {"log": ["once", "x y"]} and len(runs) == 1


def test_several_nodes_ask():
    edges = [(START, "a"), (START, "b"), ("a", END), ("b", END)]
    node = lambda state, context: {"log": [context.interrupt("?")]}  # noqa: E731
    graph = graph_of([("a", node), ("b", node)], edges)
    at = graph.invoke({"log": []}).checkpoint
    assert set(at.asks) == {"a", "b"}
    with pytest.raises(AgentError, match="those who ask are a, b"):
        answered(at, "x")
    at = answered(at, "B", node="b")
    assert not list(graph.stream(at)), "it waits for the other answer"
    assert graph.invoke(answered(at, "A", node="a")).state == {"log": ["A", "B"]}


def test_an_answer_that_nobody_asked_for():
    graph = graph_of("a", [(START, "a"), ("a", END)])
    with pytest.raises(AgentError, match="nobody asks"):
        answered(graph.begin({"log": []}), "x")


def test_errors_name_the_node_and_the_step():
    def fails(state):
        raise KeyError("lost")

    graph = graph_of(["a", ("b", fails)], [(START, "a"), ("a", "b"), ("b", END)])
    with pytest.raises(NodeError, match=r"node 'b', step 1: KeyError: 'lost'") as caught:
        graph.invoke({"log": []})
    assert (caught.value.node, caught.value.step) == ("b", 1) and isinstance(caught.value.__cause__, KeyError)


def test_an_update_that_cannot_be_stored_names_the_node_too():
    graph = graph_of([("a", lambda state: {"log": [object()]})], [(START, "a"), ("a", END)])
    with pytest.raises(NodeError, match=r"node 'a', step 0: State\.log: cannot be stored"):
        graph.invoke({"log": []})


@pytest.mark.parametrize(
    ("choose", "message"),
    [
        (lambda s: s["nothing"], "KeyError"),
        (lambda s: "b", "expected one of a, .*found 'b'"),
        (lambda s: [], r"found \[\]"),
        (lambda s: None, "found None"),
        (lambda s: [{}], r"found \[{}\]"),
    ],
)
def test_a_route_that_fails_or_leads_elsewhere(choose, message):
    graph = graph_of("a", [(START, "a")], [("a", choose, ["a", END])])
    with pytest.raises(NodeError, match=message):
        graph.invoke({"log": []})


def test_others_end_their_step_when_one_fails():
    ended = []

    async def slow(state):
        await asyncio.sleep(0.05)
        ended.append("slow")

    def fails(state):
        raise ValueError("no")

    edges = [(START, "slow"), (START, "b"), ("slow", END), ("b", END)]
    with pytest.raises(NodeError, match="'b'"):
        graph_of([("slow", slow), ("b", fails)], edges).invoke({"log": []})
    assert ended == ["slow"]


def test_leaving_a_stream_cancels_what_runs():
    cancelled = threading.Event()

    async def endless(state):
        try:
            await asyncio.sleep(1000)
        except asyncio.CancelledError:
            cancelled.set()
            raise

    began = time.monotonic()
    for _ in graph_of([("a", endless)], [(START, "a"), ("a", END)]).stream({"log": []}):
        break
    assert cancelled.is_set() and time.monotonic() - began < 100


@pytest.mark.parametrize(
    ("edges", "message"),
    [
        ([(START, "a"), ("a", "c")], r"edge 'a' to 'c': expected nodes among __start__, a, b, __end__"),
        ([(START, "a"), ("a", "b")], r"node 'b' leads nowhere"),
        ([(START, "a"), ("a", END), ("b", END)], r"nothing leads to node 'b'"),
        ([("a", "b"), ("b", "a")], r"nothing leads away from START"),
        ([(START, "a"), ("a", START), ("a", "b"), ("b", END)], r"edge 'a' to '__start__'"),
    ],
)
def test_graphs_that_cannot_be_meant(edges, message):
    with pytest.raises(AgentError, match=message):
        graph_of("ab", edges).invoke({"log": []})


@pytest.mark.parametrize("name", ["a", START, "no spaces", ""])
def test_names_of_nodes(name):
    graph = graph_of("a", [])
    with pytest.raises(AgentError, match="expected an identifier"):
        graph.add_node(name, logs("x"))


def test_draw():
    edges = [(START, "a"), (START, "b"), (("a", "b"), "c")]
    graph = graph_of("abc", edges, [("c", lambda s: "x", {'say "x"': "a", "done": END}), ("a", lambda s: "b", ["b"])])
    assert graph.draw().splitlines() == [
        "flowchart TD",
        "  __start__([start])",
        *(f"  {name}[{name}]" for name in "abc"),
        "  __end__([end])",
        "  __start__ --> a",
        "  __start__ --> b",
        "  __join_2(( ))",
        "  a --- __join_2",
        "  b --- __join_2",
        "  __join_2 --> c",
        '  c -.->|"say #quot;x#quot;"| a',
        '  c -.->|"done"| __end__',
        "  a -.-> b",
    ]
