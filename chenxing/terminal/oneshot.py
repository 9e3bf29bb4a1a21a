"""One prompt, one answer: `chenxing run MODEL -p TEXT`, with a file, or with piped text."""

import json
import sys
from typing import TYPE_CHECKING

from chenxing.terminal.answer import show_answer
from chenxing.terminal.progress import ProgressLine
from chenxing.terminal.render import Screen
from chenxing.terminal.session import Session
from chenxing.terminal.stats import stats_line, stop_note, timings

if TYPE_CHECKING:
    from chenxing.engine import Generation

_INTERRUPTED = 130


def answer_once(session: Session, prompt: str, progress: ProgressLine, *, verbose: bool) -> int:
    """Streams the answer to stdout; says on stderr why it is cut off, with `verbose` also how fast it was."""
    writer = Screen(sys.stdout).writer(markdown=not session.raw, reasoning_opened=session.reasoning_opened)
    generation = session.ask(prompt, progress.prefill)
    show_answer(generation, writer, progress)
    if verbose:
        note = stop_note(generation, session.options.max_tokens)
        print(f"{note} · " * bool(note) + stats_line(generation.stats), file=sys.stderr)
    return _exit_code(generation)


def answer_as_json(session: Session, prompt: str, progress: ProgressLine, *, model: str, load_ms: float) -> int:
    """Prints one JSON object for the whole answer: token counts, why it ended, the text, the timings."""
    generation = session.ask(prompt, progress.prefill)
    show_answer(generation, None, progress)
    stats = generation.stats
    body = {
        "model": model,
        "prompt_tokens": stats.n_prompt,
        "cached_tokens": stats.n_cached,
        "completion_tokens": stats.n_generated,
        "finish_reason": generation.finish_reason,
        "text": generation.text,
        "timings": {"load_ms": round(load_ms, 3)} | timings(stats),
    }
    print(json.dumps(body, ensure_ascii=False))
    return _exit_code(generation)


def _exit_code(generation: "Generation") -> int:
    return _INTERRUPTED if generation.finish_reason == "cancelled" else 0
