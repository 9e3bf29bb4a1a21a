import json
import re
from typing import Any

import numpy as np
import pytest

from chenxing.errors import GrammarError, UsageError
from chenxing.sampling import Constraint, Sampler, SamplingParams
from chenxing.sampling.grammar import Grammars
from chenxing.tokenizer import Tokenizer

jsonschema = pytest.importorskip("jsonschema")

POINT = {"type": "object", "properties": {"x": {"type": "integer"}}, "required": ["x"], "additionalProperties": False}
TREE = {
    "type": "object",
    "properties": {"v": {"type": "boolean"}, "next": {"$ref": "#/$defs/node"}},
    "required": ["v"],
    "additionalProperties": False,
}

SCHEMAS: list[Any] = [
    {},
    True,
    *({"type": name} for name in ("null", "boolean", "integer", "number", "string", "array", "object")),
    {"type": ["integer", "null"]},
    {"type": "integer", "minimum": 3, "maximum": 17},
    {"type": "integer", "exclusiveMinimum": -5, "exclusiveMaximum": 5},
    {"type": "number", "minimum": 0.5, "maximum": 1.5},
    {"type": "integer", "multipleOf": 7, "minimum": 0},
    {"type": "string", "minLength": 2, "maxLength": 5},
    {"type": "string", "pattern": "^[a-c]+-[0-9]{2}$"},
    {"type": "string", "pattern": "^(?:foo|ba[rz])$"},
    *({"type": "string", "format": name} for name in ("date", "time", "date-time", "uuid", "ipv4", "duration")),
    {"enum": ["red", "grün", "青", 3, None, {"a": [1]}]},
    {"const": {"a": "b", "c": [1, 2.5, "é\n"]}},
    {"type": "string", "const": 'quote " and \\'},
    POINT,
    {"type": "object", "properties": {"a": {"type": "string", "maxLength": 3}, "b": POINT}, "required": ["b"]},
    {"type": "object", "properties": {"größe": {"type": "null"}, "名": {"type": "null"}}, "required": ["名"]},
    {"type": "object", "additionalProperties": {"type": "integer"}, "maxProperties": 2},
    {"type": "object", "additionalProperties": {"type": "null"}, "minProperties": 1, "maxProperties": 1},
    {"type": "object", "patternProperties": {"^k[0-9]$": {"type": "boolean"}}, "additionalProperties": False},
    {"type": "object", "required": ["z"], "maxProperties": 1},
    {"type": "array", "items": {"type": "integer"}, "minItems": 2, "maxItems": 4},
    {"type": "array", "prefixItems": [{"type": "null"}, {"type": "boolean"}], "items": False, "minItems": 2},
    {"type": "array", "items": {"type": "array", "items": {"enum": [1, 2]}, "maxItems": 2}, "maxItems": 2},
    {"anyOf": [{"type": "integer"}, {"type": "string", "enum": ["none"]}]},
    {"oneOf": [{"type": "string"}, {"type": "integer"}, POINT]},
    {"allOf": [POINT, {"properties": {"x": {"minimum": 1, "maximum": 9}}}]},
    {"$defs": {"p": POINT}, "type": "array", "items": {"$ref": "#/$defs/p"}, "maxItems": 2},
    {"$defs": {"node": TREE}, "$ref": "#/$defs/node"},
    {"definitions": {"p": {"type": "null"}}, "properties": {"q": {"$ref": "#/definitions/p"}}, "type": "object"},
    {"$schema": "http://json-schema.org/draft-07/schema#", "title": "t", "description": "d", "type": "null"},
]


def sampled(constraint: Constraint, tokenizer: Tokenizer, n_vocab: int, seed: int, n_most: int = 300) -> str | None:
    """The text of random logits under the constraint, that ends as soon as it may; None if it did not in time.

    Whole characters only: what an unfinished one must go on with is known, so tokens of single bytes are unlikely.
    """
    rng = np.random.default_rng(seed)
    sampler = Sampler(SamplingParams(seed=seed), n_vocab, eog_ids=tokenizer.eog_ids, constraint=constraint)
    tokens: list[int] = []
    closing = [i for i in range(tokenizer.n_vocab) if set(tokenizer.token_bytes(i)) <= set(b'"}]') != set()]
    while len(tokens) < n_most:
        logits = rng.normal(0, 2, n_vocab).astype(np.float32)
        logits[closing] += min(len(tokens) / 8, 12)
        logits[list(tokenizer.eog_ids)] += len(tokens) / 2
        token = sampler.sample(logits)
        sampler.accept(token)
        if token in sampler.end_ids:
            return tokenizer.join(tokens).decode()  # strictly: it is UTF-8
        tokens.append(token)
    return None


@pytest.mark.parametrize("schema", SCHEMAS, ids=lambda schema: json.dumps(schema)[:60])
def test_random_logits_give_what_the_schema_validates(schema: Any, grammars: Grammars, tokenizer: Tokenizer) -> None:
    validator = jsonschema.Draft202012Validator(schema, format_checker=jsonschema.Draft202012Validator.FORMAT_CHECKER)
    ended = 0
    for seed in range(3):
        text = sampled(grammars.json_schema(schema), tokenizer, tokenizer.n_vocab + 37, seed)
        if text is not None:
            validator.validate(json.loads(text))
            ended += 1
    assert ended, "no text ended, so nothing was tested"


