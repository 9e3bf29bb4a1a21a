"""The language of chat templates: jinja2 as transformers sets it up, with the filters and functions that templates use.

Facts from transformers (utils/chat_template_utils.py, 4.57) and llama.cpp (common/jinja, b11434): trim_blocks and
lstrip_blocks are on; loops have break and continue; `{% generation %}` marks the assistant's text for training and
prints it as it is; `tojson` does not escape HTML and takes ensure_ascii, indent, separators and sort_keys.
"""

import copy
import json
import re
from datetime import datetime
from functools import cache
from typing import Any, NoReturn

from jinja2 import Undefined, nodes, pass_environment, pass_eval_context
from jinja2.defaults import DEFAULT_FILTERS
from jinja2.ext import Extension, LoopControlExtension
from jinja2.nodes import EvalContext
from jinja2.parser import Parser
from jinja2.sandbox import safe_range
from jinja2.utils import Namespace
from markupsafe import escape as escape_html

from chenxing.chat.bounds import STEP, Meter
from chenxing.chat.sandbox import BoundedEnvironment, finalize

_FROM_JINJA2 = """
    abs attr capitalize count d default dictsort first float groupby int items last length list lower map max min
    reject rejectattr reverse select selectattr sort string title trim truncate unique upper wordcount
"""

# what json.dumps(ensure_ascii=True) escapes, but for the guard characters of guard.py, which are no text
_NON_ASCII = re.compile("[^\x00-\x7f\ufdd0-\ufdef]")
_UNPADDED = re.compile(r"%-([a-zA-Z])")


class TemplateRefusal(Exception):
    """The template called raise_exception: it does not take these messages."""


class QuietNamespace(Namespace):
    """`namespace(...)`. It does not print what it holds: that can change, so its size could not be known."""

    def __repr__(self) -> str:
        return "<namespace>"


class TextlessUndefined(Undefined):
    """A missing value adds nothing to a text, as in llama.cpp: `'Name: ' + tool.name` where there is no name.

    jinja2 fails there. Tools without a description would be refused by templates that never thought of them.
    """

    def __add__(self, other: Any) -> str:  # type: ignore[override]
        return other if isinstance(other, str) else super().__add__(other)

    def __radd__(self, other: Any) -> str:  # type: ignore[override]
        return other if isinstance(other, str) else super().__radd__(other)


class GenerationBlock(Extension):
    """`{% generation %}...{% endgeneration %}`"""

    tags = {"generation"}  # noqa: RUF012  # jinja2's interface

    def parse(self, parser: Parser) -> nodes.Node:
        lineno = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return nodes.Scope(body, lineno=lineno)


@pass_environment
def tojson(
    environment: BoundedEnvironment,
    value: Any,
    ensure_ascii: bool = False,
    indent: int | str | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    width = indent if isinstance(indent, int) else len(indent or "")
    per_element = _depth(value) * width + sum(map(len, separators or ()))
    environment.meter.spend(environment.meter.size(value) // STEP * per_element)
    text = json.dumps(value, ensure_ascii=False, indent=indent, separators=separators, sort_keys=sort_keys)
    return _NON_ASCII.sub(_escaped, text) if ensure_ascii else text


def _depth(value: Any) -> int:
    children = value.values() if isinstance(value, dict) else value if isinstance(value, (list, tuple)) else ()
    return 1 + max(map(_depth, children), default=0)


def _escaped(match: re.Match[str]) -> str:
    return json.dumps(match[0])[1:-1]


def from_json(value: str) -> Any:
    return json.loads(value)


@pass_eval_context
def join(eval_ctx: EvalContext, value: Any, d: str = "", attribute: Any = None) -> str:
    environment = eval_ctx.environment
    assert isinstance(environment, BoundedEnvironment)
    environment.meter.spend(len(value) * len(d))
    return DEFAULT_FILTERS["join"](eval_ctx, value, d, attribute)


@pass_environment
def indent(
    environment: BoundedEnvironment, s: str, width: int | str = 4, first: bool = False, blank: bool = False
) -> str:
    per_line = width if isinstance(width, int) else len(width)
    environment.meter.spend((len(s.splitlines()) + 1) * max(per_line, 0))
    return DEFAULT_FILTERS["indent"](s, width, first, blank)


@pass_environment
def replace(environment: BoundedEnvironment, s: Any, old: Any, new: Any, count: int | None = None) -> str:
    text, old, new = str(s), str(old), str(new)
    environment.pay_replace(text, old, new, count)
    return text.replace(old, new, -1 if count is None else count)


def escape(value: Any) -> str:
    return str(escape_html(value))


_FILTERS = {name: DEFAULT_FILTERS[name] for name in _FROM_JINJA2.split()} | {
    "tojson": tojson,
    "from_json": from_json,
    "join": join,
    "indent": indent,
    "replace": replace,
    "escape": escape,
    "e": escape,
    "safe": str,  # nothing is escaped, so nothing needs to be marked as safe
}


def raise_exception(message: Any = "") -> NoReturn:
    raise TemplateRefusal(str(message))


def make_dict(*args: Any, **kwargs: Any) -> dict[Any, Any]:
    return dict(*args, **kwargs)


def strftime(moment: datetime, form: str) -> str:
    """`%-d` (no leading zero) works on every platform."""
    return moment.strftime(_UNPADDED.sub(lambda m: moment.strftime("%" + m[1]).lstrip("0") or "0", form))


@cache
def shared_environment() -> BoundedEnvironment:
    """For compiling, and the mould of each rendering's environment. Making one takes longer than a rendering."""
    environment = BoundedEnvironment(
        trim_blocks=True,
        lstrip_blocks=True,
        extensions=[LoopControlExtension, GenerationBlock],
        finalize=finalize,
        undefined=TextlessUndefined,
        optimized=False,  # the optimizer would evaluate constant expressions, unmetered
    )
    environment.filters = dict(_FILTERS)
    return environment


def rendering_environment(meter: Meter, now: datetime) -> tuple[BoundedEnvironment, dict[str, Any]]:
    """An environment for one rendering, and the template's global functions."""

    def strftime_now(form: str) -> str:
        return strftime(now, form)

    functions = {
        "range": safe_range,
        "dict": make_dict,
        "namespace": QuietNamespace,
        "raise_exception": raise_exception,
        "strftime_now": strftime_now,
    }
    environment = copy.copy(shared_environment())
    environment.meter = meter
    environment.functions = tuple(functions.values())
    return environment, functions
