"""What drafts: a guess at the next tokens of an answer, which the model then verifies all at once."""

from collections.abc import Sequence
from typing import Protocol

from chenxing.engine.request import Request


class Drafter(Protocol):
    """Guesses are free to be wrong: they change when tokens come, never which.

    name   of the kind of speculation, as --spec-type spells it
    prior  how often a drafted token of each kind is accepted, before anything is known of it
    """

    @property
    def name(self) -> str: ...
    @property
    def prior(self) -> Sequence[float]: ...

    def outlook(self, request: Request) -> int | None:
        """The kind of draft that there is for it: drafts of one kind are right equally often. None: there is none."""
        ...

    def draft(self, wanted: Sequence[tuple[Request, int]]) -> list[list[int] | None]:
        """At most so many tokens for each, which `outlook` was asked for just before. None: it is not ready yet."""
        ...

    def forget(self, request: Request) -> None:
        """It has ended, or its tokens are others now."""
        ...

    def close(self) -> None: ...
