"""Whether an answer begins with a thought, between <think> and </think>."""

from enum import Enum

OPEN_TAG, CLOSE_TAG = "<think>", "</think>"


class Reasoning(Enum):
    """NONE      the answer has no thought; the tags are ordinary text
    POSSIBLE  it may begin with one
    OPEN      it begins inside one, which the prompt has opened
    """

    NONE = 0
    POSSIBLE = 1
    OPEN = 2


def reasoning_of(template_source: str, prompt_text: str) -> Reasoning:
    """For a prompt that asks for an answer, and the template that wrote it."""
    if CLOSE_TAG not in template_source and OPEN_TAG not in template_source:
        return Reasoning.NONE
    end = prompt_text.rstrip()
    if end.endswith(OPEN_TAG):
        return Reasoning.OPEN
    if end.endswith(CLOSE_TAG):  # how templates say that the model shall not think
        return Reasoning.NONE
    return Reasoning.POSSIBLE
