from pathlib import Path

import pytest
from prompt_toolkit.history import FileHistory, InMemoryHistory

from chenxing.terminal.prompt import _history, is_open, unquote


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plain", "plain"),
        ('"""one\ntwo"""', "one\ntwo"),
        ('"""\none\ntwo\n"""', "one\ntwo"),
        ('  """one"""  ', "one"),
        ('"""  indented\n"""', "  indented"),
        ('say """hi"""', 'say """hi"""'),
        ('""""""', ""),
    ],
)
def test_unquote(text: str, expected: str) -> None:
    assert unquote(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", False),
        ('"""', True),
        ('""""', True),
        ('"""a', True),
        ('"""a\nb"""', False),
        ('"""a""" and', True),
        ('""""""', False),
        ('a"""', False),
    ],
)
def test_is_open(text: str, expected: bool) -> None:
    assert is_open(text) is expected


def test_history_is_a_file_where_it_can_be(tmp_path: Path) -> None:
    assert isinstance(_history(tmp_path / "new" / "history"), FileHistory)
    (tmp_path / "file").touch()
    assert isinstance(_history(tmp_path / "file" / "history"), InMemoryHistory)
