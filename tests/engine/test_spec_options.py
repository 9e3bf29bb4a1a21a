"""What may be asked for, and which models may draft for which."""

from pathlib import Path

import pytest
from reference.toys import TOYS

from chenxing import LLM
from chenxing.engine import SpecOptions
from chenxing.engine.speculation.load import check_vocabulary
from chenxing.errors import ModelFileError, UsageError
from chenxing.gguf import open_gguf
from chenxing.sampling import SamplingParams
from chenxing.tokenizer import load_tokenizer


def test_the_kind_follows_from_the_model() -> None:
    assert SpecOptions().kind == "ngram-simple" and SpecOptions(model_draft="small").kind == "draft-simple"
    assert SpecOptions("none").kind == "none" == SpecOptions(model_draft="small", spec_draft_n_max=0).kind


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"spec_type": "eagle"}, "spec_type: expected one of none, ngram-simple, draft-simple, found 'eagle'"),
        ({"spec_type": "draft-simple"}, "model_draft: expected one with spec_type draft-simple, and only then"),
        ({"spec_type": "none", "model_draft": "small"}, "found 'small' with none"),
        ({"spec_draft_n_max": 4, "spec_draft_n_min": 5}, "expected 0 <= spec_draft_n_min <= spec_draft_n_max"),
        ({"spec_draft_n_max": -1}, "found 0 and -1"),
    ],
)
def test_what_cannot_be_meant(options: dict, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        SpecOptions(**options)


def test_another_vocabulary_is_refused(tmp_path: Path) -> None:
    spm, bpe = (open_gguf(TOYS[name].write(tmp_path)) for name in ("llama", "qwen2"))
    ours, theirs = load_tokenizer(spm), load_tokenizer(bpe)
    assert check_vocabulary(spm, ours, ours) == ours.n_vocab
    with pytest.raises(ModelFileError, match=r"qwen2.gguf: token 0: expected b'<unk>', found .* it drafts for"):
        check_vocabulary(bpe, theirs, ours)
    with pytest.raises(ModelFileError, match="A draft model must have the vocabulary of the model"):
        LLM.load(spm.path, n_ctx=64, disk_cache=False, speculation=SpecOptions(model_draft=str(bpe.path)))


@pytest.mark.parametrize(
    ("options", "spec_type"),
    [
        (SpecOptions(spec_draft_n_max=0), "none"),
        (SpecOptions("none"), "none"),
        (None, "ngram-simple"),
        ("llama-tied", "draft-simple"),
    ],
)
def test_a_loaded_model_says_what_drafts(tmp_path: Path, options: SpecOptions | str | None, spec_type: str) -> None:
    if isinstance(options, str):
        options = SpecOptions(model_draft=str(TOYS[options].write(tmp_path)))
    path = TOYS["llama"].write(tmp_path)
    with LLM.load(path, n_ctx=128, n_threads=1, disk_cache=False, weight_cache=False, speculation=options) as llm:
        assert llm.spec_type == llm.engine.stats().spec_type == spec_type
        answer = llm.generate("the star", raw=True, params=SamplingParams(temp=0.0, ignore_eos=True), max_tokens=40)
        assert answer.stats.n_generated == 40
        assert (answer.stats.drafts.n_tokens > 0) == (spec_type == "draft-simple") or spec_type == "ngram-simple"
