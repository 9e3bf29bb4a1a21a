"""What requests and the engine count."""

from dataclasses import dataclass, replace


@dataclass(frozen=True)
class DraftCounts:
    """n_drafts that were verified, of n_tokens, n_accepted of them right.

    n_skipped  times that there was a draft and it was not tried, since it would have lost time
    """

    n_drafts: int = 0
    n_tokens: int = 0
    n_accepted: int = 0
    n_skipped: int = 0

    def plus(self, n_tokens: int, n_accepted: int) -> "DraftCounts":
        """With one draft more."""
        return DraftCounts(self.n_drafts + 1, self.n_tokens + n_tokens, self.n_accepted + n_accepted, self.n_skipped)

    def skipped(self) -> "DraftCounts":
        """With one more that was not tried."""
        return replace(self, n_skipped=self.n_skipped + 1)

    @property
    def are_mostly_off(self) -> bool:
        """Drafts did not pay."""
        return self.n_skipped > self.n_drafts


NO_DRAFTS = DraftCounts()


@dataclass
class Stats:
    """One request: tokens and ms.

    n_prompt       tokens of the prompt, n_cached of them found in the cache (or shared with a twin), n_from_disk of
                   these only on disk
    n_generated    tokens of the answer
    n_preemptions  times that it had to give its pages away and wait again
    queue_ms       from its submission to its start
    prompt_ms      from its start to its first token
    generation_ms  from its first token to its latest, the times that it was preempted among them
    """

    n_prompt: int = 0
    n_cached: int = 0
    n_generated: int = 0
    prompt_ms: float = 0.0
    generation_ms: float = 0.0
    queue_ms: float = 0.0
    n_preemptions: int = 0
    n_from_disk: int = 0
    drafts: DraftCounts = NO_DRAFTS

    @property
    def prompt_per_second(self) -> float:
        return 1000 * (self.n_prompt - self.n_cached) / self.prompt_ms if self.prompt_ms else 0.0

    @property
    def generated_per_second(self) -> float:
        """Of the tokens after the first, which belongs to the prompt's time."""
        return 1000 * (self.n_generated - 1) / self.generation_ms if self.generation_ms else 0.0


@dataclass(frozen=True)
class EngineStats:
    """The engine now, and what it did since it was made.

    n_running, n_waiting  requests
    n_pages, n_free       pages that there may be, and those of them that no running request uses
    n_steps, busy_ms      native calls, and the time from their plans to their events
    n_computed            tokens that went through the model, n_generated of them were chosen for an answer
    n_preemptions         of all requests
    n_step_rows           of a prompt that one step takes while answers run
    spec_type, drafts     what drafts (none, ngram-simple, draft-simple), and how well
    """

    n_running: int
    n_waiting: int
    n_pages: int
    n_free: int
    n_steps: int
    busy_ms: float
    n_computed: int
    n_generated: int
    n_preemptions: int
    n_step_rows: int
    spec_type: str = "none"
    drafts: DraftCounts = NO_DRAFTS

    @property
    def generated_per_second(self) -> float:
        """While it was busy."""
        return 1000 * self.n_generated / self.busy_ms if self.busy_ms else 0.0
