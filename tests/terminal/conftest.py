"""A stand-in for the model that `chenxing run` loads."""

import os
import sys

import pytest
from fake_llm import FakeLLM

from chenxing.terminal import last_model, run


class Model:
    """`llm` is what is loaded next; `loaded` keeps how it was asked for."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.llm = FakeLLM(["Hel", "lo", "!"])
        self.loaded: dict[str, object] = {}
        self.remembered: list[str] = []
        monkeypatch.setattr(run, "load_model", self._load)
        monkeypatch.setattr(last_model, "remember", self.remembered.append)

    def _load(self, model: str, **kwargs: object) -> tuple[FakeLLM, float]:
        self.loaded = {"model": model, **kwargs}
        return self.llm, 12.0

    @property
    def question(self) -> str:
        """What the last message of the first call asked."""
        return self.llm.calls[0].prompt[-1]["content"]


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch) -> Model:
    monkeypatch.setattr(sys, "stdin", open(os.devnull))  # noqa: SIM115
    return Model(monkeypatch)


@pytest.fixture
def pipe_in(monkeypatch: pytest.MonkeyPatch):
    """Makes stdin a pipe that holds these bytes and has ended."""

    def make(data: bytes) -> None:
        read_end, write_end = os.pipe()
        os.write(write_end, data)
        os.close(write_end)
        monkeypatch.setattr(sys, "stdin", os.fdopen(read_end))

    return make
