"""The document. Source: OpenAPI Specification 3.1.1; JSON Schema 2020-12."""

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from chenxing import __version__
from chenxing.server.openapi.answers import ErrorBody
from chenxing.server.openapi.fields import FIELDS
from chenxing.server.openapi.messages import InputMessage
from chenxing.server.openapi.operations import OPENAI, OPERATIONS, PAGE_OPERATIONS, Operation

_ABOUT = """\
A GGUF model behind OpenAI's protocol and llama-server's. Fields that are absent or null have the server's defaults;
unknown fields are passed over. Every error has the same shape, whose message names the field.
"""
_REASONS = {
    400: "The request cannot be meant: the message names the field",
    401: "An API key is asked for",
    403: "This host name, or the origin of this page, is not allowed",
    404: "No such path",
    408: "The body did not arrive in time",
    413: "The body is too large",
    415: "The body is compressed",
    501: "The server was started without this, or the model cannot do it",
    503: "The model is loading, memory is full, or the server is shutting down",
}
EVENTS, DONE = "text/event-stream", "[DONE]"
_REF = "#/components/schemas/{name}"


def document(*, has_key: bool, has_ui: bool) -> dict[str, Any]:
    """has_key: an API key is asked for; has_ui: there are pages."""
    operations = OPERATIONS + (PAGE_OPERATIONS if has_ui else ())
    types = list(dict.fromkeys(_types(operations)))
    schemas, components = msgspec.json.schema_components(types, ref_template=_REF)
    schema_of = dict(zip(types, schemas, strict=True))
    for kind in {operation.request for operation in operations if operation.request}:
        _describe(components, kind.__name__)
        if "messages" in components[kind.__name__]["properties"]:
            messages = {"type": "array", "minItems": 1, "items": schema_of[InputMessage]}
            components[kind.__name__]["properties"]["messages"] |= messages
    paths: dict[str, Any] = {}
    for operation in operations:
        for path in operation.paths:
            paths.setdefault(path, {})[operation.method] = _form(operation, path, schema_of, has_key=has_key)
    return {
        "openapi": "3.1.0",
        "info": {"title": "chenxing", "version": __version__, "description": _ABOUT},
        "tags": [{"name": tag} for tag in dict.fromkeys(operation.tag for operation in operations)],
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {
                "bearer": {"type": "http", "scheme": "bearer"},
                "key": {"type": "apiKey", "in": "header", "name": "X-Api-Key"},
            },
        },
    }


def _types(operations: Iterable[Operation]) -> Iterator[Any]:
    yield ErrorBody
    yield InputMessage
    for operation in operations:
        yield from (kind for kind in (operation.request, operation.answer, operation.stream) if kind is not None)


def _describe(components: dict[str, Any], name: str) -> None:
    """Say what the fields of a request mean, and of the structs inside of it."""
    for field, schema in components[name].get("properties", {}).items():
        if field in FIELDS:
            schema.setdefault("description", FIELDS[field])
        for inner in schema.get("anyOf", [schema]):
            reference = inner.get("$ref") or inner.get("items", {}).get("$ref")
            if reference:
                _describe(components, reference.rpartition("/")[2])


def _form(operation: Operation, path: str, schema_of: dict[Any, Any], *, has_key: bool) -> dict[str, Any]:
    form: dict[str, Any] = {
        "tags": [operation.tag],
        "summary": operation.summary,
        "operationId": f"{operation.method}{path.translate(_IN_IDS)}",
        "responses": _responses(operation, schema_of),
    }
    if operation.description:
        form["description"] = operation.description
    if operation.parameters:
        form["parameters"] = [
            {
                "name": parameter.name,
                "in": parameter.place,
                "required": True,
                "description": parameter.description,
                "schema": {"type": "string"} | ({"enum": list(parameter.values)} if parameter.values else {}),
            }
            for parameter in operation.parameters
        ]
    if operation.request:
        content = {"application/json": {"schema": schema_of[operation.request]}}
        form["requestBody"] = {"required": not operation.parameters, "content": content}
    if has_key and not operation.is_public:
        form["security"] = [{"bearer": []}, {"key": []}]
    return form


def _event(chunk: Any, error: Any, operation: Operation) -> dict[str, Any]:
    """One event of a stream: its data is a chunk, or an error that ends the stream."""
    data = {"contentMediaType": "application/json", "contentSchema": {"anyOf": [chunk, error]}}
    end = [{"const": DONE}] if operation.tag == OPENAI else []  # llama-server's own protocol ends without a word
    return {"type": "object", "required": ["data"], "properties": {"data": {"type": "string", "anyOf": [*end, data]}}}


_IN_IDS = str.maketrans({"/": "_", "{": "", "}": "", ".": "_", "-": "_"})


def _responses(operation: Operation, schema_of: dict[Any, Any]) -> dict[str, Any]:
    responses: dict[str, Any] = {}
    if operation.answer is not None:
        content = {operation.media: {"schema": schema_of[operation.answer]}}
        if operation.stream is not None:
            content[EVENTS] = {"schema": _event(schema_of[operation.stream], schema_of[ErrorBody], operation)}
        responses["200"] = {"description": "As asked", "content": content}
    statuses = {403, *operation.errors}
    if not operation.is_public:
        statuses |= {401, 503}
    if operation.method == "post":
        statuses |= {400, 408, 413, 415}
    if "health" in operation.paths[0]:
        statuses.add(503)
    error = {"application/json": {"schema": schema_of[ErrorBody]}}
    for status in sorted(statuses):
        responses[str(status)] = {"description": _REASONS[status], "content": error}
    return responses
