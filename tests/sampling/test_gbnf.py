import pytest
from gbnf_naive import generates

from chenxing.errors import GrammarError
from chenxing.sampling.gbnf import Chars, Choice, Reference, Repeat, Sequence, parse_gbnf


def letters(text: str) -> Sequence:
    return Sequence(tuple(Chars(((ord(c), ord(c)),)) for c in text))


def test_a_rule_of_each_kind() -> None:
    rules = parse_gbnf('root ::= "ab" | name  # comment\n\nname ::= [a-c_] (",")* | . {2,3}\n')
    assert rules["root"] == Choice((letters("ab"), Reference("name")))
    first = Sequence((Chars(((95, 95), (97, 99))), Repeat(Chars(((44, 44),)), 0, None)))
    assert rules["name"] == Choice((first, Repeat(Chars(((0, 0x10FFFF),)), 2, 3)))


@pytest.mark.parametrize(
    ("times", "least", "most"),
    [("*", 0, None), ("+", 1, None), ("?", 0, 1), ("{3}", 3, 3), ("{3,}", 3, None), ("{ 3 , 5 }", 3, 5)],
)
def test_repetitions(times: str, least: int, most: int | None) -> None:
    assert parse_gbnf(f'root ::= "a"{times}')["root"] == Repeat(Chars(((97, 97),)), least, most)


@pytest.mark.parametrize(
    ("written", "read"),
    [(r"\n\t\r", "\n\t\r"), (r"\"\\\[\]", '"\\[]'), (r"\x41\u00e9\U0001F600", "A\u00e9\U0001f600"), ("é星", "é星")],
)
def test_escapes_of_literals(written: str, read: str) -> None:
    rules = parse_gbnf(f'root ::= "{written}"')
    assert generates(rules, read) and not generates(rules, read[:-1])


@pytest.mark.parametrize(
    ("written", "ranges"),
    [
        ("[abc]", ((97, 99),)),
        ("[^b]", ((0, 97), (99, 0x10FFFF))),
        ("[a-]", ((45, 45), (97, 97))),
        (r"[\]]", ((93, 93),)),
        ("[a-cb-f]", ((97, 102),)),
    ],
)
def test_classes(written: str, ranges: tuple[tuple[int, int], ...]) -> None:
    assert parse_gbnf(f"root ::= {written}")["root"] == Chars(ranges)


def test_rules_go_on_after_a_bar_and_inside_parentheses() -> None:
    rules = parse_gbnf('root ::= "a" |\n  "b" (\n "c"\n | "d" )\nrest ::= "x"')
    assert [text for text in ("a", "bc", "bd", "b", "c", "x") if generates(rules, text)] == ["a", "bc", "bd"]


def test_an_alternative_may_be_empty() -> None:
    rules = parse_gbnf('root ::= | " " | "\\n" [ \\t]{0,2}')
    assert [text for text in ("", " ", "\n", "\n \t", "\n   ", "  ") if generates(rules, text)] == [
        "",
        " ",
        "\n",
        "\n \t",
    ]


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("root ::= item", "1:10: rule item is not defined"),
        ('item ::= "a"', "1:13: expected a rule named root, found none"),
        ('root ::= "a"\nroot ::= "b"', "2:1: rule root is defined twice"),
        ('root = "a"', "1:6: expected '::=', found '= \"a\"'"),
        ('root ::= "a', "1:12: expected a closing quote, found the end of the grammar"),
        ("root ::= [a", "1:12: expected a closing bracket, found the end of the grammar"),
        ("root ::= [z-a]", "1:11: expected a range that ascends"),
        ("root ::= []", "1:10: expected a class that some character belongs to"),
        (r'root ::= "\q"', r"1:11: unknown escape '\\\\q'"),
        (r'root ::= "\x4"', "1:11: unknown escape"),
        (r'root ::= "\UFFFFFFFF"', "1:11: unknown escape"),
        ('root ::= ("a"', "1:14: expected ')', found the end of the grammar"),
        ('root ::= "a")', "1:13: expected the end of the line, found ')'"),
        ('root ::= "a"{2', "1:13: expected {n}, {n,} or {n,m}, found '{2'"),
        ('root ::= "a"{3,2}', "1:13: expected a range of repetitions that ascends, found {3,2}"),
        ('root ::= "a"{9999}', "1:13: expected at most 2000 repetitions, found {9999}"),
        ("root ::= <think>", "1:10: not supported: tokens in angle brackets; write their text"),
        ("root ::= " + "(" * 200, "1:111: expected at most 100 nested parentheses, found more"),
        ("", "1:1: expected a rule named root, found none"),
    ],
)
def test_errors_name_line_and_column(text: str, complaint: str) -> None:
    with pytest.raises(GrammarError) as error:
        parse_gbnf(text)
    assert str(error.value).startswith("grammar: " + complaint.replace("\\\\\\\\", "\\\\"))
