"""How often drafted tokens are right, learnt for each kind of draft: from one answer, and before it from all others."""

from collections.abc import Sequence

MEMORY = 0.98  # of what was seen, with each further draft
WEIGHT = 6.0  # of what is known beforehand, in tokens


class Acceptance:
    """A running share of accepted tokens for each kind of draft.

    prior  of each kind: the shares themselves, or an Acceptance that goes on learning beside this one
    """

    def __init__(self, prior: "Sequence[float] | Acceptance") -> None:
        self._prior = prior
        self._seen: dict[int, tuple[float, float]] = {}  # kind -> tokens that were tried, and accepted

    def share(self, kind: int) -> float:
        """How likely a drafted token is the next one, if all before it in its draft were."""
        prior = self._prior.share(kind) if isinstance(self._prior, Acceptance) else self._prior[kind]
        n_tried, n_accepted = self._seen.get(kind, (0.0, 0.0))
        return (n_accepted + WEIGHT * prior) / (n_tried + WEIGHT)

    def saw(self, kind: int, n_drafted: int, n_accepted: int) -> None:
        """Of one draft, up to the first wrong token; what comes after that was not tried."""
        before, accepted_before = self._seen.get(kind, (0.0, 0.0))
        n_tried = min(n_accepted + 1, n_drafted)
        self._seen[kind] = MEMORY * before + n_tried, MEMORY * accepted_before + n_accepted
        if isinstance(self._prior, Acceptance):
            self._prior.saw(kind, n_drafted, n_accepted)
