"""Streamed Markdown on a terminal. Importing this imports rich, so only a terminal pays for it."""

import re
import time
from collections.abc import Callable, Sequence
from functools import cache
from itertools import pairwise

from markdown_it import MarkdownIt
from rich.console import Console
from rich.live import Live
from rich.markdown import Markdown
from rich.segment import Segment, Segments
from rich.text import Text

from chenxing.terminal.reasoning import Part, ReasoningSplitter

_FRAME_S = 0.06
_RENDER_SHARE = 0.2  # of the time goes into rendering at most, the rest is the model's


class MarkdownWriter:
    """Finished blocks are printed for good, the growing one is redrawn in place; reasoning is printed dim as it comes.

    Only the tail of a block that is higher than the terminal is drawn while it grows, since a terminal cannot redraw
    what has scrolled away; the whole block is printed once it is finished.
    """

    def __init__(
        self, console: Console, *, reasoning_opened: bool = False, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._console, self._clock = console, clock
        self._splitter = ReasoningSplitter(opened=reasoning_opened)
        self._growing = ""  # Markdown source that is not printed for good yet
        self._live: Live | None = None
        self._next_frame = 0.0
        self._n_printed = 0
        self._reasoned = False

    def write(self, piece: str) -> None:
        self._take(self._splitter.feed(piece))

    def finish(self) -> None:
        self._take(self._splitter.finish())
        self._end_reasoning()
        if self._live:
            self._live.update("")
            self._live.stop()
            self._live = None
        self._print(blocks(self._growing))
        self._growing = ""

    def _take(self, parts: Sequence[Part]) -> None:
        for kind, text in parts:
            text = text.replace("\r", "")
            if kind == "reasoning":
                self._reasoned = True
                self._console.print(Text(text, style="dim italic"), end="", soft_wrap=True)
            else:
                self._end_reasoning()
                self._growing += text
                self._draw()

    def _end_reasoning(self) -> None:
        if self._reasoned:
            self._console.print("\n")
        self._reasoned = False

    def _draw(self) -> None:
        start = self._clock()
        if start < self._next_frame or not self._growing.strip():
            return
        if self._live is None:
            self._live = Live(console=self._console, auto_refresh=False, transient=True)
            self._live.start()
        *finished, self._growing = blocks(self._growing)
        if finished:
            self._live.update("")
            self._print(finished)
        # one line stays free for the cursor, one so that a terminal which scrolls early does not lose the first
        lines = self._lines(self._growing)[-max(self._console.height - 2, 1) :]
        self._live.update(_segments(lines), refresh=True)
        self._next_frame = start + max(_FRAME_S, (self._clock() - start) / _RENDER_SHARE)

    def _print(self, finished: list[str]) -> None:
        for block in finished:
            if lines := self._lines(block):
                self._console.print(_segments(lines))
                self._n_printed += 1

    def _lines(self, block: str) -> list[list[Segment]]:
        """The lines of one block, after a blank one if another stands above it; rich's own spacing is dropped."""
        lines = self._console.render_lines(render(block), pad=False)
        texts = ["".join(segment.text for segment in line).strip() for line in lines]
        shown = [number for number, text in enumerate(texts) if text]
        if not shown:
            return []
        lines = lines[shown[0] : shown[-1] + 1]
        return [[], *lines] if self._n_printed else lines


def _segments(lines: list[list[Segment]]) -> Segments:
    return Segments([segment for line in lines for segment in (*line, Segment.line())])


@cache
def _parser() -> MarkdownIt:
    """CommonMark with tables. HTML, images and reference definitions are off: they would make text vanish."""
    parser = MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"])
    return parser.disable(["reference", "image"])


def render(source: str) -> Markdown:
    """`source` for a rich console. Line breaks stay line breaks, as in a poem; addresses of links are spelt out."""
    markdown = Markdown("", hyperlinks=False)
    markdown.parsed = _parser().parse(source)
    for token in markdown.parsed:
        for child in token.children or ():
            if child.type == "softbreak":
                child.type = "hardbreak"
    return markdown


def blocks(source: str) -> list[str]:
    """The top-level blocks of Markdown `source`; joined they are `source`. Later text can change only the last one."""
    starts = [token.map[0] for token in _parser().parse(source) if token.level == 0 and token.map]
    lines = re.findall(r"[^\n]*\n|[^\n]+", source)  # not splitlines: to Markdown a line ends with \n alone
    bounds = [0, *starts[1:], len(lines)]
    return ["".join(lines[start:end]) for start, end in pairwise(bounds)]
