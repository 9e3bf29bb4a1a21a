"""How an engine is to speculate. Source of the names: llama.cpp b11434, common/arg.cpp."""

from dataclasses import dataclass

from chenxing.errors import UsageError

SPEC_TYPES = ("none", "ngram-simple", "draft-simple")
N_MAX = 16  # tokens of a draft, by default


@dataclass(frozen=True)
class SpecOptions:
    """How an engine speculates, as the flags of these names say it.

    spec_type         one of SPEC_TYPES; None: draft-simple if there is a model_draft, else ngram-simple
    model_draft       path or name of the draft model, as LLM.load takes it
    spec_draft_n_max  tokens of a draft at most, as many as pay; 0: none
    spec_draft_n_min  a shorter draft is not tried
    """

    spec_type: str | None = None
    model_draft: str | None = None
    spec_draft_n_max: int = N_MAX
    spec_draft_n_min: int = 0

    def __post_init__(self) -> None:
        """Raises UsageError for what cannot be meant."""
        kind, n_max, n_min = self._asked, self.spec_draft_n_max, self.spec_draft_n_min
        if kind not in SPEC_TYPES:
            raise UsageError(f"spec_type: expected one of {', '.join(SPEC_TYPES)}, found {kind!r}")
        if (kind == "draft-simple") != (self.model_draft is not None):
            found = "none" if self.model_draft is None else repr(self.model_draft)
            raise UsageError(
                f"model_draft: expected one with spec_type draft-simple, and only then; found {found} with {kind}"
            )
        if not 0 <= n_min <= max(n_max, 0) or n_max < 0:
            wanted = "0 <= spec_draft_n_min <= spec_draft_n_max"
            raise UsageError(f"spec_draft_n_min: expected {wanted}, found {n_min} and {n_max}")

    @property
    def kind(self) -> str:
        """One of SPEC_TYPES, as it will be."""
        return self._asked if self.spec_draft_n_max else "none"

    @property
    def _asked(self) -> str:
        return self.spec_type or ("draft-simple" if self.model_draft else "ngram-simple")
