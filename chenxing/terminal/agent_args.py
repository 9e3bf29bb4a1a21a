"""The flags of `chenxing agent`."""

import argparse
from typing import Any

from chenxing.terminal.args import add_cache_flags, add_model_flags, add_template_flags
from chenxing.terminal.numbers import at_least
from chenxing.terminal.sampling_flags import add_sampling_flags

TOOLS = ("files", "calc", "http", "shell")

_DESCRIPTION = """\
Answers a question with the help of tools, step by step (ReAct). Each step is kept, so that a run that was stopped can
be resumed. Before anything that changes the disk, runs a program or calls a foreign tool, you are asked.
"""
_EPILOG = """\
examples:
  chenxing agent smollm2 --tools calc "What is 1234 * 5678?"
  chenxing agent smollm2 --tools files --dir notes "Which notes speak of stars?"
  chenxing agent smollm2 --mcp "python -m mcp_server_time" "What time is it in Tokyo?"
  chenxing agent gpt-oss --base-url http://127.0.0.1:8080/v1 --tools calc,shell "How many lines has README.md?"
  chenxing agent --list
  chenxing agent --resume RUN

exit codes: 0 answered, 1 error, 2 wrong usage, 3 stopped at a question that nobody was there to answer, 130 stopped
"""


def add_parsers(subparsers: Any) -> None:
    """Adds the sub-parser of `agent`."""
    parser = subparsers.add_parser(
        "agent",
        help="answer a question with the help of tools",
        usage="chenxing agent [flags] MODEL [QUESTION]",
        description=_DESCRIPTION,
        epilog=_EPILOG,
    )
    parser.add_argument("model", nargs="?", metavar="MODEL", help="the model")
    parser.add_argument("question", nargs="?", metavar="QUESTION", help="asked for on the terminal if it is left out")
    _add_tool_flags(parser.add_argument_group("tools, none of which is there unless it is named"))
    _add_answer_flags(parser.add_argument_group("answer"))
    _add_run_flags(parser.add_argument_group("runs"))
    _add_remote_flags(parser.add_argument_group("a model on a server, instead of a local one"))
    add_model_flags(parser.add_argument_group("model"))
    add_cache_flags(parser.add_argument_group("cache of prompts"))
    add_template_flags(parser.add_argument_group("chat template"))
    add_sampling_flags(parser.add_argument_group("sampling"))
    parser.set_defaults(run=_handle)


def _add_tool_flags(group: argparse._ArgumentGroup) -> None:
    add = group.add_argument
    add("--tools", default="", metavar="NAMES", help=f"of {', '.join(TOOLS)}, with commas between")
    add("--dir", default=".", metavar="FOLDER", help="the only folder of the file tools, and where commands run (.)")
    help_host = "a host that http may ask, as in example.com or localhost:8080; may be repeated"
    add("--allow-host", action="append", default=[], metavar="HOST", help=help_host)
    help_mcp = "an MCP server: its http(s) address, or a command line; you are asked before each call; may be repeated"
    add("--mcp", action="append", default=[], metavar="SERVER", help=help_mcp)
    help_trust = "the same, and its tools that say that they only read are called unasked"
    add("--mcp-trust", action="append", default=[], metavar="SERVER", help=help_trust)


def _add_answer_flags(group: argparse._ArgumentGroup) -> None:
    add = group.add_argument
    help_steps = "how often the model may be asked, the last time for an answer without tools (12)"
    add("--max-steps", type=at_least(1), default=12, metavar="N", help=help_steps)
    help_tokens = "tokens of each of the model's answers at most (1024)"
    add(
        "-n",
        "--predict",
        "--n-predict",
        dest="n_predict",
        type=at_least(1),
        default=1024,
        metavar="N",
        help=help_tokens,
    )
    add("-sys", "--system-prompt", metavar="TEXT", help="the system prompt, instead of one that speaks of tools")
    add("-sysf", "--system-prompt-file", metavar="FILE", help="the same from a file")
    add("--must-call", action="store_true", help="the first answer has to be a call of a tool")
    add("--json", action="store_true", help="print all events, one JSON object a line")


def _add_run_flags(group: argparse._ArgumentGroup) -> None:
    add = group.add_argument
    add("--list", dest="list_runs", action="store_true", help="list the runs that are kept")
    add("--show", metavar="RUN", help="show the steps of a run")
    add("--forget", metavar="RUN", help="remove a run and what was said in it")
    add("--resume", metavar="RUN", help="go on with a run, with the model and the tools that it had")
    add("--from-step", type=at_least(0), metavar="N", help="with --resume: a new run that begins at step N of that one")
    add("--approve", action="store_true", help="with --resume: say yes to what the run asks")
    add("--deny", action="store_true", help="with --resume: say no to it")
    add("--runs", metavar="FILE", help="where runs are kept, instead of the user's data folder")


def _add_remote_flags(group: argparse._ArgumentGroup) -> None:
    add = group.add_argument
    add("--base-url", metavar="URL", help="of an OpenAI-compatible server, up to /v1; MODEL is then its name there")
    add("--api-key-file", metavar="FILE", help="a file with the server's API key")
    add("--tools-as-text", action="store_true", help="describe the tools in the prompt: the server knows none")


def _handle(args: argparse.Namespace) -> int:
    from chenxing.terminal.agent import run

    return run(args)
