import json
from typing import Any

import pytest

from chenxing.errors import GrammarError
from chenxing.sampling.json_schema import compile_schema

DEEP: dict[str, Any] = {"type": "string"}
for _ in range(3000):
    DEEP = {"items": DEEP}


@pytest.mark.parametrize(
    ("schema", "complaint"),
    [
        ({"not": {}}, "at its root: not supported: not"),
        ({"type": "array", "uniqueItems": True}, "at its root: not supported: uniqueItems"),
        ({"properties": {"a/b": {"items": {"if": {}}}}}, "at /properties/a~1b/items: not supported: if"),
        ({"anyOf": [{"type": "null"}, {"contains": {}}]}, "at /anyOf/1: not supported: contains"),
        (
            {"$defs": {"q": {"pattern": "(?=a)b", "type": "string"}}, "properties": {"z": {"$ref": "#/$defs/q"}}},
            "at /$defs/q: pattern: look-around",
        ),
        (
            {"type": "object", "properties": {"when": {"type": "string", "format": "moon"}}},
            "at /properties/when: unknown format: moon",
        ),
        ({"items": {"oneOf": [{"type": "number"}, {"type": "integer"}]}}, "at /items: not supported: oneOf"),
        ({"properties": {"a": {"$ref": "#/$defs/none"}}}, "at /properties/a: a $ref points at nothing"),
        ({"$ref": "https://example.org/schema"}, "at its root: "),
        ({"type": "objekt"}, "at its root: invalid type: objekt"),
        ({"enum": []}, "at its root: unsatisfiable schema"),
        (False, "at its root: unsatisfiable schema"),
        ({"type": "array", "minItems": 3, "maxItems": 2}, "at its root: unsatisfiable schema: minItems (3)"),
        ("{", "expected JSON, found none"),
        ("[]", "expected an object, found []"),
        (3, "expected an object, found 3"),
        ({"enum": [float("nan")]}, "expected JSON, found none"),
        ({"enum": [object()]}, "expected JSON, found none"),
        ({"description": "x" * 1_000_001}, "expected at most 1000000 characters"),
        (DEEP, ""),
    ],
    ids=lambda value: str(value)[:40] if isinstance(value, str) else None,
)
def test_the_part_that_is_not_supported_is_named(schema: Any, complaint: str) -> None:
    with pytest.raises(GrammarError) as error:
        compile_schema(schema)
    assert str(error.value).startswith(f"json_schema: {complaint}") and len(str(error.value)) < 400


def test_a_schema_cannot_relax_the_rules() -> None:
    with pytest.raises(GrammarError, match="not supported: not"):
        compile_schema({"x-guidance": {"lenient": True}, "not": {}})


def test_a_product_of_alternatives_is_too_large() -> None:
    parts = [{"anyOf": [{"properties": {f"a{i}{j}": {"type": "string"}}} for j in range(4)]} for i in range(9)]
    with pytest.raises(GrammarError, match="too large"):
        compile_schema({"type": "object", "allOf": parts})


def test_the_text_of_a_schema_is_as_good_as_the_schema() -> None:
    schema = {"type": "object", "properties": {"b": {"type": "null"}, "a": {"const": "é"}}}
    assert compile_schema(json.dumps(schema)) == compile_schema(schema)
