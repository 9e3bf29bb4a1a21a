"""The command line: finds the command, runs it, and turns errors into one line and an exit code.

Exit codes: 0 fine, 1 an error that the message names, 2 a command line that cannot be meant, 130 interrupted.
Only the named command's parser is built, so that `chenxing run` does not pay for the others.
"""

import contextlib
import io
import os
import signal
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from types import FrameType
from typing import TYPE_CHECKING, Any

from chenxing import __version__
from chenxing.errors import ChenxingError, UsageError

if TYPE_CHECKING:
    from chenxing.terminal.parser import Parser

EXIT_OK, EXIT_ERROR, EXIT_USAGE, EXIT_INTERRUPTED = 0, 1, 2, 130


def _run(subparsers: Any) -> None:
    from chenxing.terminal import args

    args.add_parsers(subparsers)


def _serve(subparsers: Any) -> None:
    from chenxing.terminal import serve

    serve.add_parsers(subparsers, _start_server)


def _app(subparsers: Any) -> None:
    from chenxing.terminal import app

    app.add_parsers(subparsers, _start_server)


def _start_server(options: dict[str, Any]) -> int:
    from chenxing.server.main import serve
    from chenxing.server.settings import ServeSettings

    return serve(ServeSettings(**options))


def _agent(subparsers: Any) -> None:
    from chenxing.terminal import agent_args

    agent_args.add_parsers(subparsers)


def _tools(subparsers: Any) -> None:
    from chenxing.terminal import tools

    tools.add_parsers(subparsers)


def _bench(subparsers: Any) -> None:
    from chenxing.terminal import bench_args

    bench_args.add_parsers(subparsers)


def _hub(subparsers: Any) -> None:
    from chenxing.hub import commands

    commands.add_parsers(subparsers)


def _cache(subparsers: Any) -> None:
    from chenxing.terminal import cache_command

    cache_command.add_parsers(subparsers)


def _doctor(subparsers: Any) -> None:
    from chenxing.terminal import doctor

    doctor.add_parsers(subparsers)


def _selfcheck(subparsers: Any) -> None:
    from chenxing.terminal import selfcheck

    selfcheck.add_parsers(subparsers)


def _completion(subparsers: Any) -> None:
    from chenxing.terminal import completion

    completion.add_parsers(subparsers, lambda: _parser(COMMANDS)[1])


def _service(subparsers: Any) -> None:
    from chenxing.terminal import service

    service.add_parsers(subparsers)


COMMANDS: dict[str, Callable[[Any], None]] = {
    "run": _run,
    "serve": _serve,
    "app": _app,
    "agent": _agent,
    "pull": _hub,
    "list": _hub,
    "ls": _hub,
    "show": _hub,
    "rm": _hub,
    "tokenize": _tools,
    "detokenize": _tools,
    "template": _tools,
    "perplexity": _tools,
    "bench": _bench,
    "cache": _cache,
    "doctor": _doctor,
    "selfcheck": _selfcheck,
    "service": _service,
    "completion": _completion,
}
"""Command -> what registers it, in the order of `chenxing -h`."""


def main(argv: Sequence[str] | None = None) -> int:
    """Runs `argv` (default: this process's arguments) and returns the exit code. Never raises for a user's mistake."""
    _fill_closed_streams()
    _speak_utf8()
    try:
        code = _dispatch(list(sys.argv[1:] if argv is None else argv))
        sys.stdout.flush()
        return code
    except UsageError as error:
        return _fail(error, EXIT_USAGE)
    except ChenxingError as error:
        return _fail(error, EXIT_ERROR)
    except KeyboardInterrupt:
        if sys.stderr.isatty():
            print(file=sys.stderr)  # the shell's prompt should not stand behind the ^C
        return EXIT_INTERRUPTED
    except BrokenPipeError:  # the reader has seen enough, as in `chenxing tokenize … | head`
        _discard_output()
        return EXIT_OK
    except MemoryError as error:
        what = f" ({error})" if str(error) else ""
        return _fail(f"not enough memory{what}: close programs, or take a smaller model or -c", EXIT_ERROR)
    except OSError as error:  # such as a full disk under a redirected stdout
        _discard_output()
        where = f"{error.filename}: " if error.filename else ""
        return _fail(f"{where}{error.strerror or error}", EXIT_ERROR)


