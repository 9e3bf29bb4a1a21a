"""Grammars behind a thought that may come first."""

import pytest

from chenxing.errors import GrammarError
from chenxing.sampling.grammar import Grammars
from chenxing.tokenizer import Tokenizer

FORMS = [{"json_schema": {"const": [1]}}, {"grammar": 'root ::= "[" "1]"'}, {"grammar": 'root ::= "[" root "]" | "1"'}]


def accepts(grammars: Grammars, tokenizer: Tokenizer, text: str, **form: object) -> bool:
    """Whether it is a whole text of the grammar. Spelt in the tokens of single characters."""
    ids = {tokenizer.token_bytes(i): i for i in reversed(range(tokenizer.n_vocab)) if not tokenizer.is_special(i)}
    constraint = grammars.any_of(**form, after="</think>", opening="<think>")  # type: ignore[arg-type]
    assert constraint
    try:
        for character in text:
            constraint.accept(ids[character.encode()])
    except GrammarError:
        return False
    return constraint.may_end


@pytest.mark.parametrize("form", FORMS, ids=["schema", "regular", "recursive"])
def test_a_thought_may_come_first(grammars: Grammars, tokenizer: Tokenizer, form):
    for text in ("[1]", "<think>[</think>[1]", "\n<think></think>\n\n[1]", "<think>a<think>b\n</think>[1]"):
        assert accepts(grammars, tokenizer, text, **form), text
    for text in ("", "[", "<think>", "<think>[1]", "<think>a</think>", "<think></think><think></think>[1]", "b[1]"):
        assert not accepts(grammars, tokenizer, text, **form), text


def test_nothing_is_permitted_behind_the_answer(grammars: Grammars, tokenizer: Tokenizer):
    assert not accepts(grammars, tokenizer, "[1]<think></think>", json_schema={"const": [1]})


def test_the_first_close_ends_it(grammars: Grammars, tokenizer: Tokenizer):
    assert not accepts(grammars, tokenizer, "<think>a</think>b</think>[1]", json_schema={"const": [1]})
