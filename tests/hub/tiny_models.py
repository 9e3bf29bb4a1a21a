"""Small GGUF files and wheels that carry them, generated."""

import base64
import hashlib
import zipfile
from pathlib import Path

import numpy as np
from gguf import GGMLQuantizationType, GGUFWriter, LlamaFileType

from chenxing.hub.builtin import BuiltinModel, WheelMember


def write_tiny_gguf(path: Path, *, n_rows: int = 64, seed: int = 1, template: str | None = None) -> bytes:
    """A llama file with n_rows x 256 random f32 (n_rows kB) and some Q8_0; returns its bytes."""
    path.parent.mkdir(parents=True, exist_ok=True)
    _write(GGUFWriter(path, "llama"), n_rows, seed, template)
    return path.read_bytes()


def write_tiny_shards(path: Path) -> dict[str, bytes]:
    """The same in two files, one for each tensor; returns their bytes by name."""
    path.parent.mkdir(parents=True, exist_ok=True)
    _write(GGUFWriter(path, "llama", split_max_tensors=1), 64, 1, None)
    return {file.name: file.read_bytes() for file in path.parent.glob(f"{path.stem}-0*.gguf")}


def _write(writer: GGUFWriter, n_rows: int, seed: int, template: str | None) -> None:
    rng = np.random.default_rng(seed)
    writer.add_name("Tiny")
    writer.add_license("MIT")
    writer.add_file_type(LlamaFileType.MOSTLY_Q8_0)
    writer.add_context_length(2048)
    writer.add_embedding_length(256)
    writer.add_block_count(3)
    writer.add_head_count(4)
    writer.add_head_count_kv([2, 2, 1])
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("smollm")
    writer.add_token_list(["a", "b", "c"])
    writer.add_float32("general.sampling.temp", 0.5)
    if template:
        writer.add_chat_template(template)
    writer.add_tensor("token_embd.weight", rng.standard_normal((n_rows, 256), np.float32))
    writer.add_tensor(
        "blk.0.attn_q.weight",
        rng.integers(0, 255, (4, 256 // 32 * 34), np.uint8),
        raw_dtype=GGMLQuantizationType.Q8_0,
    )
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def write_wheel(folder: Path, project: str, member: str, content: bytes) -> Path:
    """A valid wheel of `project` 1.0.0 that holds one file."""
    folder.mkdir(parents=True, exist_ok=True)
    package = project.replace("-", "_")
    info = f"{package}-1.0.0.dist-info"
    files = {
        member: content,
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {project}\nVersion: 1.0.0\n".encode(),
        f"{info}/WHEEL": b"Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = "".join(f"{name},sha256={_digest(data)},{len(data)}\n" for name, data in files.items())
    path = folder / f"{package}-1.0.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in files.items():
            archive.writestr(name, data)
        archive.writestr(f"{info}/RECORD", record + f"{info}/RECORD,,\n")
    return path


def builtin_of_wheels(folder: Path, name: str, content: bytes, n_parts: int, *, notice: str = "") -> BuiltinModel:
    """Writes `content` into n_parts wheels and returns the built-in model that they carry."""
    size = -(-len(content) // n_parts)
    parts = []
    for number in range(n_parts):
        project, member = f"{name}-part{number}", f"{name}_part{number}/data/model.part{number}"
        write_wheel(folder, project, member, content[number * size : (number + 1) * size])
        parts.append(WheelMember(f"{project}==1.0.0", member))
    sha256 = hashlib.sha256(content).hexdigest()
    return BuiltinModel(name, name.title(), tuple(parts), len(content), sha256, "MIT", notice)


def _digest(data: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
