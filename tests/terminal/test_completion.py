"""`chenxing completion`: what is read from the parsers, and the scripts in the shells that are here."""

import shutil
import subprocess

import pytest

from chenxing import cli
from chenxing.terminal.completion import SHELLS, script
from chenxing.terminal.completion_words import Command, Flag, read_commands
from chenxing.terminal.parser import Parser


@pytest.fixture(scope="module")
def commands() -> list[Command]:
    return read_commands(cli._parser(cli.COMMANDS)[1])


def shell(name: str, text: str, cwd) -> list[str]:
    if not shutil.which(name):
        pytest.skip(f"{name} is not installed")
    done = subprocess.run([name, "-c", text], capture_output=True, text=True, cwd=cwd, timeout=60)
    assert done.returncode == 0 and not done.stderr, done.stderr
    return done.stdout.splitlines()


def test_what_the_parsers_know():
    parser = Parser(prog="x", description="Does it: at once. And more.")
    parser.add_argument("model", metavar="MODEL")
    parser.add_argument("-ctk", "--cache-type-k", choices=("f16", "f32"), help="how 100%% are kept")
    parser.add_argument("--json", action="store_true", help="an object")
    (command,) = read_commands({"x": parser})
    assert (command.name, command.help, command.takes_files) == ("x", "Does it: at once", True)
    assert "smollm2" in command.words
    assert command.flags[1:] == (
        Flag(("-ctk", "--cache-type-k"), "how 100% are kept", True, ("f16", "f32")),
        Flag(("--json",), "an object", False, ()),
    )


def test_every_command_and_flag_is_there(commands):
    assert [c.name for c in commands] == list(cli.COMMANDS)
    for name in SHELLS:
        text = script(name, commands)
        for command in commands:
            assert command.name in text
            assert all(flag.names[-1].lstrip("-") in text for flag in command.flags)


BASH = """
{script}
COMP_WORDS=({words}); COMP_CWORD=$(( ${{#COMP_WORDS[@]}} - 1 )); _chenxing; printf '%s\\n' "${{COMPREPLY[@]}}"
"""


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("chenxing do", ["doctor"]),
        ("chenxing run --cache-type", ["--cache-type-k", "--cache-type-v"]),
        ("chenxing bench -o ''", ["md", "json"]),
        ("chenxing run sm", ["smollm2"]),
        ("chenxing run 晨", ["晨 星.gguf"]),
        ("chenxing run -f 晨", ["晨 星.gguf"]),
        ("chenxing completion 晨", [""]),
    ],
)
def test_in_bash(words, expected, commands, tmp_path):
    (tmp_path / "晨 星.gguf").touch()
    text = BASH.format(script=script("bash", commands), words=words)
    assert [line.replace("\\", "") for line in shell("bash", text, tmp_path)] == expected


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("chenxing do", {"doctor"}),
        ("chenxing run --cache-type", {"--cache-type-k", "--cache-type-v"}),
        ("chenxing bench -o ", {"md", "json"}),
        ("chenxing run smoll", {"smollm2"}),
    ],
)
def test_in_fish(words, expected, commands, tmp_path):
    lines = shell("fish", f"{script('fish', commands)}\ncomplete -C '{words}'", tmp_path)
    assert {line.partition("\t")[0] for line in lines} == expected


def test_zsh_loads_it(commands, tmp_path):
    text = f"autoload -Uz compinit; compinit -u -d zdump\n{script('zsh', commands)}\necho $_comps[chenxing]"
    assert shell("zsh", text, tmp_path) == ["_chenxing"]


def test_quotes_in_help_do_not_end_a_word():
    flag = Flag(("--x",), """the user's "own" `value`, $HOME: \\ and 'so' on""", True, ("a b'c",))
    command = Command("run", "it's", (flag,), (), False)
    for name in SHELLS:
        assert script(name, [command])
    assert shell("bash", BASH.format(script=script("bash", [command]), words="chenxing r"), "/") == ["run"]


def test_the_command(capsys):
    assert cli.main(["completion", "bash"]) == 0
    assert capsys.readouterr().out.startswith("_chenxing() {")
    assert cli.main(["completion", "tcsh"]) == 2
