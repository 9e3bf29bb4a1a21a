"""One order for the keys of tools, so that the same tools are the same text.

JSON objects have no order, and libraries that sort keys, or keep them in a hash table, send the same tools differently
from run to run; a template prints them as they come. The order here depends on nothing but the tools:

- The list of tools, and every other list, stays as it is.
- Words of the protocol and of JSON Schema come as people write them (`KEYWORDS`), unknown ones behind them, sorted.
- The arguments of a tool are in the order in which `required` lists them, then the others, sorted. Sorting them all
  would show the model `content` before `path`; their order as sent is lost in some clients. `required` is a list, which
  every library keeps, and most generators write it in the order of the arguments.
- Data (`default`, `enum`, `const`, `examples`) is sorted.
"""

from typing import Any

from chenxing.errors import UsageError

KEYWORDS = """
    type function name title description strict parameters
    format enum const default examples
    items prefixItems properties required additionalProperties patternProperties
    minimum maximum exclusiveMinimum exclusiveMaximum multipleOf
    minLength maxLength pattern minItems maxItems uniqueItems minProperties maxProperties
    anyOf oneOf allOf not if then else $ref $defs definitions $id $schema
"""

_RANK = {key: i for i, key in enumerate(KEYWORDS.split())}
_OF_NAMES = frozenset(("properties", "patternProperties", "$defs", "definitions", "dependentSchemas"))
_DATA = frozenset(("default", "enum", "const", "examples", "example"))


def in_order(tools: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Equal tools, as copies with their keys in order. Raises UsageError for those that are nested too deeply."""
    try:
        return [_schema(tool) for tool in tools]
    except RecursionError as error:
        raise UsageError("tools: nested too deeply") from error


def _schema(value: Any) -> Any:
    """A tool, its function, a schema, or a list of schemas."""
    if isinstance(value, list):
        return [_schema(item) for item in value]
    if not isinstance(value, dict):
        return value
    out = {}
    for key in sorted(value, key=lambda key: (_RANK.get(key, len(_RANK)), key)):
        if key in _DATA:
            out[key] = _data(value[key])
        elif key in _OF_NAMES and isinstance(value[key], dict):
            out[key] = _named(value[key], value.get("required") if key == "properties" else None)
        else:
            out[key] = _schema(value[key])
    return out


def _named(schemas: dict[str, Any], required: Any) -> dict[str, Any]:
    """Schemas by names, which are the tool's own words and no keywords."""
    first = [name for name in required if isinstance(name, str)] if isinstance(required, list) else []
    order = dict.fromkeys([name for name in first if name in schemas] + sorted(schemas))
    return {name: _schema(schemas[name]) for name in order}


def _data(value: Any) -> Any:
    if isinstance(value, list):
        return [_data(item) for item in value]
    return {key: _data(value[key]) for key in sorted(value)} if isinstance(value, dict) else value
