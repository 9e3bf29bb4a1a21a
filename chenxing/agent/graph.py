"""A graph of nodes over one typed state, after Pregel's supersteps as LangGraph uses them.

All nodes of a step run side by side on the same state; their updates are merged in the order in which the nodes were
added; edges and routes then say which nodes come next. `flow.py` runs it.

    graph = Graph(State)
    graph.add_node("think", think)
    graph.add_edge(START, "think")
    graph.add_conditional_edges("think", lambda state: "act" if state.calls else END, ["act", END])
    print(graph.draw())
    print(graph.invoke({"question": "..."}).state)

Source: Malewicz 2010 (Pregel); LangGraph (2024) for reducers, conditional edges, interrupts and their names.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from chenxing.agent.events import Checkpoint, Event, StepEnd
from chenxing.agent.flow import Node, blocking, flow, new_run_name
from chenxing.agent.state import StateType
from chenxing.errors import AgentError, NodeError

if TYPE_CHECKING:
    from chenxing.agent.checkpoints import Checkpoints

START, END = "__start__", "__end__"
MAX_STEPS = 25

Choose = Callable[[Any], Any]


@dataclass(frozen=True)
class Route:
    """choose(state) gives a key of targets, or several; targets is key: node."""

    source: str
    choose: Choose
    targets: dict[str, str]


class Graph:
    """state  a dataclass or TypedDict class, see StateType. Nodes, edges and routes are added before the first run."""

    def __init__(self, state: type) -> None:
        self.state = StateType(state)
        self.nodes: dict[str, Node] = {}
        self.edges: list[tuple[tuple[str, ...], str]] = []
        self.routes: list[Route] = []

    def add_node(self, name: str, function: Callable[..., Any]) -> None:
        """function(state) or function(state, context), sync or async, returns a dict of the fields to update, or None.

        A function that is not async runs in a thread of its own.
        """
        if name in self.nodes or name in (START, END) or not name.isidentifier():
            raise AgentError(f"node {name!r}: expected an identifier that no other node has")
        self.nodes[name] = Node(function)

    def add_edge(self, source: str | Sequence[str], target: str) -> None:
        """After source comes target. With several sources, target comes when all of them have ended since the last
        time, in one step or in many."""
        self.edges.append(((source,) if isinstance(source, str) else tuple(source), target))

    def add_conditional_edges(self, source: str, choose: Choose, targets: Sequence[str] | Mapping[str, str]) -> None:
        """After source comes what choose(state) says: one of targets, or a list of them. Nothing else can come."""
        table = dict(targets) if isinstance(targets, Mapping) else {name: name for name in targets}
        self.routes.append(Route(source, choose, table))

    def check(self) -> None:
        """Raises AgentError for an edge to nowhere, a node that nothing leads to, or one that leads to nothing."""
        arrows = [(s, t) for sources, t in self.edges for s in sources]
        arrows += [(route.source, t) for route in self.routes for t in route.targets.values()]
        for source, target in arrows:
            if source not in (START, *self.nodes) or target not in (END, *self.nodes):
                known = ", ".join((START, *self.nodes, END))
                raise AgentError(f"edge {source!r} to {target!r}: expected nodes among {known}")
        for name in self.nodes:
            if name not in {source for source, _ in arrows}:
                raise AgentError(f"node {name!r} leads nowhere: add an edge, perhaps to END")
            if name not in {target for _, target in arrows}:
                raise AgentError(f"nothing leads to node {name!r}: add an edge, perhaps from START")
        if START not in {source for source, _ in arrows}:
            raise AgentError("nothing leads away from START: add an edge to the first node")

    def draw(self) -> str:
        """Mermaid text. Edges that wait for all of their sources meet in a dot; roads that may be taken are dashed."""
        lines = ["flowchart TD", f"  {START}([start])"]
        lines += [f"  {name}[{name}]" for name in self.nodes]
        lines.append(f"  {END}([end])")
        for number, (sources, target) in enumerate(self.edges):
            if len(sources) == 1:
                lines.append(f"  {sources[0]} --> {target}")
                continue
            join = f"__join_{number}"
            lines += [f"  {join}(( ))", *(f"  {source} --- {join}" for source in sources), f"  {join} --> {target}"]
        for route in self.routes:
            for key, target in route.targets.items():
                label = "" if key == target else f'|"{key.replace(chr(34), "#quot;")}"|'
                lines.append(f"  {route.source} -.->{label} {target}")
        return "\n".join(lines) + "\n"

    def begin(self, given: Any, *, run: str | None = None) -> Checkpoint:
        """The first checkpoint of a run, which is not stored yet. given: a state, or a mapping of its fields."""
        self.check()
        values = self.state.start(given)
        following, arrived = self.after([START], self.state.view(values), {}, step=0)
        return Checkpoint(run or new_run_name(), 0, values, following, arrived)

    def after(
        self, ended: Sequence[str], state: Any, arrived: dict[int, list[str]], *, step: int
    ) -> tuple[tuple[str, ...], dict[int, list[str]]]:
        """What comes after these nodes, in the graph's order, and the edges that wait for further sources."""
        targets, waiting = set[str](), dict[int, list[str]]()
        for number, (sources, target) in enumerate(self.edges):
            here = [s for s in sources if s in ended or s in arrived.get(number, ())]
            if len(here) == len(sources):
                targets.add(target)
            elif here:
                waiting[number] = here
        for route in self.routes:
            if route.source in ended:
                targets.update(_chosen(route, state, step))
        if waiting and not targets:
            sources, target = self.edges[min(waiting)]
            missing = ", ".join(s for s in sources if s not in waiting[min(waiting)])
            raise AgentError(f"step {step}: {target!r} waits for {missing}, and nothing runs that could lead there")
        return tuple(name for name in self.nodes if name in targets), waiting

    def astream(
        self, given: Any, *, run: str | None = None, store: "Checkpoints | None" = None, max_steps: int = MAX_STEPS
    ) -> AsyncGenerator[Event, None]:
        """Run to the end, to a question, or to an error, and tell what happens.

        given  the state that a new run begins with, or a Checkpoint to go on from
        store  where every step is kept; raises AgentError if another process has continued the run meanwhile

        Raises NodeError naming the node, StepLimitError after max_steps steps.
        """
        at = given if isinstance(given, Checkpoint) else self.begin(given, run=run)
        return flow(self, at, store, max_steps)

    def stream(self, given: Any, **options: Any) -> Iterator[Event]:
        """`astream` for those who have no event loop. Nodes go on only while the next event is waited for."""
        return blocking(self.astream(given, **options))

    async def ainvoke(self, given: Any, **options: Any) -> StepEnd:
        """Run until it ends or asks: the last state, and the checkpoint with what it asks."""
        at = given if isinstance(given, Checkpoint) else self.begin(given, run=options.pop("run", None))
        last = StepEnd(at, self.state.view(at.values))
        async for event in self.astream(at, **options):
            if isinstance(event, StepEnd):
                last = event
        return last

    def invoke(self, given: Any, **options: Any) -> StepEnd:
        """`ainvoke` for those who have no event loop."""
        return asyncio.run(self.ainvoke(given, **options))


def _chosen(route: Route, state: Any, step: int) -> list[str]:
    try:
        choice = route.choose(state)
        keys = choice if isinstance(choice, list | tuple) else [choice]
        if not keys or any(not isinstance(key, str) or key not in route.targets for key in keys):
            raise AgentError(f"expected one of {', '.join(route.targets)}, or a list of them, found {choice!r}")
    except Exception as error:
        raise NodeError(f"{route.source} (its route)", step, error) from error
    return [route.targets[key] for key in keys]
