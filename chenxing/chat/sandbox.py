"""jinja2's immutable sandbox, closed further and metered: which calls a chat template may make, and what they cost.

jinja2's own sandbox keeps templates away from Python's internals. It does not stop `'x' * 10**9`, `'%999999999d' % 1`
or a list that holds itself twice, forty levels deep, and it lets templates call any method of any value. Here every
call, filter, operator and output goes through `BoundedEnvironment`, which pays the Meter before it makes anything
(metering.py rewrites the template's tree so that nothing goes round it) and knows the methods that chat templates
have a use for.
"""

import re
import types
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from jinja2 import Undefined, pass_context
from jinja2.exceptions import SecurityError
from jinja2.runtime import BlockReference, Context, LoopContext, Macro
from jinja2.sandbox import ImmutableSandboxedEnvironment

from chenxing.chat.bounds import STEP, Meter

_STRING_METHODS = """
    capitalize casefold count endswith find index isalnum isalpha isascii isdecimal isdigit islower isnumeric isspace
    istitle isupper join lower lstrip partition removeprefix removesuffix replace rfind rindex rpartition rsplit rstrip
    split splitlines startswith strip swapcase title upper
"""
METHODS: dict[type, frozenset[str]] = {
    str: frozenset(_STRING_METHODS.split()),
    dict: frozenset(("copy", "get", "items", "keys", "values")),
    list: frozenset(("copy", "count", "index")),
    tuple: frozenset(("count", "index")),
}
"""Methods of values that may be called. Those that pad to a given width are not among them."""

LOOP_METHODS = frozenset(("cycle", "changed"))
_SHALLOW = "count d default first items last length list map reject rejectattr reverse select selectattr"
SHALLOW_FILTERS = frozenset(_SHALLOW.split())
"""Filters that look at the elements of a list but do not spell them out."""

MAX_FIELD = 999
_WIDE_FIELD = re.compile(r"\d{4}|%[^a-zA-Z%]*\*|\{[^{}]*\{")
"""In a format string: a width beyond MAX_FIELD, or one that comes from an argument."""

MAX_INT_BITS = 4096


class BoundedFormat:
    """`text.format`, paid for by the size of what it can make."""

    def __init__(self, environment: "BoundedEnvironment", text: str, function: Callable[..., str]) -> None:
        self._environment, self._text, self._function = environment, text, function

    def __call__(self, *args: Any, **kwargs: Any) -> str:
        self._environment.pay_format(self._text, [args, kwargs])
        return self._function(*args, **kwargs)


@pass_context
def finalize(context: Context, value: Any) -> str:
    """Text of an output expression. Taking the context keeps jinja2 from evaluating constants while compiling."""
    environment = context.environment
    assert isinstance(environment, BoundedEnvironment)
    return environment.text(value)


