"""What holds an answer to a form: a request's grammar, schema or tools, as the sampler's constraint.

All of it may take long, each grammar at most half a second: it is for the service's grammar thread.
"""

import json
from typing import Any

from chenxing.chat.tools import Reasoning, ToolPrompt, ToolRequest
from chenxing.chat.tools.reasoning import CLOSE_TAG, OPEN_TAG
from chenxing.errors import GrammarError
from chenxing.llm import LLM
from chenxing.sampling import Constraint
from chenxing.sampling.json_schema import compile_schema
from chenxing.server.failures import invalid

_BEHIND: dict[Reasoning, dict[str, str]] = {
    Reasoning.NONE: {},
    Reasoning.POSSIBLE: {"opening": OPEN_TAG, "after": CLOSE_TAG},
    Reasoning.OPEN: {"after": CLOSE_TAG},
}


def is_free(form: dict[str, Any], prompt: ToolPrompt | None = None) -> bool:
    """Nothing is asked of the answer's form."""
    return not form and (prompt is None or prompt.request is None)


def constraint_of(llm: LLM, form: dict[str, Any], prompt: ToolPrompt | None = None) -> Constraint | None:
    """form: as Grammars.any_of takes it. Raises GrammarError, UsageError, ApiError for what cannot be held."""
    request = prompt.request if prompt else None
    if prompt is None or request is None or (form and request.choice == "none"):
        behind = _BEHIND[prompt.reasoning] if prompt else {}
        return llm.grammars.any_of(**form, **behind) if form else None
    if "grammar" in form:
        raise invalid("grammar: expected without tools, whose calls it would not let through, found both")
    content = None
    if "json_schema" in form:
        content = json.loads(compile_schema(form["json_schema"]))["grammars"][0]["json_schema"]
    lark = prompt.grammar(content)
    assert lark is not None
    try:
        return llm.grammars.lark(lark)
    except GrammarError as error:
        _check_parameters(request)
        raise invalid(f"tools: {error}") from None


def _check_parameters(request: ToolRequest) -> None:
    """Raises GrammarError that names the place in a tool's schema."""
    for function in request.callable_functions:
        compile_schema(function.parameters, f"{function.where}.parameters", lenient=not function.strict)
