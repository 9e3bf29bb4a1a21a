import io
import math
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from chenxing.errors import ChenxingError, UnsupportedModelError
from chenxing.terminal.perplexity import perplexity, read_text

N_VOCAB, BOS = 300, 299


class ByteModel:
    """Tokens are bytes; the logits of a position are a fixed function of the token there. Calls are kept."""

    def __init__(self, *, add_bos: bool = True, add_eos: bool = False) -> None:
        self.path = Path("byte.gguf")
        self.calls: list[list[int]] = []
        self.tokenizer = SimpleNamespace(add_bos=add_bos, add_eos=add_eos, bos_id=BOS, encode=self._encode)
        self.table = np.random.default_rng(1).normal(0, 3, (N_VOCAB, N_VOCAB)).astype(np.float32)

    def _encode(self, text: bytes, *, add_special: bool, parse_special: bool) -> list[int]:
        assert not parse_special
        return [BOS] * (add_special and self.tokenizer.add_bos) + list(text)

    def logits(self, ids: list[int], first: int) -> np.ndarray:
        self.calls.append(list(ids))
        return self.table[ids[first:]]


def obvious_perplexity(model: ByteModel, ids: list[int], n_ctx: int) -> tuple[float, float]:
    """The definition, token by token."""
    nlls = []
    for start in range(0, len(ids) - n_ctx + 1, n_ctx):
        for position in range(n_ctx // 2, n_ctx - 1):
            row = model.table[ids[start + position]].astype(np.float64)
            target = ids[start + position + 1]
            nlls.append(math.log(sum(math.exp(x) for x in row)) - row[target])
    mean = sum(nlls) / len(nlls)
    deviation = math.sqrt((sum(x * x for x in nlls) / len(nlls) - mean * mean) / (len(nlls) - 1))
    return math.exp(mean), math.exp(mean) * deviation


@pytest.mark.parametrize(("n_ctx", "add_bos"), [(8, True), (32, False), (33, True), (400, True)])
def test_it_is_the_definition(n_ctx: int, add_bos: bool) -> None:
    model, text = ByteModel(add_bos=add_bos), np.random.default_rng(2).bytes(1000)
    ids = [BOS] * add_bos + list(text)
    figure = perplexity(model, text, n_ctx, None, io.StringIO())
    ppl, error = obvious_perplexity(model, ids, n_ctx)
    # rel 1e-5: softmax in f32 here, in f64 there
    assert figure.ppl == pytest.approx(ppl, rel=1e-5)
    assert figure.error == pytest.approx(error, rel=1e-4)
    assert figure.n_scored == len(ids) // n_ctx * (n_ctx - n_ctx // 2 - 1)


def test_each_chunk_begins_with_bos_if_the_model_adds_it() -> None:
    text = bytes(range(40))
    model = ByteModel(add_bos=True)
    perplexity(model, text, 10, None, io.StringIO())
    assert model.calls == [[BOS, *range(9)], [BOS, *range(10, 19)], [BOS, *range(20, 29)], [BOS, *range(30, 39)]]
    model = ByteModel(add_bos=False)
    perplexity(model, text, 10, None, io.StringIO())
    assert model.calls == [list(range(start, start + 10)) for start in (0, 10, 20, 30)]


def test_chunks_can_be_limited_and_running_figures_are_logged() -> None:
    model, log = ByteModel(), io.StringIO()
    figure = perplexity(model, bytes(100), 10, 2, log)
    assert len(model.calls) == 2
    assert log.getvalue() == f"[1/2]{figure.ppl:.4f},[2/2]{figure.ppl:.4f}\n"  # every scored token is the same here


def test_a_text_of_less_than_two_chunks_is_refused() -> None:
    with pytest.raises(ChenxingError, match=r"context of 50 needs 100 tokens or more, the text has 99"):
        perplexity(ByteModel(add_bos=True), bytes(98), 50, None, io.StringIO())
    perplexity(ByteModel(add_bos=True), bytes(99), 50, None, io.StringIO())


def test_a_model_that_adds_eos_is_refused() -> None:
    with pytest.raises(UnsupportedModelError, match="adds EOS"):
        perplexity(ByteModel(add_eos=True), bytes(100), 10, None, io.StringIO())


def test_huge_logits_do_not_overflow() -> None:
    model = ByteModel()
    model.table *= 1e4
    assert perplexity(model, bytes(64), 16, None, io.StringIO()).ppl == math.inf


def test_the_text_is_read_as_llama_perplexity_reads_it(tmp_path: Path) -> None:
    path = tmp_path / "text"
    path.write_bytes(b"one\\ntwo \xff\n\n")
    assert read_text(str(path), escape=True) == b"one\ntwo \xff\n"
    assert read_text(str(path), escape=False) == b"one\\ntwo \xff\n"
    with pytest.raises(ChenxingError, match="No such file"):
        read_text(str(tmp_path / "missing"), escape=True)


@pytest.mark.model
def test_the_figure_is_llama_cpp_s_within_half_a_percent(smollm2_path) -> None:
    """0.5 % is what two ways of rounding activations may differ by over this many tokens."""
    from chenxing import LLM

    text = (Path(__file__).parents[1] / "data" / "quality.txt").read_bytes()
    with LLM.load(smollm2_path, n_ctx=256, disk_cache=False) as llm:
        figure = perplexity(llm, text, 256, None, io.StringIO())
    assert figure.n_scored == 11 * 127
    assert figure.ppl == pytest.approx(14.1629, rel=0.005)  # llama.cpp b11549, AVX2, the same chunks
    assert figure.error == pytest.approx(1.0069, rel=0.01)
