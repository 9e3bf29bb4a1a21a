import pytest

from chenxing.errors import UsageError
from chenxing.terminal.parser import Parser, did_you_mean, nearest


@pytest.fixture
def parser() -> Parser:
    parser = Parser(prog="chenxing run")
    parser.add_argument("model")
    parser.add_argument("text", nargs="?")
    parser.add_argument("-p", "--prompt")
    parser.add_argument("-r", "--reverse-prompt", action="append")
    parser.add_argument("-n", type=int)
    parser.add_argument("--json", action="store_true")
    return parser


@pytest.mark.parametrize("text", ["-5 + 3", "-x", "--5", "- a list\n- of things", "--json-like"])
def test_a_text_may_begin_with_a_dash(parser, text: str) -> None:
    args = parser.parse(["m", "-p", text, "-r", text, "--json"])
    assert (args.prompt, args.reverse_prompt, args.json) == (text, [text], True)


def test_a_known_flag_is_no_text(parser) -> None:
    with pytest.raises(UsageError, match="argument -p/--prompt: expected one argument"):
        parser.parse(["m", "-p", "--json"])


@pytest.mark.parametrize("argv", [["m", "t", "-n", "-1"], ["m", "-n", "-1", "t"], ["-n", "-1", "m", "t"]])
def test_flags_stand_anywhere(parser, argv: list[str]) -> None:
    args = parser.parse(argv)
    assert (args.model, args.text, args.n) == ("m", "t", -1)


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["m", "--promt", "x"], r"unknown flag --promt: did you mean --prompt or .* \(chenxing run -h lists"),
        (["m", "--jso"], r"unknown flag --jso: did you mean --json\?"),
        (["m", "--zzzzzz"], r"unknown flag --zzzzzz \(chenxing run -h"),
        (["m", "t", "more"], r"unexpected argument 'more' \(chenxing run -h"),
        ([], r"required: model \(chenxing run -h"),
        (["m", "-n", "x"], r"argument -n: invalid int value: 'x' \(chenxing run -h"),
    ],
)
def test_what_is_wrong_is_said(parser, argv: list[str], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        parser.parse(argv)


def test_nearest() -> None:
    assert nearest("TEMP", ["--temp", "temp", "top"]) == ["temp", "--temp"]
    assert nearest("qqq", ["temp"]) == []
    assert did_you_mean("tmp", ["temp"]) == ": did you mean temp?"
    assert did_you_mean("qqq", ["temp"]) == ""
