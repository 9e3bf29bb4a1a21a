"""Typed state: a dataclass or a TypedDict whose fields may say how an update joins the value that is there.

State is kept as JSON data between two steps, and every node gets a copy of its own, made from that. So a node that
changes its copy changes nothing, and a resumed run sees exactly what the first one saw.
"""

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields, is_dataclass
from typing import Any, NotRequired, Required, get_args, get_origin, get_type_hints, is_typeddict

import msgspec

from chenxing.errors import AgentError

Values = dict[str, Any]
"""Fields of a state as JSON data."""
Reducer = Callable[[Any, Any], Any]


class StateType:
    """kind  a dataclass or TypedDict class. A field Annotated[T, reducer] becomes reducer(value, update), both of type
    T, when a node updates it; any other field becomes the update, and one node a step may write it.
    """

    def __init__(self, kind: type) -> None:
        if not (is_dataclass(kind) or is_typeddict(kind)):
            raise AgentError(f"state: expected a dataclass or a TypedDict, found {kind!r}")
        hints = get_type_hints(kind, include_extras=True)
        self.kind = kind
        names = [field.name for field in fields(kind)] if is_dataclass(kind) else list(hints)
        self.types = {name: _without_requirement(hints[name]) for name in names}
        self.reducers = {name: reducer for name in names if (reducer := _reducer(self.types[name]))}

    def start(self, given: Any) -> Values:
        """From an instance, or from a mapping of fields; a dataclass fills in its defaults. Raises AgentError."""
        if is_dataclass(self.kind):
            if isinstance(given, Mapping):
                self._known(given)
                try:
                    given = self.kind(**given)
                except TypeError as error:
                    raise AgentError(f"{self.kind.__name__}: {error}") from error
            return self.plain({name: getattr(given, name) for name in self.types})
        return self.plain(given)

    def view(self, values: Values) -> Any:
        """A state of the user's type, and nobody else's."""
        return self.kind(**{name: self._typed(name, value) for name, value in values.items()})

    def plain(self, update: Any) -> Values:
        """What a node returned, as JSON data; None updates nothing. Raises AgentError naming the field."""
        if update is None:
            return {}
        if not isinstance(update, Mapping):
            raise AgentError(f"expected a dict of fields to update, found {type(update).__name__}")
        self._known(update)
        return {name: self._plain(name, value) for name, value in update.items()}

    def merge(self, values: Values, updates: Iterable[tuple[str, Values]]) -> Values:
        """The state after one step: updates of nodes in their order. Raises AgentError naming nodes and field."""
        out, writers = dict(values), dict[str, str]()
        for node, update in updates:
            for name, value in update.items():
                reducer = self.reducers.get(name)
                if reducer is None and name in writers:
                    both = f"nodes {writers[name]!r} and {node!r} both write {name!r} in one step"
                    raise AgentError(f"{both}: give the field a reducer, as in Annotated[list, operator.add]")
                writers[name] = node
                if reducer is not None and name in out:
                    value = self._reduced(name, reducer, out[name], value, node)
                out[name] = value
        return out

    def _reduced(self, name: str, reducer: Reducer, value: Any, update: Any, node: str) -> Any:
        try:
            return self._plain(name, reducer(self._typed(name, value), self._typed(name, update)))
        except AgentError:
            raise
        except Exception as error:
            what = f"the reducer of {name!r} failed on an update of node {node!r}"
            raise AgentError(f"{what}: {type(error).__name__}: {error}") from error

    def _plain(self, name: str, value: Any) -> Any:
        where = f"{self.kind.__name__}.{name}"
        try:
            plain = json.loads(json.dumps(msgspec.to_builtins(value, str_keys=True), allow_nan=False))
            msgspec.convert(plain, self.types[name], str_keys=True)
        except msgspec.ValidationError as error:
            raise AgentError(f"{where}: {error}") from error
        except (TypeError, ValueError, RecursionError) as error:
            raise AgentError(f"{where}: cannot be stored as JSON: {error}") from error
        return plain

    def _typed(self, name: str, value: Any) -> Any:
        return msgspec.convert(value, self.types[name], str_keys=True)

    def _known(self, names: Iterable[Any]) -> None:
        for name in names:
            if name not in self.types:
                raise AgentError(f"{self.kind.__name__} has no field {name!r}: expected one of {', '.join(self.types)}")


def _without_requirement(hint: Any) -> Any:
    return get_args(hint)[0] if get_origin(hint) in (Required, NotRequired) else hint


def _reducer(hint: Any) -> Reducer | None:
    metadata = getattr(hint, "__metadata__", ())
    return next((item for item in metadata if callable(item)), None)
