import io

from chenxing.terminal.progress import ProgressLine


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def screen_line(written: str) -> str:
    """What the last line of a terminal shows after `written`."""
    cells: list[str] = []
    column = 0
    for character in written.split("\n")[-1]:
        if character == "\r":
            column = 0
            continue
        cells[column : column + 1] = [character]
        column += 1
    return "".join(cells).rstrip()


def test_a_stage_that_is_over_in_a_moment_is_not_shown() -> None:
    stream, clock = Terminal(), Clock()
    line = ProgressLine(stream, clock=clock)
    line.update("pack weights", 0.0)
    clock.now += 0.2
    line.update("pack weights", 1.0)
    line.clear()
    assert stream.getvalue() == ""


def test_a_bar_is_redrawn_in_place_and_erased() -> None:
    stream, clock = Terminal(), Clock()
    line = ProgressLine(stream, clock=clock)
    line.update("compile kernels", 0.0)
    clock.now += 1
    line.update("compile kernels", 0.5)
    assert screen_line(stream.getvalue()) == "compile kernels [" + "#" * 12 + "." * 12 + "]  50%"
    clock.now += 1
    line.update("compile kernels", 1.0)
    assert screen_line(stream.getvalue()) == "compile kernels [" + "#" * 24 + "] 100%"
    line.clear()
    assert screen_line(stream.getvalue()) == ""
    assert "\n" not in stream.getvalue()


def test_a_shorter_line_leaves_nothing_of_the_longer_one() -> None:
    stream, clock = Terminal(), Clock()
    line = ProgressLine(stream, clock=clock)
    for stage in ("a stage with a long name", "short"):
        line.update(stage, 0.0)
        clock.now += 1
        line.update(stage, 1.0)
    assert screen_line(stream.getvalue()) == "short [" + "#" * 24 + "] 100%"


def test_frames_are_limited() -> None:
    stream, clock = Terminal(), Clock()
    line = ProgressLine(stream, clock=clock)
    line.update("download", 0.0)
    clock.now += 1
    for i in range(1000):
        clock.now += 0.001
        line.update("download", i / 1000)
    assert 15 <= stream.getvalue().count("\r") <= 25  # one second at 20 frames a second


def test_prefill_counts_tokens() -> None:
    stream, clock = Terminal(), Clock()
    line = ProgressLine(stream, clock=clock)
    line.prefill(0, 400)
    clock.now += 1
    line.prefill(100, 400)
    assert screen_line(stream.getvalue()).endswith("25%  100/400 tokens")


def test_a_line_never_wraps(monkeypatch) -> None:
    monkeypatch.setenv("COLUMNS", "20")
    stream, clock = Terminal(), Clock()
    line = ProgressLine(stream, clock=clock)
    line.update("compile kernels", 0.0)
    clock.now += 1
    line.update("compile kernels", 0.5)
    assert len(screen_line(stream.getvalue())) == 19


def test_a_log_gets_one_plain_line_for_a_long_stage() -> None:
    stream, clock = io.StringIO(), Clock()
    line = ProgressLine(stream, clock=clock)
    for stage, seconds in (("download", 5), ("pack weights", 1)):
        for tenth in range(11):
            line.update(stage, tenth / 10)
            clock.now += seconds / 10
    line.clear()
    assert stream.getvalue() == "chenxing: download …\n"
