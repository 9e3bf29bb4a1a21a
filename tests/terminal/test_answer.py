import io
import signal

import pytest
from fake_llm import FakeGeneration

from chenxing.errors import ContextError
from chenxing.terminal.answer import show_answer
from chenxing.terminal.progress import ProgressLine


class Recorder:
    def __init__(self, fail_at: str | None = None) -> None:
        self.events: list[str] = []
        self._fail_at = fail_at

    def write(self, piece: str) -> None:
        if piece == self._fail_at:
            raise BrokenPipeError
        self.events.append(piece)

    def finish(self) -> None:
        self.events.append("finish")


class Progress(ProgressLine):
    def __init__(self, events: list[str]) -> None:
        super().__init__(io.StringIO())
        self._events = events

    def clear(self) -> None:
        self._events.append("clear")


def press_ctrl_c(_generation: FakeGeneration) -> None:
    signal.raise_signal(signal.SIGINT)


def test_the_progress_line_is_gone_before_each_piece_and_before_the_end() -> None:
    writer = Recorder()
    show_answer(FakeGeneration(["a", "b"]), writer, Progress(writer.events))
    assert writer.events == ["clear", "a", "clear", "b", "clear", "finish"]


def test_the_first_ctrl_c_ends_the_answer() -> None:
    generation, writer = FakeGeneration(["a", press_ctrl_c, "b"]), Recorder()
    show_answer(generation, writer, ProgressLine(io.StringIO()))
    assert writer.events == ["a", "finish"] and generation.finish_reason == "cancelled"


@pytest.mark.parametrize(
    ("script", "fail_at", "error"),
    [
        (["a", press_ctrl_c, press_ctrl_c, "b"], None, KeyboardInterrupt),
        (["a", ContextError(2, 1)], None, ContextError),
        (["a", "b"], "b", BrokenPipeError),
    ],
)
def test_the_writer_is_finished_in_every_case(script, fail_at: str | None, error: type[BaseException]) -> None:
    writer, before = Recorder(fail_at), signal.getsignal(signal.SIGINT)
    with pytest.raises(error):
        show_answer(FakeGeneration(script), writer, ProgressLine(io.StringIO()))
    assert writer.events == ["a", "finish"]
    assert signal.getsignal(signal.SIGINT) is before


def test_without_a_writer_the_answer_is_only_run() -> None:
    generation = FakeGeneration(["a", "b"])
    show_answer(generation, None, ProgressLine(io.StringIO()))
    assert generation.text == "ab"
