"""What is said about an answer's tokens and speed."""

from typing import TYPE_CHECKING, Any

from chenxing.hub.disk import human_bytes

if TYPE_CHECKING:
    from chenxing.engine import Generation, Stats
    from chenxing.kvcache import CacheStats
    from chenxing.terminal.session import Session


def stats_line(stats: "Stats") -> str:
    """`prompt 320 tokens (300 cached, 256 from disk) 812 tok/s · answer 120 tokens 94.3 tok/s`.

    Speeds are of what was computed; what is cached and not from disk was in memory.
    """
    disk = f", {stats.n_from_disk} from disk" if stats.n_from_disk else ""
    cached = f" ({stats.n_cached} cached{disk})" if stats.n_cached else ""
    prompt = f"prompt {_tokens(stats.n_prompt)}{cached}{_speed(stats.prompt_per_second)}"
    return f"{prompt} · answer {_tokens(stats.n_generated)}{_speed(stats.generated_per_second)}{_drafts(stats)}"


def _drafts(stats: "Stats") -> str:
    drafts = stats.drafts
    if not drafts.n_tokens:
        return ""
    off = "; mostly off, since it would lose time" if drafts.are_mostly_off else ""
    return f" ({drafts.n_accepted} of {drafts.n_tokens} drafted tokens accepted{off})"


def stop_note(generation: "Generation", max_tokens: int | None) -> str | None:
    """Why an answer ended before the model ended it; None when it is whole."""
    if generation.finish_reason == "cancelled":
        return "stopped"
    if generation.finish_reason != "length":
        return None
    if max_tokens is not None and generation.stats.n_generated >= max_tokens:
        return f"cut off after {_tokens(max_tokens)} (-n)"
    return "cut off: the context is full"


def session_report(session: "Session") -> str:
    """Several lines about the model, the last answer and the whole session."""
    llm, answers = session.llm, session.answers
    lines = [
        f"model    {llm.path.name} ({llm.gguf.architecture})",
        f"context  {_tokens(llm.n_ctx)} of {llm.n_ctx_train} trained",
        f"machine  {llm.isa}, {llm.n_threads} thread{'s' * (llm.n_threads != 1)}",
    ]
    if answers:
        stats = [answer.stats for answer in answers]
        used = stats[-1].n_prompt + stats[-1].n_generated
        lines += [
            f"last     {stats_line(stats[-1])}",
            f"session  {len(answers)} answer{'s' * (len(answers) != 1)}, {_tokens(sum(s.n_generated for s in stats))}"
            f" generated, {_tokens(sum(s.n_cached for s in stats))} of the prompts found in the cache",
            f"cache    {_kept(llm.cache_stats)}",
            f"filled   {used} of {llm.n_ctx} tokens ({used / llm.n_ctx:.0%})",
        ]
    return "\n".join(lines)


def timings(stats: "Stats") -> dict[str, Any]:
    """The figures under the names of llama-server's `timings`: prompt_n counts what was computed, cache_n the rest.

    cache_disk_n of the latter were on disk alone.
    """
    drafts = stats.drafts
    return {
        "cache_n": stats.n_cached,
        "cache_disk_n": stats.n_from_disk,
        "prompt_n": stats.n_prompt - stats.n_cached,
        "prompt_ms": round(stats.prompt_ms, 3),
        "prompt_per_second": round(stats.prompt_per_second, 3),
        "predicted_n": stats.n_generated,
        "predicted_ms": round(stats.generation_ms, 3),
        "predicted_per_second": round(stats.generated_per_second, 3),
    } | ({"draft_n": drafts.n_tokens, "draft_n_accepted": drafts.n_accepted} if drafts.n_tokens else {})


def _kept(stats: "CacheStats") -> str:
    """`1200 tokens of prompts and answers, 53.5 MB in memory, 48.1 MB on disk`"""
    disk = f"{human_bytes(stats.n_bytes_disk)} on disk" if stats.n_bytes_disk else "nothing on disk"
    return f"{_tokens(stats.n_tokens)} of prompts and answers, {human_bytes(stats.n_bytes_ram)} in memory, {disk}"


def _tokens(n: int) -> str:
    return "1 token" if n == 1 else f"{n} tokens"


def _speed(tokens_per_second: float) -> str:
    if not tokens_per_second:
        return ""
    return f" {tokens_per_second:.0f} tok/s" if tokens_per_second >= 100 else f" {tokens_per_second:.3g} tok/s"
