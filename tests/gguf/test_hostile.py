"""Files that were damaged or made to harm: each opens or gives one ModelFileError, fast and in little memory."""

import random
import re
import struct
import time
import tracemalloc
from pathlib import Path

import pytest
from handmade import ARRAY, STRING, array, gguf_file, pair, string, tensor

from chenxing.errors import ModelFileError
from chenxing.gguf import GGUF, StringArray, open_gguf

N_MUTATIONS = 20_000
N_TRACED = 500

Q8_0, F32, F16 = 8, 0, 1


def small_file() -> bytes:
    """Every structure that the reader knows, in 1.1 KB."""
    pairs = [
        pair(b"general.architecture", STRING, string(b"llama")),
        pair(b"general.alignment", 4, struct.pack("<I", 32)),
        pair(b"split.count", 2, struct.pack("<H", 1)),
        pair(b"llama.rope.freq_base", 6, struct.pack("<f", 10_000.0)),
        pair(b"llama.rope.scale", 12, struct.pack("<d", 1.0)),
        pair(b"llama.flag", 7, b"\1"),
        pair(b"llama.big", 10, struct.pack("<Q", 2**40)),
        pair(b"tokenizer.ggml.tokens", ARRAY, array(STRING, 20, b"".join(string(b"t%d" % i) for i in range(20)))),
        pair(b"tokenizer.ggml.scores", ARRAY, array(6, 20, bytes(80))),
        pair(b"nested", ARRAY, array(ARRAY, 2, array(0, 3, b"abc") + array(STRING, 1, string(b"x")))),
    ]
    tensors = [
        tensor(b"token_embd.weight", [32, 4], Q8_0, 0),
        tensor(b"output_norm.weight", [8], F32, 160),
        tensor(b"blk.0.attn_q.weight", [4, 2, 3], F16, 192),
    ]
    return gguf_file(pairs, tensors, bytes(range(240)))


WHOLE = small_file()


def edge_number(rng: random.Random, n_bits: int) -> int:
    """A number at which arithmetic or allocation may go wrong."""
    near = rng.choice([0, 1 << rng.randrange(n_bits), 1 << (n_bits - 1), (1 << n_bits) - 1, 1 << 20, 1 << 31])
    return (near + rng.randrange(-9, 10)) % (1 << n_bits)


def flip_bits(rng: random.Random, data: bytearray) -> None:
    for _ in range(rng.choice([1, 1, 2, 8])):
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)


def overwrite(rng: random.Random, data: bytearray, at: int) -> None:
    n_bytes = rng.choice([4, 8])
    data[at : at + n_bytes] = edge_number(rng, 8 * n_bytes).to_bytes(n_bytes, "little")


def overwrite_anything(rng: random.Random, data: bytearray) -> None:
    overwrite(rng, data, rng.randrange(len(data)))


def overwrite_header(rng: random.Random, data: bytearray) -> None:
    overwrite(rng, data, rng.choice([4, 8, 16]))


def overwrite_field(rng: random.Random, data: bytearray) -> None:
    """Aimed at lengths, counts, types, sizes and offsets: the small numbers."""
    places = [m.start() for m in re.finditer(rb"[\x00-\x30]\0\0\0", data)]
    overwrite(rng, data, rng.choice(places))


def truncate(rng: random.Random, data: bytearray) -> None:
    del data[rng.randrange(len(data)) :]


def insert_or_remove(rng: random.Random, data: bytearray) -> None:
    at, n = rng.randrange(len(data)), rng.randrange(1, 40)
    data[at : at + rng.choice([0, n])] = rng.choice([b"", bytes(n), data[:n], rng.randbytes(n)])


def several(rng: random.Random, data: bytearray) -> None:
    for _ in range(3):
        rng.choice([flip_bits, overwrite_field, insert_or_remove])(rng, data)


MUTATIONS = [flip_bits, overwrite_anything, overwrite_header, overwrite_field, truncate, insert_or_remove, several]


def use(model: GGUF) -> None:
    """Read all that an open model hands out."""
    for name, info in model.tensors.items():
        assert len(model.data(name).tobytes()) == info.n_bytes
    for value in model.metadata.values():
        if isinstance(value, StringArray):
            assert len(value.to_list()) == len(value)


def opens(path: Path) -> bool:
    """Whether the file opens; if not, the error is one line that names the file and fits a screen."""
    try:
        use(open_gguf(path))
    except ModelFileError as error:
        assert error.path.parent == path.parent
        assert re.fullmatch(r".{10,900}", str(error).removeprefix(str(path.parent)))
        return False
    return True


def write_mutation(path: Path, seed: int) -> None:
    rng = random.Random(seed)
    data = bytearray(WHOLE)
    MUTATIONS[seed % len(MUTATIONS)](rng, data)
    with open(path, "r+b", buffering=0) as file:  # in place, which is faster than a new file
        file.write(data)
        file.truncate()


