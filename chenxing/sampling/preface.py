"""A grammar behind a text that may come first: what a model thinks aloud before its answer.

Source: llguidance 1.9, docs/syntax.md: lazy rules end at the first place where they can; grammars refer to each other
by name.
"""

import json
import re


def behind_thought(grammar: str, opening: str, closing: str) -> str:
    """llguidance's grammar of the same answers, and of those with any text from `opening` to `closing` before them."""
    (body,) = json.loads(grammar)["grammars"]
    lark = "\n".join(
        (
            "start: thought? @body",
            "thought: opening rest SPACE?",
            rf"opening[lazy]: /[ \t\r\n]{{0,4}}{_escaped(opening)}/",
            rf"rest[lazy]: /(?s:.*){_escaped(closing)}/",
            r"SPACE: /[ \n]{1,2}/",
        )
    )
    return json.dumps({"grammars": [{"lark_grammar": lark}, body | {"name": "body"}]})


def _escaped(text: str) -> str:
    return re.escape(text).replace("/", r"\/")
