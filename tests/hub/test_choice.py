import pytest

from chenxing.errors import DownloadError, ModelNotFoundError
from chenxing.hub.choice import RepoFile, candidates, choose, quant_tag, tag_matches


def files(*paths):
    return [RepoFile(path, 100 + i) for i, path in enumerate(paths)]


@pytest.mark.parametrize(
    ("path", "tag"),
    [
        ("Llama-3.2-1B-Instruct-Q4_K_M.gguf", "Q4_K_M"),
        ("smollm2.Q4_1.gguf", "Q4_1"),
        ("model-UD-q4_k_xl.gguf", "UD-Q4_K_XL"),
        ("model-IQ4_XS.gguf", "IQ4_XS"),
        ("Q8_0/model-00001-of-00003.gguf", "Q8_0"),
        ("model-Q5_K_S-00001-of-00002.gguf", "Q5_K_S"),
        ("gpt-oss-20b-MXFP4.gguf", "MXFP4"),
        ("model.bf16.gguf", "BF16"),
        ("model_fp16.gguf", "FP16"),
        ("Qwen2.5-0.5B.gguf", None),
        ("model-Q4_K_M_v2.gguf", "Q4_K_M_V2"),
    ],
)
def test_quant_tag(path, tag):
    assert quant_tag(path) == tag


def test_tags_match_as_whole_words():
    assert tag_matches("q4_k_m", "a-Q4_K_M.gguf")
    assert tag_matches("Q4_K_XL", "a-UD-Q4_K_XL.gguf")
    assert not tag_matches("Q4_K", "a-Q4_K_M.gguf")
    assert not tag_matches("Q4_XS", "a-IQ4_XS.gguf")
    assert not tag_matches("Q4_0", "a-Q4_0_4_4.gguf")


REPO = files(
    "README.md",
    "a-Q8_0.gguf",
    "a-Q4_K_M.gguf",
    "a-UD-Q4_K_XL.gguf",
    "a-BF16-00002-of-00002.gguf",
    "a-BF16-00001-of-00002.gguf",
    "mmproj-a-F16.gguf",
    "a.imatrix.gguf",
    "mtp-a-Q4_K_M.gguf",
)


@pytest.mark.parametrize(
    ("selector", "label", "path"),
    [
        (None, "Q4_K_M", "a-Q4_K_M.gguf"),
        ("q8_0", "Q8_0", "a-Q8_0.gguf"),
        ("Q4_K_XL", "UD-Q4_K_XL", "a-UD-Q4_K_XL.gguf"),
        ("A-Q8_0.GGUF", "Q8_0", "a-Q8_0.gguf"),
        ("bf16", "BF16", "a-BF16-00001-of-00002.gguf"),
        ("a-BF16-00002-of-00002.gguf", "BF16", "a-BF16-00001-of-00002.gguf"),
        ("mmproj-a-F16.gguf", "mmproj-a-F16.gguf", "mmproj-a-F16.gguf"),
    ],
)
def test_choose(selector, label, path):
    chosen = choose("o/r", REPO, selector)
    assert (chosen.label, chosen.files[0].path) == (label, path)


def test_all_shards_are_chosen_in_order():
    assert [file.path for file in choose("o/r", REPO, "BF16").files] == [
        "a-BF16-00001-of-00002.gguf",
        "a-BF16-00002-of-00002.gguf",
    ]


def test_without_the_default_quants_only_a_single_model_is_chosen():
    assert choose("o/r", files("a-Q5_0.gguf", "mmproj.gguf"), None).files[0].path == "a-Q5_0.gguf"
    assert choose("o/r", files("a-Q5_0.gguf", "a-Q8_0.gguf"), None).label == "Q8_0"
    with pytest.raises(ModelNotFoundError, match=r"neither Q4_K_M nor Q8_0.*Q5_0, Q6_K"):
        choose("o/r", files("a-Q5_0.gguf", "a-Q6_K.gguf"), None)


def test_what_is_not_there_lists_what_is():
    with pytest.raises(
        ModelNotFoundError, match=r"no GGUF with the quant Q4_K_S; did you mean Q4_K_M.*available: .*Q8_0"
    ):
        choose("o/r", REPO, "Q4_K_S")
    with pytest.raises(ModelNotFoundError, match=r"no file b\.gguf; available: .*a-Q8_0\.gguf"):
        choose("o/r", REPO, "b.gguf")
    with pytest.raises(ModelNotFoundError, match="holds no GGUF model"):
        choose("o/r", files("model.safetensors", "mmproj-F16.gguf"), None)


def test_a_tag_that_fits_two_models_is_not_guessed():
    two = files("small-Q4_K_M.gguf", "large-Q4_K_M.gguf")
    assert [model.label for model in candidates("o/r", two)] == ["large-Q4_K_M.gguf", "small-Q4_K_M.gguf"]
    for selector in (None, "Q4_K_M"):
        with pytest.raises(ModelNotFoundError, match=r"2 models fit.*large-Q4_K_M\.gguf, small-Q4_K_M\.gguf"):
            choose("o/r", two, selector)
    same_name = files("x/m-Q4_0.gguf", "y/m-Q4_0.gguf")
    assert [model.label for model in candidates("o/r", same_name)] == ["x/m-Q4_0.gguf", "y/m-Q4_0.gguf"]
    assert choose("o/r", same_name, "y/m-Q4_0.gguf").files[0].path == "y/m-Q4_0.gguf"
    with pytest.raises(ModelNotFoundError, match="2 files are called"):
        choose("o/r", same_name, "m-Q4_0.gguf")


def test_the_plain_tag_is_not_the_one_with_a_prefix():
    two = files("a-UD-Q4_K_M.gguf", "a-Q4_K_M.gguf")
    assert choose("o/r", two, "q4_k_m").label == choose("o/r", two, None).label == "Q4_K_M"
    assert choose("o/r", two, "ud-q4_k_m").label == "UD-Q4_K_M"


def test_a_missing_shard_is_named():
    with pytest.raises(DownloadError, match=r"one of 3 shards.*\[2\]"):
        choose("o/r", files("a-Q8_0-00001-of-00003.gguf", "a-Q8_0-00003-of-00003.gguf"), None)
