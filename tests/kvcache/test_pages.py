"""Pages are conserved under random use (law L6), and misuse fails at once."""

import numpy as np
import pytest

from chenxing.errors import OutOfMemoryError
from chenxing.kernels.layout import PAGE
from chenxing.kvcache import PagePool, Sequence


def test_random_use_against_a_model():
    rng = np.random.default_rng(0)
    pool = PagePool(17, 256)
    counts: dict[int, int] = {}
    for _ in range(5000):
        action = rng.integers(3)
        if action == 0:
            page = pool.allocate()
            assert (page is None) == (len(counts) == 17)
            if page is not None:
                assert page not in counts
                counts[page] = 1
        elif counts:
            page = int(rng.choice(list(counts)))
            if action == 1:
                pool.retain(page)
                counts[page] += 1
            else:
                pool.release([page])
                counts[page] -= 1
                if not counts[page]:
                    del counts[page]
        assert pool.n_free == 17 - len(counts)
        pool.check_integrity()


def test_double_release_and_use_of_a_free_page_fail():
    pool = PagePool(2, 256)
    page = pool.allocate()
    pool.release([page])
    with pytest.raises(AssertionError, match="released twice"):
        pool.release([page])
    with pytest.raises(AssertionError, match="is free"):
        pool.retain(page)


def test_a_sequence_holds_just_the_pages_of_its_tokens():
    pool = PagePool(4, 256)
    sequence = Sequence(pool, 4 * PAGE)
    sequence.reserve(2 * PAGE + 1)
    assert pool.n_free == 1
    sequence.ids = list(range(2 * PAGE + 1))
    sequence.truncate(PAGE + 1)
    assert sequence.ids == list(range(PAGE + 1)) and pool.n_free == 2
    sequence.truncate(PAGE)
    assert pool.n_free == 3
    sequence.truncate(0)
    assert pool.n_free == 4
    pool.check_integrity()


@pytest.mark.parametrize("n_pages", [1 << 40, 1 << 62])
def test_more_than_any_machine_has(n_pages):
    with pytest.raises(OutOfMemoryError, match=r"GiB for a context of \d+ tokens: use a smaller -c"):
        PagePool(n_pages, 1 << 20)


def test_memory_is_zero_and_apart():
    pool = PagePool(3, 4096)
    assert [pool.address(page) - pool.address(0) for page in range(3)] == [0, 4096, 8192]
    assert pool.address(0) % 64 == 0
    assert not pool._memory.any()
