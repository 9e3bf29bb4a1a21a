"""The grammar of an answer that may, must or must not hold calls, in llguidance's Lark.

    none      text in which no call is opened
    auto      the same, or text and then calls; nothing comes after them
    required  calls alone
    named     one call

Where the text must be JSON of a schema, it is that, or calls.

In front of each there may be a thought, in which everything is permitted, calls too: it is no call there.

Source: llguidance 1.9, docs/syntax.md: lazy rules end at the first place where they can, which is how an opening is
found in running text; docs/json_schema.md.
"""

import json
from typing import Any

from chenxing.chat.tools.arguments import argument_schema
from chenxing.chat.tools.form import ANY_TEXT, ToolForm, escaped
from chenxing.chat.tools.reasoning import CLOSE_TAG, OPEN_TAG, Reasoning
from chenxing.chat.tools.request import ToolRequest


def answer_grammar(
    form: ToolForm, request: ToolRequest, reasoning: Reasoning, content: dict[str, Any] | None = None
) -> str:
    """Lark text. Its JSON schemas are checked by who compiles it.

    content  schema of the text, with llguidance's options; None: any text
    """
    functions = request.callable_functions
    names = [function.name for function in functions]
    more = " next_call*" if request.parallel else ""
    text_rule = _text_rule(form, names) if content is None else f"text: %json {_json(content)}"
    match request.choice:
        case "none":
            answer, rules = "text", [text_rule]
        case "auto" if content is None:
            answer = f"(text | call_after_text{more})"
            rules = [text_rule, *form.call_rules(names), *form.call_after_text_rules(names)]
        case "auto":
            answer, rules = f"(text | call{more})", [text_rule, *form.call_rules(names)]
        case "required":
            answer, rules = f"call{more}", form.call_rules(names)
    if request.choice != "none":
        rules += [form.next_call_rule()] if request.parallel else []
        for i, function in enumerate(functions):
            rules.append(f"arguments_{i}: %json {_json(argument_schema(function))}")
    thought, thought_rules = _thought(reasoning)
    return "\n".join([f"start: {thought}{answer}", *thought_rules, *rules, r"SPACE: /[ \n]{1,2}/"]) + "\n"


def _json(schema: dict[str, Any]) -> str:
    return json.dumps(schema, ensure_ascii=False, allow_nan=False)


def _text_rule(form: ToolForm, names: list[str]) -> str:
    start = rf"({ANY_TEXT}\n)?" if form.at_line_start else ANY_TEXT
    return f"text: TEXT\nTEXT: /{ANY_TEXT}/ & ~/{start}{form.opening_pattern(names)}{ANY_TEXT}/"


def _thought(reasoning: Reasoning) -> tuple[str, list[str]]:
    rest = rf"rest_of_thought[lazy]: /{ANY_TEXT}{escaped(CLOSE_TAG)}/"
    match reasoning:
        case Reasoning.NONE:
            return "", []
        case Reasoning.OPEN:
            return "rest_of_thought SPACE? ", [rest]
        case Reasoning.POSSIBLE:
            opening = rf"thought_opening[lazy]: /[ \t\r\n]{{0,4}}{escaped(OPEN_TAG)}/"
            return "thought? ", ["thought: thought_opening rest_of_thought SPACE?", opening, rest]
