import pytest
from fake_llm import FakeGeneration

from chenxing.engine import DraftCounts, Stats
from chenxing.terminal.stats import stats_line, stop_note, timings


@pytest.mark.parametrize(
    ("stats", "line"),
    [
        (Stats(320, 300, 13, 24.6, 127.2), "prompt 320 tokens (300 cached) 813 tok/s · answer 13 tokens 94.3 tok/s"),
        (
            Stats(320, 300, 1, 10, 0, n_from_disk=256),
            "prompt 320 tokens (300 cached, 256 from disk) 2000 tok/s · answer 1 token",
        ),
        (Stats(1, 0, 1, 10, 0), "prompt 1 token 100 tok/s · answer 1 token"),
        (
            Stats(1, 0, 12, 10, 0, drafts=DraftCounts(3, 20, 9)),
            "prompt 1 token 100 tok/s · answer 12 tokens (9 of 20 drafted tokens accepted)",
        ),
        (
            Stats(1, 0, 12, 10, 0, drafts=DraftCounts(1, 2, 0, 8)),
            "prompt 1 token 100 tok/s · answer 12 tokens "
            "(0 of 2 drafted tokens accepted; mostly off, since it would lose time)",
        ),
        (Stats(5, 5, 0, 0, 0), "prompt 5 tokens (5 cached) · answer 0 tokens"),
        (Stats(5, 0, 11, 1000, 12345), "prompt 5 tokens 5 tok/s · answer 11 tokens 0.81 tok/s"),
    ],
)
def test_the_line_after_an_answer(stats: Stats, line: str) -> None:
    assert stats_line(stats) == line


def test_timings_count_what_was_computed() -> None:
    figures = timings(Stats(320, 300, 121, 24.6, 1272))
    assert (figures["cache_n"], figures["prompt_n"], figures["predicted_n"]) == (300, 20, 121)
    assert (figures["prompt_per_second"], figures["predicted_per_second"]) == (813.008, 94.34)
    assert (figures["prompt_ms"], figures["predicted_ms"]) == (24.6, 1272)
    assert "draft_n" not in figures
    drafted = timings(Stats(drafts=DraftCounts(3, 20, 9)))
    assert (drafted["draft_n"], drafted["draft_n_accepted"]) == (20, 9)


@pytest.mark.parametrize(
    ("reason", "n_generated", "max_tokens", "note"),
    [
        ("stop", 5, 5, None),
        ("cancelled", 5, None, "stopped"),
        ("length", 5, 5, "cut off after 5 tokens (-n)"),
        ("length", 5, None, "cut off: the context is full"),
        ("length", 5, 9, "cut off: the context is full"),
    ],
)
def test_why_an_answer_ended(reason: str, n_generated: int, max_tokens: int | None, note: str | None) -> None:
    generation = FakeGeneration([], finish_reason=reason, stats=Stats(n_generated=n_generated))
    assert stop_note(generation, max_tokens) == note
