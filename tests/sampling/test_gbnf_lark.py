import itertools
import random
from typing import Any

import pytest
from gbnf_naive import generates

from chenxing.errors import GrammarError
from chenxing.sampling.gbnf import parse_gbnf
from chenxing.sampling.gbnf_lark import to_grammar

llguidance = pytest.importorskip("llguidance")


class Bytes:
    """A vocabulary of the 256 bytes, and an end."""

    is_tokenizer_wrapper = True
    eos_token_id, bos_token_id = 256, None

    def __init__(self) -> None:
        self.tokens = [*(bytes([byte]) for byte in range(256)), b"<end>"]
        self.special_token_ids = [256]

    def __call__(self, text: bytes) -> list[int]:
        return list(text)


VOCABULARY = llguidance.LLTokenizer(Bytes())


def matcher_of(text: str) -> Any:
    matcher = llguidance.LLMatcher(VOCABULARY, to_grammar(parse_gbnf(text)), log_level=0)
    assert not matcher.is_error(), matcher.get_error()
    return matcher


def accepts(matcher: Any, text: str) -> bool:
    twin = matcher.deep_copy()
    tokens = list(text.encode())
    return twin.try_consume_tokens(tokens) == len(tokens) and twin.is_accepting()


def assert_same_language(text: str, alphabet: str, longest: int) -> None:
    rules, matcher = parse_gbnf(text), matcher_of(text)
    for n in range(longest + 1):
        for letters in itertools.product(alphabet, repeat=n):
            word = "".join(letters)
            assert accepts(matcher, word) == generates(rules, word), (text, word)


@pytest.mark.parametrize(
    ("text", "alphabet"),
    [
        ('root ::= [ab]* "a" | "(" root ")"', "ab("),  # a run would swallow the last a
        ('root ::= ([ab]+){2} | "(" root ")"', "ab("),  # one run would swallow both
        ('root ::= [ab]+ root "." | ";"', "a.;"),  # each run needs its own dot
        ('root ::= word | "ab" | "(" root ")"\nword ::= [a-z]* "."', "ab."),
        ('root ::= ([ab] | "(" root ")")* ";"?', "a();"),
        ('root ::= "x" ([^x] | "." root)* "x" | ""', "xa."),
        ('root ::= ([a-c]* ",")* [b-d]* | "(" root ")"', "abd,"),
        ('root ::= [é-ü]* "e" root | "."', "ée."),
    ],
)
def test_lexemes_do_not_change_the_language(text: str, alphabet: str) -> None:
    assert_same_language(text, alphabet, 4)


def random_grammar(rng: random.Random) -> str:
    def item(depth: int) -> str:
        kind = rng.randrange(6 if depth else 3)
        if kind < 2:
            return rng.choice(['"a"', '"b"', "[ab]", "[bc]", '"ab"', '"c"'])
        if kind == 2:
            return rng.choice(["[ab]*", "[bc]+", '"a"?', "[abc]*", "[ab]{1,2}"])
        if kind == 3:
            return f"({choice(depth - 1)}){rng.choice(['*', '+', '?', '', '{2}'])}"
        return f'"c" {rng.choice(["root", "other"])} "c"' if kind == 4 else f"[ab] {rng.choice(['root', 'other'])}"

    def choice(depth: int) -> str:
        options = [" ".join(item(depth) for _ in range(rng.randint(1, 3))) for _ in range(rng.randint(1, 2))]
        return " | ".join(options)

    return f'root ::= {choice(2)} | "c" other\nother ::= {choice(1)} | "b" | "a" root "a"'


@pytest.mark.parametrize("seed", range(25))
def test_random_recursive_grammars(seed: int) -> None:
    assert_same_language(random_grammar(random.Random(seed)), "abc", 4)


@pytest.mark.parametrize(
    "text", ['root ::= "a"+ (rest | "")\nrest ::= [b-d]{2} "-"', "root ::= .*", 'root ::= "" | "b"']
)
def test_without_recursion_it_is_one_expression(text: str) -> None:
    assert_same_language(text, "abd-", 4)


@pytest.mark.parametrize("text", ["root ::= .", 'root ::= . | "(" root ")"'])
def test_any_character_is_also_a_line_feed_or_one_of_four_bytes(text: str) -> None:
    matcher = matcher_of(text)
    assert all(accepts(matcher, c) for c in ("\n", "é", "星", "\U0001f600"))
    assert not accepts(matcher, "ab")


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
    text = r'text ::= "\"" ([^"\\] | "\\" ["\\n])* "\""'
    grammar = to_grammar(parse_gbnf(f'root ::= "[" (text ("," text)*)? "]" | root "!"\n{text}'))
    assert grammar.count("]+/") == 1
