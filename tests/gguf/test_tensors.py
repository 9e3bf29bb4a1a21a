from pathlib import Path

import pytest
from handmade import tensor

from chenxing.errors import ModelFileError
from chenxing.gguf.cursor import Cursor
from chenxing.gguf.tensors import TensorInfo, read_tensors

F32, Q4_0, Q4_K = 0, 2, 12


def read(tensors: list[bytes], n_data: int, alignment: int = 32) -> dict[str, TensorInfo]:
    """Tensors of a file that holds n_data bytes after its aligned list."""
    data = b"".join(tensors)
    data += bytes(-len(data) % alignment + n_data)
    return read_tensors(Cursor(Path("m.gguf"), memoryview(data)), len(tensors), alignment, shard=5)


def test_shapes_sizes_and_places():
    listed = [tensor(b"w", [256, 3], Q4_K, 64), tensor(b"norm", [7], F32, 0), tensor(b"one", [], F32, 32)]
    tensors = read(listed, 64 + 3 * 144)
    start = -(-len(b"".join(listed)) // 32) * 32
    assert list(tensors.values()) == [
        TensorInfo("w", Q4_K, (3, 256), start + 64, 3 * 144, 5),
        TensorInfo("norm", F32, (7,), start, 28, 5),
        TensorInfo("one", F32, (), start + 32, 4, 5),
    ]


def test_tensors_may_touch_and_be_empty():
    listed = [tensor(b"a", [8], F32, 0), tensor(b"none", [0], F32, 0), tensor(b"b", [8], F32, 32)]
    assert [t.n_bytes for t in read(listed, 64).values()] == [32, 0, 32]


@pytest.mark.parametrize(
    ("tensors", "message"),
    [
        ([tensor(b"a", [8], F32, 32)], "tensor 'a': expected 32 bytes of data at 96, found a file of 95 bytes"),
        ([tensor(b"a", [8], F32, 2**64 - 32)], "tensor 'a': expected 32 bytes of data at 18446744073709551648, found"),
        ([tensor(b"a", [2**63, 4, 4], F32, 0)], "tensor 'a': expected 590295810358705651712 bytes of data at 64"),
        ([tensor(b"a", [2**62], F32, 0)], "tensor 'a': expected 18446744073709551616 bytes of data at 64"),
        ([tensor(b"a", [1], F32, 8)], "offset of tensor 'a': expected a multiple of 32, found 8"),
        ([tensor(b"a", [40], Q4_0, 0)], "sizes of tensor 'a': expected rows of a multiple of 32, the block size of"),
        ([tensor(b"a", [], Q4_0, 0)], "sizes of tensor 'a': expected rows of a multiple of 32"),
        ([tensor(b"a", [1] * 5, F32, 0)], "dimensions of tensor 'a': expected at most 4, found 5"),
        ([tensor(b"a", [1], 99, 0)], "type of tensor 'a': expected a known ggml type, found 99"),
        ([tensor(b"a", [1], 31, 0)], "Q4_0_4_4 is a layout that ggml has dropped"),
        ([tensor(b"a", [1], F32, 0), tensor(b"a", [1], F32, 32)], "tensor 'a': expected one tensor of this"),
        ([tensor(b"\xc3", [1], F32, 0)], "name of tensor 0: expected a name in UTF-8"),
    ],
)  # fmt: skip
def test_what_is_refused(tensors, message):
    with pytest.raises(ModelFileError) as e:
        read(tensors, n_data=31)
    assert message in str(e.value)


@pytest.mark.parametrize(
    ("n_bytes", "field"),
    [(9, "dimensions"), (18, "sizes"), (24, "type"), (32, "offset")],
)
def test_a_cut_list_names_what_is_cut(n_bytes, field):
    data = tensor(b"a", [1], F32, 0)[:n_bytes]
    with pytest.raises(ModelFileError) as e:
        read_tensors(Cursor(Path("m.gguf"), memoryview(data)), 1, 32, shard=0)
    assert e.value.field == f"{field} of tensor 'a'"


@pytest.mark.parametrize(("first", "second"), [(0, 32), (32, 0), (0, 0)])
def test_overlap_is_refused_in_any_order(first, second):
    listed = [tensor(b"a", [9], F32, first), tensor(b"b", [9], F32, second)]
    with pytest.raises(ModelFileError, match=r"offset of tensor '[ab]': expected data after the end of '[ab]' at"):
        read(listed, 200)
