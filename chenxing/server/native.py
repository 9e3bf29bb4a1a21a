"""llama-server's own completions: POST /completion and /infill."""

from collections.abc import Iterator, Sequence
from typing import Any

from aiohttp import web

from chenxing.server.answers import Encoded, Job, Step
from chenxing.server.chunks import ProgressReports
from chenxing.server.constraints import constraint_of, is_free
from chenxing.server.decoding import read_body
from chenxing.server.keys import SERVICE
from chenxing.server.native_form import native_form
from chenxing.server.prompts import infill_prompt, raw_prompt
from chenxing.server.protocol.completion import InfillRequest, NativeRequest, prompts_of
from chenxing.server.protocol.sampling import sampling_params
from chenxing.server.service import Service, Wish
from chenxing.server.stream import respond
from chenxing.server.timings import timings
from chenxing.server.token_probs import content_form
from chenxing.server.wishes import wish_of


async def completion(request: web.Request) -> web.StreamResponse:
    """Raw text or tokens, continued."""
    service = request.app[SERVICE]
    llm = service.model
    fields = await read_body(request, NativeRequest)
    fields.check()
    parts = prompts_of(fields.prompt)
    prompts = await service.in_text_thread(lambda: [raw_prompt(llm, part) for part in parts])
    return await _answer(request, service, fields, prompts)


async def infill(request: web.Request) -> web.StreamResponse:
    """What stands between a prefix and a suffix."""
    service = request.app[SERVICE]
    llm = service.model
    fields = await read_body(request, InfillRequest)
    fields.check()
    prompt = await service.in_text_thread(lambda: infill_prompt(llm, fields, service.n_ctx))
    return await _answer(request, service, fields, [prompt])


async def _answer(
    request: web.Request, service: Service, fields: NativeRequest | InfillRequest, prompts: Sequence[Encoded]
) -> web.StreamResponse:
    llm = service.model
    params = sampling_params(fields, service.defaults, lambda text: llm.tokenize(text, add_special=False))
    form = fields.form
    constraint = None if is_free(form) else await service.in_grammar_thread(lambda: constraint_of(llm, form))
    wish = wish_of(service, fields, params, fields.n_alternatives, constraint)
    job = service.submit(prompts, wish)
    writer = NativeWriter(service, job, fields, wish)
    return await respond(request, service, job, writer, stream=bool(fields.stream))


class NativeWriter:
    """Chunks with `stop` false, then one for each answer with `stop` true and everything about it."""

    says_done = False

    def __init__(self, service: Service, job: Job, fields: NativeRequest | InfillRequest, wish: Wish) -> None:
        self._service, self._job, self._fields, self._wish = service, job, fields, wish
        self._tokenizer = service.model.tokenizer
        self._reports = ProgressReports(with_timings=bool(fields.timings_per_token))

    def whole(self) -> Any:
        """One object, or a list of them where there are several answers."""
        forms = []
        for i, answer in enumerate(self._job.answers):
            form = native_form(self._service, answer, i, self._wish, stream=False)
            if self._fields.return_tokens:
                form["tokens"] = answer.tokens
            forms.append(_selected(form, self._fields.response_fields))
        return forms[0] if len(forms) == 1 else forms

    def chunks(self, step: Step) -> Iterator[dict[str, Any]]:
        if self._fields.return_progress:
            for members in self._reports.of(step):
                yield self._chunk(step, "", ()) | members
        if step.text or step.tokens:
            chunk = self._chunk(step, step.text, step.tokens)
            if self._fields.timings_per_token:
                chunk["timings"] = timings(step.stats)
            if self._wish.n_alternatives is not None:
                told = content_form(step.probs, self._tokenizer, after_sampling=self._wish.after_sampling)
                chunk["completion_probabilities"] = told
            yield chunk
        if step.finish_reason:
            answer = self._job.answers[step.index]
            form = native_form(self._service, answer, step.index, self._wish, stream=True)
            yield _selected(form, self._fields.response_fields)

    def tail(self) -> Iterator[dict[str, Any]]:
        return iter(())

    def _chunk(self, step: Step, text: str, tokens: Sequence[int]) -> dict[str, Any]:
        return {
            "index": step.index,
            "content": text,
            "tokens": list(tokens),
            "stop": False,
            "id_slot": self._service.slots.number(self._job.answers[step.index]),
            "tokens_predicted": step.stats.n_generated if tokens else 0,
            "tokens_evaluated": step.stats.n_prompt,
        }


def _selected(form: dict[str, Any], fields: list[str] | None) -> dict[str, Any]:
    """Only these members, where a/b is member b of member a, under that name."""
    if not fields:
        return form
    selected = {}
    for path in fields:
        value: Any = form
        for name in path.split("/"):
            value = value.get(name) if isinstance(value, dict) else None
        if value is not None:
            selected[path] = value
    return selected
