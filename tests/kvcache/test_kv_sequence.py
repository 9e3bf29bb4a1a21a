"""Sequences share pages without ever writing to a shared one."""

import numpy as np
import pytest
from kvcache.pattern import PAGE_BYTES, check, compute

from chenxing.kernels.layout import PAGE
from chenxing.kvcache import KVCache

N_CTX = 10 * PAGE


def cache(ram_pages: int = 100) -> KVCache:
    return KVCache(PAGE_BYTES, ram_bytes=ram_pages * PAGE_BYTES, folder=None, fingerprint={}, disk_bytes=0)


def ids(n: int, seed: int = 0) -> list[int]:
    return np.random.default_rng(seed).integers(0, 1000, n).tolist()


def test_a_conversation_is_found_to_the_token():
    kv, text = cache(), ids(70)
    first = kv.begin(text, N_CTX)
    assert first.n_cached == 0 and compute(first, text)
    first.release()
    second = kv.begin([*text, 5, 6], N_CTX)
    assert second.n_cached == 70
    check(second, text)
    second.release()
    assert kv.begin(text, N_CTX).n_cached == 69  # one is always computed
    assert kv.begin([*text[:40], 1001], N_CTX).n_cached == 40  # in the midst of a page
    assert kv.begin([1001], N_CTX).n_cached == 0
    kv.check_integrity()


def test_what_is_not_kept_is_forgotten_after_the_last_full_page():
    kv, text = cache(), ids(70)
    sequence = kv.begin(text, N_CTX)
    compute(sequence, text)
    sequence.release(keep=False)
    assert kv.match([*text, 0]) == 64


def test_a_private_sequence_leaves_nothing_and_finds_nothing():
    kv, text = cache(), ids(70)
    sequence = kv.begin_private(N_CTX)
    assert compute(sequence, text)
    kv.check_integrity()
    other = sequence.fork()
    assert compute(other, [1, 2])
    for one in (sequence, other):
        one.release()
    kv.check_integrity()
    assert kv.match([*text, 0]) == 0 and kv.stats().n_pages_ram == 0


def test_a_shared_beginning_is_stored_once():
    kv, system = cache(), ids(3 * PAGE)
    for i in range(20):
        sequence = kv.begin([*system, i], N_CTX)
        compute(sequence, [*system, i][sequence.n_cached :])
        sequence.release()
    assert kv.stats().n_pages_ram == 3 + 20


def test_two_that_compute_the_same_end_with_the_same_pages():
    kv, text = cache(), ids(2 * PAGE)
    both = [kv.begin(text, N_CTX) for _ in range(2)]
    for sequence in both:
        compute(sequence, text)
    assert both[0].table[:2].tolist() == both[1].table[:2].tolist()
    kv.check_integrity()
    assert kv.stats().n_pages_ram == 2


def test_a_page_that_was_shared_is_copied_before_it_is_written():
    kv, text = cache(), ids(2 * PAGE)
    sequence = kv.begin(text, N_CTX)
    compute(sequence, text)
    sequence.truncate(PAGE + 5)
    shared = int(sequence.table[1])
    assert sequence.reserve(PAGE + 5) and sequence.table[1] == shared  # nothing will be written
    assert compute(sequence, [1001]) and sequence.table[1] != shared
    check(sequence, [*text[: PAGE + 5], 1001])
    other = kv.begin([*text, 0], N_CTX)
    assert other.n_cached == 2 * PAGE
    check(other, text)
    kv.check_integrity()


def test_forks_part_at_their_next_token():
    kv, text = cache(), ids(PAGE + 9)
    one = kv.begin(text, N_CTX)
    compute(one, text)
    two = one.fork()
    assert two.n_cached == len(text) and kv.stats().n_pages_ram == 2
    compute(two, [1])
    compute(one, [2])
    check(one, [*text, 2])
    check(two, [*text, 1])
    kv.check_integrity()
    assert kv.stats().n_pages_ram == 3
    one.release()
    two.release()
    assert kv.match([*text, 1, 0]) == kv.match([*text, 2, 0]) == len(text) + 1


def test_a_fork_does_not_share_what_is_only_reserved():
    kv = cache()
    one = kv.begin([1], N_CTX)
    compute(one, ids(5))
    assert one.reserve(3 * PAGE) and kv.stats().n_pages_ram == 3
    two = one.fork()
    assert kv.stats().n_pages_ram == 3
    assert compute(one, [1]) and compute(two, [2])  # the first of the two copies
    check(one, [*ids(5), 1])
    check(two, [*ids(5), 2])
    kv.check_integrity()


