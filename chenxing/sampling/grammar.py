"""Grammars: makes the constraint of an answer from a JSON schema, a regular expression or a GBNF grammar.

Whatever is not supported is an error that names the part; nothing is ignored in silence.
"""

from collections.abc import Mapping
from threading import Lock
from typing import Any

from chenxing.errors import GrammarError, UsageError
from chenxing.sampling.constraint import Constraint
from chenxing.sampling.gbnf import parse_gbnf
from chenxing.sampling.gbnf_lark import to_grammar
from chenxing.sampling.json_schema import JsonSchema, compile_schema
from chenxing.sampling.limits import checked_text, parser_limits
from chenxing.sampling.masks import MaskTable
from chenxing.sampling.preface import behind_thought
from chenxing.tokenizer import Tokenizer

_ANY_OBJECT = {"type": "object"}


class Grammars:
    """Makes constraints for one model. Nothing is imported or built before the first one. Thread-safe.

    n_vocab  length of a row of logits

    Every method takes `after`, the text that must have been generated before the grammar begins, and raises
    GrammarError for what is invalid, not supported, or too large. With `opening` the grammar begins at once, unless the
    answer begins with this text: then it begins `after`.
    """

    def __init__(self, tokenizer: Tokenizer, n_vocab: int) -> None:
        self._tokenizer, self._n_vocab = tokenizer, n_vocab
        self._table: MaskTable | None = None
        self._lock = Lock()

    def any_of(
        self,
        *,
        response_format: Any = None,
        json_schema: JsonSchema | str | None = None,
        grammar: str | None = None,
        regex: str | None = None,
        after: str = "",
        opening: str = "",
    ) -> Constraint | None:
        """The constraint of whichever is given; None if none is. Raises UsageError for more than one."""
        given = {"response_format": response_format, "json_schema": json_schema, "grammar": grammar, "regex": regex}
        names = [name for name, value in given.items() if value is not None]
        if len(names) > 1:
            raise UsageError(f"{' and '.join(names)} exclude each other: an answer follows one grammar")
        if response_format is not None:
            json_schema = response_schema(response_format)
        if json_schema is not None:
            return self.json_schema(json_schema, after, opening)
        if grammar is not None:
            return self.gbnf(grammar, after, opening)
        return None if regex is None else self.regex(regex, after, opening)

    def json_schema(self, schema: JsonSchema | str, after: str = "", opening: str = "") -> Constraint:
        """A JSON text that the schema (draft 2020-12) validates. Properties come in the schema's order."""
        return self._constraint(compile_schema(schema), "json_schema", after, opening)

    def regex(self, expression: str, after: str = "", opening: str = "") -> Constraint:
        """A text that the whole expression matches, in the syntax of Rust's regex crate, without look-around."""
        return self._constraint(_regex(expression), "regex", after, opening)

    def gbnf(self, text: str, after: str = "", opening: str = "") -> Constraint:
        """A text that llama.cpp's grammar generates from its rule `root`."""
        return self._constraint(to_grammar(parse_gbnf(text)), "grammar", after, opening)

    def lark(self, text: str, after: str = "") -> Constraint:
        """A text of llguidance's Lark grammar, which whoever calls this has made: its errors speak of places in it."""
        from llguidance import LLMatcher

        return self._constraint(str(LLMatcher.grammar_from_lark(text)), "grammar", after)

    def _constraint(self, grammar: str, name: str, after: str, opening: str = "") -> Constraint:
        from llguidance import LLMatcher

        if opening:
            grammar, after = behind_thought(grammar, opening, after), ""
        table = self._mask_table()
        matcher = LLMatcher(table.ll_tokenizer, grammar, log_level=0, limits=parser_limits())
        if matcher.is_error():
            raise GrammarError(f"{name}: {matcher.get_error().strip().splitlines()[0]}")
        return Constraint(matcher, table, after)

    def _mask_table(self) -> MaskTable:
        with self._lock:
            if self._table is None:
                table = MaskTable(self._tokenizer, self._n_vocab)
                assert table.ll_tokenizer.vocab_size == self._tokenizer.n_vocab
                self._table = table
            return self._table


def response_schema(value: Any) -> JsonSchema | str | None:
    """The schema that OpenAI's response_format asks for; None for {"type": "text"}. Raises UsageError.

    Also of llama.cpp's {"type": "json_object", "schema": {...}}.
    """
    match value.get("type") if isinstance(value, Mapping) else None:
        case "text":
            return None
        case "json_object":
            schema = value.get("schema")
            return _ANY_OBJECT if schema is None else schema
        case "json_schema":
            inner = value.get("json_schema")
            schema = inner.get("schema") if isinstance(inner, Mapping) else value.get("schema")
            if schema is None:
                raise UsageError("response_format: expected the schema as json_schema.schema, found none")
            return schema
    raise UsageError(
        f"response_format: expected an object whose type is text, json_object or json_schema, found {value!r:.200}"
    )


def _regex(expression: str) -> str:
    from llguidance import LLMatcher

    grammar = LLMatcher.grammar_from_regex(checked_text("regex", expression))
    if error := LLMatcher.validate_grammar(grammar, limits=parser_limits()):
        raise GrammarError(f"regex {expression!r}: {_reason_of_regex(error)}")
    return str(grammar)


def _reason_of_regex(error: str) -> str:
    """The reason and the place, from a message of several lines that shows the expression with a caret below."""
    lines = error.strip().splitlines()
    reason = next((line.removeprefix("error: ") for line in lines if line.startswith("error: ")), None)
    if reason is None:
        return lines[0].partition("(in regex): ")[2] or lines[0]
    caret = next((line for line in lines if line.strip() and not line.strip(" ^")), "")
    return f"{reason}, at column {caret.index('^') - 3}" if caret.startswith("    ") else reason
