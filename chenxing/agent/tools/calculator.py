"""A calculator that walks Python's syntax tree of an expression and knows nothing but numbers.

Integers are exact, with at most 4,096 bits, which is checked before a product or a power is computed.
"""

import ast
import math
import operator
from collections.abc import Callable
from typing import Any

from chenxing.agent.tools.tool import Tool, ToolError, tool

MAX_CHARACTERS = 500
MAX_BITS = 4096
_MAX_FACTORIAL = 400  # 400! has 2,886 bits
_SIGNS = str.maketrans({"×": "*", "·": "*", "÷": "/", "−": "-", "–": "-", "^": "★"})

Number = int | float

_BINARY: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
}
_NAMES = {"pi": math.pi, "e": math.e, "tau": math.tau}
_FUNCTIONS: dict[str, Callable[..., Any]] = {
    **{name: getattr(math, name) for name in ("sqrt", "exp", "log", "log2", "log10", "floor", "ceil", "gcd", "lcm")},
    **{name: getattr(math, name) for name in ("sin", "cos", "tan", "asin", "acos", "atan", "atan2", "hypot")},
    **{name: getattr(math, name) for name in ("radians", "degrees")},
    "abs": abs,
    "round": lambda value, digits=0: round(value, _checked_digits(digits)),
    "min": min,
    "max": max,
    "factorial": lambda n: math.factorial(_checked_factorial(n)),
}


def calculate(expression: str) -> str:
    """The value, in decimal. Raises ToolError saying what is not understood, or not defined."""
    if len(expression) > MAX_CHARACTERS:
        raise ToolError(f"expected at most {MAX_CHARACTERS} characters, found {len(expression)}")
    source = expression.translate(_SIGNS).replace("★", "**").strip()
    try:
        value = _value(ast.parse(source, mode="eval").body)
    except ToolError:
        raise
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        reason = error.msg if isinstance(error, SyntaxError) else error
        raise ToolError(f"{expression!r} is no expression that can be computed: {reason}") from error
    except ZeroDivisionError as error:
        raise ToolError("division by zero") from error
    except (ArithmeticError, TypeError) as error:
        raise ToolError(f"{expression!r}: {error}") from error
    return str(value) if isinstance(value, int) else f"{value:.15g}"


def _value(node: ast.expr) -> Number:
    match node:
        case ast.Constant(value=bool() | complex()):
            raise ToolError(f"expected a number, found {node.value!r}")
        case ast.Constant(value=int() | float() as value):
            return _bounded(value)
        case ast.Name(id=name) if name in _NAMES:
            return _NAMES[name]
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_value(operand)
        case ast.UnaryOp(op=ast.UAdd(), operand=operand):
            return _value(operand)
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _BINARY:
            return _combined(type(op), _value(left), _value(right))
        case ast.Call(func=ast.Name(id=name), args=args, keywords=[]) if name in _FUNCTIONS:
            return _bounded(_FUNCTIONS[name](*map(_value, args)))
        case ast.Tuple():
            raise ToolError("expected one number, found several with commas between: write 1234 and not 1,234")
    known = f"numbers, + - * / // % **, {', '.join((*_NAMES, *_FUNCTIONS))}"
    raise ToolError(f"{ast.unparse(node)!r} is not known here; known are {known}")


def _combined(op: type[ast.operator], left: Number, right: Number) -> Number:
    if isinstance(left, int) and isinstance(right, int):
        bits = left.bit_length() - 1  # so many at least, whatever the leading digits are
        n_bits = bits + right.bit_length() if op is ast.Mult else bits * abs(right) if op is ast.Pow else 0
        if n_bits > MAX_BITS and left and right:
            raise _too_large()
    result = _BINARY[op](left, right)
    if isinstance(result, complex):
        raise ToolError("the result is not a real number")
    return _bounded(result)


def _bounded(value: Number) -> Number:
    if isinstance(value, int) and value.bit_length() > MAX_BITS:
        raise _too_large()
    if isinstance(value, float) and not math.isfinite(value):
        raise ToolError("the result is too large, or not a number")
    return value


def _checked_factorial(n: Number) -> int:
    if not isinstance(n, int) or not 0 <= n <= _MAX_FACTORIAL:
        raise ToolError(f"factorial: expected an integer from 0 to {_MAX_FACTORIAL}, found {n}")
    return n


def _checked_digits(n: Number) -> int:
    if not isinstance(n, int) or not -400 <= n <= 400:  # round(5, -10**9) would compute 10**(10**9)
        raise ToolError(f"round: expected digits from -400 to 400, found {n}")
    return n


def _too_large() -> ToolError:
    return ToolError(f"the result has more than {MAX_BITS} bits")


def calculator_tool() -> Tool:
    @tool(timeout=5)
    def calculator(expression: str) -> str:
        """Compute an arithmetic expression exactly.

        expression  such as 2 * (3 + 4) ** 2 or sqrt(2); functions: sqrt exp log sin cos tan abs round min max factorial
        """
        return calculate(expression)

    return calculator