class BoundedEnvironment(ImmutableSandboxedEnvironment):
    """One per rendering: a shallow copy of the shared environment with a `meter` of its own.

    functions  the global functions of the template language: all that may be called beside METHODS and macros
    """

    OPERATIONS = frozenset(("step", "operand", "tuple_made", "piece", "joined", "filtered"))
    """Methods that metering.py calls in place of template constructs."""

    intercepted_binops = frozenset(("+", "*", "**", "%"))
    functions: tuple[Any, ...] = ()
    meter: Meter

    # what a template may reach

    def unsafe_undefined(self, obj: Any, attribute: str) -> Any:
        """jinja2 would hand out an undefined value, which prints as nothing; here the template stops."""
        raise SecurityError(f"{attribute!r} of a {type(obj).__name__} may not be used in a chat template")

    def wrap_str_format(self, value: Any) -> Callable[..., str] | None:
        wrapped = super().wrap_str_format(value)
        return None if wrapped is None else BoundedFormat(self, value.__self__, wrapped)

    def call(__self, __context: Context, __obj: Any, *args: Any, **kwargs: Any) -> Any:
        """Every call in a template, and every operation. Underscores: a template's own keywords must not clash."""
        self, obj, kind = __self, __obj, type(__obj)
        self.meter.spend(STEP)
        if kind is types.MethodType and obj.__self__ is self and obj.__name__ in self.OPERATIONS:
            _drop_scopes(kwargs)
            return obj(__context, *args, **kwargs)
        if kind is types.BuiltinMethodType:
            _drop_scopes(kwargs)
            return self._call_method(obj, args, kwargs)
        if kind is types.MethodType:
            allowed = isinstance(obj.__self__, LoopContext) and obj.__name__ in LOOP_METHODS
            self.meter.size(args)
        else:
            allowed = kind in (Macro, LoopContext, BlockReference, BoundedFormat) or isinstance(obj, Undefined)
        if not allowed and not any(obj is function for function in self.functions):
            raise SecurityError(f"a value of type {kind.__name__} may not be called in a chat template")
        return self._paid(super().call(__context, obj, *args, **kwargs))

    def _call_method(self, method: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A method of a string, dict, list or tuple."""
        owner, name = method.__self__, method.__name__
        if name not in METHODS.get(type(owner), ()):
            raise SecurityError(f"{type(owner).__name__}.{name} may not be called in a chat template")
        if name == "join":
            args = (list(self.metered(*args)),)
            self.meter.spend(self.meter.size(args) + len(owner) * len(args[0]))
        elif name == "replace":
            self.pay_replace(owner, *args)
        elif name in ("split", "rsplit"):
            separator = args[0] if args else kwargs.get("sep")
            self.meter.spend(STEP * (owner.count(separator) if separator else len(owner) // 2))
        elif name == "splitlines":
            self.meter.spend(STEP * len(owner))
        else:
            self.meter.size(args)
        result = method(*args, **kwargs)
        # a view prints all that it shows, and Meter.size does not look into it
        return self._paid(list(result) if name in ("items", "keys", "values") else result)

    # operators

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        if operator == "%" and isinstance(left, str):
            self.pay_format(left, right)
        elif isinstance(left, (str, list, tuple)) and operator == "+":
            self.meter.spend((len(left) + (len(right) if isinstance(right, type(left)) else 0)) * _unit(left))
        elif isinstance(left, int) and isinstance(right, int):
            bits = left.bit_length() * right if operator == "**" else left.bit_length() + right.bit_length()
            if bits > MAX_INT_BITS:
                raise SecurityError("a number in the chat template grows without bound")
        elif operator == "*":
            sequence, times = (right, left) if isinstance(left, int) else (left, right)
            if isinstance(sequence, (str, list, tuple)) and isinstance(times, int):
                self.meter.spend(len(sequence) * max(times, 0) * _unit(sequence))
        result = super().call_binop(context, operator, left, right)
        return self.tuple_made(context, result) if isinstance(result, tuple) else result

    def pay_format(self, text: str, values: Any) -> None:
        """`text % values` and `text.format(values)`: refused when a field could be wider than MAX_FIELD."""
        if _WIDE_FIELD.search(text):
            raise SecurityError("a format string in the chat template has a field of unbounded width")
        n_fields = text.count("%") + text.count("{")
        self.meter.spend(len(text) + n_fields * (MAX_FIELD + self.meter.size(values)))

    def pay_replace(self, text: str, old: str, new: str, count: int | None = None) -> None:
        n = text.count(old)
        self.meter.spend(len(text) + (n if count is None or count < 0 else min(n, count)) * len(new))

    # operations that metering.py puts into the tree

    def step(self, context: Context) -> None:
        """A round of a loop. The call itself is what costs."""

    def operand(self, context: Context, value: Any) -> Any:
        """A side of a comparison."""
        if isinstance(value, (dict, list, tuple)):
            self.meter.size(value)
        return value

    def tuple_made(self, context: Context, value: tuple[Any, ...]) -> tuple[Any, ...]:
        """A tuple can be hashed, which walks all of it: none may spell out more than the budget."""
        self.meter.size(value)
        return value

    def piece(self, context: Context, value: Any, start: Any, stop: Any, step: Any) -> Any:
        """`value[start:stop:step]`"""
        if isinstance(value, (str, list, tuple)):
            self.meter.spend(len(value) * _unit(value))
        return value[start:stop:step]

    def joined(self, context: Context, *values: Any) -> str:
        """`a ~ b`"""
        return self.concat([self.text(value) for value in values])

    def filtered(self, context: Context, name: str, value: Any, *args: Any, **kwargs: Any) -> Any:
        """`value|name(...)`"""
        return self.call_filter(name, value, args, kwargs, context=context)

    # text, filters, tests

    def text(self, value: Any) -> str:
        """`value` as output, paid for if it is not text already."""
        if isinstance(value, str):
            return value
        self.meter.spend(self.meter.size(value))
        return str(value)

    def concat(self, parts: Iterable[str]) -> str:  # jinja2 has "".join there
        """The output of a macro or block."""
        parts = list(parts)
        self.meter.spend(sum(map(len, parts)))
        return "".join(parts)

    def metered(self, values: Any) -> Iterator[Any]:
        """The same elements, a step each."""
        for value in values:
            self.meter.spend(STEP)
            yield value

    def call_filter(
        self, name: Any, value: Any, args: Any = None, kwargs: Any = None, context: Any = None, eval_ctx: Any = None
    ) -> Any:
        """Also called by jinja2 for `map('name')`."""
        self.meter.spend(STEP)
        self.meter.size([args, kwargs])
        if name not in SHALLOW_FILTERS:
            value = list(self.metered(value)) if isinstance(value, Iterator) else value
            self.meter.spend(self.meter.size(value))
        if isinstance(value, str) and name in ("list", "sort", "unique"):
            self.meter.spend(len(value) * STEP)
        return self._paid(super().call_filter(name, value, args, kwargs, context, eval_ctx))

    def call_test(
        self, name: Any, value: Any, args: Any = None, kwargs: Any = None, context: Any = None, eval_ctx: Any = None
    ) -> Any:
        """Called by jinja2 for `select('name')` and its kin."""
        self.meter.spend(STEP)
        self.meter.size([value, args])
        return super().call_test(name, value, args, kwargs, context, eval_ctx)

    def _paid(self, result: Any) -> Any:
        """A result, paid for: text by its length, containers by their elements, a lazy filter's result as it goes.

        A lazy result stays an iterator: in jinja2 it is always true, even when nothing comes out of it.
        """
        if isinstance(result, str):
            self.meter.spend(len(result))
        elif isinstance(result, (list, dict)):
            self.meter.spend(len(result) * STEP)
        elif isinstance(result, Iterator):
            return self.metered(result)
        return result


def _unit(sequence: Any) -> int:
    return 1 if isinstance(sequence, str) else STEP


def _drop_scopes(kwargs: dict[str, Any]) -> None:
    """jinja2 passes a loop's and a block's variables along; only functions that take the context want them."""
    kwargs.pop("_loop_vars", None)
    kwargs.pop("_block_vars", None)
