"""Drafts by a second, smaller model of the same vocabulary, for all answers of a step together.

It keeps the KV of its own sequences, in a cache of its own. Only tokens that the answers have are ever committed there;
those it drafted lie behind them in the same pages, and are committed as far as they turned out right. So there is
nothing to roll back: a wrong token is overwritten by the right one.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from chenxing.engine.cache_room import CLOSE_SECONDS
from chenxing.engine.request import Request
from chenxing.kvcache import KVCache
from chenxing.kvcache import Sequence as KVSequence
from chenxing.models import Run
from chenxing.models.model import N_BATCH

FAR_BEHIND = 32  # tokens; whoever lacks more has them computed first, and no draft in that step


class DraftingModel(Protocol):
    """What is needed of a Model."""

    def step(self, runs: Sequence[Run]) -> np.ndarray: ...
    def close(self) -> None: ...


@dataclass
class Context:
    """What the second model knows of one answer. drafted: tokens whose KV lies behind that of the sequence."""

    sequence: KVSequence
    drafted: list[int] = field(default_factory=list)

    def follow(self, ids: list[int]) -> None:
        """Commit what was drafted, as far as the answer has it; its last token stays to be computed."""
        n = self.sequence.n_tokens
        right = 0
        while right < min(len(self.drafted), len(ids) - 1 - n) and self.drafted[right] == ids[n + right]:
            right += 1
        self.sequence.commit(self.drafted[:right])
        self.drafted = []

    def run(self, tokens: list[int], *, has_logits: bool) -> Run:
        position = self.sequence.n_tokens + len(self.drafted)
        return Run(tokens, position, self.sequence.table, (len(tokens) - 1,) if has_logits else ())


class DraftModel:
    """The likeliest token after the likeliest token, and so on.

    n_ctx    tokens that its sequences may have; a longer answer goes on without drafts
    n_vocab  tokens that both models know; an answer with others goes on without drafts
    """

    name = "draft-simple"
    prior = (0.6,)

    def __init__(self, model: DraftingModel, cache: KVCache, n_ctx: int, n_vocab: int) -> None:
        self._model, self._cache, self._n_ctx, self._n_vocab = model, cache, n_ctx, n_vocab
        self._contexts: dict[Request, Context] = {}  # least recently used first
        self._n_known: dict[Request, int] = {}  # how many of an answer's tokens are known to be below n_vocab

    def outlook(self, request: Request) -> int | None:
        n_known = self._n_known.get(request, 0)
        while n_known < len(request.ids) and request.ids[n_known] < self._n_vocab:
            n_known += 1
        self._n_known[request] = n_known
        return 0 if n_known == len(request.ids) < self._n_ctx else None

    def draft(self, wanted: Sequence[tuple[Request, int]]) -> list[list[int] | None]:
        drafts: list[list[int] | None] = [None] * len(wanted)
        lengths = [min(n, self._n_ctx - len(request.ids)) for request, n in wanted]
        requests = [request for request, _ in wanted]
        behind = {i: c for i, r in enumerate(requests) if (c := self._context(r, requests, lengths[i]))}
        ready = self._catch_up(requests, behind)
        for i, token in ready.items():
            drafts[i] = [token]
        while going := {i: d for i in ready if len(d := drafts[i] or []) < lengths[i]}:
            logits = self._model.step([behind[i].run([d[-1]], has_logits=True) for i, d in going.items()])
            for (i, draft), token in zip(going.items(), self._likeliest(logits), strict=True):
                behind[i].drafted.append(draft[-1])
                draft.append(token)
        return drafts

    def forget(self, request: Request) -> None:
        self._n_known.pop(request, None)
        if context := self._contexts.pop(request, None):
            context.sequence.release(keep=True)

    def close(self) -> None:
        for request in list(self._contexts):
            self.forget(request)
        self._cache.close(CLOSE_SECONDS)
        self._model.close()

    def _context(self, request: Request, others: Sequence[Request], n_draft: int) -> Context | None:
        """What is known of an answer, with room for its tokens and a draft; None if there is no room."""
        context = self._contexts.pop(request, None)
        if context is None:
            context = Context(self._cache.begin(request.ids, self._n_ctx))
        self._contexts[request] = context
        context.follow(request.ids)
        while not context.sequence.reserve(len(request.ids) + n_draft - 1):
            idle = next((r for r in self._contexts if r not in others), None)
            self.forget(idle or request)
            if idle is None:
                return None
        return context

    def _catch_up(self, requests: Sequence[Request], contexts: dict[int, Context]) -> dict[int, int]:
        """Compute the tokens that are new, a batch at most. -> those who have all of them: what is likeliest next."""
        left = N_BATCH
        runs: list[Run] = []
        done: list[tuple[Context, list[int]]] = []
        ready: list[int] = []
        for i, context in contexts.items():
            pending = requests[i].ids[context.sequence.n_tokens :]
            is_ready = len(pending) <= min(left, FAR_BEHIND)
            tokens = pending if is_ready else pending[:-1][:left]
            if tokens:
                runs.append(context.run(tokens, has_logits=is_ready))
                done.append((context, tokens))
                ready += [i] if is_ready else []
                left -= len(tokens)
        if not runs:
            return {}
        logits = self._model.step(runs)
        for context, tokens in done:
            context.sequence.commit(tokens)
        return dict(zip(ready, self._likeliest(logits), strict=True))

    def _likeliest(self, logits: np.ndarray) -> list[int]:
        return logits[:, : self._n_vocab].argmax(axis=1).tolist() if len(logits) else []
