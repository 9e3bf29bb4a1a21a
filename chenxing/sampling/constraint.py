"""Constraint: which tokens a grammar lets come next in one answer.

The mask is applied to the logits before the chain, for every token: that is the definition here. llama.cpp samples
without the grammar first and only where the grammar refuses the choice samples again under it. The two distributions
are the same where the chain only scales (temperature, biases). Where it truncates (top_k, top_p, min_p, ...) they may
differ: here the chain always looks at permitted tokens only, so a permitted token is never cut off by forbidden ones.

Source: llguidance's LLMatcher, on which this is a face; llama.cpp b11434, common/sampling.cpp: common_sampler_sample.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from chenxing.errors import GrammarError
from chenxing.sampling.masks import MaskTable

if TYPE_CHECKING:
    from concurrent.futures import Future

    from llguidance import LLMatcher


class Constraint:
    """One answer's place in its grammar. Not thread-safe; made by `Grammars`.

    table   the vocabulary, shared by all constraints of a model
    after   text that must have been generated before the grammar begins, such as "</think>"; until then every token
            may come but those that end the generation

    Invariant: the matcher is used by one thread at a time, so whatever moves it waits for a mask in the making first.
    """

    def __init__(self, matcher: "LLMatcher", table: MaskTable, after: str = "") -> None:
        self._matcher, self._table = matcher, table
        self._after, self._tail = after.encode(), b""
        self._waiting = bool(after)
        self._ended = False
        self._mask: Future[np.ndarray] | None = None

    @property
    def may_end(self) -> bool:
        """The answer so far is a whole text of the grammar."""
        if self._waiting:
            return False
        self._settle()
        return bool(self._matcher.is_accepting())

    @property
    def is_finished(self) -> bool:
        """Nothing but the end may follow."""
        if self._waiting:
            return False
        self._settle()
        return self._ended or (bool(self._matcher.is_stopped()) and not self._matcher.is_error())

    def apply(self, logits: np.ndarray) -> None:
        """Sets the logits of forbidden tokens to -inf, in place.  logits  f32[n_vocab]

        Tokens that end the generation are permitted where the answer may end. Raises GrammarError if the grammar has
        become too expensive to follow.
        """
        np.add(logits, self._penalty(), out=logits)  # a fifth of the time that writing through a mask takes

    def accept(self, token_id: int) -> None:
        """Moves on by a token that `apply` permitted. Raises GrammarError for another one."""
        if self._waiting:
            self._wait_on(token_id)
            return
        self._settle()
        self._mask = None
        if token_id in self._table.eog_set:
            if not self.may_end:
                raise GrammarError(f"grammar: token {token_id} ends the answer where the grammar does not")
            self._ended = True
        elif not self._matcher.consume_token(token_id):
            raise GrammarError(f"grammar: {self._why(f'token {token_id} is not permitted here')}")

    def n_permitted(self, tokens: Sequence[int]) -> int:
        """How many of these tokens, in this order, may come next; none of them ends the generation. Moves nothing on.

        Of tokens before the grammar begins, those that do not make it begin: what follows them is not known here.
        """
        if self._waiting:
            text = self._tail
            for n, token_id in enumerate(tokens):
                text += self._table.token_bytes(token_id)
                if self._after in text:
                    return n
            return len(tokens)
        if self._ended:
            return 0
        self._settle()
        return int(self._matcher.validate_tokens(list(tokens)))

    def prepare(self) -> None:
        """Begins to compute the mask for the next token on another thread, while the model runs. Optional."""
        if not self._waiting and not self._ended and self._mask is None:
            self._mask = self._table.thread.submit(self._compute)

    def clone(self) -> "Constraint":
        """An independent constraint at the same place, for another answer to the same prompt."""
        self._settle()
        twin = Constraint(self._matcher.deep_copy(), self._table)
        twin._after, twin._tail, twin._waiting, twin._ended = self._after, self._tail, self._waiting, self._ended
        return twin

    def _wait_on(self, token_id: int) -> None:
        """Looks for `after` in what was generated; a rest of the token behind it already belongs to the grammar."""
        text = self._tail + self._table.token_bytes(token_id)
        at = text.find(self._after)
        if at < 0:
            self._tail = text[max(0, len(text) - len(self._after) + 1) :]
            return
        self._waiting = False
        rest = text[at + len(self._after) :].lstrip()
        if rest and not self._matcher.consume_tokens(self._table.tokens_of(rest)):
            shown = rest.decode(errors="replace")
            raise GrammarError(f"grammar: {shown!r}, which came with {self._after.decode()!r}, is no beginning of it")

    def _penalty(self) -> np.ndarray:
        if self._waiting:
            return self._table.not_the_end
        self.prepare()
        if self._mask is None:  # ended
            return self._table.only_the_end
        return self._mask.result()

    def _compute(self) -> np.ndarray:
        """f32[n_vocab], see MaskTable.penalty."""
        mask = self._table.penalty(self._matcher)
        if self._matcher.is_error():
            raise GrammarError(f"grammar: {self._why('no token is permitted')}")
        return mask

    def _settle(self) -> None:
        if self._mask is not None:
            self._mask.exception()

    def _why(self, otherwise: str) -> str:
        error = self._matcher.get_error() if self._matcher.is_error() else ""
        return error.strip().splitlines()[0] if error.strip() else otherwise
