"""OpenAI's chat: POST /v1/chat/completions, and how many tokens its prompt has."""

from collections.abc import Iterator
from typing import Any

from aiohttp import web

from chenxing.server.answers import Answer, Job, Step
from chenxing.server.chunks import Identity, ProgressReports
from chenxing.server.decoding import read_body
from chenxing.server.keys import SERVICE
from chenxing.server.native_form import native_form
from chenxing.server.prompts import chat_text, encoded
from chenxing.server.protocol.chat import ChatRequest
from chenxing.server.protocol.sampling import sampling_params
from chenxing.server.service import Service, Wish
from chenxing.server.stream import json_response, respond
from chenxing.server.timings import timings, usage
from chenxing.server.token_probs import content_form
from chenxing.server.wishes import wish_of


async def chat_completions(request: web.Request) -> web.StreamResponse:
    """The assistant's next message."""
    service = request.app[SERVICE]
    llm = service.model
    fields = await read_body(request, ChatRequest)
    fields.check()
    params = sampling_params(fields, service.defaults, lambda text: llm.tokenize(text, add_special=False))
    kwargs = service.settings.template_kwargs
    prompt = await service.in_text_thread(lambda: encoded(llm, chat_text(llm, fields, kwargs, None)))
    wish = wish_of(service, fields, params, fields.n_alternatives)
    job = service.submit([prompt], wish)
    writer = ChatWriter(service, job, fields, wish)
    return await respond(request, service, job, writer, stream=bool(fields.stream))


async def count_tokens(request: web.Request) -> web.Response:
    """How many tokens the prompt of these messages has."""
    service = request.app[SERVICE]
    llm = service.model
    fields = await read_body(request, ChatRequest)
    kwargs = service.settings.template_kwargs
    tools = fields.offered_tools
    prompt = await service.in_text_thread(lambda: encoded(llm, chat_text(llm, fields, kwargs, tools)))
    return json_response({"input_tokens": len(prompt.ids), "object": "response.input_tokens"})


class ChatWriter:
    """Chunks of one chat: role first, then content, then the reason why it ended, and usage if it is asked for."""

    says_done = True

    def __init__(self, service: Service, job: Job, fields: ChatRequest, wish: Wish) -> None:
        self._service, self._job, self._fields, self._wish = service, job, fields, wish
        self._tokenizer = service.model.tokenizer
        self._identity = Identity(service.name)
        self._reports = ProgressReports(with_timings=bool(fields.timings_per_token))
        self._introduced: set[int] = set()

    def whole(self) -> dict[str, Any]:
        answers = self._job.answers
        body = {
            "choices": [self._choice(i, answer) for i, answer in enumerate(answers)],
            **self._identity.head("chat.completion"),
            "usage": usage([answer.stats for answer in answers]),
            "timings": timings(answers[0].stats),
        }
        if self._fields.verbose or self._service.settings.has_prompts:
            body["__verbose"] = native_form(self._service, answers[0], 0, self._wish, stream=False)
        return body

    def chunks(self, step: Step) -> Iterator[dict[str, Any]]:
        if self._fields.return_progress:
            for members in self._reports.of(step):
                yield self._chunk(step.index, {"role": "assistant", "content": None}) | members
        if step.index not in self._introduced and (step.tokens or step.finish_reason):
            self._introduced.add(step.index)
            yield self._chunk(step.index, {"role": "assistant", "content": None})
        timed = {"timings": timings(step.stats)}
        if step.text or step.probs:
            chunk = self._chunk(step.index, {"content": step.text})
            if self._wish.n_alternatives is not None:
                chunk["choices"][0]["logprobs"] = {"content": self._probs(step.probs)}
            yield chunk | (timed if self._fields.timings_per_token else {})
        if step.finish_reason:
            is_end = not self._fields.includes_usage or self._fields.timings_per_token
            yield self._chunk(step.index, {}, step.finish_reason) | (timed if is_end else {})

    def tail(self) -> Iterator[dict[str, Any]]:
        if self._fields.includes_usage:
            stats = [answer.stats for answer in self._job.answers]
            head = self._identity.head("chat.completion.chunk")
            yield {"choices": [], **head, "usage": usage(stats), "timings": timings(stats[0])}

    def _chunk(self, index: int, delta: dict[str, Any], finish_reason: str | None = None) -> dict[str, Any]:
        choice = {"finish_reason": finish_reason, "index": index, "delta": delta}
        return {"choices": [choice], **self._identity.head("chat.completion.chunk")}

    def _choice(self, index: int, answer: Answer) -> dict[str, Any]:
        assert answer.last
        message = {"role": "assistant", "content": answer.text}
        choice: dict[str, Any] = {"finish_reason": answer.last.finish_reason, "index": index, "message": message}
        if self._wish.n_alternatives is not None:
            choice["logprobs"] = {"content": self._probs(answer.probs)}
        return choice

    def _probs(self, probs: Any) -> list[dict[str, Any]]:
        return content_form(probs, self._tokenizer, after_sampling=self._wish.after_sampling)