def _dispatch(argv: list[str]) -> int:
    name, rest = (argv[0], argv[1:]) if argv else ("", [])
    if name in ("--version", "-V"):
        print(f"chenxing {__version__}{_build()}")
        return EXIT_OK
    if name in ("", "-h", "--help", "help"):
        print(_parser(COMMANDS)[0].format_help(), end="", file=sys.stdout if name else sys.stderr)
        return EXIT_OK if name else EXIT_USAGE
    if name not in COMMANDS:
        raise UsageError(_unknown(name))
    try:
        args = _parser([name])[1][name].parse(rest)
    except SystemExit:  # argparse leaves this way after -h
        return EXIT_OK
    with _interrupts_raised():
        return args.run(args) or EXIT_OK


@contextlib.contextmanager
def _interrupts_raised() -> Iterator[None]:
    """Ctrl-C, which ends the program at once before and after (`__main__.py`), raises KeyboardInterrupt inside.

    What a command has begun is put in order then. Where somebody else decides what Ctrl-C does, this does nothing.
    """
    if signal.getsignal(signal.SIGINT) != signal.SIG_DFL:
        yield
        return
    was_interrupted = False

    def handler(number: int, frame: FrameType | None) -> None:
        nonlocal was_interrupted
        was_interrupted = True
        signal.default_int_handler(number, frame)

    signal.signal(signal.SIGINT, handler)
    try:
        yield
    except ImportError as error:
        if was_interrupted:  # while numpy's extension imported datetime: C makes an ImportError of any other
            raise KeyboardInterrupt from error
        raise
    finally:
        signal.signal(signal.SIGINT, signal.SIG_DFL)


def _build() -> str:
    """What tells one desktop build from another; installed packages have none."""
    try:
        with open(os.path.join(os.path.dirname(__file__), "BUILD"), encoding="ascii") as file:
            return f" (build {file.read().strip()})"
    except FileNotFoundError:
        return ""


def _parser(names: Iterable[str]) -> "tuple[Parser, dict[str, Parser]]":
    """The parser of `chenxing`, and the sub-parsers of `names` (and of what their modules bring along)."""
    from chenxing.terminal.parser import Parser

    parser = Parser(
        prog="chenxing",
        description="Runs GGUF language models on this machine.",
        epilog="chenxing COMMAND -h shows the flags of a command. First steps: chenxing run smollm2",
    )
    parser.add_argument("-V", "--version", action="store_true", help="print the version")
    subparsers = parser.add_subparsers(title="commands", metavar="COMMAND")
    for register in dict.fromkeys(COMMANDS[name] for name in names):
        register(subparsers)
    return parser, subparsers.choices


def _unknown(name: str) -> str:
    from chenxing.terminal.parser import did_you_mean

    if name.startswith("-"):
        return f"unknown flag {name}: flags come after the command, as in chenxing run MODEL {name}"
    if name.endswith(".gguf") or name.startswith("hf:"):
        return f"unknown command {name}: did you mean chenxing run {name}?"
    return f"unknown command {name}{did_you_mean(name, COMMANDS)} (chenxing -h lists the commands)"


def _fill_closed_streams() -> None:
    """A shell's `>&-`: no file of ours may get the numbers that messages are written to, and messages go nowhere.

    A closed stdin stays None, for those who would read it to say so.
    """
    while (number := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    os.close(number)
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115  for the process's life


def _speak_utf8() -> None:
    """Output is UTF-8 whatever the locale says; a lone surrogate of an odd file name must not end the program."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8", errors="backslashreplace")


def _fail(error: Exception | str, code: int) -> int:
    message = " ".join(str(error).splitlines())
    with contextlib.suppress(OSError):
        print(f"chenxing: {message}", file=sys.stderr, flush=True)
    return code


def _discard_output() -> None:
    """What is still buffered goes nowhere, so that the interpreter does not stumble over it when it exits."""
    with contextlib.suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
