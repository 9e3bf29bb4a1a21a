"""Modules of tests are imported by their names alone: two of one name would hide each other."""

from collections import Counter
from pathlib import Path


def test_no_two_modules_have_one_name():
    names = Counter(path.name for path in Path(__file__).parent.rglob("*.py") if path.name not in _NAMELESS)
    assert [name for name, n in names.items() if n > 1] == []


_NAMELESS = {"conftest.py", "__init__.py"}
