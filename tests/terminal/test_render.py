import io

import pytest

from chenxing import config
from chenxing.terminal.markdown import MarkdownWriter
from chenxing.terminal.render import PlainWriter, Screen


class Tty(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def fresh_settings(monkeypatch):
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    config.settings.cache_clear()
    yield
    config.settings.cache_clear()


def writer(stream: io.StringIO, markdown: bool = True):
    return Screen(stream).writer(markdown=markdown, reasoning_opened=lambda: False)


def test_a_terminal_gets_markdown() -> None:
    assert isinstance(writer(Tty()), MarkdownWriter)


def test_a_pipe_gets_plain_text() -> None:
    assert isinstance(writer(io.StringIO()), PlainWriter)


def test_no_color_gets_plain_text(monkeypatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    assert isinstance(writer(Tty()), PlainWriter)


def test_a_dumb_terminal_gets_plain_text(monkeypatch) -> None:
    monkeypatch.setenv("TERM", "dumb")
    assert isinstance(writer(Tty()), PlainWriter)


def test_what_is_no_markdown_is_plain() -> None:
    assert isinstance(writer(Tty(), markdown=False), PlainWriter)


@pytest.mark.parametrize(("pieces", "expected"), [(["a", "b"], "ab\n"), (["a\n"], "a\n"), (["a", ""], "a\n"), ([], "")])
def test_plain_text_ends_with_one_line_break(pieces: list[str], expected: str) -> None:
    stream = io.StringIO()
    plain = PlainWriter(stream)
    for piece in pieces:
        plain.write(piece)
    plain.finish()
    assert stream.getvalue() == expected


def test_notes_are_taken_literally() -> None:
    stream = Tty()
    Screen(stream).note("[bold]/set :smile: temp")
    assert "[bold]/set :smile: temp" in stream.getvalue()


def test_the_template_is_asked_about_reasoning_for_a_terminal_only() -> None:
    def ask() -> bool:
        raise AssertionError("not needed here")

    Screen(io.StringIO()).writer(markdown=True, reasoning_opened=ask)
