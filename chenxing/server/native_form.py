"""An answer in llama-server's own form. Source: llama.cpp b11434, tools/server/README.md."""

import math
from typing import Any

from chenxing.sampling import SamplingParams
from chenxing.server.answers import Answer
from chenxing.server.protocol.sampling import RENAMED
from chenxing.server.service import Service, Wish
from chenxing.server.timings import timings
from chenxing.server.token_probs import content_form

_OURS = (
    *("seed", "temperature", "dynatemp_range", "dynatemp_exponent", "top_k", "top_p", "min_p", "top_n_sigma"),
    *("xtc_probability", "xtc_threshold", "typical_p", "repeat_last_n", "repeat_penalty", "presence_penalty"),
    *("frequency_penalty", "dry_multiplier", "dry_base", "dry_allowed_length", "dry_penalty_last_n"),
    *("mirostat", "mirostat_tau", "mirostat_eta", "min_keep", "ignore_eos"),
)


def settings_form(
    service: Service, params: SamplingParams, wish: Wish | None = None, *, stream: bool = False
) -> dict[str, Any]:
    """generation_settings. A bias of null is minus infinity, which JSON cannot spell."""
    form: dict[str, Any] = {name: getattr(params, RENAMED.get(name, name)) for name in _OURS}
    n_predict = -1 if wish is None or wish.max_tokens is None else wish.max_tokens
    biases: dict[int, float | None] = {t: b if math.isfinite(b) else None for t, b in params.logit_bias}
    if params.ignore_eos:
        biases |= dict.fromkeys(sorted(service.model.tokenizer.eog_ids))
    return form | {
        "dry_sequence_breakers": list(params.dry_sequence_breakers),
        "samplers": list(params.samplers),
        "adaptive_target": -1.0,  # off: there is no such sampler
        "adaptive_decay": 0.9,
        "stop": list(wish.stop) if wish else [],
        "max_tokens": n_predict,
        "n_predict": n_predict,
        "n_keep": wish.n_keep if wish else service.settings.n_keep,
        "n_discard": 0,
        "stream": stream,
        "logit_bias": [{"token": token, "bias": bias} for token, bias in biases.items()],
        "n_probs": (wish.n_alternatives if wish else None) or 0,
        "post_sampling_probs": bool(wish and wish.after_sampling),
        "grammar": "",
        "speculative.types": service.settings.spec_type,
        "lora": [],
    }


def native_form(service: Service, answer: Answer, index: int, wish: Wish, *, stream: bool) -> dict[str, Any]:
    """The whole answer; of a stream, its last chunk, whose content has been sent."""
    last, stats = answer.last, answer.stats
    assert last
    kind, word = stop_of(service, answer, wish)
    tokenizer = service.model.tokenizer
    n_used = stats.n_prompt + stats.n_generated
    form = {
        "index": index,
        "content": "" if stream else answer.text,
        "tokens": [],
        "id_slot": service.slots.number(answer),
        "stop": True,
        "model": service.name,
        "tokens_predicted": stats.n_generated,
        "tokens_evaluated": stats.n_prompt,
        "generation_settings": settings_form(service, wish.params, wish, stream=stream),
        "prompt": tokenizer.join(answer.prompt.ids, special=True).decode(errors="replace"),
        "has_new_line": "\n" in answer.text,
        "truncated": n_used > service.n_ctx or (last.finish_reason == "length" and n_used == service.n_ctx),
        "stop_type": kind,
        "stopping_word": word,
        "tokens_cached": len(answer.request.ids) - (stats.n_generated > 0),
        "timings": timings(stats),
    }
    if wish.n_alternatives is not None and not stream:
        form["completion_probabilities"] = content_form(answer.probs, tokenizer, after_sampling=wish.after_sampling)
    return form


def stop_of(service: Service, answer: Answer, wish: Wish) -> tuple[str, str]:
    """Why it ended: ("limit" | "word" | "eos", the word)."""
    assert answer.last
    if answer.last.finish_reason == "length":
        return "limit", ""
    text = service.model.tokenizer.join(answer.tokens).decode(errors="replace")
    found = [(text.find(word), word) for word in wish.stop if word in text]
    return ("word", min(found)[1]) if found else ("eos", "")
