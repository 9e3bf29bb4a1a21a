"""Runs a graph: one superstep after the other, each kept before the next begins."""

import asyncio
import inspect
import secrets
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from chenxing.agent.events import Asked, Checkpoint, Emitted, Event, NodeEnd, NodeStart, StepEnd
from chenxing.agent.state import Values
from chenxing.agent.threads import in_thread
from chenxing.errors import AgentError, NodeError, StepLimitError

if TYPE_CHECKING:
    from chenxing.agent.checkpoints import Checkpoints
    from chenxing.agent.graph import Graph


class Node:
    """A function that takes the state, and the Context if it has a second parameter."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function
        kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
        parameters = inspect.signature(function).parameters.values()
        self.takes_context = sum(p.kind in kinds for p in parameters) > 1
        call = function if inspect.isroutine(function) else type(function).__call__
        self.is_async = inspect.iscoroutinefunction(call)

    async def run(self, state: Any, context: "Context") -> Any:
        given = (state, context) if self.takes_context else (state,)
        update = await (self.function(*given) if self.is_async else in_thread(lambda: self.function(*given)))
        return await update if inspect.isawaitable(update) else update


class Question(BaseException):
    """Leaves a node that asks. No Exception, so that a node's `except Exception` does not hold it."""


class Context:
    """What a node may use beside the state. `emit` and `interrupt` may be called in any thread."""

    def __init__(self, node: str, step: int, answers: list[Any], tell: Callable[[Event], None]) -> None:
        self.node, self.step = node, step
        self._answers, self._tell = iter(answers), tell

    def emit(self, what: Any) -> None:
        """Tell who listens to the run; nothing of it is stored."""
        self._tell(Emitted(self.node, self.step, what))

    def interrupt(self, question: Any) -> Any:
        """The answer to a question, JSON data both.

        Without an answer the run stops here. It is resumed with one, and the node then begins anew: whatever must
        happen once belongs behind its questions, or into a node of its own.
        """
        for answer in self._answers:
            return answer
        raise Question(question)


def answered(at: Checkpoint, answer: Any, *, node: str | None = None) -> Checkpoint:
    """The checkpoint to go on from when the run asks. node: whose question it is, if there are several."""
    if node is None and len(at.asks) == 1:
        node = next(iter(at.asks))
    if node not in at.asks:
        asking = f"those who ask are {', '.join(at.asks)}" if at.asks else "nobody asks"
        raise AgentError(f"run {at.run!r}, step {at.step}: an answer for node {node!r}, but {asking}")
    answers = {**at.answers, node: [*at.answers.get(node, ()), answer]}
    asks = {name: question for name, question in at.asks.items() if name != node}
    return replace(at, step=at.step + 1, asks=asks, answers=answers)


async def flow(
    graph: "Graph", at: Checkpoint, store: "Checkpoints | None", max_steps: int
) -> AsyncGenerator[Event, None]:
    """See Graph.astream."""
    graph.check()
    if missing := [name for name in at.next if name not in graph.nodes]:
        raise AgentError(f"run {at.run!r}: its next node is {missing[0]!r}, which this graph does not have")
    if store:
        store.save(at)
    last = at.step + max_steps
    while at.next and not at.asks:
        if at.step >= last:
            raise StepLimitError(f"run {at.run!r}: not over after {max_steps} steps; next: {', '.join(at.next)}")
        step = _Step(graph, at)
        try:
            async for event in step.events():
                yield event
        finally:
            await step.stop()
        at = step.outcome(store)
        for node, question in at.asks.items():
            yield Asked(node, at.step, question)
        yield StepEnd(at, graph.state.view(at.values))


class _Step:
    """One superstep: its nodes side by side, then what follows from their updates."""

    def __init__(self, graph: "Graph", at: Checkpoint) -> None:
        self._graph, self._at = graph, at
        self._loop = asyncio.get_running_loop()
        self._queue: asyncio.Queue[Event | None] = asyncio.Queue()
        names = [name for name in at.next if name not in at.done]
        self._tasks = {name: self._loop.create_task(self._run(name), name=name) for name in names}
        self._end = self._loop.create_task(self._wait())

    async def events(self) -> AsyncIterator[Event]:
        while (event := await self._queue.get()) is not None:
            yield event

    async def stop(self) -> None:
        """Whatever still runs is cancelled, and waited for."""
        for task in self._tasks.values():
            task.cancel()
        await self._end

    def outcome(self, store: "Checkpoints | None") -> Checkpoint:
        """The next checkpoint, stored. Raises NodeError for the first node that failed; the others' work is kept."""
        at, graph = self._at, self._graph
        errors = {name: _error_of(task) for name, task in self._tasks.items()}
        done = at.done | {name: task.result() for name, task in self._tasks.items() if errors[name] is None}
        asks = {name: error.args[0] for name, error in errors.items() if isinstance(error, Question)}
        failed = [name for name, error in errors.items() if error is not None and name not in asks]
        if failed or asks:
            at = replace(at, step=at.step + 1, done=done, asks={} if failed else asks)
        else:
            values = graph.state.merge(at.values, [(name, done[name]) for name in at.next])
            following, arrived = graph.after(at.next, graph.state.view(values), at.arrived, step=at.step)
            at = Checkpoint(at.run, at.step + 1, values, following, arrived)
        if store and (not failed or done):
            store.save(at)
        if failed:
            cause = errors[failed[0]]
            assert cause is not None
            raise NodeError(failed[0], self._at.step, cause) from cause
        return at

    async def _run(self, name: str) -> Values:
        at, state = self._at, self._graph.state
        context = Context(name, at.step, at.answers.get(name, []), self._tell)
        self._tell(NodeStart(name, at.step))
        update = state.plain(await self._graph.nodes[name].run(state.view(at.values), context))
        self._tell(NodeEnd(name, at.step, update))
        return update

    async def _wait(self) -> None:
        if self._tasks:
            await asyncio.wait(self._tasks.values())
        self._tell(None)

    def _tell(self, event: Event | None) -> None:
        """From any thread; in the order of the calls of one node."""
        self._loop.call_soon_threadsafe(self._queue.put_nowait, event)


def _error_of(task: asyncio.Task[Values]) -> BaseException | None:
    return asyncio.CancelledError("cancelled") if task.cancelled() else task.exception()


def blocking(events: AsyncGenerator[Event, None]) -> Iterator[Event]:
    """The same events, in a loop of their own that runs while the next one is waited for."""

    async def following() -> Event | None:
        return await anext(events, None)

    with asyncio.Runner() as runner:
        try:
            while (event := runner.run(following())) is not None:
                yield event
        finally:
            runner.run(events.aclose())


def new_run_name() -> str:
    return secrets.token_hex(4)
