"""How much memory does a process hold that has computed a prompt? python -m benchmarks.memory MODEL prints ours."""

import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from benchmarks.answer import Answer
from benchmarks.case import BenchModel
from benchmarks.race import Race

TITLE = "Memory"
NOTE = (
    "Resident MiB, mapped files included, after a prompt of 512 tokens in a context of 4,096; expected: the model file "
    "and the KV of 512 tokens. The second start, so that packed weights are mapped."
)
N_PROMPT, N_CTX, GOAL = 512, 4096, 1.15
_MIB = 2**20


def ask(models: Sequence[BenchModel], threads: Sequence[int], race: Race) -> Iterator[Answer]:
    if not Path("/proc/self/status").exists():
        yield Answer({"model": "skipped: needs Linux"}, {})
        return
    for model in models:
        command = [sys.executable, "-m", "benchmarks.memory", str(model.path), str(max(threads))]
        race.output(command)
        held = json.loads(race.output(command))
        size = model.path.stat().st_size
        expected = size + held["kv_bytes"]
        cells = {
            "model": model.label,
            "file": f"{size / _MIB:.0f}",
            "KV": f"{held['kv_bytes'] / _MIB:.0f}",
            "anonymous": f"{held['RssAnon'] / _MIB:.0f}",
            "mapped": f"{held['RssFile'] / _MIB:.0f}",
            "of expected": f"{held['VmRSS'] / expected:.2f} x",
            "goal": f"{GOAL:.2f} x",
        }
        yield Answer(cells, {"model": model.label, "file_bytes": size, **held})


def _held(path: str, n_threads: int) -> dict[str, int]:
    """Bytes that this process holds after a prompt, and those of its KV."""
    from chenxing import LLM

    with LLM.load(path, n_ctx=N_CTX, n_threads=n_threads, disk_cache=False) as llm:
        ids = [i % llm.n_vocab for i in range(N_PROMPT)]
        llm.logits(ids, N_PROMPT - 1)
        lines = Path("/proc/self/status").read_text().splitlines()
        fields = dict(line.split(":", 1) for line in lines)
        held = {name: int(fields[name].split()[0]) * 1024 for name in ("VmRSS", "RssAnon", "RssFile")}
        return {**held, "kv_bytes": _kv_bytes(path)}


def _kv_bytes(path: str) -> int:
    from chenxing.gguf import open_gguf
    from chenxing.kernels.layout import PAGE
    from chenxing.models.model import page_bytes, read_model

    return page_bytes(read_model(open_gguf(path))) * N_PROMPT // PAGE


if __name__ == "__main__":
    print(json.dumps(_held(sys.argv[1], int(sys.argv[2]))))
