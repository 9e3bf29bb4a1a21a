"""The command line as a process: exit codes, pipes that close, what a command imports."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from chenxing import __version__, cli

COMMAND = [sys.executable, "-m", "chenxing"]


@pytest.fixture(scope="module")
def vocabulary(tmp_path_factory) -> str:
    """A vocabulary of 256 bytes and no merges; no weights."""
    from gguf import GGUFWriter, TokenType

    path = tmp_path_factory.mktemp("model") / "bytes.gguf"
    writer = GGUFWriter(path, "llama")
    writer.add_tokenizer_model("llama")
    writer.add_token_list(["<unk>", *(f"<0x{byte:02X}>" for byte in range(256))])
    writer.add_token_scores([0.0] * 257)
    writer.add_token_types([TokenType.UNKNOWN] + [TokenType.BYTE] * 256)
    writer.add_add_bos_token(False)
    writer.add_add_space_prefix(False)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()
    return str(path)


def chenxing(*argv: str, data: bytes = b"") -> tuple[int, str, str]:
    done = subprocess.run([*COMMAND, *argv], input=data, capture_output=True, timeout=300)
    return done.returncode, done.stdout.decode(), done.stderr.decode()


@pytest.mark.parametrize("flag", ["--version", "-V"])
def test_version(flag: str) -> None:
    assert chenxing(flag) == (0, f"chenxing {__version__}\n", "")


@pytest.mark.parametrize("flag", ["-h", "--help", "help"])
def test_help_lists_all_commands(flag: str) -> None:
    code, out, err = chenxing(flag)
    assert (code, err) == (0, "")
    for name in cli.COMMANDS:
        assert name in out


def test_without_a_command_the_help_is_an_error() -> None:
    code, out, err = chenxing()
    assert (code, out) == (2, "") and "chenxing run smollm2" in err


@pytest.mark.parametrize("name", cli.COMMANDS)
def test_every_command_explains_itself(name: str, capsys) -> None:
    assert cli.main([name, "-h"]) == 0
    out, err = capsys.readouterr()
    assert out.startswith("usage: chenxing ") and err == ""


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["rnu"], "unknown command rnu: did you mean run? (chenxing -h lists the commands)"),
        (["frobnicate"], "unknown command frobnicate (chenxing -h lists the commands)"),
        (["model.gguf"], "unknown command model.gguf: did you mean chenxing run model.gguf?"),
        (["hf:a/b"], "unknown command hf:a/b: did you mean chenxing run hf:a/b?"),
        (["--temp", "1"], "unknown flag --temp: flags come after the command, as in chenxing run MODEL --temp"),
        (["run", "m", "--temprature", "1"], "unknown flag --temprature: did you mean --temperature"),
        (["run", "m", "--temprature=1"], "unknown flag --temprature: did you mean --temperature"),
        (["run", "m", "--jsn"], "unknown flag --jsn: did you mean --json"),
        (["run", "m", "--temper", "1"], "unknown flag --temper: did you mean --temp"),
        (["tokenize"], "the following arguments are required: MODEL"),
        (["show", "m", "--jsonn"], "unknown flag --jsonn: did you mean --json"),
    ],
)
def test_usage_errors_are_2_in_one_line(argv: list[str], message: str, capsys) -> None:
    assert cli.main(argv) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(f"chenxing: {message}") and err.count("\n") == 1


def test_a_usage_error_ends_the_process_with_2() -> None:
    assert chenxing("rnu")[0] == 2


@pytest.mark.parametrize("command", ["run", "tokenize", "show"])
def test_our_errors_are_1_in_one_line(command: str, tmp_path: Path) -> None:
    model = str(tmp_path / "a\nb.gguf")  # not even the name of a file breaks the line
    code, out, err = chenxing(command, model, *(["-p", "Hi"] if command == "run" else []))
    assert (code, out) == (1, "")
    assert err.startswith("chenxing: ") and "no such file" in err and err.count("\n") == 1


def test_utf8_goes_through_whatever_the_locale_says() -> None:
    env = os.environ | {"LC_ALL": "C", "PYTHONIOENCODING": "ascii"}
    done = subprocess.run([*COMMAND, "tokenize", "日本"], stdin=subprocess.DEVNULL, capture_output=True, env=env)
    assert done.returncode == 1 and "日本".encode() in done.stderr


@contextmanager
def line_by_line(vocabulary: str) -> Iterator[subprocess.Popen[bytes]]:
    """A process that has answered its first line, so that it is known to be past its imports."""
    pipe, command = subprocess.PIPE, [*COMMAND, "tokenize", "--jsonl", vocabulary]
    process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, bufsize=0)
    assert process.stdin and process.stdout
    try:
        process.stdin.write(b'"a"\n')
        assert process.stdout.readline() == b"[98]\n"
        yield process
    finally:
        process.kill()
        process.communicate()


@pytest.mark.skipif(os.name == "nt", reason="Windows has no SIGINT for one child process")
def test_interrupted_is_130_and_quiet(vocabulary) -> None:
    with line_by_line(vocabulary) as process:
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=20) == 130
        assert process.stderr and process.stderr.read() == b""


def test_a_reader_that_has_seen_enough_is_no_error(vocabulary) -> None:
    with line_by_line(vocabulary) as process:
        assert process.stdin and process.stdout and process.stderr
        process.stdout.close()
        process.stdin.write(b'"b"\n')
        assert process.wait(timeout=20) == 0
        assert process.stderr.read() == b""
        process.stdout = None  # communicate() must not read what is closed


@pytest.mark.skipif(os.name == "nt", reason="a shell's way to start a program without stdin")
def test_without_a_stdin_one_line_says_so(vocabulary) -> None:
    line = 'exec "$@" <&-'
    done = subprocess.run(["sh", "-c", line, "sh", *COMMAND, "tokenize", vocabulary], capture_output=True, timeout=60)
    assert done.returncode == 1 and done.stderr.startswith(b"chenxing: standard input is closed")


@pytest.mark.skipif(os.name == "nt", reason="a shell's way to start a program without streams")
@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&- >&- 2>&-"])
def test_closed_streams_are_done_without(closed: str, vocabulary) -> None:
    line = f'exec "$@" {closed}'
    command = ["sh", "-c", line, "sh", *COMMAND, "show", vocabulary]
    done = subprocess.run(command, input=b"", capture_output=True, timeout=60)
    assert done.returncode == 0 and done.stderr == b""
    assert (b"llama" in done.stdout) == (closed == "2>&-")


def test_a_file_never_gets_the_number_of_a_closed_stream() -> None:
    code = (
        "import os; os.close(2); os.close(1); from chenxing import cli; cli.main(['list']);"
        "os._exit(0 if os.open(os.devnull, os.O_RDONLY) > 2 else 1)"
    )
    assert subprocess.run([sys.executable, "-c", code], stdin=subprocess.DEVNULL, timeout=60).returncode == 0


def test_too_little_memory_is_said(monkeypatch, capsys) -> None:
    def dispatch(argv: list[str]) -> int:
        raise MemoryError("Unable to allocate 92.2 MiB")

    monkeypatch.setattr(cli, "_dispatch", dispatch)
    assert cli.main(["run", "m"]) == 1
    assert capsys.readouterr().err == (
        "chenxing: not enough memory (Unable to allocate 92.2 MiB): close programs, or take a smaller model or -c\n"
    )


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk_is_said(vocabulary) -> None:
    with open("/dev/full", "wb") as full:
        done = subprocess.run([*COMMAND, "tokenize", vocabulary], input=b"a", stdout=full, stderr=subprocess.PIPE)
    assert done.returncode == 1
    assert done.stderr == b"chenxing: No space left on device\n"


def imported_by(*argv: str) -> set[str]:
    """Top-level modules that a command has imported when it ends."""
    code = (
        "import sys; from chenxing import cli; cli.main(sys.argv[1:]); sys.stdout.flush();"
        "print(*sorted({name.partition('.')[0] for name in sys.modules}), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code, *argv], input=b"a", capture_output=True, timeout=300)
    return set(done.stderr.decode().splitlines()[-1].split())


def test_what_a_command_does_not_need_is_not_imported(vocabulary) -> None:
    assert not imported_by("--version") & {"argparse", "numpy", "platformdirs"}
    assert not imported_by("run", "-h") & {"numpy", "jinja2", "rich", "prompt_toolkit", "llvmlite", "huggingface_hub"}
    heavy = {"rich", "prompt_toolkit", "jinja2", "numba", "llvmlite", "huggingface_hub", "tokenizers", "gguf"}
    assert not imported_by("tokenize", vocabulary) & heavy
    assert not imported_by("run", "no/such/model", "-p", "Hi") & {"rich", "prompt_toolkit", "numba"}


def test_the_names_of_commands_are_those_of_their_parsers() -> None:
    _, parsers = cli._parser(cli.COMMANDS)
    assert set(cli.COMMANDS) == set(parsers)


def only_progress(err: str) -> bool:
    """Nothing but the lines that name a long stage of the first start, such as compiling."""
    return all(line.startswith("chenxing: ") and line.endswith(" …") for line in err.splitlines())


@pytest.mark.model
def test_one_answer_of_a_real_model(smollm2_path) -> None:
    flags = ["-p", "Hi", "-n", "5", "--temp", "0"]
    code, out, err = chenxing("run", str(smollm2_path), *flags)
    assert code == 0 and only_progress(err) and out.startswith("Hello")
    code, out, _ = chenxing("run", str(smollm2_path), *flags, "--json")
    body = json.loads(out)
    assert code == 0 and body["completion_tokens"] == 5 and body["finish_reason"] == "length"
    assert body["text"].startswith("Hello") and body["prompt_tokens"] == 31
    assert not imported_by("run", str(smollm2_path), *flags) & {"rich", "prompt_toolkit", "numba", "gguf"}


@pytest.mark.model
def test_a_base_model_completes_text(gemma3_path) -> None:
    code, out, err = chenxing("run", str(gemma3_path), "-p", "The capital of France is", "-n", "3", "--temp", "0")
    assert (code, out) == (0, " the capital of\n")  # as llama.cpp does
    assert "has no chat template (a base model)" in err


@pytest.mark.model
@pytest.mark.skipif(os.name == "nt", reason="Windows has no SIGINT for one child process")
def test_ctrl_c_stops_a_real_answer(smollm2_path) -> None:
    command = [*COMMAND, "run", str(smollm2_path), "-p", "Count to a thousand.", "--temp", "0", "--ignore-eos"]
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout
    start = os.read(process.stdout.fileno(), 1)  # the answer has begun
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130 and only_progress(err.decode())
    assert start + out and out.endswith(b"\n")
