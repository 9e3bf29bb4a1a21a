"""OpenAI's chat: POST /v1/chat/completions, and how many tokens its prompt has."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from random import Random
from typing import Any

from aiohttp import web

from chenxing.chat.tools import AnswerParser, CallStart, Reasoning, ToolPrompt, finish_reason
from chenxing.server.answers import Answer, Encoded, Job, Step
from chenxing.server.chunks import Identity, ProgressReports
from chenxing.server.constraints import constraint_of, is_free
from chenxing.server.decoding import read_body
from chenxing.server.keys import SERVICE
from chenxing.server.native_form import native_form
from chenxing.server.prompts import chat_prompt, encoded
from chenxing.server.protocol.chat import ChatRequest
from chenxing.server.protocol.sampling import sampling_params
from chenxing.server.said import delta_of, message_of
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
    form = fields.form
    params = sampling_params(fields, service.defaults, lambda text: llm.tokenize(text, add_special=False))
    prompt, ids = await service.in_text_thread(lambda: _read(service, fields))
    free = is_free(form, prompt)
    constraint = None if free else await service.in_grammar_thread(lambda: constraint_of(llm, form, prompt))
    wish = wish_of(service, fields, params, fields.n_alternatives, constraint)
    job = service.submit([ids], wish)
    writer = ChatWriter(service, job, fields, wish, prompt)
    return await respond(request, service, job, writer, stream=bool(fields.stream))


async def count_tokens(request: web.Request) -> web.Response:
    """How many tokens the prompt of these messages has."""
    service = request.app[SERVICE]
    assert service.model
    fields = await read_body(request, ChatRequest)
    _, ids = await service.in_text_thread(lambda: _read(service, fields))
    return json_response({"input_tokens": len(ids.ids), "object": "response.input_tokens"})


def _read(service: Service, fields: ChatRequest) -> tuple[ToolPrompt, Encoded]:
    prompt = chat_prompt(service, fields)
    return prompt, encoded(service.model, prompt.prompt)


class ChatWriter:
    """Chunks of one chat: role first, then what is said, then the reason why it ended, and usage if it is asked for."""

    says_done = True

    def __init__(self, service: Service, job: Job, fields: ChatRequest, wish: Wish, prompt: ToolPrompt) -> None:
        self._service, self._job, self._fields, self._wish = service, job, fields, wish
        self._tokenizer = service.model.tokenizer
        self._identity = Identity(service.name)
        self._reports = ProgressReports(with_timings=bool(fields.timings_per_token))
        shows_tags = fields.reasoning_format == "none"
        self._prompt = replace(prompt, reasoning=Reasoning.NONE) if shows_tags else prompt
        self._parsers: dict[int, AnswerParser] = {}
        self._n_calls: Counter[int] = Counter()

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
        if step.index not in self._parsers and (step.tokens or step.finish_reason):
            self._parsers[step.index] = self._prompt.parser(Random())
            yield self._chunk(step.index, {"role": "assistant", "content": None})
        timed = {"timings": timings(step.stats)}
        for chunk in self._said(step):
            yield chunk | (timed if self._fields.timings_per_token else {})
        if step.finish_reason:
            is_end = not self._fields.includes_usage or self._fields.timings_per_token
            why = finish_reason(step.finish_reason, self._n_calls[step.index])
            yield self._chunk(step.index, {}, why) | (timed if is_end else {})

    def tail(self) -> Iterator[dict[str, Any]]:
        if self._fields.includes_usage:
            stats = [answer.stats for answer in self._job.answers]
            head = self._identity.head("chat.completion.chunk")
            yield {"choices": [], **head, "usage": usage(stats), "timings": timings(stats[0])}

    def _said(self, step: Step) -> Iterator[dict[str, Any]]:
        """A chunk for each piece of what the step's text turns out to be; the first one has what is told of tokens."""
        parser = self._parsers.get(step.index)
        events = parser.feed(step.text) if parser else []
        events += parser.finish() if parser and step.finish_reason else []
        deltas = [delta for delta in map(delta_of, events) if delta is not None]
        self._n_calls[step.index] += sum(isinstance(event, CallStart) for event in events)
        if not deltas and step.probs:
            deltas = [{"content": ""}]  # the text is held back, its tokens are not
        for i, delta in enumerate(deltas):
            chunk = self._chunk(step.index, delta)
            if self._wish.n_alternatives is not None:
                chunk["choices"][0]["logprobs"] = {"content": self._probs(() if i else step.probs)}
            yield chunk

    def _chunk(self, index: int, delta: dict[str, Any], finish_reason: str | None = None) -> dict[str, Any]:
        choice = {"finish_reason": finish_reason, "index": index, "delta": delta}
        return {"choices": [choice], **self._identity.head("chat.completion.chunk")}

    def _choice(self, index: int, answer: Answer) -> dict[str, Any]:
        assert answer.last and answer.last.finish_reason
        parser = self._prompt.parser(Random())
        message = message_of(parser.feed(answer.text) + parser.finish())
        why = finish_reason(answer.last.finish_reason, len(message.get("tool_calls", ())))
        choice: dict[str, Any] = {"finish_reason": why, "index": index, "message": message}
        if self._wish.n_alternatives is not None:
            choice["logprobs"] = {"content": self._probs(answer.probs)}
        return choice

    def _probs(self, probs: Any) -> list[dict[str, Any]]:
        return content_form(probs, self._tokenizer, after_sampling=self._wish.after_sampling)
