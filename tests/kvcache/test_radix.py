"""The tree finds just the longest prefix of token ids (law L4), against a search through all that was inserted."""

import numpy as np
import pytest

from chenxing.kernels.layout import PAGE
from chenxing.kvcache.radix import RadixTree, encode


def insert(tree: RadixTree, ids: list[int]) -> None:
    node = tree.root
    for at in range(0, len(ids), PAGE):
        key = encode(ids[at : at + PAGE])
        node = node.children.get(key) or tree.insert(node, key)


def common(a: list[int], b: list[int]) -> int:
    return next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))


@pytest.mark.parametrize("n_ids", [2, 70_000])
def test_match_against_a_search(n_ids):
    rng = np.random.default_rng(n_ids)
    tree, texts = RadixTree(), [[0]]
    for _ in range(300):
        old = texts[rng.integers(len(texts))]
        ids = [*old[: rng.integers(len(old) + 1)], *rng.integers(0, n_ids, rng.integers(1, 80)).tolist()]
        longest = max(common(ids, text) for text in texts) if len(texts) > 1 else 0
        assert tree.match(encode(ids)).n_tokens == longest
        insert(tree, ids)
        texts = [*texts, ids] if len(texts) > 1 else [ids, ids]
        found = tree.match(encode(ids))
        assert found.n_tokens == len(ids) and len(found.nodes) == len(ids) // PAGE
        assert b"".join(node.key for node in found.nodes) == encode(ids[: len(found.nodes) * PAGE])
        tree.check_integrity()


def test_ids_that_look_alike_in_bytes():
    tree = RadixTree()
    insert(tree, [0x01020304] * 3)
    assert tree.match(encode([0x01020304, 0x01020305])).n_tokens == 1
    assert tree.match(encode([0x01020405])).n_tokens == 0
    assert tree.match(b"").n_tokens == 0


def test_a_leaf_is_removed_and_a_locked_one_is_not():
    tree = RadixTree()
    insert(tree, list(range(PAGE + 3)))
    (node,) = tree.match(encode(range(PAGE))).nodes
    (leaf,) = node.children.values()
    tree.lock(leaf)
    with pytest.raises(AssertionError):
        tree.remove(leaf)
    tree.release(leaf)
    with pytest.raises(AssertionError, match="released twice"):
        tree.release(leaf)
    with pytest.raises(AssertionError):
        tree.remove(node)
    tree.remove(leaf)
    tree.remove(node)
    assert tree.walk() == []


def test_of_one_path_the_deeper_is_older():
    tree = RadixTree()
    for i in range(3):
        insert(tree, [i, *range(2 * PAGE - 1)])
    paths = [tree.match(encode([i, *range(2 * PAGE - 1)])).nodes for i in range(3)]
    for page, node in enumerate(node for path in paths for node in path):
        tree.set_page(node, page)
    for i in (2, 0, 1):
        tree.touch(paths[i][-1])
    assert list(tree.in_memory) == [node for i in (2, 0, 1) for node in reversed(paths[i])]


def test_partial_pages_have_no_children():
    tree = RadixTree()
    insert(tree, [1, 2])
    with pytest.raises(AssertionError):
        tree.insert(tree.root.children[encode([1, 2])], encode([3]))
