"""What a run tells while it goes on. Nodes add events of their own with `Context.emit`."""

from dataclasses import dataclass, field
from typing import Any

from chenxing.agent.state import Values


@dataclass(frozen=True)
class Checkpoint:
    """A run between two of its steps: all that is needed to go on from here.

    run      its name
    step     how many checkpoints came before
    values   the state as JSON data
    next     nodes of the next step, in the graph's order; none: the run is over
    arrived  of each edge with several sources, by its number: those that have ended
    done     updates of those nodes of the next step that have ended already, while others asked or failed
    asks     node: what it asks; the run goes on with `answered`
    answers  node: the answers that it was given, in the order of its questions
    """

    run: str
    step: int
    values: Values
    next: tuple[str, ...]
    arrived: dict[int, list[str]] = field(default_factory=dict)
    done: dict[str, Values] = field(default_factory=dict)
    asks: dict[str, Any] = field(default_factory=dict)
    answers: dict[str, list[Any]] = field(default_factory=dict)

    @property
    def is_over(self) -> bool:
        return not self.next


@dataclass(frozen=True)
class NodeStart:
    node: str
    step: int


@dataclass(frozen=True)
class NodeEnd:
    """update  JSON data"""

    node: str
    step: int
    update: Values


@dataclass(frozen=True)
class Emitted:
    """what  a node's own event, such as a token or a tool call"""

    node: str
    step: int
    what: Any


@dataclass(frozen=True)
class Asked:
    """The node needs an answer; other nodes of the step have ended, and their updates are kept."""

    node: str
    step: int
    question: Any


@dataclass(frozen=True)
class StepEnd:
    """All nodes of a step have ended, or ask; the checkpoint is stored.

    state  of the user's type
    """

    checkpoint: Checkpoint
    state: Any


Event = NodeStart | NodeEnd | Emitted | Asked | StepEnd
