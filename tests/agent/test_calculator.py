import asyncio

import pytest

from chenxing.agent.tools import Toolbox, ToolError
from chenxing.agent.tools.calculator import calculate, calculator_tool


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("1234 * 5678", "7006652"),
        ("2*(3+4)^2", "98"),
        ("0.1 + 0.2", "0.3"),
        ("7 ÷ 2 − 1 × 3", "0.5"),
        ("-7 // 2 % 5", "1"),
        ("2 ** -3", "0.125"),
        ("1 ** 10 ** 30", "1"),
        ("factorial(20)", "2432902008176640000"),
        ("round(sqrt(2), 3)", "1.414"),
        ("max(1, 2.5, -3) + pi - pi", "2.5"),
        ("2 ** 4095 // 2 ** 4094", "2"),
        ("0x10 + 1_000", "1016"),
    ],
)
def test_values(expression, value):
    assert calculate(expression) == value


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("9 ** 9 ** 9", "more than 4096 bits"),
        ("2 ** 4096", "more than 4096 bits"),
        ("9999 ** 9999 ** 9999", "more than 4096 bits"),
        ("(2 ** 4000) * (2 ** 4000)", "more than 4096 bits"),
        ("factorial(10 ** 9)", "factorial"),
        ("round(5, -10 ** 9)", "round: expected digits"),
        ("1e308 * 10", "too large"),
        ("1 / 0", "division by zero"),
        ("(-8) ** 0.5", "not a real number"),
        ("sqrt(-1)", "math domain error"),
        ("1,234 + 1", "write 1234"),
        ("__import__('os')", "is not known here"),
        ("(1).__class__", "is not known here"),
        ("'a' * 9", "is not known here"),
        ("[1] * 9", "is not known here"),
        ("max(*[1, 2])", "is not known here"),
        ("round(1.5, ndigits=1)", "is not known here"),
        ("True + 1", "expected a number"),
        ("2j", "expected a number"),
        ("lambda: 1", "is not known here"),
        ("x", "is not known here"),
        ("max(1)", "not iterable"),
        ("1 +", "invalid syntax"),
        ("", "invalid syntax"),
        ("(" * 240 + "1" + ")" * 240, "too many nested parentheses"),
        ("1" * 501, "at most 500 characters"),
    ],
)
def test_what_it_does_not_compute(expression, message):
    with pytest.raises(ToolError, match=message):
        calculate(expression)


def test_the_tool():
    box = Toolbox([calculator_tool()])
    assert asyncio.run(box.call("calculator", '{"expression": "6 * 7"}')).text == "42"
    assert box.question("calculator", '{"expression": "6 * 7"}') is None
