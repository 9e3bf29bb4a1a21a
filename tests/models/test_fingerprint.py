"""Whose keys and values are the same, and that their bits are still those that NUMERICS stands for."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from reference.toy_file import Toy
from reference.toys import TOYS, prompt
from xxhash import xxh3_64_hexdigest

from chenxing.config import read_settings
from chenxing.gguf import open_gguf
from chenxing.kernels.layout import PAGE
from chenxing.kernels.library import KernelLibrary
from chenxing.kernels.memory import address, aligned
from chenxing.models import ARCHITECTURES, Model, Run, load_model
from chenxing.models.fingerprint import NUMERICS, kv_fingerprint
from chenxing.models.model import page_bytes, read_model

# Digests of the pages of a prompt, by toy and KV type. They are the same on every machine. Where one differs, bits of
# keys and values have changed, and every user's stored pages with them: raise NUMERICS, then put in the new digests.
PAGES: dict[int, dict[tuple[str, str], str]] = {
    1: {
        ("llama", "f16"): "1da7a84185e1bf5e",
        ("qwen2", "f16"): "f313f8f454a5e76a",
        ("qwen3", "f16"): "c39b33aba1dc9537",
        ("qwen3moe", "f16"): "3c5b7df325ea56e5",
        ("gemma2", "f16"): "9b42e869b3fc665f",
        ("gemma3", "f16"): "8fa0856d2f38e850",
        ("phi3", "f16"): "2033ee60c387ce67",
        ("olmo2", "f16"): "6141f0147a5b1940",
        ("granite", "f16"): "babc82a33b7d04a9",
        ("smollm3", "f16"): "51bfc06540f23ef0",
        ("llama-yarn", "f16"): "e2a76ff471a7147a",
        ("phi3-long", "f16"): "44556ef54b119790",
        ("llama-Q4_0", "f16"): "2fac0e8a6ccdf101",
        ("llama-Q8_0", "f16"): "18a5db26757f9cbf",
        ("llama-Q4_K_M", "f16"): "b63886e3f8ed7986",
        ("qwen3moe-Q4_K", "f16"): "d56871e8b8af14a8",
        ("llama-Q8_0", "bf16"): "bb84647673a9225f",
        ("llama-Q8_0", "f32"): "f9f311b472222d4a",
        ("llama-Q8_0", "q8_0"): "4256f2e903181507",
    },
}


@pytest.fixture(autouse=True)
def _packed_weights_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "chenxing.models.weight_cache.settings", lambda: read_settings({"CHENXING_HOME": str(tmp_path)})
    )


@contextmanager
def loaded(path: Path, n_ctx: int, kv_type: str = "f16") -> Iterator[tuple[Model, dict[str, Any]]]:
    gguf = open_gguf(path)
    model = load_model(gguf, read_model(gguf, n_ctx), KernelLibrary(), 1, kv_type=kv_type)
    yield model, kv_fingerprint(gguf, model, kv_type)
    model.close()


def pages_digest(toy: Toy, path: Path, kv_type: str) -> str:
    """Of 80 tokens' pages, all layers, in the order of the tokens."""
    ids = prompt()
    with loaded(path, toy.n_ctx, kv_type) as (model, _):
        pages = aligned((-(-len(ids) // PAGE), page_bytes(model.hp, kv_type)))
        table = address(pages) + np.arange(len(pages)) * pages.shape[1]
        model.step([Run(ids, 0, table, [len(ids) - 1])])
    return xxh3_64_hexdigest(pages.data)


@pytest.mark.parametrize(("name", "kv_type"), PAGES[NUMERICS])
def test_pages_have_the_bits_that_the_number_stands_for(name: str, kv_type: str, tmp_path: Path) -> None:
    toy = TOYS[name]
    assert pages_digest(toy, toy.write(tmp_path), kv_type) == PAGES[NUMERICS][name, kv_type]


def test_every_architecture_and_kv_type_has_a_digest() -> None:
    assert {TOYS[name].architecture for name, _ in PAGES[NUMERICS]} == ARCHITECTURES.keys()
    assert {kv_type for _, kv_type in PAGES[NUMERICS]} == {"f16", "bf16", "f32", "q8_0"}


def identity(path: Path, n_ctx: int = 256, kv_type: str = "f16") -> dict[str, Any]:
    """The fingerprint without the name, through JSON, as a store keeps it."""
    with loaded(path, n_ctx, kv_type) as (_, fingerprint):
        kept: dict[str, Any] = json.loads(json.dumps(fingerprint))
    assert kept.pop("name") == path.name
    return kept


def test_a_file_is_known_by_its_weights(tmp_path: Path) -> None:
    path = TOYS["llama"].write(tmp_path)
    first = identity(path)
    assert identity(path, n_ctx=512) == first
    assert identity(path.rename(tmp_path / "renamed.gguf")) == first
    other = bytearray((tmp_path / "renamed.gguf").read_bytes())
    other[open_gguf(tmp_path / "renamed.gguf").tensors["token_embd.weight"].offset + 2] ^= 1
    path.write_bytes(other)
    assert identity(path) != first


def test_settings_that_change_keys_and_values_are_part_of_it(tmp_path: Path) -> None:
    llama, short = TOYS["llama"].write(tmp_path), TOYS["phi3-short"].write(tmp_path)
    assert identity(llama, kv_type="q8_0") != identity(llama)
    assert identity(short, n_ctx=256) != identity(short, n_ctx=512)  # LongRoPE's other factors
