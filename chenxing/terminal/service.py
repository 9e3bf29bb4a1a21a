"""`chenxing service print`: a service file, so that the system starts a server when the user logs in.

Source  systemd.service(5), systemd.syntax(7) "Quoting"; launchd.plist(5)
"""

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from chenxing.config import settings
from chenxing.errors import UsageError
from chenxing.terminal.parser import Parser

_DESCRIPTION = """\
Prints a file that lets the system start `chenxing serve` when you log in, and start it again if it fails.

Linux:  chenxing service print smollm2 > ~/.config/systemd/user/chenxing.service
        systemctl --user enable --now chenxing
macOS:  chenxing service print smollm2 > ~/Library/LaunchAgents/chenxing.plist
        launchctl load ~/Library/LaunchAgents/chenxing.plist

Flags of `chenxing serve` stand behind --, as in: chenxing service print -- smollm2 --port 8081
"""
_LABEL = "chenxing"


def add_parsers(subparsers: Any) -> None:
    """Adds the sub-parser of `service`."""
    usage = "chenxing service print [--system NAME] [--] MODEL [flags of serve]"
    what = "print a service file for systemd or launchd"
    parser = subparsers.add_parser("service", help=what, usage=usage, description=_DESCRIPTION)
    parser.add_argument("action", choices=("print",), metavar="print", help="print the file")
    parser.add_argument("words", nargs="+", metavar="MODEL", help="the model, and behind -- flags of chenxing serve")
    parser.add_argument("--system", choices=tuple(_WRITERS), metavar="NAME", help="systemd or launchd (this system's)")
    parser.set_defaults(run=_run)


def _run(args: argparse.Namespace) -> None:
    system = args.system or {"linux": "systemd", "darwin": "launchd"}.get(sys.platform)
    if system is None:
        raise UsageError(
            "there is no service file for this system: name one with --system, or let the Task Scheduler start "
            "`chenxing serve MODEL` when you log on"
        )
    print(_WRITERS[system](_command(args.words)))


def _command(words: list[str]) -> list[str]:
    """What the system starts, with whole paths. Raises UsageError for words that `serve` would not take."""
    from chenxing.terminal import serve

    subparsers = Parser(prog="chenxing").add_subparsers()
    serve.add_parsers(subparsers, lambda options: 0)
    model = serve.serve_options(subparsers.choices["serve"].parse(words))["model"]
    whole = [str(Path(word).absolute()) if word == model and Path(word).is_file() else word for word in words]
    program = [sys.executable] if getattr(sys, "frozen", False) else [sys.executable, "-P", "-m", "chenxing"]
    return [*program, "serve", *whole]


def systemd_unit(command: list[str]) -> str:
    """A unit of the user's systemd."""
    home = settings().home
    environment = f"Environment={_quoted(f'CHENXING_HOME={home}')}\n" if home else ""
    return f"""\
[Unit]
Description=chenxing: a language model over HTTP

[Service]
ExecStart={" ".join(_quoted(word).replace("$", "$$") for word in command)}
{environment}Restart=on-failure
RestartSec=5
TimeoutStopSec=20

[Install]
WantedBy=default.target"""


def _quoted(word: str) -> str:
    """One word for systemd, in which % begins a specifier; in commands $ begins a variable besides."""
    escaped = word.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("%", "%%")
    return f'"{escaped}"'


def launchd_plist(command: list[str]) -> str:
    """A launch agent. What the server says goes to ~/Library/Logs/chenxing.log."""
    import plistlib

    home = settings().home
    agent: dict[str, Any] = {
        "Label": _LABEL,
        "ProgramArguments": command,
        "RunAtLoad": True,
        "KeepAlive": {"SuccessfulExit": False},
        "ExitTimeOut": 20,
        "StandardErrorPath": str(Path.home() / "Library/Logs/chenxing.log"),
    }
    if home:
        agent["EnvironmentVariables"] = {"CHENXING_HOME": str(home)}
    return plistlib.dumps(agent).decode().rstrip("\n")


_WRITERS: dict[str, Callable[[list[str]], str]] = {"systemd": systemd_unit, "launchd": launchd_plist}