def test_truncation_is_idempotent_and_moves_nothing():
    kv, text = cache(), ids(3 * PAGE + 4)
    sequence = kv.begin(text, N_CTX)
    compute(sequence, text)
    table, places = sequence.table.ctypes.data, sequence.table[:4].tolist()
    for _ in range(2):
        sequence.truncate(2 * PAGE + 1)
        check(sequence, text[: 2 * PAGE + 1])
        assert sequence.table.ctypes.data == table and sequence.table[:3].tolist() == places[:3]
        kv.check_integrity()


def test_reserve_is_all_or_nothing():
    kv = cache(ram_pages=4)
    one, two = kv.begin([1], N_CTX), kv.begin([2], N_CTX)
    assert compute(one, ids(3 * PAGE))
    assert not two.reserve(2 * PAGE)
    assert two.reserve(PAGE) and kv.stats().n_pages_ram == 4
    assert not one.reserve(3 * PAGE + 1)
    kv.check_integrity()
    one.release()
    assert two.reserve(4 * PAGE)  # what nobody uses makes room
    two.release()
    kv.check_integrity()


def test_the_least_recently_used_goes_first_and_from_its_end():
    kv, old, new = cache(ram_pages=8), ids(4 * PAGE, 1), ids(4 * PAGE, 2)
    for text in (old, new, old):  # old is used again
        sequence = kv.begin(text, N_CTX)
        compute(sequence, text[sequence.n_cached :])
        sequence.release()
    compute(kv.begin([1001], N_CTX), ids(2 * PAGE, 3))
    assert kv.match([*old, 0]) == 4 * PAGE and kv.match([*new, 0]) == 2 * PAGE


def test_misuse_fails():
    kv, text = cache(), ids(PAGE)
    sequence = kv.begin(text, N_CTX)
    with pytest.raises(AssertionError, match="without a page"):
        sequence.commit([1])
    sequence.truncate(0)
    compute(sequence, text)
    other = sequence.fork()
    sequence.truncate(5)
    with pytest.raises(AssertionError, match="without `reserve`"):
        sequence.commit([1])
    with pytest.raises(AssertionError, match="in use"):
        kv.close()
    other.release()
    with pytest.raises(AssertionError, match="released twice"):
        other.release()


def say(kv: KVCache, text: list[int]) -> None:
    sequence = kv.begin(text, N_CTX)
    assert compute(sequence, text[sequence.n_cached :])
    sequence.release()


@pytest.mark.parametrize("n", [20, PAGE, 70, 3 * PAGE])
def test_a_forgotten_conversation_is_gone_but_for_what_others_share(n):
    kv, text = cache(), ids(n)
    say(kv, text[: n // 2])
    say(kv, text)
    assert kv.forget(text) == n and kv.match([*text, 0]) == 0 and kv.forget(text) == 0
    kv.check_integrity()
    assert kv.stats().n_pages_ram == 0
    system = ids(2 * PAGE, seed=1)
    say(kv, [*system, *text])
    say(kv, [*system, 1001, 1002])
    assert kv.forget([*system, *text]) == n
    assert kv.match([*system, 1001, 1002, 0]) == 2 * PAGE + 2
    kv.check_integrity()


def test_what_a_sequence_uses_or_goes_on_from_is_not_forgotten():
    kv, text = cache(), ids(70)
    say(kv, text)
    running = kv.begin([*text, 5], N_CTX)
    assert kv.forget(text) == 70 - 2 * PAGE and kv.match([*text, 0]) == 2 * PAGE
    kv.check_integrity()
    check(running, text)
    running.release()
    say(kv, [*text, *ids(40, seed=2)])
    assert kv.forget(text) == 0 and kv.match([*text, *ids(40, seed=2), 0]) == 110


def test_what_is_forgotten_is_gone_from_the_disk(tmp_path):
    def opened() -> KVCache:
        ram, disk = 100 * PAGE_BYTES, 100 * PAGE_BYTES
        return KVCache(PAGE_BYTES, ram_bytes=ram, folder=tmp_path, fingerprint={}, disk_bytes=disk)

    kv, text, other = opened(), ids(70), ids(70, seed=1)
    say(kv, text)
    say(kv, other)
    kv.flush()
    assert kv.forget(text) == 70
    kv.close()
    again = opened()
    assert again.match([*text, 0]) == 0 and again.match([*other, 0]) == 70
    again.close()


def test_what_is_on_its_way_to_the_disk_is_forgotten_too(tmp_path):
    kv = KVCache(PAGE_BYTES, ram_bytes=100 * PAGE_BYTES, folder=tmp_path, fingerprint={}, disk_bytes=100 * PAGE_BYTES)
    text = ids(200)
    say(kv, text)
    assert kv.forget(text) == 200
    kv.flush()
    kv.check_integrity()
    assert kv.stats().n_pages_disk == 0 and kv.match([*text, 0]) == 0
    kv.close()
