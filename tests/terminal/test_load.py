import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from tiny_vocabulary import BOS, write_vocabulary

from chenxing.engine import SpecOptions
from chenxing.errors import ModelNotFoundError
from chenxing.terminal.load import load_model, open_vocabulary
from chenxing.terminal.progress import ProgressLine


@pytest.fixture
def loads(monkeypatch) -> list[dict[str, object]]:
    """What LLM.load was called with; it reports progress and fails for the model `missing`."""
    calls: list[dict[str, object]] = []

    def fake_load(model: str, *, on_progress, **kwargs: object) -> str:
        calls.append({"model": model, **kwargs})
        on_progress("pack weights", 0.5)
        if model == "missing":
            raise ModelNotFoundError("missing: no such model")
        return "the model"

    monkeypatch.setitem(sys.modules, "chenxing.llm", SimpleNamespace(LLM=SimpleNamespace(load=fake_load)))
    return calls


def test_zero_asks_for_the_model_s_own_context(loads) -> None:
    llm, ms = load_model("m", n_ctx=0, n_threads=None, kv_type="f16")
    assert llm == "the model" and ms >= 0
    given = {"n_ctx": 512, "n_threads": 3, "isa": "sse", "weight_cache": False, "kv_type": "q8_0"}
    given |= {"weights": "int8", "disk_cache": False, "cache_disk_bytes": 1 << 30, "cache_ram_bytes": 0}
    load_model("m", **given, chat_template="chatml", speculation=SpecOptions("none"))
    own = {"n_ctx": None, "n_threads": None, "isa": None, "weight_cache": True, "kv_type": "f16"}
    own |= {"weights": None, "disk_cache": True, "cache_disk_bytes": None, "cache_ram_bytes": None}
    assert loads == [
        {"model": "m", **own, "chat_template": None, "speculation": None},
        {"model": "m", **given, "chat_template": "chatml", "speculation": SpecOptions("none")},
    ]


@pytest.mark.parametrize("model", ["m", "missing"])
def test_the_progress_line_is_cleared_in_every_case(loads, monkeypatch, model: str) -> None:
    events: list[str] = []
    monkeypatch.setattr(ProgressLine, "update", lambda _self, stage, fraction: events.append(f"{stage} {fraction}"))
    monkeypatch.setattr(ProgressLine, "clear", lambda _self: events.append("clear"))
    try:
        load_model(model, n_ctx=0, n_threads=None, kv_type="f16")
    except ModelNotFoundError:
        assert model == "missing"
    assert events == ["pack weights 0.5", "clear"]


def test_a_vocabulary_is_opened_without_the_runtime(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "chenxing.llm", None)  # importing it would fail
    gguf, tokenizer = open_vocabulary(str(write_vocabulary(tmp_path / "v.gguf")))
    assert gguf.architecture == "llama" and tokenizer.bos_id == BOS
