"""Pages are conserved under random use (law L6), memory follows use, and misuse fails at once."""

import numpy as np
import pytest

from chenxing.kvcache.pages import PagePool


def test_random_use_against_a_model():
    rng = np.random.default_rng(0)
    pool = PagePool(17, 256, extent_bytes=4 * 256)
    counts: dict[int, int] = {}
    places: dict[int, int] = {}
    for _ in range(5000):
        action = rng.integers(9)
        if action < 3:
            page = pool.allocate()
            assert (page is None) == (len(counts) == 17)
            if page is not None:
                assert page not in counts
                counts[page], places[page] = 1, pool.address(page)
                pool.bytes_of(page)[:] = page
        elif action == 8:
            pool.trim()
            assert pool.n_bytes <= 256 * 4 * len(counts)
        elif counts:
            page = int(rng.choice(list(counts)))
            assert pool.address(page) == places[page] and (pool.bytes_of(page) == page).all()
            if action < 5:
                pool.retain(page)
                counts[page] += 1
            else:
                pool.release([page])
                counts[page] -= 1
                if not counts[page]:
                    del counts[page]
        assert pool.n_used == len(counts) and all(pool.references(page) == n for page, n in counts.items())
        pool.check_integrity()


def test_double_release_and_use_of_a_free_page_fail():
    pool = PagePool(2, 256)
    page = pool.allocate()
    pool.release([page])
    with pytest.raises(AssertionError, match="released twice"):
        pool.release([page])
    with pytest.raises(AssertionError, match="is free"):
        pool.retain(page)
    with pytest.raises(AssertionError, match="is free"):
        pool.bytes_of(page)


def test_memory_follows_use():
    pool = PagePool(1 << 40, 4096, extent_bytes=8 * 4096)  # more than any machine has
    assert pool.n_bytes == 0
    pages = [pool.allocate() for _ in range(9)]
    assert pool.n_bytes == 16 * 4096
    pool.release(pages[1:])
    assert pool.trim() == 8 * 4096 and pool.n_bytes == 8 * 4096 and pool.n_used == 1
    pool.check_integrity()


def test_memory_that_cannot_be_had_is_a_full_pool():
    pool = PagePool(4, 1 << 62)
    assert pool.allocate() is None
    pool.check_integrity()


def test_memory_is_zero_and_apart():
    pool = PagePool(3, 4096)
    pages = [pool.allocate() for _ in range(3)]
    assert sorted(pool.address(page) for page in pages) == [pool.address(0) + i * 4096 for i in range(3)]
    assert pool.address(0) % 64 == 0
    assert not any(pool.bytes_of(page).any() for page in pages)
