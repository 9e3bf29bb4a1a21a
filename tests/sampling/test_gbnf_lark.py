import itertools
import random

import pytest
from gbnf_naive import generates

from chenxing.errors import GrammarError
from chenxing.sampling.gbnf import Rules, parse_gbnf
from chenxing.sampling.gbnf_lark import to_grammar

llguidance = pytest.importorskip("llguidance")


class Bytes:
    """A vocabulary of the 256 bytes, and an end."""

    is_tokenizer_wrapper = True
    tokens = [bytes([byte]) for byte in range(256)] + [b"<end>"]
    special_token_ids = [256]
    eos_token_id, bos_token_id = 256, None

    def __call__(self, text: bytes) -> list[int]:
        return list(text)


VOCABULARY = llguidance.LLTokenizer(Bytes())


def accepts(grammar: str, text: str) -> bool:
    matcher = llguidance.LLMatcher(VOCABULARY, grammar, log_level=0)
    assert not matcher.is_error(), matcher.get_error()
    tokens = list(text.encode())
    return matcher.try_consume_tokens(tokens) == len(tokens) and matcher.is_accepting()


def assert_same_language(text: str, alphabet: str, longest: int) -> None:
    rules = parse_gbnf(text)
    grammar = to_grammar(rules)
    for n in range(longest + 1):
        for letters in itertools.product(alphabet, repeat=n):
            word = "".join(letters)
            assert accepts(grammar, word) == generates(rules, word), (text, word)


TRICKY = [
    'root ::= [ab]* "a" | "(" root ")"',  # a run would swallow the last a
    'root ::= ([ab]+){2} | "(" root ")"',  # one run would swallow both
    'root ::= [ab]+ root "." | ";"',  # each run needs its own dot
    'root ::= word | "if" | "(" root ")"\nword ::= [a-z]* "."',
    'root ::= ([ab] | "(" root ")")* ";"?',
    'root ::= "x" ([^x] | "." root)* "x" | ""',
    'root ::= ([a-c]* ",")* [b-d]* | "(" root ")"',
    'root ::= a*\na ::= [ab]* b?\nb ::= "(" a ")"',
    'root ::= [é-ü]* "e" root | "."',
]


@pytest.mark.parametrize("text", TRICKY)
def test_lexemes_do_not_change_the_language(text: str) -> None:
    assert_same_language(text, "".join(sorted({*text} & {*"abcdifx().,;eéü"}))[:5] or "ab", 5)


def random_grammar(rng: random.Random) -> str:
    def item(depth: int) -> str:
        kind = rng.randrange(6 if depth else 3)
        if kind < 2:
            return rng.choice(['"a"', '"b"', "[ab]", "[bc]", '"ab"', '"c"'])
        if kind == 2:
            return rng.choice(["[ab]*", "[bc]+", '"a"?', "[abc]*", "[ab]{1,2}"])
        if kind == 3:
            return f"({choice(depth - 1)}){rng.choice(['*', '+', '?', '', '{2}'])}"
        return f'"c" {rng.choice(["root", "r1"])} "c"' if kind == 4 else f"[ab] {rng.choice(['root', 'r1'])}"

    def choice(depth: int) -> str:
        options = [" ".join(item(depth) for _ in range(rng.randint(1, 3))) for _ in range(rng.randint(1, 3))]
        return " | ".join(options)

    return f'root ::= {choice(2)} | "c" r1\nr1 ::= {choice(1)} | "b" | "a" root "a"'


@pytest.mark.parametrize("seed", range(40))
def test_random_recursive_grammars(seed: int) -> None:
    assert_same_language(random_grammar(random.Random(seed)), "abc", 5)


@pytest.mark.parametrize(
    "text", ['root ::= "a"+ (rest | "")\nrest ::= [b-d]{2} "-"', "root ::= .*", 'root ::= "" | "b"']
)
def test_without_recursion_it_is_one_expression(text: str) -> None:
    assert_same_language(text, "abd-", 4)


def test_any_character_is_also_a_line_feed_or_one_of_four_bytes() -> None:
    for text in ("root ::= .", 'root ::= . | "(" root ")"'):
        grammar = to_grammar(parse_gbnf(text))
        assert all(accepts(grammar, c) for c in ("\n", "é", "星", "\U0001f600"))
        assert not accepts(grammar, "ab")


def test_rules_that_grow_exponentially_stay_small() -> None:
    lines = [f"r{n} ::= r{n + 1} r{n + 1}" for n in range(40)]
    grammar = to_grammar(parse_gbnf("\n".join(["root ::= r0", *lines, 'r40 ::= "a"'])))
    assert len(grammar) < 10_000


def test_a_chain_of_thousands_of_rules_is_an_error() -> None:
    lines = [f"r{n} ::= r{n + 1}" for n in range(5000)]
    with pytest.raises(GrammarError, match="nested at most 500 deep"):
        to_grammar(parse_gbnf("\n".join(["root ::= r0", *lines, 'r5000 ::= "a"'])))


def test_the_inside_of_a_string_is_a_run() -> None:
    """Else each of its characters would be parsed by itself, a thousand times slower."""
    rules: Rules = parse_gbnf(
        r'root ::= "[" (text ("," text)*)? "]" | root "!"' "\n" r'text ::= "\"" ([^"\\] | "\\" ["\\n])* "\""'
    )
    assert r"[\\x{0}-\\x{21}\\x{23}-\\x{5B}\\x{5D}-\\x{10FFFF}]+/" in to_grammar(rules)
