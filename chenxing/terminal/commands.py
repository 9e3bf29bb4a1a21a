"""The slash commands of a chat: one table, which `/help` prints."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from chenxing.errors import UsageError
from chenxing.terminal.parser import did_you_mean
from chenxing.terminal.saved import load_messages, save_messages
from chenxing.terminal.session import Session
from chenxing.terminal.settable import change, current_values
from chenxing.terminal.stats import session_report

Action = Literal["stay", "regenerate", "leave"]


@dataclass(frozen=True)
class Outcome:
    """What the chat prints after a command, and what it does next."""

    text: str = ""
    action: Action = "stay"


@dataclass(frozen=True)
class Command:
    """`run` takes the session and what stands after the command's name."""

    name: str
    argument: str
    help: str
    run: Callable[[Session, str], Outcome]

    @property
    def usage(self) -> str:
        return f"{self.name} {self.argument}".rstrip()


def find_command(text: str) -> tuple[str, str] | None:
    """(name, argument) when `text` is a command, None when it is a message.

    `/etc/hosts is missing` is a message: a command's name is one word without a second slash.
    """
    match = re.fullmatch(r"\s*(/[a-zA-Z?]+)(?:\s+(.*))?", text, re.DOTALL)
    return (match[1].lower(), (match[2] or "").strip()) if match else None


def run_command(session: Session, name: str, argument: str) -> Outcome:
    """Runs `/name argument`. Raises UsageError for what is not known, ChenxingError for files."""
    command = COMMANDS.get(_ALIASES.get(name, name))
    if command is None:
        raise UsageError(f"unknown command {name}{did_you_mean(name, COMMANDS)} (/help lists the commands)")
    if argument and not command.argument:
        raise UsageError(f"{name} takes no argument, found {argument!r}")
    return command.run(session, argument)


def _help(_session: Session, _argument: str) -> Outcome:
    width = max(len(command.usage) for command in COMMANDS.values()) + 2
    lines = [f"{command.usage:{width}}{command.help}" for command in COMMANDS.values()]
    keys = 'Enter sends, Alt-Enter starts a new line, """ begins and ends a text of many lines,\n'
    keys += "Ctrl-C stops an answer, Ctrl-C twice or Ctrl-D at the empty prompt leaves."
    return Outcome("\n".join([*lines, "", keys]))


def _clear(session: Session, _argument: str) -> Outcome:
    session.clear()
    return Outcome("The conversation is cleared" + ("; the system prompt stays." if session.system else "."))


def _system(session: Session, argument: str) -> Outcome:
    if argument in ('""', "''"):
        session.system = None
        return Outcome("The system prompt is removed.")
    if argument:
        session.system = argument
        return Outcome("The system prompt is set; it holds from the next answer on.")
    shown = f"The system prompt is: {session.system}" if session.system else "There is no system prompt."
    return Outcome(f'{shown} /system TEXT sets it, /system "" removes it.')


def _file(argument: str, usage: str) -> Path:
    if not argument:
        raise UsageError(f"{usage}: the file name is missing")
    return Path(argument).expanduser()


def _save(session: Session, argument: str) -> Outcome:
    path = _file(argument, "/save FILE")
    if not session.messages:
        raise UsageError("there is nothing to save yet")
    save_messages(path, session.messages)
    return Outcome(f"Saved {_messages(len(session.messages))} to {path}.")


def _load(session: Session, argument: str) -> Outcome:
    path = _file(argument, "/load FILE")
    if session.raw:
        raise UsageError("a conversation needs a chat template: this session completes plain text")
    session.messages = load_messages(path)
    return Outcome(f"Loaded {_messages(len(session.messages))} from {path}.")


def _regen(_session: Session, _argument: str) -> Outcome:
    return Outcome(action="regenerate")


def _set(session: Session, argument: str) -> Outcome:
    name, _, value = argument.replace("=", " ", 1).partition(" ")
    if not name:
        return Outcome(current_values(session.options))
    return Outcome(change(session.options, name, value.strip()))


def _stats(session: Session, _argument: str) -> Outcome:
    return Outcome(session_report(session))


def _exit(_session: Session, _argument: str) -> Outcome:
    return Outcome(action="leave")


COMMANDS: dict[str, Command] = {
    command.name: command
    for command in (
        Command("/help", "", "this list", _help),
        Command("/clear", "", "forget the conversation, keep the system prompt", _clear),
        Command("/system", "[TEXT]", "show or set the system prompt", _system),
        Command("/regen", "", "answer the last question again", _regen),
        Command("/set", "[NAME VALUE]", "show or change settings, as in /set temperature 0.2", _set),
        Command("/save", "FILE", "write the conversation to a JSON file", _save),
        Command("/load", "FILE", "go on with a saved conversation", _load),
        Command("/stats", "", "tokens, cache and speed", _stats),
        Command("/exit", "", "leave", _exit),
    )
}

_ALIASES = {
    "/?": "/help",
    "/quit": "/exit",
    "/bye": "/exit",
    "/q": "/exit",
    "/regenerate": "/regen",
    "/reset": "/clear",
}


def _messages(n: int) -> str:
    return "1 message" if n == 1 else f"{n} messages"
