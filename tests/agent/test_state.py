import operator
from dataclasses import dataclass, field
from datetime import date
from typing import Annotated, Any, NotRequired, TypedDict

import pytest

from chenxing.agent.state import StateType
from chenxing.errors import AgentError


@dataclass
class Point:
    x: int
    y: int = 0


@dataclass
class Notes:
    question: str
    points: Annotated[list[Point], operator.add] = field(default_factory=list)
    seen: Annotated[set[str], operator.or_] = field(default_factory=set)
    when: date | None = None
    free: Any = None


class Loose(TypedDict):
    log: Annotated[list[str], operator.add]
    n: NotRequired[int]


def test_a_dataclass_fills_in_its_defaults():
    state = StateType(Notes)
    values = state.start({"question": "why?"})
    assert values == {"question": "why?", "points": [], "seen": [], "when": None, "free": None}
    assert state.start(Notes("why?")) == values
    assert state.view(values) == Notes("why?")


def test_values_are_json_and_come_back_with_their_types():
    state = StateType(Notes)
    values = state.plain({"points": [Point(1, 2)], "seen": {"a"}, "when": date(2024, 2, 29)})
    assert values == {"points": [{"x": 1, "y": 2}], "seen": ["a"], "when": "2024-02-29"}
    assert state.view({"question": "", **values}) == Notes("", [Point(1, 2)], {"a"}, date(2024, 2, 29))


def test_reducers_join_and_other_fields_are_replaced():
    state = StateType(Notes)
    before = state.start(Notes("a", [Point(1)], {"x"}))
    after = state.merge(before, [("one", state.plain({"points": [Point(2)], "seen": {"y", "x"}, "question": "b"}))])
    assert state.view(after) == Notes("b", [Point(1), Point(2)], {"x", "y"})
    assert state.view(before) == Notes("a", [Point(1)], {"x"})


def test_updates_are_merged_in_the_order_of_the_nodes():
    state = StateType(Loose)
    assert state.merge({"log": ["0"]}, [("a", {"log": ["1"]}), ("b", {"log": ["2"]})]) == {"log": ["0", "1", "2"]}


def test_a_typed_dict_may_lack_fields_until_they_are_written():
    state = StateType(Loose)
    assert state.start({}) == {}
    assert state.merge({}, [("a", {"log": ["1"]}), ("b", {"log": ["2"]})]) == {"log": ["1", "2"]}
    assert state.view({"log": ["1"]}) == {"log": ["1"]}


def test_two_writers_of_a_field_without_a_reducer():
    with pytest.raises(AgentError, match=r"'a' and 'b' both write 'n'.*reducer"):
        StateType(Loose).merge({}, [("a", {"n": 1}), ("b", {"n": 1})])


@pytest.mark.parametrize(
    ("update", "message"),
    [
        ({"free": object()}, r"Notes\.free: cannot be stored as JSON"),
        ({"free": float("nan")}, r"Notes\.free: cannot be stored as JSON"),
        ({"free": lambda: 1}, r"Notes\.free: cannot be stored as JSON"),
        ({"question": 3}, r"Notes\.question: Expected `str`, got `int`"),
        ({"points": [{"x": "1"}]}, r"Notes\.points: Expected `int`, got `str` - at `\$\[0\]\.x`"),
        ({"pionts": []}, r"no field 'pionts'.*points"),
        ("text", "expected a dict of fields to update, found str"),
    ],
)
def test_what_cannot_be_stored_is_named(update, message):
    with pytest.raises(AgentError, match=message):
        StateType(Notes).plain(update)


def test_nesting_without_end_is_named():
    deep: list = []
    deep.append(deep)
    with pytest.raises(AgentError, match=r"Notes\.free: cannot be stored"):
        StateType(Notes).plain({"free": deep})


def test_a_missing_field_is_named():
    with pytest.raises(AgentError, match=r"Notes: .*question"):
        StateType(Notes).start({})


def test_a_failing_reducer_is_named():
    class Bad(TypedDict):
        log: Annotated[list[str], lambda old, new: old / new]

    with pytest.raises(AgentError, match=r"reducer of 'log' failed on an update of node 'a': TypeError"):
        StateType(Bad).merge({"log": ["1"]}, [("a", {"log": ["2"]})])


def test_other_classes_are_no_state():
    with pytest.raises(AgentError, match="expected a dataclass or a TypedDict"):
        StateType(dict)
