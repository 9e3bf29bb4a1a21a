import random

import pytest

from chenxing.terminal.reasoning import ReasoningSplitter, split_reasoning

CASES = [
    ("Hello.", False, "", "Hello."),
    ("<think>Why?</think>Because.", False, "Why?", "Because."),
    ("\n<think>\nWhy?\nHow?\n</think>\n\nBecause.\n", False, "Why?\nHow?", "Because.\n"),
    ("Why?\n</think>\n\nBecause.", True, "Why?", "Because."),
    ("<think>\n\n</think>\n\nBecause.", False, "", "Because."),
    ("<think>never ends", False, "never ends", ""),
    ("<think>a < b </thin> c</think>d", False, "a < b </thin> c", "d"),
    ("The tag <think> opens, </think> closes.", False, "", "The tag <think> opens, </think> closes."),
    ("<thinner>", False, "", "<thinner>"),
    ("  indented", False, "", "  indented"),
    ("<thi", False, "", "<thi"),
    ("", False, "", ""),
    ("<think>x</think>  ", False, "x", ""),
]


@pytest.mark.parametrize(("text", "opened", "reasoning", "answer"), CASES)
def test_split(text: str, opened: bool, reasoning: str, answer: str) -> None:
    assert split_reasoning(text, opened=opened) == (reasoning, answer)


@pytest.mark.parametrize(("text", "opened", "reasoning", "answer"), CASES)
def test_pieces_of_any_size_give_the_same(text: str, opened: bool, reasoning: str, answer: str) -> None:
    rng = random.Random(1)
    for _ in range(30):
        splitter, parts, rest = ReasoningSplitter(opened=opened), [], text
        while rest:
            n = rng.randint(1, 5)
            parts += splitter.feed(rest[:n])
            rest = rest[n:]
        parts += splitter.finish()
        assert all(part for _, part in parts)
        assert "".join(part for kind, part in parts if kind == "reasoning") == reasoning
        assert "".join(part for kind, part in parts if kind == "answer") == answer


def test_a_plain_answer_is_not_held_back() -> None:
    splitter = ReasoningSplitter()
    assert splitter.feed("Hel") == [("answer", "Hel")]
    assert splitter.feed("lo ") == [("answer", "lo ")]


def test_reasoning_is_not_held_back() -> None:
    splitter = ReasoningSplitter()
    assert splitter.feed("<think>one") == [("reasoning", "one")]
    assert splitter.feed(" two <") == [("reasoning", " two")]
    assert splitter.feed("b") == [("reasoning", " <b")]
