"""Runs on disk: resumed after a kill, replayed, forked, and never mixed up."""

import os
import sqlite3
import subprocess
import sys
import zlib
from operator import add
from pathlib import Path
from random import Random
from typing import Annotated, TypedDict

import pytest

from chenxing.agent import END, START, Checkpoints, Graph, NodeEnd, StepEnd, answered
from chenxing.errors import AgentError, NodeError, StepLimitError


class State(TypedDict):
    log: Annotated[list[int], add]


def counting(fails_at=None):
    """Ten steps that write down their number."""
    calls = []

    def count(state):
        calls.append(len(state["log"]))
        if fails_at is not None and len(state["log"]) == fails_at:
            raise ValueError("no")
        return {"log": [len(state["log"])]}

    graph = Graph(State)
    graph.add_node("count", count)
    graph.add_edge(START, "count")
    graph.add_conditional_edges("count", lambda s: "count" if len(s["log"]) < 10 else END, ["count", END])
    graph.calls = calls
    return graph


@pytest.fixture
def store(tmp_path):
    with Checkpoints(tmp_path / "sub" / "runs.db") as made:
        yield made


def test_every_step_is_there(store):
    counting().invoke({"log": []}, run="r", store=store)
    steps = store.history("r")
    assert [(at.step, at.values["log"], at.next) for at in steps] == [
        (n, list(range(n)), ("count",) if n < 10 else ()) for n in range(11)
    ]
    assert store.latest("r") == steps[-1] and store.at("r", 3) == steps[3]


def test_a_run_goes_on_where_it_failed(store):
    with pytest.raises(NodeError):
        counting(fails_at=6).invoke({"log": []}, run="r", store=store)
    graph = counting()
    assert graph.invoke(store.latest("r"), store=store).state["log"] == list(range(10))
    assert graph.calls == [6, 7, 8, 9]


def test_a_run_goes_on_after_its_step_limit(store):
    with pytest.raises(StepLimitError):
        counting().invoke({"log": []}, run="r", store=store, max_steps=4)
    graph = counting()
    graph.invoke(store.latest("r"), store=store)
    assert graph.calls == list(range(4, 10))


VICTIM = """
import os, sys, time
sys.path[:0] = {path!r}
from test_checkpoints import counting
from chenxing.agent import Checkpoints, StepEnd
store = Checkpoints(sys.argv[1])
start = {{"log": []}} if sys.argv[2] == "begin" else store.latest("r")
for event in counting().stream(start, run="r", store=store):
    if isinstance(event, StepEnd):
        print(event.checkpoint.step, flush=True)
        time.sleep(0.02)
"""


def test_sigkill_at_any_step_loses_no_whole_step(tmp_path):
    path, how, told = tmp_path / "runs.db", "begin", 0
    code = VICTIM.format(path=[str(Path(__file__).parent), *filter(None, sys.path)])
    n_kills = 0
    while True:
        victim = subprocess.Popen(
            [sys.executable, "-c", code, str(path), how], stdout=subprocess.PIPE, text=True, cwd=tmp_path
        )
        for n_lines, line in enumerate(victim.stdout, 1):
            told = int(line)
            if n_lines == 3:
                victim.kill()
                break
        is_over = victim.wait() == 0
        n_kills += not is_over
        victim.stdout.close()
        with Checkpoints(path) as store:
            at = store.latest("r")
        assert at.step >= told and at.values["log"] == list(range(at.step))
        if is_over:
            break
        how = "resume"
    assert n_kills >= 2 and at.is_over and at.values["log"] == list(range(10))


def test_a_step_that_was_not_committed_is_not_there(store, monkeypatch):
    """As when the disk is full, or the process dies between a step's end and its commit."""
    save, saved = store.save, []

    def failing(at):
        if at.step == 4:
            raise AgentError("disk full")
        saved.append(at.step)
        save(at)

    monkeypatch.setattr(store, "save", failing)
    with pytest.raises(AgentError, match="disk full"):
        counting().invoke({"log": []}, run="r", store=store)
    monkeypatch.undo()
    assert store.latest("r").step == 3
    assert counting().invoke(store.latest("r"), store=store).state["log"] == list(range(10))


