"""The schema that the grammar of a call's arguments is made of.

What it permits is valid under the tool's own schema, and narrower in one way, as in llama.cpp: an object that lists its
properties has no others, where the schema does not speak of them. A model that may invent names does so. Objects that
are put together from several schemas are left as they are, since each knows only a part of the names.
"""

from typing import Any

from chenxing.chat.tools.request import Function

_WHITE_SPACE = r" |\n{1,2}[ \t]{0,20}"
"""As llama.cpp's: a model that is allowed more may fall into endless white space."""

_SETS_OF_SCHEMAS = ("properties", "$defs", "definitions")
_LISTS_OF_SCHEMAS = ("prefixItems", "anyOf", "oneOf")
_OF_OTHER_NAMES = ("additionalProperties", "patternProperties", "unevaluatedProperties", "propertyNames")
_COMPOSING = ("allOf", "anyOf", "oneOf", "not", "if", "$ref", "dependentSchemas")


def argument_schema(function: Function) -> dict[str, Any]:
    """With llguidance's options. Without `strict`, keywords that it does not know are left out of the grammar."""
    parameters = function.parameters
    schema = parameters if _is_composed(parameters) else _closed(parameters)
    options = {
        "whitespace_pattern": _WHITE_SPACE,
        "item_separator": ",",
        "key_separator": ":",
        "coerce_one_of": not function.strict,
        "lenient": not function.strict,
    }
    return {**schema, "type": "object", "x-guidance": options}


def _closed(schema: Any) -> Any:
    if not isinstance(schema, dict):
        return schema
    out = dict(schema)
    for key in _SETS_OF_SCHEMAS:
        if isinstance(schema.get(key), dict):
            out[key] = {name: _closed(part) for name, part in schema[key].items()}
    for key in _LISTS_OF_SCHEMAS:
        if isinstance(schema.get(key), list):
            out[key] = [_closed(part) for part in schema[key]]
    if "items" in schema:
        out["items"] = _closed(schema["items"])
    names = schema.get("properties")
    if isinstance(names, dict) and not schema.keys() & {*_OF_OTHER_NAMES, *_COMPOSING}:
        required = schema.get("required")
        if not isinstance(required, list) or all(name in names for name in required):
            out["additionalProperties"] = False
    return out


def _is_composed(schema: Any) -> bool:
    """Somewhere in it, one object is described by more than one schema."""
    if isinstance(schema, list):
        return any(map(_is_composed, schema))
    if not isinstance(schema, dict):
        return False
    if "allOf" in schema or ("properties" in schema and schema.keys() & set(_COMPOSING)):
        return True
    return any(map(_is_composed, schema.values()))
