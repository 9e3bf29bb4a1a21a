"""What a function's annotations and docstring say of its arguments: a JSON schema, and a type that checks them."""

import inspect
import re
from collections.abc import Callable
from typing import Annotated, Any, get_type_hints

import msgspec

from chenxing.errors import AgentError

# "name: text" and "name (int): text" of Google's style, ":param name: text" of Sphinx', "name   text" of ours
_DESCRIBED = re.compile(r"(\s*)(?::param (?:\w+ )?(\w+):|(\w+)(?: \([^)]*\))?:|(\w+) {2,})\s*(\S.*)")


def arguments_type(function: Callable[..., Any]) -> type[msgspec.Struct]:
    """A struct of the function's parameters. Raises AgentError for one whose type is missing or is no JSON."""
    name = function.__name__
    described = described_parameters(function)
    hints = get_type_hints(function, include_extras=True)
    fields: list[Any] = []
    for parameter in inspect.signature(function).parameters.values():
        where = f"tool {name!r}: parameter {parameter.name!r}"
        if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            raise AgentError(f"{where}: expected one that can be given by its name")
        if parameter.name not in hints:
            raise AgentError(f"{where}: expected an annotation, which the model's arguments are checked by")
        kind = hints[parameter.name]
        if text := described.get(parameter.name):
            kind = Annotated[kind, msgspec.Meta(description=text)]
        if parameter.default is parameter.empty:
            fields.append((parameter.name, kind))
        else:
            fields.append((parameter.name, kind, _default(parameter.default)))
    return msgspec.defstruct(re.sub(r"\W", "_", name), fields, kw_only=True, forbid_unknown_fields=True)


def schema_of(arguments: type[msgspec.Struct]) -> dict[str, Any]:
    """A JSON schema of an object. Raises AgentError for a type that has none."""
    name = arguments.__name__
    try:
        [reference], components = msgspec.json.schema_components([arguments], ref_template="#/$defs/{name}")
    except (TypeError, ValueError) as error:
        reason = str(error).strip().splitlines()[-1]
        raise AgentError(f"tool {name!r}: expected types that JSON knows: {reason}") from error
    schema = components.pop(reference["$ref"].rpartition("/")[2])
    schema.pop("title", None)
    return schema | ({"$defs": components} if components else {})


def description_of(function: Callable[..., Any]) -> str:
    """The docstring up to where it speaks of parameters."""
    lines: list[str] = []
    names = inspect.signature(function).parameters
    for line in (inspect.getdoc(function) or "").splitlines():
        if line.strip() in ("Args:", "Arguments:", "Parameters:") or _described(line, names):
            break
        lines.append(line.strip())
    return re.sub(r"\s*\n\s*", " ", "\n".join(lines).strip())


def described_parameters(function: Callable[..., Any]) -> dict[str, str]:
    """Of the docstring: name of a parameter: what it says, lines that are indented deeper included."""
    names = inspect.signature(function).parameters
    out: dict[str, str] = {}
    current, depth = "", 0
    for line in (inspect.getdoc(function) or "").splitlines():
        if found := _described(line, names):
            current, depth = found[0], len(line) - len(line.lstrip())
            out[current] = found[1]
        elif current and line.strip() and len(line) - len(line.lstrip()) > depth:
            out[current] += " " + line.strip()
        else:
            current = ""
    return out


def _described(line: str, names: Any) -> tuple[str, str] | None:
    match = _DESCRIBED.fullmatch(line)
    if match is None:
        return None
    name = str(match[2] or match[3] or match[4])
    return (name, match[5].strip()) if name in names else None


def _default(value: Any) -> Any:
    if isinstance(value, list | dict | set):
        if not value:
            return msgspec.field(default_factory=type(value))  # which the schema can show
        return msgspec.field(default_factory=lambda: value.copy())
    return value
