"""A program run with its arguments, after a person has seen exactly these. No shell reads them."""

import asyncio
import contextlib
import os
import shlex
import signal
import subprocess
from pathlib import Path

from chenxing.agent.threads import in_thread
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
    """Its output and exit code. At its end, and if we are cancelled, what is left of its process group is killed."""
    if not command or any("\0" in word for word in command):
        raise ToolError("command: expected a program and its arguments, without NUL characters")
    try:
        process = subprocess.Popen(
            command,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    except OSError as error:
        raise ToolError(f"{command[0]!r} cannot be started: {error.strerror}") from error
    try:
        output = await asyncio.wait_for(in_thread(lambda: _output(process)), seconds)
    except TimeoutError as error:
        raise ToolError(f"{shlex.join(command)}: did not end within {seconds:g} seconds, and was killed") from error
    finally:
        _kill(process)
    return f"{output.decode('utf-8', 'replace')}\n[exit code {process.returncode}]".lstrip("\n")


def _output(process: "subprocess.Popen[bytes]") -> bytes:
    """All of it, and then its end. In a thread of its own, which is left behind if somebody else holds the pipe."""
    assert process.stdout
    data = bytearray()
    with process.stdout as pipe:
        while piece := pipe.read1(1 << 16):  # type: ignore[attr-defined]  # a BufferedReader
            data += piece
            if len(data) > MAX_OUTPUT_BYTES:
                raise ToolError(f"the program wrote more than {MAX_OUTPUT_BYTES} bytes, and was killed")
    process.wait()
    return bytes(data)


def _kill(process: "subprocess.Popen[bytes]") -> None:
    """What it has started too, where the system has process groups."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        if os.name == "posix":
            os.killpg(process.pid, signal.SIGKILL)
        else:
            process.kill()
    process.wait()
