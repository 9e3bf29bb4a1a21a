from gguf.constants import GGML_QUANT_SIZES, GGMLQuantizationType

from chenxing.quants.base import GGML_TYPES


def test_table_equals_the_gguf_packages():
    ours = {t.id: (t.name, t.block_size, t.type_size) for t in GGML_TYPES.values()}
    theirs = {int(t): (t.name, *GGML_QUANT_SIZES[t]) for t in GGMLQuantizationType}
    assert ours == theirs


def test_keys_are_the_ids():
    assert all(key == t.id for key, t in GGML_TYPES.items())
