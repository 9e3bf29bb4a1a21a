"""`chenxing completion SHELL`: prints a script that completes commands, flags and their values in a shell."""

import argparse
from collections.abc import Callable, Mapping
from typing import Any

from chenxing.terminal.completion_words import Command, read_commands

SHELLS = ("bash", "zsh", "fish", "powershell")
_DESCRIPTION = """\
Prints a script that completes chenxing's commands, flags and their values:

  bash        eval "$(chenxing completion bash)"             in ~/.bashrc
  zsh         eval "$(chenxing completion zsh)"              in ~/.zshrc, after compinit
  fish        chenxing completion fish | source              in ~/.config/fish/config.fish
  PowerShell  chenxing completion powershell | Out-String | Invoke-Expression     in $PROFILE
"""


def add_parsers(subparsers: Any, all_parsers: Callable[[], Mapping[str, argparse.ArgumentParser]]) -> None:
    """Adds the sub-parser of `completion`. all_parsers: name of a command -> its parser, for every command."""
    what = "print a script that completes commands and flags in a shell"
    parser = subparsers.add_parser("completion", help=what, description=_DESCRIPTION)
    parser.add_argument("shell", choices=SHELLS, metavar="SHELL", help=", ".join(SHELLS))
    parser.set_defaults(run=lambda args: print(script(args.shell, read_commands(all_parsers()))))


def script(shell: str, commands: list[Command]) -> str:
    """The script for one of SHELLS."""
    from chenxing.terminal import completion_scripts as scripts

    writers = {"bash": scripts.bash, "zsh": scripts.zsh, "fish": scripts.fish, "powershell": scripts.powershell}
    return writers[shell](commands)
