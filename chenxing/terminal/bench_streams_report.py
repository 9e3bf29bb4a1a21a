"""Results of `chenxing bench --prompts`: a Markdown table, or JSON."""

import json
from collections.abc import Iterable

from chenxing import __version__
from chenxing.hub.describe import ModelDescription
from chenxing.terminal.bench_report import head, model_type, row
from chenxing.terminal.bench_streams import StreamsResult

_COLUMNS = (
    ("model", -1), ("backend", 1), ("threads", 1), ("streams", 1), ("in", 1), ("out", 1), ("prompts t/s", 1),
    ("together t/s", 1), ("a stream t/s", 1), ("first token ms (last)", 1), ("next token ms (95 %)", 1),
)  # fmt: skip
_WIDTHS = (24, 10, 7, 7, 6, 6, 11, 12, 12, 21, 20)


def streams_head() -> list[str]:
    """Two lines: the columns' names, and how they are aligned."""
    return head(_COLUMNS, _WIDTHS)


def streams_row(model: ModelDescription, result: StreamsResult) -> str:
    s, f = result.streams, result.figures()
    cells = [
        model_type(model),
        result.isa,
        *(str(n) for n in (result.n_threads, s.n_streams, s.n_prompt, s.n_gen)),
        f"{f['prompt_ts']:.1f}",
        f"{f['total_ts']:.1f}",
        f"{f['stream_ts']:.1f}" if s.n_gen > 1 else "",
        f"{f['first_ms']:.0f} ({f['first_max_ms']:.0f})",
        f"{f['gap_ms']:.1f} ({f['gap_p95_ms']:.1f})" if s.n_gen > 1 else "",
    ]
    return row(cells, _COLUMNS, _WIDTHS)


def streams_json(model: ModelDescription, results: Iterable[StreamsResult]) -> str:
    """A list with an object for each result: what was asked for, and the figures of StreamsResult.figures."""
    return json.dumps(
        [
            {
                "build": f"chenxing {__version__}",
                "backends": r.isa,
                "model_filename": str(model.paths[0]),
                "model_type": model_type(model),
                "n_threads": r.n_threads,
                "n_streams": r.streams.n_streams,
                "n_prompt": r.streams.n_prompt,
                "n_gen": r.streams.n_gen,
                **r.figures(),
            }
            for r in results
        ],
        indent=2,
    )
