"""What a run of `chenxing agent` is made with. It is kept with the run, so that it can be resumed as it was begun."""

import argparse
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from chenxing.agent.tools import Tool
from chenxing.errors import UsageError
from chenxing.terminal.agent_args import TOOLS
from chenxing.terminal.args import system_prompt
from chenxing.terminal.parser import did_you_mean
from chenxing.terminal.sampling_flags import given_sampling

if TYPE_CHECKING:
    from chenxing.agent.model import Choice
    from chenxing.agent.remote import RemoteModel

_REMOTE_NAMES = {
    "temp": "temperature",
    "top_p": "top_p",
    "seed": "seed",
    "penalty_freq": "frequency_penalty",
    "penalty_present": "presence_penalty",
}


@dataclass(frozen=True)
class Setup:
    """folder    absolute
    sampling  fields of SamplingParams that the person gave
    """

    model: str
    question: str
    system: str | None = None
    tools: tuple[str, ...] = ()
    folder: str = ""
    hosts: tuple[str, ...] = ()
    mcp: tuple[str, ...] = ()
    mcp_trusted: tuple[str, ...] = ()
    max_answers: int = 12
    max_tokens: int = 1024
    must_call: bool = False
    base_url: str | None = None
    api_key_file: str | None = None
    tools_as_text: bool = False
    sampling: dict[str, Any] = field(default_factory=dict)

    @property
    def first_choice(self) -> "Choice":
        return "required" if self.must_call else "auto"


def setup_of(args: argparse.Namespace, question: str) -> Setup:
    """Of the command line. Raises UsageError, ChenxingError for files."""
    sampling = given_sampling(args)
    if args.base_url and (unknown := [name for name in sampling if name not in _REMOTE_NAMES]):
        raise UsageError(f"--base-url: {unknown[0]} cannot be told to a server")
    tools = named_tools(args.tools)
    if args.allow_host and "http" not in tools:
        raise UsageError("--allow-host is for --tools http")
    if "http" in tools and not args.allow_host:
        raise UsageError("--tools http needs --allow-host HOST for each host that may be asked")
    if args.must_call and not (tools or args.mcp or args.mcp_trust):
        raise UsageError("--must-call needs tools: give --tools or --mcp")
    return Setup(
        model=args.model,
        question=question,
        system=system_prompt(args),
        tools=tools,
        folder=str(Path(args.dir).expanduser().resolve()),
        hosts=tuple(args.allow_host),
        mcp=tuple(args.mcp),
        mcp_trusted=tuple(args.mcp_trust),
        max_answers=args.max_steps,
        max_tokens=args.n_predict,
        must_call=args.must_call,
        base_url=args.base_url,
        api_key_file=args.api_key_file,
        tools_as_text=args.tools_as_text,
        sampling=sampling,
    )


def named_tools(text: str) -> tuple[str, ...]:
    """The names in --tools. Raises UsageError for one that there is not."""
    names = tuple(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
    for name in names:
        if name not in TOOLS:
            raise UsageError(f"--tools: expected {', '.join(TOOLS)}, found {name!r}{did_you_mean(name, TOOLS)}")
    return names


@asynccontextmanager
async def mcp_tools_of(setup: Setup) -> AsyncIterator[list[Tool]]:
    """Of the MCP servers, which run while the context is open. Raises AgentError."""
    async with AsyncExitStack() as stack:
        tools: list[Tool] = []
        for servers, trusted in ((setup.mcp, False), (setup.mcp_trusted, True)):
            for server in servers:
                from chenxing.agent.tools.mcp import mcp_tools

                tools += await stack.enter_async_context(mcp_tools(server, trusted=trusted))
        yield tools


def builtin_tools(setup: Setup) -> list[Tool]:
    """Those of --tools. Raises AgentError for a folder or host that cannot be meant."""
    from chenxing.agent.tools.calculator import calculator_tool
    from chenxing.agent.tools.files import file_tools
    from chenxing.agent.tools.folder import open_folder
    from chenxing.agent.tools.http import http_tool, parse_host
    from chenxing.agent.tools.shell import shell_tool

    tools: list[Tool] = []
    if "calc" in setup.tools:
        tools.append(calculator_tool())
    if "files" in setup.tools:
        tools += file_tools(open_folder(setup.folder))
    if "http" in setup.tools:
        tools.append(http_tool([parse_host(host) for host in setup.hosts]))
    if "shell" in setup.tools:
        tools.append(shell_tool(open_folder(setup.folder).root))
    return tools


def remote_model(setup: Setup) -> "RemoteModel":
    """The model of --base-url."""
    from chenxing.agent.remote import RemoteModel
    from chenxing.terminal.inputs import read_text_file

    assert setup.base_url
    options = {_REMOTE_NAMES[name]: value for name, value in setup.sampling.items()}
    key = read_text_file(setup.api_key_file).strip() if setup.api_key_file else None
    return RemoteModel(
        setup.base_url,
        setup.model,
        api_key=key,
        max_tokens=setup.max_tokens,
        tools_as_text=setup.tools_as_text,
        options=options,
    )
