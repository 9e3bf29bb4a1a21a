"""Counts and times of an answer in the forms of both protocols. Source: llama.cpp b11434, tools/server/README.md."""

from collections.abc import Sequence
from typing import Any

from chenxing.engine import Stats


def timings(stats: Stats, n_computed: int | None = None) -> dict[str, Any]:
    """llama-server's. n_computed: tokens of the prompt that are in the cache, while it is not done.

    Rates of what was generated leave the first token out, since it is the prompt's last step that brings it.
    """
    n_prompt = (stats.n_prompt if n_computed is None else n_computed) - stats.n_cached
    n_decoded = max(0, stats.n_generated - 1)
    prompt_ms = stats.prompt_ms if n_prompt > 0 else 0.0
    return {
        "cache_n": stats.n_cached,
        "prompt_n": n_prompt,
        "prompt_ms": prompt_ms,
        "prompt_per_token_ms": _ratio(prompt_ms, n_prompt),
        "prompt_per_second": 1000 * _ratio(n_prompt, prompt_ms),
        "predicted_n": stats.n_generated,
        "predicted_ms": stats.generation_ms,
        "predicted_per_token_ms": _ratio(stats.generation_ms, n_decoded),
        "predicted_per_second": 1000 * _ratio(n_decoded, stats.generation_ms),
        **_drafted(stats),
    }


def _drafted(stats: Stats) -> dict[str, int]:
    """Only where something was, as in llama-server."""
    drafts = stats.drafts
    return {"draft_n": drafts.n_tokens, "draft_n_accepted": drafts.n_accepted} if drafts.n_tokens else {}


def usage(all_stats: Sequence[Stats]) -> dict[str, Any]:
    """OpenAI's, of the answers to one prompt: the prompt counts once."""
    n_prompt, n_cached = all_stats[0].n_prompt, all_stats[0].n_cached
    n_generated = sum(stats.n_generated for stats in all_stats)
    return {
        "completion_tokens": n_generated,
        "prompt_tokens": n_prompt,
        "total_tokens": n_prompt + n_generated,
        "prompt_tokens_details": {"cached_tokens": n_cached},
        **predictions(all_stats),
    }


def predictions(all_stats: Sequence[Stats]) -> dict[str, Any]:
    """OpenAI's completion_tokens_details, where anything was drafted."""
    n_drafted = sum(stats.drafts.n_tokens for stats in all_stats)
    n_accepted = sum(stats.drafts.n_accepted for stats in all_stats)
    details = {"accepted_prediction_tokens": n_accepted, "rejected_prediction_tokens": n_drafted - n_accepted}
    return {"completion_tokens_details": details} if n_drafted else {}


def progress(stats: Stats, n_computed: int) -> dict[str, Any]:
    """llama-server's prompt_progress."""
    return {
        "total": stats.n_prompt,
        "cache": stats.n_cached,
        "processed": n_computed,
        "time_ms": int(stats.prompt_ms) if n_computed > stats.n_cached else 0,
    }


def _ratio(x: float, y: float) -> float:
    return x / y if y else 0.0
