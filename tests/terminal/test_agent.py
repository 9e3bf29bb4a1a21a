"""`chenxing agent` against a server that a test scripts."""

import contextlib
import json
import os
import signal
import subprocess
import sys

import pytest
from agent.fake_server import FakeServer, call_chunks, chunk, text_chunks

from chenxing import cli
from chenxing.terminal.agent_show import visible

WRITE = {"path": "a.txt", "content": "hello\n"}


@pytest.fixture(autouse=True)
def no_stdin(monkeypatch):
    monkeypatch.setattr(sys, "stdin", open(os.devnull))  # noqa: SIM115


@pytest.fixture
def agent(tmp_path, capsys):
    """Runs the command with its runs in tmp_path. -> exit code, stdout, stderr"""

    def run(*argv):
        code = cli.main(["agent", "--runs", str(tmp_path / "runs.db"), *argv])
        return code, *capsys.readouterr()

    return run


def run_name(text):
    return text.partition("[run ")[2].partition("]")[0]


def test_the_answer_on_stdout_and_the_rest_beside_it(agent):
    replies = [
        [chunk({"content": "I compute."}), *call_chunks("calculator", {"expression": "6*7"})],
        text_chunks("42!"),
    ]
    with FakeServer(replies) as server:
        code, out, err = agent("m", "--base-url", server.url, "--tools", "calc", "--temp", "0", "What is 6*7?")
    assert (code, out) == (0, "42!\n")
    assert 'I compute.\n[prompt 20 tokens (16 cached) · answer 5]\n→ calculator {"expression": "6*7"}\n← 42\n42!' in err
    assert server.asked[0]["temperature"] == 0 and [t["function"]["name"] for t in server.asked[0]["tools"]] == [
        "calculator"
    ]


def test_json_events(agent):
    with FakeServer([call_chunks("calculator", {"expression": "6*7"}), text_chunks("42")]) as server:
        code, out, err = agent("m", "--base-url", server.url, "--tools", "calc", "--json", "?")
    events = [json.loads(line) for line in out.splitlines()]
    assert code == 0 and err == ""
    kinds = [event["event"] for event in events]
    assert kinds == [
        *("run", "node_start", "answer", "call", "node_end", "step"),
        *("node_start", "observation", "node_end", "step"),
        *("node_start", "token", "token", "answer", "node_end", "step", "end"),
    ]
    assert events[7]["text"] == "42" and not events[7]["is_error"]
    end = events[-1]
    assert end["answer"] == "42" and end["ending"] == "answer"
    assert end["usage"] == {"prompt_tokens": 40, "cached_tokens": 32, "completion_tokens": 10}


@pytest.mark.parametrize(("flag", "made"), [("--approve", True), ("--deny", False)])
def test_writing_waits_for_a_person_and_is_resumed_with_the_answer(agent, tmp_path, flag, made):
    (tmp_path / "d").mkdir()
    with FakeServer([call_chunks("write_file", WRITE), text_chunks("Done.")]) as server:
        code, out, err = agent(
            "m", "--base-url", server.url, "--tools", "files", "--dir", str(tmp_path / "d"), "Write hello."
        )
        assert (code, out) == (3, "") and "make the file 'a.txt'" in err and "hello" in err
        name = run_name(err)
        assert f"--resume {name} --approve (or --deny)" in err and not (tmp_path / "d" / "a.txt").exists()
        assert "asks (act)" in agent("--list")[1]
        code, out, err = agent("--resume", name, flag)
    assert (code, out) == (0, "Done.\n") and (tmp_path / "d" / "a.txt").exists() is made
    assert ("did not permit" in json.dumps(server.asked[1]["messages"])) is not made


def test_list_show_resume_and_replay(agent):
    with FakeServer([call_chunks("calculator", {"expression": "6*7"}), (500, {"error": "down"}), text_chunks("42"),
                     text_chunks("43")]) as server:  # fmt: skip
        code, _, err = agent("m", "--base-url", server.url, "--tools", "calc", "What is\n6*7?")
        assert code == 1 and "node 'think', step 2" in err and "HTTP 500: down" in err
        name = run_name(err)
        assert f"--resume {name} goes on" in err
        code, out, _ = agent("--list")
        assert code == 0 and out.startswith(name) and "next: think" in out and "What is 6*7?" in out
        assert agent("--resume", name)[:2] == (0, "42\n")
        shown = agent("--show", name)[1]
        assert '→ calculator {"expression": "6*7"}' in shown and "tool: 42" in shown and "step 3: over" in shown
        assert agent("--resume", name, "--from-step", "2")[:2] == (0, "43\n"), "another run, from there on"
        assert f"[from {name} step 2]" in agent("--list")[1] and agent("--resume", name)[:2] == (0, "42\n")


def test_a_run_is_forgotten(agent):
    with FakeServer([text_chunks("So.")]) as server:
        name = run_name(agent("m", "--base-url", server.url, "Why?")[2])
    assert agent("--forget", name) == (0, "", "") and agent("--list")[2] == "no runs are kept\n"


def test_what_is_not_needed_is_not_imported():
    unwanted = {"mcp", "aiohttp", "numba", "numpy", "rich", "prompt_toolkit"}
    code = f"import sys, chenxing.terminal.agent\nprint({unwanted} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=100)
    assert done.stdout == "set()\n", done.stderr


