"""From a JSON schema to a grammar, or to an error that names the part of the schema that is not supported."""

import json
from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any

from chenxing.errors import GrammarError
from chenxing.sampling.limits import checked_text, parser_limits

if TYPE_CHECKING:
    from llguidance._lib import JsonCompileOptions

JsonSchema = dict[str, Any] | bool

_MOST_SEARCHED = 500  # subschemas that are looked at for the reason of an error

# as llama.cpp's: a space, or a line's indentation; a model that is allowed more may fall into endless white space
_WHITE_SPACE = r" |\n{1,2}[ \t]{0,20}"

_OPTIONS: "JsonCompileOptions" = {
    "whitespace_pattern": _WHITE_SPACE,
    "item_separator": ",",
    "key_separator": ":",
    "coerce_one_of": False,
    "lenient": False,
}

_MAPS = ("properties", "patternProperties", "dependentSchemas", "$defs", "definitions")
_LISTS = ("anyOf", "allOf", "oneOf", "prefixItems")
_SINGLE = (
    *("items", "additionalProperties", "not", "if", "then", "else", "contains", "propertyNames"),
    *("unevaluatedItems", "unevaluatedProperties", "additionalItems"),
)


def compile_schema(schema: JsonSchema | str, where: str = "json_schema", *, lenient: bool = False) -> str:
    """llguidance's grammar for a schema, as an object or as its JSON text. Raises GrammarError.

    where    names the schema in errors
    lenient  what is not supported is left out
    """
    from llguidance import LLMatcher

    value = _parsed(schema, where)
    options: JsonCompileOptions = {**_OPTIONS, "lenient": lenient, "coerce_one_of": lenient}
    if error := _error(value, options):
        pointer, reason = _origin(value, error, options)
        raise GrammarError(f"{where}: at {pointer}: {reason}")
    return str(LLMatcher.grammar_from_json_schema(json.dumps(value), overrides=options))


def _parsed(schema: JsonSchema | str, where: str) -> dict[str, Any]:
    """The schema as an object. What was no text is read back from one, so that there is nothing but JSON in it."""
    try:
        text = schema if isinstance(schema, str) else json.dumps(schema, allow_nan=False)
        value = json.loads(checked_text(where, text))
    except (TypeError, ValueError, RecursionError) as error:
        raise GrammarError(f"{where}: expected JSON, found none: {error}") from None
    if value is True:
        return {}
    if not isinstance(value, dict):
        raise GrammarError(f"{where}: expected an object, found {value!r:.200}")
    return value


def _error(schema: dict[str, Any], options: "JsonCompileOptions") -> str:
    from llguidance import LLMatcher

    try:
        grammar = LLMatcher.grammar_from_json_schema(json.dumps(schema), overrides=options)
    except ValueError as error:
        return str(error)
    return str(LLMatcher.validate_grammar(grammar, limits=parser_limits()))


def _origin(root: dict[str, Any], error: str, options: "JsonCompileOptions") -> tuple[str, str]:
    """The JSON pointer of the smallest part that is wrong by itself, and what is wrong with it.

    A part is tried where it stands: the whole schema becomes a definition, of which only the part is asked for. Parts
    that only refer to another one come last: they are to blame where that one does not exist.
    """
    reason = _reason(error)
    parts = sorted(islice(_parts(root, ""), _MOST_SEARCHED), key=lambda part: part[1].keys() == {"$ref"})
    base = {"$defs": {"root": _moved({key: value for key, value in root.items() if key != "$id"})}}
    for pointer, _ in parts:
        if pointer and _reason(_error(base | {"$ref": f"#/$defs/root{pointer}"}, options)) == reason:
            return pointer, reason
    return "its root", reason


def _parts(schema: Any, pointer: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """All subschemas with their pointers, parts before the whole, definitions last."""
    if not isinstance(schema, dict):
        return
    definitions = [key for key in schema if key in ("$defs", "definitions")]
    for key in [key for key in schema if key not in definitions] + definitions:
        value, below = schema[key], f"{pointer}/{_escaped(key)}"
        if key in _MAPS and isinstance(value, dict):
            for name, part in value.items():
                yield from _parts(part, f"{below}/{_escaped(name)}")
        elif key in _LISTS and isinstance(value, list):
            for i, part in enumerate(value):
                yield from _parts(part, f"{below}/{i}")
        elif key in _SINGLE:
            yield from _parts(value, below)
    yield pointer, schema


def _moved(value: Any) -> Any:
    """The schema with its references as they must be where it stands at #/$defs/root."""
    if isinstance(value, list):
        return [_moved(part) for part in value]
    if not isinstance(value, dict):
        return value
    moved = {key: _moved(part) for key, part in value.items()}
    reference = value.get("$ref")
    if isinstance(reference, str) and reference.startswith("#"):
        moved["$ref"] = "#/$defs/root" + reference[1:]
    return moved


def _escaped(name: str) -> str:
    """A step of a JSON pointer, RFC 6901."""
    return name.replace("~", "~0").replace("/", "~1")


def _reason(error: str) -> str:
    """What is wrong in one line; it is the same wherever in the schema the part stands."""
    lines = error.partition("\n  while processing")[0].strip().splitlines() or [""]
    detail = next((line.removeprefix("error: ") for line in lines if line.startswith("error: ")), lines[0])
    if detail.startswith("Unimplemented keys: "):
        return f"not supported: {', '.join(json.loads(detail.partition(': ')[2]))}"
    if detail.startswith("oneOf constraints"):
        return "not supported: oneOf whose branches may match the same value; use anyOf"
    if detail.startswith("Pointer "):  # of a reference that was moved for trying
        return "a $ref points at nothing"
    if len(lines) > 1:
        return f"pattern: {detail}"
    return detail[:1].lower() + detail[1:]
