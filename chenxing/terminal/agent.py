"""`chenxing agent`: a question, a model and tools. Each step is shown and kept; what changes something is asked for."""

import argparse
import asyncio
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import msgspec

from chenxing.agent import Checkpoint, Checkpoints, Graph, StepEnd, answered
from chenxing.agent.flow import new_run_name
from chenxing.agent.react import SYSTEM, question, react
from chenxing.agent.threads import in_thread
from chenxing.agent.tools import Tool, Toolbox
from chenxing.errors import AgentError, ChenxingError, UsageError
from chenxing.terminal.agent_keys import forget_typed
from chenxing.terminal.agent_runs import list_runs, open_runs, show_run
from chenxing.terminal.agent_setup import Setup, builtin_tools, mcp_tools_of, remote_model, setup_of
from chenxing.terminal.agent_show import JsonWatcher, TextWatcher, Watcher
from chenxing.terminal.args import cache_options, model_options, template_kwargs, template_override
from chenxing.terminal.inputs import PipedInput, joined_prompt, piped_input
from chenxing.terminal.interrupt import pythons_own_interrupt

if TYPE_CHECKING:
    from chenxing.agent.model import Model

_EXIT_ASKS = 3
_MAX_GRAPH_STEPS = 10_000  # what ends a run is --max-steps, the number of the model's answers


def run(args: argparse.Namespace) -> int:
    """Runs `chenxing agent`. What can be wrong with flags is found before a model is loaded."""
    chosen = [flag for flag in ("list_runs", "show", "forget", "resume") if getattr(args, flag)]
    if len(chosen) > 1:
        raise UsageError("--list, --show, --forget and --resume exclude each other")
    if not args.resume and (args.approve or args.deny or args.from_step is not None):
        raise UsageError("--approve, --deny and --from-step are for --resume RUN")
    if args.approve and args.deny:
        raise UsageError("--approve and --deny exclude each other")
    with open_runs(args.runs) as store:
        if args.list_runs:
            return list_runs(store)
        if args.show:
            return show_run(store, args.show)
        if args.forget:
            store.forget(args.forget)
            return 0
        setup, start = _resumed(args, store) if args.resume else _begun(args)
        tools = builtin_tools(setup)
        watcher: Watcher = JsonWatcher() if args.json else TextWatcher()
        try:
            with _model(args, setup) as model, pythons_own_interrupt():
                return asyncio.run(_run(setup, model, tools, start, store, watcher))
        except KeyboardInterrupt:
            name = start.run if isinstance(start, Checkpoint) else start
            how = f"; chenxing agent --resume {name} goes on" if store.about(name) else ""
            print(f"\nchenxing: stopped{how}", file=sys.stderr)
            return 130


def _begun(args: argparse.Namespace) -> tuple[Setup, Checkpoint | str]:
    """For a new run, its name."""
    if args.model is None:
        raise UsageError(
            "expected a MODEL and a QUESTION, as in chenxing agent smollm2 --tools calc 'What is 2 ** 64?'"
        )
    return setup_of(args, _question(args)), new_run_name()


def _resumed(args: argparse.Namespace, store: Checkpoints) -> tuple[Setup, Checkpoint | str]:
    if args.model is not None:
        raise UsageError("--resume goes on with the model and the question that the run had: give no others")
    at = store.at(args.resume, args.from_step)
    try:
        setup = msgspec.convert(store.about(args.resume), Setup)
    except msgspec.ValidationError as error:
        raise AgentError(f"run {args.resume!r} was not begun by chenxing agent: {error}") from error
    if args.from_step is not None:
        at = store.fork(at, new_run_name())
    if at.asks and (args.approve or args.deny):
        return setup, answered(at, args.approve)
    if args.approve or args.deny:
        raise UsageError(f"--approve and --deny: run {at.run!r} asks nothing")
    return setup, at


def _question(args: argparse.Namespace) -> str:
    piped: PipedInput | None = piped_input()
    text = joined_prompt(args.question, None, piped, wait=args.question is None)
    if not text and piped is None and args.question is None and sys.stdout.isatty() and not args.json:
        from chenxing.config import settings
        from chenxing.terminal.prompt import ChatPrompt

        try:
            text = ChatPrompt(settings().paths.data / "history", ()).read()
        except EOFError:
            text = ""
    if not text or not text.strip():
        raise UsageError("the question is missing: give it after MODEL, or pipe it into stdin")
    return text


async def _run(
    setup: Setup,
    model: "Model",
    builtin: list[Tool],
    start: Checkpoint | str,
    store: Checkpoints,
    watcher: Watcher,
) -> int:
    async with mcp_tools_of(setup) as foreign:
        toolbox = Toolbox([*builtin, *foreign])
        graph = react(model, toolbox, max_answers=setup.max_answers, first_choice=setup.first_choice)
        if isinstance(start, Checkpoint):
            at = start
        else:
            system = SYSTEM if setup.system is None else setup.system
            at = graph.begin(question(setup.question, system=system), run=start)
            store.describe(at.run, msgspec.to_builtins(setup))
        store.save(at)
        watcher.begin(at.run)
        return await _followed(graph, at, store, watcher)


async def _followed(graph: Graph, at: Checkpoint, store: Checkpoints, watcher: Watcher) -> int:
    """The run to its end, or to a question that nobody can be asked. -> exit code"""
    state: Any = graph.state.view(at.values)
    while not at.is_over:
        if not at.asks:
            try:
                async for event in graph.astream(at, store=store, max_steps=_MAX_GRAPH_STEPS):
                    watcher.event(event)
                    if isinstance(event, StepEnd):
                        at, state = event.checkpoint, event.state
            except ChenxingError:
                print(f"chenxing: chenxing agent --resume {at.run} goes on from the last step", file=sys.stderr)
                raise
        for node, asked in at.asks.items():
            watcher.question(asked["text"])
            answer = await _permission() if watcher.can_ask else None
            if answer is None:
                how = f"chenxing agent --resume {at.run} --approve (or --deny) answers and goes on"
                print(f"chenxing: stopped at a question: {how}", file=sys.stderr)
                return _EXIT_ASKS
            at = answered(at, answer, node=node)
            store.save(at)
    watcher.end(at.run, at.step, state)
    return 0


async def _permission() -> bool | None:
    """What the person says; None if stdin has ended. Not input(): a thread in it could not be left behind."""
    forget_typed()
    print("permit this? [y/N] ", end="", flush=True)
    line = await in_thread(lambda: os.read(sys.stdin.fileno(), 1000))
    return line.strip().lower() in (b"y", b"yes") if line else None


@contextmanager
def _model(args: argparse.Namespace, setup: Setup) -> "Iterator[Model]":
    if setup.base_url:
        yield remote_model(setup)
        return
    from chenxing.agent.local import LocalModel
    from chenxing.terminal.load import load_model

    options = model_options(args) | cache_options(args)
    llm, _ = load_model(setup.model, **options, chat_template=template_override(args))
    try:
        for notice in llm.notices:
            print(f"chenxing: {notice}", file=sys.stderr)
        params = replace(llm.sampling_defaults, **setup.sampling)
        yield LocalModel(llm, params=params, max_tokens=setup.max_tokens, **template_kwargs(args))
    finally:
        llm.close()
