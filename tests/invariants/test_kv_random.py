"""200,000 random operations on KV caches, with all invariants checked after each (laws L4, L5, L6)."""

from pathlib import Path

import numpy as np
import pytest
from invariants.random_use import RandomUse, Setting

SETTINGS = {
    "memory": Setting(ram_pages=5000, disk_pages=None, exact=True),
    "little memory": Setting(ram_pages=12, disk_pages=None),
    "disk": Setting(ram_pages=5000, disk_pages=100_000, exact=True),
    "little memory, disk": Setting(ram_pages=40, disk_pages=100_000, exact=True),
    "little of both": Setting(ram_pages=20, disk_pages=120),
    "two processes": Setting(ram_pages=40, disk_pages=100_000, n_caches=2),
    "two processes, little of all": Setting(ram_pages=20, disk_pages=120, n_caches=2),
}


def use(folder: Path, name: str, n_steps: int, seed: int) -> int:
    use = RandomUse(folder, SETTINGS[name], np.random.default_rng(seed))
    for _ in range(n_steps):
        use.step()
    use.finish()
    return use.n_reused


@pytest.mark.parametrize("name", SETTINGS)
def test_some_random_operations(tmp_path, name):
    assert use(tmp_path, name, 500, seed=0) > 0


@pytest.mark.slow
@pytest.mark.parametrize("name", SETTINGS)
def test_many_random_operations(tmp_path, name):
    for seed in range(1, 73):  # 7 * 72 * 400 > 200,000
        assert use(tmp_path / str(seed), name, 400, seed) > 0