def test_a_fork_goes_its_own_way_and_leaves_the_old_run(store):
    counting().invoke({"log": []}, run="r", store=store)
    before = store.history("r")
    graph = counting()
    fork = store.fork(store.at("r", 7), "other", {"log": [0, 1, 2]})
    assert graph.invoke(fork, store=store).state["log"] == list(range(10)) and graph.calls == list(range(3, 10))
    assert store.history("r") == before
    assert [(at.run, at.step) for at in store.history("other")] == [("r", n) for n in range(7)] + [
        ("other", n) for n in range(7, 15)
    ]
    by_name = {run.name: run for run in store.runs()}
    assert by_name["other"].origin == ("r", 7) and by_name["r"].origin is None


def test_replaying_gives_the_same_steps(store):
    counting().invoke({"log": []}, run="r", store=store)
    counting().invoke(store.fork(store.at("r", 2), "again"), store=store)
    assert [at.values for at in store.history("again")] == [at.values for at in store.history("r")]


def random_graph(rng, n_nodes=5):
    """Nodes that write down a digest of what they saw; edges, joins and routes at random; some ask."""
    names = [f"n{i}" for i in range(n_nodes)]

    def node(name, asks):
        def run(state, context):
            said = context.interrupt(name) if asks else ""
            return {"log": [zlib.crc32(f"{name}{said}{state['log']}".encode())]}

        return run

    graph = Graph(State)
    for name in names:
        graph.add_node(name, node(name, rng.random() < 0.2))
        digest = rng.randrange(100)
        targets = rng.sample([*names, END], 3)
        graph.add_conditional_edges(
            name,
            lambda s, d=digest, t=targets: END if len(s["log"]) > 12 else t[(d + s["log"][-1]) % 3],
            [*dict.fromkeys([*targets, END])],
        )
    for name in names:
        graph.add_edge(START, name)
    return graph


def to_the_end(graph, at, store=None):
    """Every question is answered with its own name."""
    while not at.is_over:
        if at.asks:
            at = answered(at, "!", node=min(at.asks))
            continue
        for event in graph.stream(at, store=store, max_steps=200):
            if isinstance(event, StepEnd):
                at = event.checkpoint
    return at


@pytest.mark.parametrize("seed", range(6))
def test_from_wherever_a_run_goes_on_it_comes_to_the_same_end(store, seed):
    graph = random_graph(Random(seed))
    without_store = to_the_end(graph, graph.begin({"log": []}, run="r"))
    end = to_the_end(graph, graph.begin({"log": []}, run="r"), store)
    assert end == without_store and len(end.values["log"]) >= 5
    for at in store.history("r")[:: 1 + seed % 3]:
        assert to_the_end(graph, store.fork(at, f"f{at.step}"), store).values == end.values


def test_a_fork_needs_a_new_name(store):
    counting().invoke({"log": []}, run="r", store=store)
    with pytest.raises(AgentError, match="a run 'r' already"):
        store.fork(store.at("r", 2), "r")


def test_going_on_from_an_earlier_step_is_refused_without_a_fork(store):
    graph = counting()
    graph.invoke({"log": []}, run="r", store=store)
    with pytest.raises(AgentError, match=r"already has another step 0|fork"):
        graph.invoke({"log": [5]}, run="r", store=store)
    store.save(store.at("r", 4))  # the same again is fine


def test_what_was_done_beside_a_failure_is_not_done_again(store):
    calls = []

    def works(state):
        calls.append("works")
        return {"log": [1]}

    def fails_once(state):
        calls.append("fails")
        if calls.count("fails") == 1:
            raise ValueError("no")
        return {"log": [2]}

    graph = Graph(State)
    graph.add_node("works", works)
    graph.add_node("fails", fails_once)
    for name in ("works", "fails"):
        graph.add_edge(START, name)
        graph.add_edge(name, END)
    with pytest.raises(NodeError):
        graph.invoke({"log": []}, run="r", store=store)
    assert graph.invoke(store.latest("r"), store=store).state == {"log": [1, 2]}
    assert sorted(calls) == ["fails", "fails", "works"]


