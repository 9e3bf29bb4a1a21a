import argparse
from pathlib import Path
from typing import Any

import pytest
from fake_llm import FakeLLM

from chenxing.errors import ChenxingError, GrammarError, UsageError
from chenxing.sampling import SamplingParams
from chenxing.terminal.grammar_flags import add_grammar_flags, given_grammar
from chenxing.terminal.session import Options, Session


def given(*argv: str) -> dict[str, Any]:
    parser = argparse.ArgumentParser()
    add_grammar_flags(parser)
    return given_grammar(parser.parse_args(argv))


def test_what_the_model_is_told(tmp_path: Path) -> None:
    file = tmp_path / "form"
    file.write_text('root ::= "é"', encoding="utf-8")
    assert given() == {}
    assert given("--grammar", 'root ::= "a"') == {"grammar": 'root ::= "a"'}
    assert given("--grammar-file", str(file)) == {"grammar": 'root ::= "é"'}
    assert given("-j", "{}") == given("--json-schema", "{}") == {"json_schema": "{}"}
    file.write_text('{"type": "null"}')
    assert given("-jf", str(file)) == given("--json-schema-file", str(file)) == {"json_schema": '{"type": "null"}'}


def test_errors_come_before_a_model_is_loaded(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="--grammar and --json-schema exclude each other"):
        given("--grammar", "x", "-j", "{}")
    with pytest.raises(GrammarError, match="1:10: rule foo is not defined"):
        given("--grammar", "root ::= foo")
    with pytest.raises(GrammarError, match="not supported: not"):
        given("-j", '{"not": {}}')
    with pytest.raises(ChenxingError, match="none"):
        given("--grammar-file", str(tmp_path / "none"))


def test_the_form_begins_after_reasoning_that_the_template_opens() -> None:
    plain, thinking = FakeLLM(["a"]), FakeLLM(["a"], opening="<think>\n")
    for llm in (plain, thinking):
        Session(llm, Options(SamplingParams(), form={"grammar": "g"})).ask("Hi")
    assert plain.calls[0].template_kwargs == {"grammar": "g"}
    assert thinking.calls[0].template_kwargs == {"grammar": "g", "grammar_after": "</think>"}
