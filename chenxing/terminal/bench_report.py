"""Results of `chenxing bench`: a Markdown table with llama-bench's columns, or JSON with its keys and more.

A figure is the median of the repetitions; llama-bench prints the mean and the standard deviation, which the JSON has
too.
"""

import json
import statistics
from collections.abc import Iterable, Sequence
from typing import Any

from chenxing import __version__
from chenxing.hub.describe import ModelDescription
from chenxing.terminal.bench import Result

Columns = Sequence[tuple[str, int]]

_COLUMNS = (
    ("model", -1), ("size", 1), ("params", 1), ("backend", -1), ("threads", 1), ("test", 1),
    ("t/s: median (min..max)", 1), ("GB/s", 1), ("plain read", 1), ("GMAC/s", 1),
)  # fmt: skip
_WIDTHS = (24, 10, 10, 10, 7, 16, 24, 7, 10, 7)


def table_head() -> list[str]:
    """Two lines: the columns' names, and how they are aligned."""
    return head(_COLUMNS, _WIDTHS)


def head(columns: Columns, widths: Sequence[int]) -> list[str]:
    """Two lines of any table: columns' names, right-aligned where the number beside is above 0."""
    rules = ["-" * w if side < 0 else "-" * (w - 1) + ":" for (_, side), w in zip(columns, widths, strict=True)]
    return [row([name for name, _ in columns], columns, widths), f"| {' | '.join(rules)} |"]


def row(cells: Sequence[str], columns: Columns, widths: Sequence[int]) -> str:
    """A line of any table."""
    sides = (side for _, side in columns)
    padded = (c.ljust(w) if side < 0 else c.rjust(w) for c, side, w in zip(cells, sides, widths, strict=True))
    return f"| {' | '.join(padded)} |"


def model_type(model: ModelDescription) -> str:
    """As in llama 1.2B Q4_K_M."""
    return f"{model.architecture} {_count(model.n_params)} {model.quant}"


def table_row(model: ModelDescription, result: Result) -> str:
    low, high = min(result.rates), max(result.rates)
    cells = [
        model_type(model),
        _size(_tensor_bytes(model)),
        f"{model.n_params / 1e6:.2f} M" if model.n_params < 1e9 else f"{model.n_params / 1e9:.2f} B",
        result.isa,
        str(result.n_threads),
        result.test.label,
        f"{statistics.median(result.rates):.2f} ({low:.2f}..{high:.2f})",
        _giga(_weights_rate(result)),
        _giga(statistics.median(result.read_rates)),
        _giga(_mac_rate(result)),
    ]
    return row(cells, _COLUMNS, _WIDTHS)


def to_json(model: ModelDescription, results: Iterable[Result]) -> str:
    """A list with an object for each result. Keys that llama-bench has mean the same here; rates are per second.

    median_ts, min_ts, max_ts   tokens
    read_bytes_per_s            bytes of weights and KV that single tokens read, null for prompts
    plain_read_bytes_per_s      what the same threads read from a plain buffer, before each repetition: the median
    macs_per_s                  multiply-adds of a prompt with weights and in attention, null for single tokens
    """
    return json.dumps([_object(model, result) for result in results], indent=2)


def _object(model: ModelDescription, result: Result) -> dict[str, Any]:
    rates, test = result.rates, result.test
    nanoseconds = [round(s * 1e9) for s in result.seconds]
    return {
        "build": f"chenxing {__version__}",
        "backends": result.isa,
        "model_filename": str(model.paths[0]),
        "model_type": model_type(model),
        "model_size": _tensor_bytes(model),
        "model_n_params": model.n_params,
        "n_threads": result.n_threads,
        "n_prompt": test.n_prompt,
        "n_gen": test.n_gen,
        "n_depth": test.n_depth,
        "avg_ns": round(statistics.mean(nanoseconds)),
        "stddev_ns": round(_deviation(nanoseconds)),
        "avg_ts": statistics.mean(rates),
        "stddev_ts": _deviation(rates),
        "median_ts": statistics.median(rates),
        "min_ts": min(rates),
        "max_ts": max(rates),
        "read_bytes_per_s": _weights_rate(result),
        "plain_read_bytes_per_s": statistics.median(result.read_rates),
        "macs_per_s": _mac_rate(result),
        "samples_ns": nanoseconds,
        "samples_ts": rates,
    }


def _weights_rate(result: Result) -> float | None:
    return result.bytes / statistics.median(result.seconds) if result.bytes else None


def _mac_rate(result: Result) -> float | None:
    return result.macs / statistics.median(result.seconds) if result.macs else None


def _deviation(values: list[Any]) -> float:
    return statistics.stdev(values) if len(values) > 1 else 0.0


def _tensor_bytes(model: ModelDescription) -> int:
    return sum(share.n_bytes for share in model.types)


def _giga(value: float | None) -> str:
    return "" if value is None else f"{value / 1e9:.1f}"


def _count(n: int) -> str:
    return f"{n / 1e9:.1f}B" if n >= 1e9 else f"{n / 1e6:.0f}M"


def _size(n_bytes: int) -> str:
    return f"{n_bytes / 2**30:.2f} GiB" if n_bytes >= 2**30 else f"{n_bytes / 2**20:.2f} MiB"
