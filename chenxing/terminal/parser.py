"""argparse with this project's manners: usage errors are exceptions, and an unknown name brings the nearest known one.

`add_parsers(subparsers)` of a command module adds that module's sub-parsers and names their functions with
`set_defaults(run=function)`; the function takes the parsed arguments and returns the exit code.
"""

import argparse
from collections.abc import Iterable, Sequence
from typing import Any, NoReturn

from chenxing.errors import UsageError


class Parser(argparse.ArgumentParser):
    """Sub-parsers are of this class too, since argparse makes them like their parent.

    Long flags are never abbreviated: a script must not change its meaning when a flag is added.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        kwargs.setdefault("allow_abbrev", False)
        kwargs.setdefault("formatter_class", _Formatter)
        super().__init__(*args, **kwargs)

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message} ({self.prog} -h shows what there is)")

    def parse(self, argv: Sequence[str]) -> argparse.Namespace:
        """Arguments of `argv`. Raises UsageError, also for flags that nobody knows, with the nearest known ones."""
        # intermixed, so that flags may stand between MODEL and PROMPT
        args, unknown = self.parse_known_intermixed_args(self._bind_values(argv))
        if unknown:
            raise UsageError(self._unknown(unknown[0]))
        return args

    def _bind_values(self, argv: Sequence[str]) -> list[str]:
        """`argv` with texts that begin with a dash bound to their flag, as in --prompt="-5 + 3 =".

        argparse takes a value for a flag when it starts with a dash, llama.cpp takes whatever follows `-p`.
        """
        bound: list[str] = []
        words = iter(argv)
        for word in words:
            action = self._option_string_actions.get(word)
            takes_text = action is not None and action.nargs is None and action.type is None
            value = next(words, None) if takes_text else None
            if action is None or value is None:
                bound.append(word)
            elif value.startswith("-") and value != "--" and value not in self._option_string_actions:
                bound.append(f"{max(action.option_strings, key=len)}={value}")
            else:
                bound += [word, value]
        return bound

    def _unknown(self, word: str) -> str:
        flag = word.partition("=")[0]
        if not flag.startswith("-"):
            return f"unexpected argument {word!r} ({self.prog} -h shows what there is)"
        return f"unknown flag {flag}{did_you_mean(flag, self._option_string_actions)} ({self.prog} -h lists the flags)"


class _Formatter(argparse.HelpFormatter):
    """Descriptions keep their line breaks; flags get one wide column."""

    def __init__(self, prog: str, **kwargs: Any) -> None:
        super().__init__(prog, max_help_position=34, **kwargs)

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        return "".join(indent + line for line in text.splitlines(keepends=True))


def nearest(word: str, known: Iterable[str]) -> list[str]:
    """At most three of `known` that a person who typed `word` may have meant, best first."""
    import difflib

    by_folded = {name.casefold(): name for name in known}
    return [by_folded[match] for match in difflib.get_close_matches(word.casefold(), by_folded, n=3, cutoff=0.6)]


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """`: did you mean X or Y?`, or nothing when `known` holds nothing like `word`."""
    near = nearest(word, known)
    return f": did you mean {' or '.join(near)}?" if near else ""
