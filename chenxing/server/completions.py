"""OpenAI's older protocol: POST /v1/completions."""

import math
import statistics
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from aiohttp import web

from chenxing.server.answers import Answer, Job, Step
from chenxing.server.chunks import Identity, ProgressReports
from chenxing.server.constraints import constraint_of, is_free
from chenxing.server.decoding import read_body
from chenxing.server.keys import SERVICE
from chenxing.server.native_form import native_form
from chenxing.server.prompts import raw_prompt
from chenxing.server.protocol.completion import CompletionRequest, prompts_of
from chenxing.server.protocol.sampling import sampling_params
from chenxing.server.service import Service, Wish
from chenxing.server.stream import respond
from chenxing.server.timings import predictions, timings, usage
from chenxing.server.token_probs import content_form, legacy_form
from chenxing.server.wishes import wish_of


async def completions(request: web.Request) -> web.StreamResponse:
    """Raw text, continued."""
    service = request.app[SERVICE]
    llm = service.model
    fields = await read_body(request, CompletionRequest)
    fields.check()
    params = sampling_params(fields, service.defaults, lambda text: llm.tokenize(text, add_special=False))
    parts = prompts_of(fields.prompt)
    prompts = await service.in_text_thread(lambda: [raw_prompt(llm, part) for part in parts])
    form = fields.form
    constraint = None if is_free(form) else await service.in_grammar_thread(lambda: constraint_of(llm, form))
    wish = wish_of(service, fields, params, fields.n_alternatives, constraint)
    if fields.n_candidates > wish.n:  # the best can only be told from the others by their probabilities
        wish = replace(wish, n=fields.n_candidates, n_alternatives=wish.n_alternatives or 0)
    job = service.submit(prompts, wish)
    writer = CompletionWriter(service, job, fields, wish)
    return await respond(request, service, job, writer, stream=bool(fields.stream))


class CompletionWriter:
    """Choices are numbered prompt by prompt."""

    says_done = True

    def __init__(self, service: Service, job: Job, fields: CompletionRequest, wish: Wish) -> None:
        self._service, self._job, self._fields, self._wish = service, job, fields, wish
        self._tokenizer = service.model.tokenizer
        self._identity = Identity(service.name, "cmpl")
        self._reports = ProgressReports(with_timings=bool(fields.timings_per_token))
        self._n_characters = [0] * len(job.answers)

    def whole(self) -> dict[str, Any]:
        choices = []
        for i, answer in enumerate(self._told()):
            assert answer.last
            probs = self._probs(answer.probs, 0)
            choices.append(_choice(i, answer.text, probs, answer.last.finish_reason))
        body = {
            "choices": choices,
            **self._identity.head("text_completion"),
            "usage": self._usage(),
            "timings": timings(self._job.answers[0].stats),
        }
        if self._fields.verbose or self._service.settings.has_prompts:
            body["__verbose"] = native_form(self._service, self._job.answers[0], 0, self._wish, stream=False)
        return body

    def chunks(self, step: Step) -> Iterator[dict[str, Any]]:
        head = self._identity.head("text_completion")
        if self._fields.return_progress:
            for members in self._reports.of(step):
                yield {"choices": [_choice(step.index, "", None, None)], **head} | members
        if step.text or step.probs:
            probs = self._probs(step.probs, self._n_characters[step.index])
            self._n_characters[step.index] += len(step.text)
            chunk = {"choices": [_choice(step.index, step.text, probs, None)], **head}
            yield chunk | ({"timings": timings(step.stats)} if self._fields.timings_per_token else {})
        if step.finish_reason:
            timed = {} if self._fields.includes_usage else {"timings": timings(step.stats)}
            yield {"choices": [_choice(step.index, "", None, step.finish_reason)], **head} | timed

    def tail(self) -> Iterator[dict[str, Any]]:
        if self._fields.includes_usage:
            head = self._identity.head("text_completion")
            yield {"choices": [], **head, "usage": self._usage(), "timings": timings(self._job.answers[0].stats)}

    def _told(self) -> list[Answer]:
        """Of the answers to each prompt the likeliest, by the mean log-probability of their tokens."""
        answers, n, n_told = self._job.answers, self._wish.n, self._fields.n_choices
        groups = [answers[first : first + n] for first in range(0, len(answers), n)]
        return [a for group in groups for a in (sorted(group, key=_unlikeliness)[:n_told] if n_told < n else group)]

    def _usage(self) -> dict[str, Any]:
        """Of all prompts; answers to one prompt stand together."""
        stats = [answer.stats for answer in self._job.answers]
        total = usage(stats[: self._wish.n])
        for first in range(self._wish.n, len(stats), self._wish.n):
            more = usage(stats[first : first + self._wish.n])
            for key in ("completion_tokens", "prompt_tokens", "total_tokens"):
                total[key] += more[key]
            total["prompt_tokens_details"]["cached_tokens"] += more["prompt_tokens_details"]["cached_tokens"]
        return total | predictions(stats)

    def _probs(self, probs: Any, offset: int) -> dict[str, Any] | None:
        """Both forms: OpenAI's parallel lists, and llama-server's `content`."""
        if self._fields.n_alternatives is None:
            return None
        told = content_form(probs, self._tokenizer, after_sampling=self._wish.after_sampling)
        return {"content": told, **legacy_form(probs, self._tokenizer, offset)}


def _unlikeliness(answer: Answer) -> float:
    return -statistics.fmean(p.value for p in answer.probs) if answer.probs else math.inf


def _choice(index: int, text: str, probs: Any, finish_reason: str | None) -> dict[str, Any]:
    return {"text": text, "index": index, "logprobs": probs, "finish_reason": finish_reason}
