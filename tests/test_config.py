"""Settings from the environment: values that cannot be meant are refused by name."""

from pathlib import Path

import pytest

from chenxing.config import read_settings
from chenxing.errors import UsageError


def test_one_folder_for_everything(tmp_path):
    paths = read_settings({"CHENXING_HOME": str(tmp_path)}).paths
    assert {paths.models, paths.cache, paths.data} == {tmp_path / name for name in ("models", "cache", "data")}
    assert read_settings({}).paths.cache != Path("cache")


@pytest.mark.parametrize(
    ("text", "n_bytes"),
    [
        ("0", 0),
        ("1234", 1234),
        ("20GB", 20 * 10**9),
        ("1.5g", 15 * 10**8),
        ("512 MiB", 512 << 20),
        ("2Ti", 2 << 40),
        ("", None),
    ],
)
def test_sizes(text, n_bytes):
    assert read_settings({"CHENXING_WEIGHT_CACHE_LIMIT": text}).weight_cache_limit == n_bytes


@pytest.mark.parametrize("text", ["-1", "x", "10 PB", "1e9", "5iB", "1.GB", "٣GB"])
def test_what_is_no_size(text):
    with pytest.raises(UsageError, match="CHENXING_WEIGHT_CACHE_LIMIT: expected a size such as 20GB"):
        read_settings({"CHENXING_WEIGHT_CACHE_LIMIT": text})


@pytest.mark.parametrize("text", ["0", "1025", "two", "-1"])
def test_what_is_no_number_of_threads(text):
    with pytest.raises(UsageError, match="CHENXING_THREADS: expected a number from 1 to 1024"):
        read_settings({"CHENXING_THREADS": text})
