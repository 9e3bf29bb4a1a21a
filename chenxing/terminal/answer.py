"""An answer from its first piece to its last, with Ctrl-C."""

from typing import TYPE_CHECKING

from chenxing.terminal.echo import without_echo
from chenxing.terminal.interrupt import cancel_on_interrupt
from chenxing.terminal.progress import ProgressLine
from chenxing.terminal.render import Writer

if TYPE_CHECKING:
    from chenxing.engine import Generation


def show_answer(generation: "Generation", writer: Writer | None, progress: ProgressLine) -> None:
    """Runs `generation` to its end through `writer`. The first Ctrl-C ends it early, as `cancelled`.

    Raises KeyboardInterrupt at the second one. `writer` is finished in every case, so that the terminal is in order.
    """
    try:
        with without_echo(), cancel_on_interrupt(generation.cancel):
            for piece in generation:
                progress.clear()
                if writer:
                    writer.write(piece)
    finally:
        progress.clear()
        if writer:
            writer.finish()