def test_any_object(grammars: Grammars, tokenizer: Tokenizer) -> None:
    constraint = grammars.any_of(response_format={"type": "json_object"})
    assert constraint
    text = sampled(constraint, tokenizer, tokenizer.n_vocab + 37, seed=1)
    assert text is not None and isinstance(json.loads(text), dict)


@pytest.mark.parametrize("expression", [r"[a-c]{3}-\d+", r"(yes|no)( sir)?", r"é+|星", r"^x{2,4}$"])
def test_regex(expression: str, grammars: Grammars, tokenizer: Tokenizer) -> None:
    text = sampled(grammars.regex(expression), tokenizer, tokenizer.n_vocab + 37, seed=2)
    assert text is not None and re.fullmatch(expression, text)


def test_lark(grammars: Grammars, tokenizer: Tokenizer) -> None:
    constraint = grammars.lark('start: "n=" arguments\narguments: %json {"type": "boolean"}\n')
    assert sampled(constraint, tokenizer, tokenizer.n_vocab + 37, seed=2) in ("n=true", "n=false")
    with pytest.raises(GrammarError, match=r"^grammar: "):
        grammars.lark("start: unknown\n")


CHESS = r"""
root ::= "1. " move " " move "\n"
move ::= (pawn | piece | castle) [+#]?
piece ::= [NBKQR] [a-h]? [1-8]? "x"? [a-h] [1-8]
pawn ::= ([a-h] "x")? [a-h] [1-8] ("=" [NBQR])?
castle ::= "O-O" "-O"?
"""
ARITHMETIC = 'root ::= term ([-+*/] term)*\nterm ::= [0-9]{1,3} | "(" root ")"'


def test_a_list(grammars: Grammars, tokenizer: Tokenizer) -> None:
    text = sampled(
        grammars.gbnf('root ::= item{2,4}\nitem ::= "- " [a-z]{1,9} "\\n"'), tokenizer, tokenizer.n_vocab + 37, 3
    )
    assert text is not None and re.fullmatch("(- [a-z]{1,9}\n){2,4}", text)


def test_chess(grammars: Grammars, tokenizer: Tokenizer) -> None:
    text = sampled(grammars.gbnf(CHESS), tokenizer, tokenizer.n_vocab + 37, 4)
    assert text is not None and re.fullmatch(r"1\. [NBKQRa-hxO1-8=+#-]+ [NBKQRa-hxO1-8=+#-]+\n", text)


def test_arithmetic(grammars: Grammars, tokenizer: Tokenizer) -> None:
    text = sampled(grammars.gbnf(ARITHMETIC), tokenizer, tokenizer.n_vocab + 37, 5)
    assert text is not None and re.fullmatch(r"[-+*/()0-9]+", text)
    compile(re.sub(r"\b0+(?=\d)", "", text), "<arithmetic>", "eval")  # a syntax error if it is none


@pytest.mark.parametrize(
    ("expression", "complaint"),
    [
        ("(?=a)b", "look-around, including look-ahead and look-behind, is not supported, at column 1"),
        ("(a", "unclosed group, at column 1"),
        (r"(x)\1", "backreferences are not supported, at column 4"),
        ("a" * 1_000_001, "expected at most 1000000 characters, found 1000001"),
    ],
)
def test_an_expression_that_is_not_supported(expression: str, complaint: str, grammars: Grammars) -> None:
    with pytest.raises(GrammarError, match=r"^regex") as error:
        grammars.regex(expression)
    assert complaint in str(error.value)


@pytest.mark.parametrize(
    "value", ["json", {}, {"type": "xml"}, {"type": "json_schema"}, {"type": "json_schema", "json_schema": {}}]
)
def test_response_formats_that_cannot_be_meant(value: Any, grammars: Grammars) -> None:
    with pytest.raises(UsageError, match=r"^response_format: expected"):
        grammars.any_of(response_format=value)


def test_response_formats(grammars: Grammars, tokenizer: Tokenizer) -> None:
    assert grammars.any_of(response_format={"type": "text"}) is None
    schema = {"const": "ok"}
    for value in (
        {"type": "json_schema", "json_schema": {"name": "n", "strict": True, "schema": schema}},
        {"type": "json_object", "schema": schema},
    ):
        constraint = grammars.any_of(response_format=value)
        assert constraint and sampled(constraint, tokenizer, tokenizer.n_vocab + 37, 0) == '"ok"'


def test_one_grammar_at_a_time(grammars: Grammars) -> None:
    assert grammars.any_of() is None and grammars.any_of(regex="a") and grammars.any_of(grammar='root ::= "a"')
    with pytest.raises(UsageError, match="json_schema and regex exclude each other"):
        grammars.any_of(json_schema={}, regex="a")


@pytest.mark.model
def test_a_real_model_keeps_to_the_schema(smollm2_path: Any) -> None:
    from chenxing import LLM

    with LLM.load(smollm2_path, n_ctx=512) as llm:
        for seed in range(2):
            params = SamplingParams(seed=seed)
            answer = llm.generate("Where is the point?", params=params, max_tokens=100, json_schema=POINT)
            assert answer.finish_reason == "length" or jsonschema.validate(json.loads(answer.text), POINT) is None
        answer = llm.generate("Name a colour.", grammar='root ::= "red" | "blue"', max_tokens=20)
        assert answer.text in ("red", "blue") and answer.finish_reason == "stop"
