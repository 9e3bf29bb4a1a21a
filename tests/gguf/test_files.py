import errno
import io
import mmap
import os
import pickle
import struct
import zipfile

import pytest
from handmade import gguf_file

from chenxing.errors import ModelFileError, OutOfMemoryError
from chenxing.gguf.files import listed, map_file


def sentence(path) -> str:
    """What map_file says of a path that it refuses, without the path."""
    with pytest.raises(ModelFileError) as e:
        map_file(path)
    assert str(e.value).startswith(f"{path}: file: expected ")
    return str(e.value).removeprefix(f"{path}: file: expected ")


def zipped() -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("archive/data.pkl", b"x")
    return buffer.getvalue()


LFS_POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:" + b"0" * 64 + b"\nsize 98362432\n"
SAFETENSORS_HEADER = b'{"w":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}'

CONTENTS = {
    "git-LFS": (LFS_POINTER, "a GGUF file, found a git-LFS pointer, not the model itself. Run `git lfs pull`"),
    "empty": (b"", "a GGUF file, found an empty file. The download failed: fetch it again"),
    "safetensors": (
        struct.pack("<Q", len(SAFETENSORS_HEADER)) + SAFETENSORS_HEADER + bytes(4),
        "a GGUF file, found a safetensors file. Convert the model with llama.cpp's convert_hf_to_gguf.py",
    ),
    "zip": (zipped(), "a GGUF file, found a zip archive, as PyTorch checkpoints (.pt, .pth, .bin) are. Convert"),
    "pickle": (pickle.dumps({"w": 1}), "a GGUF file, found a Python pickle (an old PyTorch checkpoint). Convert"),
    "ggml": (struct.pack("<I", 0x67676D6C), "a GGUF file, found an old GGML file. GGUF replaced this format in 2023"),
    "ggmf": (struct.pack("<II", 0x67676D66, 1), "a GGUF file, found an old GGMF file. GGUF replaced"),
    "ggjt": (struct.pack("<II", 0x67676A74, 3), "a GGUF file, found an old GGJT file. GGUF replaced"),
    "ggla": (struct.pack("<II", 0x67676C61, 1), "a GGUF file, found an old GGLA adapter. GGUF replaced"),
    "gzip": (b"\x1f\x8b\x08\0", "a GGUF file, found a gzip archive. Unpack it first"),
    "page": (b"<!DOCTYPE html><html>", "a GGUF file, found a web page. The download got a page instead"),
    "link": (b"../../blobs/0123", "a GGUF file, found the text of a symbolic link, not what it points to. The copy"),
    "json": (b'{"architectures": []}', "a GGUF file, found a JSON file. Give the .gguf file"),
    "zeros": (bytes(4096), "a GGUF file, found zero bytes at its beginning. The download was interrupted"),
    "text": (b"hello world", "a GGUF file, found a file that begins with the bytes 68 65 6c 6c 6f 20 77 6f. It is"),
    "short": (b"GG", "a GGUF file, found a file that begins with the bytes 47 47. It is damaged"),
}  # fmt: skip


@pytest.mark.parametrize("kind", CONTENTS)
def test_what_a_file_is_instead(kind, tmp_path):
    content, expected = CONTENTS[kind]
    path = tmp_path / "model.gguf"
    path.write_bytes(content)
    assert sentence(path).startswith(expected)


def test_missing(tmp_path):
    assert sentence(tmp_path / "no.gguf") == "a GGUF file, found no such file. Check the spelling"


def test_directories_name_what_is_in_them(tmp_path):
    assert sentence(tmp_path) == "a GGUF file, found a directory. There is no .gguf file in it"
    for name in ("b.gguf", "a.gguf", "config.json"):
        (tmp_path / name).touch()
    assert sentence(tmp_path) == "a GGUF file, found a directory. Give a file in it: a.gguf, b.gguf"


def test_a_broken_link_names_its_target(tmp_path):
    path = tmp_path / "model.gguf"
    try:
        path.symlink_to("blob")
    except OSError:
        pytest.skip("this user may not make links")
    assert sentence(path) == "a GGUF file, found a link to blob, which does not exist. Fetch the model again"


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes in this file system")
def test_a_pipe_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    assert sentence(tmp_path / "pipe").startswith("a GGUF file, found a device, pipe or socket")


def test_paths_that_no_system_takes(tmp_path):
    assert sentence(tmp_path / "a\0b").startswith("a readable file, found ")
    with pytest.raises(ModelFileError):
        map_file(tmp_path / ("x" * 5000))


def test_a_gguf_file_is_mapped(tmp_path):
    path = tmp_path / "model.gguf"
    path.write_bytes(gguf_file())
    with map_file(path) as mapping:
        assert mapping[:] == gguf_file()


def test_listed():
    assert listed(["a"]) == "a"
    assert listed([*"abcde"]) == "a, b, c, d, e"
    assert listed([*"abcdefg"]) == "a, b, c, d, e and 2 more"


def test_too_little_memory_is_no_fault_of_the_file(tmp_path, monkeypatch):
    def refuse(*args, **kwargs):
        raise OSError(errno.ENOMEM, os.strerror(errno.ENOMEM))

    path = tmp_path / "a.gguf"
    path.write_bytes(gguf_file())
    monkeypatch.setattr(mmap, "mmap", refuse)
    with pytest.raises(OutOfMemoryError, match=r"a\.gguf: there is no room for a file of \d+ bytes"):
        map_file(path)
