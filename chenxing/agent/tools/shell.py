"""A program run with its arguments, after a person has seen exactly these. No shell reads them."""

import asyncio
import contextlib
import os
import shlex
import signal
from pathlib import Path

from chenxing.agent.tools.tool import Tool, ToolError, tool

SECONDS = 60.0
MAX_OUTPUT_BYTES = 1 << 20


def shell_tool(folder: Path, *, seconds: float = SECONDS) -> Tool:
    """folder  where programs are started"""

    def shown(command: list[str]) -> str:
        return f"run in {folder}: {shlex.join(command)}"

    @tool(changes=True, preview=shown, timeout=seconds + 5)
    async def run_command(command: list[str]) -> str:
        """Run a program. A person is asked first. No shell is between: for pipes run ["sh", "-c", "..."].

        command  the program and its arguments, each a string of its own
        """
        return await run(command, folder, seconds)

    return run_command


async def run(command: list[str], folder: Path, seconds: float) -> str:
    """Its output with its exit code. At the time limit, or if we are cancelled, its whole process group is killed."""
    if not command or any("\0" in word for word in command):
        raise ToolError("command: expected a program and its arguments, without NUL characters")
    try:
        process = await asyncio.create_subprocess_exec(
            *command,
            cwd=folder,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            start_new_session=True,
        )
    except OSError as error:
        raise ToolError(f"{command[0]!r} cannot be started: {error.strerror}") from error
    try:
        output = await asyncio.wait_for(_output(process), seconds)
    except TimeoutError as error:
        raise ToolError(f"{shlex.join(command)}: did not end within {seconds:g} seconds, and was killed") from error
    finally:
        _kill(process)
        await process.wait()
    return f"{output.decode('utf-8', 'replace')}\n[exit code {process.returncode}]".lstrip("\n")


async def _output(process: asyncio.subprocess.Process) -> bytes:
    assert process.stdout
    data = bytearray()
    while piece := await process.stdout.read(1 << 16):
        data += piece
        if len(data) > MAX_OUTPUT_BYTES:
            raise ToolError(f"the program wrote more than {MAX_OUTPUT_BYTES} bytes, and was killed")
    await process.wait()
    return bytes(data)


def _kill(process: asyncio.subprocess.Process) -> None:
    """What it has started too, where the system has process groups."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        if os.name == "posix":
            os.killpg(process.pid, signal.SIGKILL)
        elif process.returncode is None:
            process.kill()