def test_limits(agent):
    calls = [call_chunks("calculator", {"expression": f"{n}+1"}) for n in range(2)]
    with FakeServer([*calls, text_chunks("Enough", "length")]) as server:
        code, out, err = agent("m", "--base-url", server.url, "--tools", "calc", "--max-steps", "3", "-n", "7", "?")
    assert (code, out) == (0, "Enough\n") and "cut off" in err
    assert server.asked[2]["tool_choice"] == "none" and server.asked[0]["max_tokens"] == 7


def test_the_question_may_be_piped(agent, pipe_in):
    pipe_in(b"Why?\n")
    with FakeServer([text_chunks("So.")]) as server:
        assert agent("m", "--base-url", server.url)[:2] == (0, "So.\n")
    assert server.asked[0]["messages"][-1]["content"] == "Why?"


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        ([], "expected a MODEL and a QUESTION"),
        (["m"], "the question is missing"),
        (["m", "?", "--tools", "file"], "found 'file': did you mean files?"),
        (["m", "?", "--tools", "http"], "needs --allow-host"),
        (["m", "?", "--allow-host", "x"], "is for --tools http"),
        (["m", "?", "--must-call"], "needs tools"),
        (["m", "?", "--base-url", "http://x/v1", "--top-k", "3"], "top_k cannot be told to a server"),
        (["m", "?", "--approve"], "are for --resume"),
        (["--resume", "x", "--approve", "--deny"], "exclude each other"),
        (["--resume", "x", "--list"], "exclude each other"),
        (["m", "--resume", "x"], "give no others"),
        (["--max-steps", "0", "m", "?"], "expected 1 or more"),
    ],
)
def test_command_lines_that_cannot_be_meant(agent, argv, message):
    code, out, err = agent(*argv)
    assert (code, out) == (2, "") and message in err


def test_errors_before_anything_is_loaded(agent, tmp_path):
    for argv, message in (
        (["m", "?", "--tools", "files", "--dir", str(tmp_path / "none")], "expected a folder"),
        (["m", "?", "--tools", "http", "--allow-host", "http://x"], "expected a name such as"),
        (["--resume", "nobody"], "there is no run 'nobody'"),
        (["--show", "nobody"], "there is no run 'nobody'"),
    ):
        code, out, err = agent(*argv)
        assert (code, out) == (1, "") and message in err
    assert agent("--list") == (0, "", "no runs are kept\n")


def test_nothing_that_is_shown_moves_the_terminal():
    assert visible("a\x1b[2Jb\x07\x9b\u202ec\rd\te\nf\r\n") == "a\\x1b[2Jb\\x07\\x9b\\x202ec\\x0dd\te\nf\n"


@pytest.mark.skipif(os.name != "posix", reason="Ctrl-C is a signal")
def test_ctrl_c_leaves_a_run_that_can_be_resumed(agent, tmp_path):
    with FakeServer(
        [call_chunks("calculator", {"expression": "6*7"}), text_chunks("x" * 3000), text_chunks("42")]
    ) as server:
        runs = str(tmp_path / "runs.db")
        command = [sys.executable, "-m", "chenxing", "agent", "--runs", runs, "m", "--base-url", server.url, "--json"]
        # a shell's background job would have SIGINT ignored, and so would its children
        start = "import signal, os, sys; signal.signal(signal.SIGINT, signal.default_int_handler);"
        start += "os.execv(sys.argv[1], sys.argv[1:])"
        process = subprocess.Popen(
            [sys.executable, "-c", start, *command, "--tools", "calc", "?"],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        name = json.loads(process.stdout.readline())["run"]
        for line in process.stdout:
            if json.loads(line)["event"] == "token":
                process.send_signal(signal.SIGINT)
                break
        _, err = process.communicate(timeout=100)
        assert process.returncode == 130 and f"--resume {name} goes on" in err and "Traceback" not in err
        assert agent("--resume", name)[:2] == (0, "42\n")


@pytest.mark.skipif(os.name != "posix", reason="needs a pseudo-terminal")
@pytest.mark.parametrize(("keys", "made"), [(b"y\n", True), (b"n\n", False), (b"\n", False), (b"\x04", False)])
def test_a_person_at_a_terminal_is_asked_and_keys_pressed_before_are_no_answer(tmp_path, keys, made):
    import pty

    call = [chunk({"content": "Thinking aloud."}), *call_chunks("write_file", WRITE)]
    with FakeServer([call, text_chunks("Done.")]) as server:
        command = [sys.executable, "-m", "chenxing", "agent", "--runs", str(tmp_path / "runs.db"), "m"]
        command += ["--base-url", server.url, "--tools", "files", "--dir", str(tmp_path), "Write hello."]
        pid, terminal = pty.fork()
        if pid == 0:
            os.execv(sys.executable, command)
        os.write(terminal, b"y\ny\n")
        shown, is_asked = b"", False
        with contextlib.suppress(OSError):  # how a pseudo-terminal ends on Linux
            while data := os.read(terminal, 4096):
                shown += data
                if not is_asked and b"permit this? [y/N]" in shown:
                    is_asked = True
                    os.write(terminal, keys)
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        os.close(terminal)
    text = shown.decode()
    assert is_asked and "make the file 'a.txt'" in text and "Thinking aloud." in text
    assert (tmp_path / "a.txt").exists() is made
    assert (code == 3 and "stopped at a question" in text) if keys == b"\x04" else (code == 0 and "Done." in text)
