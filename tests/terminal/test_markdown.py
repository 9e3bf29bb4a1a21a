import io
import random
import re

import pytest
from rich.console import Console

from chenxing.terminal.markdown import MarkdownWriter, blocks

DOCUMENT = """\
# Heading

First line
second line with **bold**, `code` and <b>markup</b>.

1. one
2. two
   - nested

| a | b |
|---|---|
| 1 | 2 |

```python
def f():

    return "<html>"
```

See [the site](https://example.org/page) and ![a picture](https://example.org/p.png).

[1]: https://example.org/footnote

Last words.
"""


class Screen:
    """As much of a terminal as is needed here: text, line feeds, cursor up, erasing a line."""

    def __init__(self, height: int) -> None:
        self.lines, self.row, self.column, self.height = [""], 0, 0, height

    def feed(self, text: str) -> None:
        for part in re.findall(r"\x1b\[[?0-9;]*[A-Za-z]|.|\n", text, re.DOTALL):
            if part == "\n":
                self.row, self.column = self.row + 1, 0
                self.lines += [""] * (self.row + 1 - len(self.lines))
            elif part == "\r":
                self.column = 0
            elif part.startswith("\x1b["):
                self._control(part)
            else:
                line = self.lines[self.row].ljust(self.column)
                self.lines[self.row] = line[: self.column] + part + line[self.column + 1 :]
                self.column += 1

    def _control(self, code: str) -> None:
        if code.endswith("A"):
            top = len(self.lines) - self.height
            self.row = max(self.row - int(code[2:-1] or 1), top, 0)  # what has scrolled away cannot be reached
        elif code.endswith("K"):
            self.lines[self.row] = ""
        else:
            assert code[-1] in "mhl", f"unknown control code {code!r}"

    @property
    def text(self) -> str:
        return "\n".join(line.rstrip() for line in self.lines).rstrip() + "\n"


def terminal(stream: io.StringIO, height: int = 24, colours: str | None = None) -> Console:
    return Console(
        file=stream, force_terminal=True, width=60, height=height, color_system=colours, legacy_windows=False
    )


def show(pieces: list[str], *, height: int = 24, opened: bool = False, seconds: float = 1.0) -> tuple[str, str]:
    """(what the terminal shows at the end, everything that was written to it); `seconds` pass between pieces."""
    stream, now = io.StringIO(), [0.0]
    console = terminal(stream, height)
    writer = MarkdownWriter(console, reasoning_opened=opened, clock=lambda: now[0])
    for piece in pieces:
        now[0] += seconds
        writer.write(piece)
    writer.finish()
    screen = Screen(height)
    screen.feed(stream.getvalue())
    return screen.text, stream.getvalue()


def pieces_of(text: str, seed: int) -> list[str]:
    rng, pieces = random.Random(seed), []
    while text:
        n = rng.randint(1, 7)
        pieces.append(text[:n])
        text = text[n:]
    return pieces


@pytest.mark.parametrize("height", [24, 6])
@pytest.mark.parametrize("seed", range(4))
def test_streamed_in_pieces_it_ends_as_the_whole_document(height: int, seed: int) -> None:
    shown, _ = show(pieces_of(DOCUMENT, seed), height=height)
    assert shown == show([DOCUMENT])[0]


def test_no_text_of_the_answer_vanishes() -> None:
    shown, _ = show([DOCUMENT])
    for text in ("<b>markup</b>", "https://example.org/page", "https://example.org/p.png", "footnote", "<html>"):
        assert text in shown


def test_blocks_are_one_blank_line_apart() -> None:
    source = "a\n\n- b\n- c\n\n| d |\n|---|\n| e |\n\n> f\n\n```\ng\n```\n\nh\n"
    shown, _ = show([source])
    assert not shown.startswith("\n") and "\n\n\n" not in shown and shown.count("\n\n") == 5


def test_line_breaks_stay() -> None:
    assert "Roses are red\nViolets are blue\n" in show(["Roses are red\nViolets are blue\n"])[0]


def test_a_block_higher_than_the_terminal_is_whole_at_the_end() -> None:
    lines = [f"- item {i}\n" for i in range(40)]
    shown, _ = show(lines, height=10)
    assert shown == show(["".join(lines)])[0]


def test_it_is_drawn_while_it_grows() -> None:
    stream, now = io.StringIO(), [0.0]
    console = terminal(stream)
    writer = MarkdownWriter(console, clock=lambda: now[0])
    for piece in ("Half a ", "sentence"):
        now[0] += 1
        writer.write(piece)
    screen = Screen(24)
    screen.feed(stream.getvalue())
    assert screen.text == "Half a sentence\n"
    writer.finish()


def test_pieces_that_come_faster_than_frames_are_not_drawn_one_by_one() -> None:
    slow, fast = (show([f"word{i} " for i in range(200)], seconds=seconds)[1] for seconds in (1.0, 0.001))
    assert len(fast) < len(slow) / 10


def test_reasoning_comes_first_and_without_its_tags() -> None:
    shown, _ = show(pieces_of("<think>\nLet me *see*.\n</think>\n\nThe **answer**.", 1))
    assert shown == "Let me *see*.\n\nThe answer.\n"
    assert show(["Let me see.</think>", "Yes."], opened=True)[0] == "Let me see.\n\nYes.\n"


def test_reasoning_is_dim() -> None:
    stream = io.StringIO()
    console = terminal(stream, colours="standard")
    writer = MarkdownWriter(console)
    writer.write("<think>Hm.</think>Yes.")
    writer.finish()
    assert "\x1b[2;3mHm.\x1b[0m" in stream.getvalue()
    assert "\x1b[2;3m" not in stream.getvalue().split("Hm.")[1]


def test_the_cursor_is_shown_again() -> None:
    written = show(["Hello"])[1]
    assert written.rindex("\x1b[?25h") > written.rindex("\x1b[?25l")


def test_an_empty_answer_shows_nothing() -> None:
    assert show([])[0].strip() == ""
    assert show(["\n", " "])[0].strip() == ""


@pytest.mark.parametrize(
    ("source", "finished"),
    [
        ("one", []),
        ("one\ntwo", []),
        ("one\n\ntwo", ["one\n\n"]),
        ("# one\ntwo\n\nthree", ["# one\n", "two\n\n"]),
        ("- a\n- b\n", []),
        ("- a\n\n- b\n\ntext", ["- a\n\n- b\n\n"]),
        ("```\na\n\nb\n", []),
        ("```\na\n```\nb", ["```\na\n```\n"]),
        ("\u2028\n\nb", ["\u2028\n\n"]),
        ("", []),
    ],
)
def test_only_what_later_text_cannot_change_is_finished(source: str, finished: list[str]) -> None:
    assert blocks(source)[:-1] == finished
    assert "".join(blocks(source)) == source