def test_a_question_outlives_the_process_and_its_answer_is_kept(tmp_path):
    graph = Graph(State)
    graph.add_node("ask", lambda state, context: {"log": [context.interrupt({"how": "many"})]})
    graph.add_edge(START, "ask")
    graph.add_edge("ask", END)
    with Checkpoints(tmp_path / "runs.db") as store:
        graph.invoke({"log": []}, run="r", store=store)
    with Checkpoints(tmp_path / "runs.db") as store:
        at = store.latest("r")
        assert at.asks == {"ask": {"how": "many"}}
        events = list(graph.stream(answered(at, 3), store=store))
        assert NodeEnd("ask", 2, {"log": [3]}) in events
        assert [at.answers for at in store.history("r")] == [{}, {}, {"ask": [3]}, {}]


def test_questions_and_answers_that_are_no_json_are_named(store):
    graph = Graph(State)
    graph.add_node("ask", lambda state, context: {"log": [context.interrupt(object())]})
    graph.add_edge(START, "ask")
    graph.add_edge("ask", END)
    with pytest.raises(AgentError, match="run 'r', step 1: a question or an answer cannot be stored"):
        graph.invoke({"log": []}, run="r", store=store)


def test_what_is_said_about_runs(store):
    counting().invoke({"log": []}, run="first", store=store)
    counting().invoke({"log": []}, run="second", store=store)
    store.describe("first", {"question": "星?"})
    assert [(run.name, run.about, run.last.is_over) for run in store.runs()] == [
        ("second", {}, True),
        ("first", {"question": "星?"}, True),
    ]
    assert store.about("first") == {"question": "星?"} and store.about("none") == {}


def test_a_run_is_forgotten_to_the_last_byte(store, tmp_path):
    graph = Graph(State)
    graph.add_node("a", lambda state: {"log": [123456789123456789]})
    graph.add_edge(START, "a")
    graph.add_edge("a", END)
    graph.invoke({"log": []}, run="r", store=store)
    store.fork(store.at("r", 0), "f")
    store.forget("r")
    assert [run.name for run in store.runs()] == ["f"] and [at.run for at in store.history("f")] == ["f"]
    assert not any(b"123456789123456789" in file.read_bytes() for file in (tmp_path / "sub").iterdir())
    with pytest.raises(AgentError, match="there is no run 'r'"):
        store.forget("r")


def test_unknown_runs_steps_and_nodes(store):
    with pytest.raises(AgentError, match="there is no run 'x'"):
        store.latest("x")
    with pytest.raises(AgentError, match="there is no run 'x'"):
        store.history("x")
    counting().invoke({"log": []}, run="r", store=store)
    with pytest.raises(AgentError, match="there is no step 99 of run 'r'"):
        store.at("r", 99)
    other = Graph(State)
    other.add_node("b", lambda state: None)
    other.add_edge(START, "b")
    other.add_edge("b", END)
    with pytest.raises(AgentError, match="'count', which this graph does not have"):
        other.invoke(store.fork(store.at("r", 2), "f"), store=store)


@pytest.mark.skipif(os.name != "posix", reason="permissions of POSIX")
def test_only_its_user_can_read_it(store, tmp_path):
    counting().invoke({"log": []}, run="r", store=store)
    assert {file.stat().st_mode & 0o777 for file in (tmp_path / "sub").iterdir()} == {0o600}


def test_files_of_another_kind(tmp_path):
    text = tmp_path / "text"
    text.write_text("no database, but long enough to be looked at" * 30)
    with pytest.raises(AgentError, match="not a database"):
        Checkpoints(text)
    other = tmp_path / "other.db"
    with sqlite3.connect(other) as db:
        db.execute("CREATE TABLE t (x)")
    db.close()
    with pytest.raises(AgentError, match="another SQLite database"):
        Checkpoints(other)
    with Checkpoints(tmp_path / "new.db"):
        pass
    with sqlite3.connect(tmp_path / "new.db") as db:
        db.execute("PRAGMA user_version = 9")
    db.close()
    with pytest.raises(AgentError, match="expected checkpoints of version 1, found 9"):
        Checkpoints(tmp_path / "new.db")


def test_a_damaged_checkpoint_is_named(store, tmp_path):
    counting().invoke({"log": []}, run="r", store=store)
    with sqlite3.connect(tmp_path / "sub" / "runs.db") as db:
        db.execute("UPDATE checkpoints SET data = '{\"run\": 3}' WHERE step = 2")
    db.close()
    with pytest.raises(AgentError, match="a checkpoint is damaged"):
        store.at("r", 2)
