"""The tree of prefixes: which pages hold the KV of which tokens (law L4: keys are token ids, all of them).

It is a radix tree whose digit is a page: a node stands for one page of PAGE tokens and is found under its parent by
their exact ids, so no edge ever needs splitting. Leaves may be shorter: the frozen end of a sequence, 1 to PAGE - 1
tokens. A key is the ids as big-endian u32, so that the order of bytes is the order of ids and the child that shares
most tokens with a wanted key is a neighbour of its place among the sorted keys.
Source  Zheng 2024 (SGLang, RadixAttention), whose edges are of any length.
"""

import sys
from array import array
from bisect import bisect_left, insort
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from chenxing.kernels.layout import PAGE

if TYPE_CHECKING:
    from chenxing.kvcache.index import Add
    from chenxing.kvcache.writer import Put

ID_BYTES = 4
FULL = PAGE * ID_BYTES  # bytes of the key of a full page


def encode(ids: Sequence[int]) -> bytes:
    """The key of these ids: big-endian u32."""
    numbers = array("I", ids)  # not "i", which takes three times as long
    assert numbers.itemsize == ID_BYTES
    if sys.byteorder == "little":
        numbers.byteswap()
    return numbers.tobytes()


@dataclass(eq=False, slots=True)
class Node:
    """A page's tokens, under those of its ancestors, and where its KV is.

    page     in memory: number in the pool, on which the tree holds a reference
    entry    on disk, sealed
    job      on its way to the disk
    n_locks  sequences whose deepest node this is; its ancestors are safe because they have children
    """

    key: bytes
    parent: "Node | None"
    page: int | None = None
    entry: "Add | None" = None
    job: "Put | None" = None
    n_locks: int = 0
    children: dict[bytes, "Node"] = field(default_factory=dict)
    order: list[bytes] = field(default_factory=list)  # the children's keys, sorted

    @property
    def n_tokens(self) -> int:
        return len(self.key) // ID_BYTES

    @property
    def is_full(self) -> bool:
        return len(self.key) == FULL

    def closest(self, key: bytes) -> tuple["Node | None", int]:
        """The child that shares the most tokens with key, and how many; (None, 0) if none shares the first."""
        at = bisect_left(self.order, key)
        found, longest = None, 0
        for neighbour in self.order[max(0, at - 1) : at + 1]:
            n = _shared_tokens(neighbour, key)
            if n > longest:
                found, longest = self.children[neighbour], n
        return found, longest


@dataclass(frozen=True)
class Match:
    """The longest known prefix of some ids: full pages, then `n_partial` tokens of the page `partial`."""

    nodes: list[Node]
    partial: Node | None
    n_partial: int

    @property
    def n_tokens(self) -> int:
        return len(self.nodes) * PAGE + self.n_partial


class RadixTree:
    """Nodes under a root of no tokens.

    in_memory  nodes that have a page, on_disk  nodes that have an entry; both least recently used first, and of one
               path the deeper first, as `touch` leaves them
    Invariants: partial nodes have no children; a node is in the orders exactly if it has what they are of.
    """

    def __init__(self) -> None:
        self.root = Node(b"", None)
        self.in_memory: OrderedDict[Node, None] = OrderedDict()
        self.on_disk: OrderedDict[Node, None] = OrderedDict()

    def match(self, key: bytes) -> Match:
        """The longest prefix of key. Mutates nothing."""
        node, nodes, at = self.root, [], 0
        while at + FULL <= len(key):
            child = node.children.get(key[at : at + FULL])
            if child is None:
                break
            nodes.append(child)
            node, at = child, at + FULL
        partial, n = node.closest(key[at : at + FULL]) if at < len(key) else (None, 0)
        return Match(nodes, partial, n)

    def insert(self, parent: Node, key: bytes) -> Node:
        """A new node, which has neither page nor entry yet. Its equal must not exist."""
        assert 0 < len(key) <= FULL and key not in parent.children
        assert parent.is_full or parent is self.root
        node = Node(key, parent)
        parent.children[key] = node
        insort(parent.order, key)
        return node

    def remove(self, node: Node) -> None:
        """Take a leaf out. It has no page and no entry any more, and nobody uses it."""
        assert not node.children and not node.n_locks and node.page is None and node.entry is None
        assert node.parent is not None and node.parent.children[node.key] is node
        del node.parent.children[node.key]
        del node.parent.order[bisect_left(node.parent.order, node.key)]
        node.parent = None

    def set_page(self, node: Node, page: int | None) -> None:
        node.page = page
        if page is None:
            del self.in_memory[node]
        else:
            self.in_memory[node] = None

    def set_entry(self, node: Node, entry: "Add | None") -> None:
        node.entry = entry
        if entry is None:
            del self.on_disk[node]
        else:
            self.on_disk[node] = None

    def lock(self, node: Node) -> None:
        """Keep node and its ancestors in the tree until `release`."""
        node.n_locks += 1

    def release(self, node: Node) -> None:
        assert node.n_locks > 0, "a node is released twice"
        node.n_locks -= 1

    def touch(self, node: Node) -> None:
        """Make node and its ancestors the most recently used, deeper ones a little less."""
        here: Node | None = node
        while here is not None and here is not self.root:
            if here in self.in_memory:
                self.in_memory.move_to_end(here)
            if here in self.on_disk:
                self.on_disk.move_to_end(here)
            here = here.parent

    def prefixes(self, parent: Node, key: bytes) -> list[Node]:
        """The partial children of parent whose tokens key begins with, shorter than key."""
        lengths = range(ID_BYTES, len(key), ID_BYTES)
        return [parent.children[key[:n]] for n in lengths if key[:n] in parent.children]

    def walk(self, start: Node | None = None) -> list[Node]:
        """All nodes from start (default: the root) down, children before parents; the root itself is none of them."""
        nodes = [start or self.root]
        for node in nodes:  # which grows meanwhile
            nodes += node.children.values()
        nodes.reverse()
        if nodes[-1] is self.root:
            nodes.pop()
        return nodes

    def check_integrity(self) -> None:
        nodes = self.walk()
        assert {n for n in nodes if n.page is not None} == set(self.in_memory)
        assert {n for n in nodes if n.entry is not None} == set(self.on_disk)
        for node in [self.root, *nodes]:
            assert node.order == sorted(node.children)
            for key, child in node.children.items():
                assert child.key == key and child.parent is node and 0 < len(key) <= FULL
            assert node is self.root or node.is_full or not node.children
            assert node.n_locks >= 0


def _shared_tokens(a: bytes, b: bytes) -> int:
    """How many leading ids two keys share."""
    n = min(len(a), len(b))
    if a[:n] == b[:n]:
        return n // ID_BYTES
    difference = int.from_bytes(a[:n], "big") ^ int.from_bytes(b[:n], "big")
    return (n * 8 - difference.bit_length()) // (ID_BYTES * 8)
