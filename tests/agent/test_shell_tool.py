import asyncio
import json
import os
import sys
import time

import pytest

from chenxing.agent.tools import Toolbox
from chenxing.agent.tools.shell import shell_tool


def box(folder, **options):
    return Toolbox([shell_tool(folder, **options)])


def call(tools, *command):
    return asyncio.run(tools.call("run_command", json.dumps({"command": list(command)})))


def python(code):
    return [sys.executable, "-c", code]


def test_a_program_runs_as_it_stands(tmp_path):
    tools = box(tmp_path)
    found = call(tools, *python("import os, sys; print(os.getcwd(), sys.argv[1:])"), "a b", "$HOME", "x; echo y", "")
    assert (
        found.text == f"{tmp_path.resolve()} ['a b', '$HOME', 'x; echo y', '']\n\n[exit code 0]" and not found.is_error
    )
    assert call(tools, *python("import sys; print('oh', file=sys.stderr); sys.exit(3)")).text == "oh\n\n[exit code 3]"


def test_a_person_is_shown_exactly_what_runs(tmp_path):
    tools = box(tmp_path)
    asked = tools.question("run_command", json.dumps({"command": ["rm", "-rf", "a b", "$(date)"]}))
    assert asked == f"run in {tmp_path}: rm -rf 'a b' '$(date)'"


def test_what_cannot_be_started(tmp_path):
    tools = box(tmp_path)
    assert "cannot be started" in call(tools, "no-such-program-here").text
    assert "without NUL" in call(tools, "a\0b").text and "expected a program" in call(tools).text


@pytest.mark.skipif(os.name != "posix", reason="process groups of POSIX")
def test_the_time_limit_kills_what_was_started_too(tmp_path):
    mark = tmp_path / "alive"
    child = f"import time; time.sleep(3); open({str(mark)!r}, 'w')"
    code = f"import subprocess, sys, time; subprocess.Popen([sys.executable, '-c', {child!r}]); time.sleep(60)"
    found = call(box(tmp_path, seconds=1.0), *python(code))
    assert found.is_error and "did not end within 1 seconds, and was killed" in found.text
    time.sleep(3)
    assert not mark.exists()


@pytest.mark.skipif(os.name != "posix", reason="sessions of POSIX")
def test_who_left_the_group_and_holds_the_pipe_is_not_waited_for(tmp_path):
    child = "import time; time.sleep(30)"
    code = f"import subprocess, sys; subprocess.Popen([sys.executable, '-c', {child!r}], start_new_session=True)"
    assert "did not end within 1 seconds" in call(box(tmp_path, seconds=1.0), *python(code)).text


def test_output_without_end(tmp_path):
    found = call(box(tmp_path), *python("while True: print('x' * 10000)"))
    assert found.is_error and "wrote more than" in found.text


def test_nothing_comes_from_our_stdin(tmp_path):
    assert call(box(tmp_path), *python("import sys; print(len(sys.stdin.read()))")).text.startswith("0")