def test_20000_mutations_open_or_are_refused(tmp_path):
    path = tmp_path / "m.gguf"
    path.write_bytes(WHOLE)
    assert opens(path)
    n_open, slowest = 0, 0.0
    for seed in range(N_MUTATIONS):
        write_mutation(path, seed)
        start = time.process_time()
        n_open += opens(path)
        slowest = max(slowest, time.process_time() - start)
    assert slowest < 1.0
    # both happen often: a flip in a weight or a text is a sound file, a wrong length is not
    assert 0.1 * N_MUTATIONS < n_open < 0.7 * N_MUTATIONS


def test_mutations_allocate_in_proportion_to_the_file(tmp_path):
    path = tmp_path / "m.gguf"
    path.write_bytes(WHOLE)
    opens(path)  # what is allocated once
    tracemalloc.start()
    try:
        for seed in range(N_TRACED):
            write_mutation(path, seed)
            tracemalloc.reset_peak()
            before = tracemalloc.get_traced_memory()[0]
            opens(path)
            assert tracemalloc.get_traced_memory()[1] - before < 200_000, seed
    finally:
        tracemalloc.stop()


N_ROOM = 200 << 20


def with_room(path: Path, *pairs: bytes, n_pairs: int | None = None, n_tensors: int = 0) -> Path:
    """A file that ends with 200 MiB of zeros (a hole, where the file system has holes): room for any small lie."""
    head = bytearray(gguf_file(pairs, alignment=1))
    struct.pack_into("<QQ", head, 8, n_tensors, len(pairs) if n_pairs is None else n_pairs)
    with open(path, "wb") as file:
        file.write(head)
        file.truncate(len(head) + N_ROOM)
    return path


def numbered_strings(n: int, n_bytes: int) -> bytes:
    return b"".join(string(b"%0*d" % (n_bytes, i)) for i in range(n))


LIES = {
    "empty strings": ([pair(b"a", ARRAY, array(STRING, 24_000_000, b""))], {}),
    "empty strings within budget by their number": ([pair(b"a", ARRAY, array(STRING, 3_000_000, b""))], {}),
    "numbers": ([pair(b"a", ARRAY, array(0, N_ROOM, b""))], {}),
    "numbers within budget": ([pair(b"a", ARRAY, array(10, 6_000_000, b""))], {"n_tensors": 9}),
    "arrays": ([pair(b"a", ARRAY, array(ARRAY, 17_000_000, b""))], {}),
    "arrays within budget": ([pair(b"a", ARRAY, array(ARRAY, 47_000, b""))], {"n_tensors": 9}),
    "text": ([pair(b"a", STRING, struct.pack("<Q", N_ROOM))], {}),
    "text within budget": ([pair(b"a", STRING, struct.pack("<Q", 23 << 20))], {"n_tensors": 9}),
    "text that fits once": ([pair(b"a", STRING, struct.pack("<Q", 40 << 20))], {"n_tensors": 9}),
    "text that is wide in memory": ([pair(b"a", STRING, struct.pack("<Q", 23 << 20) + "𓀀".encode())], {}),
    "keys": ([], {"n_pairs": 10_000_000}),
    "tensors": ([], {"n_tensors": 8_000_000}),
    "key": ([struct.pack("<Q", N_ROOM)], {}),
}  # fmt: skip


@pytest.mark.parametrize("lie", LIES)
def test_lies_cost_less_than_a_second_and_64_mb(lie, tmp_path):
    pairs, counts = LIES[lie]
    path = with_room(tmp_path / "m.gguf", *pairs, **counts)
    start = time.process_time()
    assert not opens(path)
    assert time.process_time() - start < 1.0
    tracemalloc.start()
    try:
        assert not opens(path)
        assert tracemalloc.get_traced_memory()[1] < 64_000_000
    finally:
        tracemalloc.stop()


# contents that a header can really be filled with, at their worst for the scan of strings
FILLINGS = {
    "empty strings": lambda: (STRING, 2_000_000, bytes(16_000_000)),
    "long strings": lambda: (STRING, 150_000, numbered_strings(150_000, 256)),
    "chains that break": lambda: (STRING, 1025 * 1400, (numbered_strings(1024, 9) + string(b"")) * 1400),
    "chains a little too short": lambda: (STRING, 1001 * 1400, (numbered_strings(1000, 9) + string(b"")) * 1400),
}


@pytest.mark.parametrize("filling", FILLINGS)
def test_full_headers_cost_less_than_a_second(filling, tmp_path):
    path = tmp_path / "m.gguf"
    path.write_bytes(gguf_file([pair(b"a", ARRAY, array(*FILLINGS[filling]()))]))
    start = time.process_time()
    open_gguf(path)
    assert time.process_time() - start < 1.0
