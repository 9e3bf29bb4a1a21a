"""Runs that are kept: `chenxing agent --list` and `--show RUN`."""

import sys
import time
from pathlib import Path

from chenxing.agent.checkpoints import Checkpoints, Run
from chenxing.agent.events import Checkpoint
from chenxing.config import settings
from chenxing.terminal.agent_show import visible

_QUESTION_CHARACTERS = 60


def open_runs(path: str | None) -> Checkpoints:
    """The file of --runs, by default one in the user's data folder."""
    return Checkpoints(Path(path).expanduser() if path else settings().paths.data / "agent" / "runs.db")


def list_runs(store: Checkpoints) -> int:
    """The latest first."""
    runs = store.runs()
    if not runs:
        print("no runs are kept", file=sys.stderr)
    for run in runs:
        print(f"{run.name:12} {_when(run.saved)}  {_state(run.last):16} step {run.last.step:<4} {_question(run)}")
    return 0


def show_run(store: Checkpoints, name: str) -> int:
    """Each step: what it added to the conversation, and what comes next."""
    n_messages = 0
    for at in store.history(name):
        messages = at.values.get("messages", [])
        for message in messages[n_messages:]:
            print(_shown(message))
        n_messages = max(n_messages, len(messages))
        print(f"-- {at.run} step {at.step}: {_state(at)}")
    return 0


def _state(at: Checkpoint) -> str:
    if at.is_over:
        return "over"
    return f"asks ({', '.join(at.asks)})" if at.asks else f"next: {', '.join(at.next)}"


def _when(seconds: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(seconds))


def _question(run: Run) -> str:
    text = " ".join(str(run.about.get("question", "")).split())
    forked = f"[from {run.origin[0]} step {run.origin[1]}] " if run.origin else ""
    return visible(forked + (text if len(text) <= _QUESTION_CHARACTERS else text[: _QUESTION_CHARACTERS - 1] + "…"))


def _shown(message: dict) -> str:
    calls = [f"→ {call['function']['name']} {call['function']['arguments']}" for call in message.get("tool_calls", ())]
    parts = [message.get("reasoning_content"), message.get("content"), *calls]
    return visible(f"{message['role']}: " + "\n".join(part for part in parts if part))
