"""The error tree: everything that a file, a user, a network or a disk can cause.

`str(error)` is one complete sentence or a few, ready for a terminal or a JSON body: it names the thing, what was
expected, what was found, and what to do where that is known. Our own invariants are `assert`s, not errors.
"""

from pathlib import Path


class ChenxingError(Exception):
    """Base of all errors that are not our bugs. The command line prints it in one line and exits with 1."""


class UsageError(ChenxingError):
    """A parameter, flag or request that cannot be meant. The command line exits with 2."""


class GrammarError(UsageError):
    """A JSON schema, regular expression or grammar that is invalid, not supported, or too expensive to follow.

    The message names the part: a JSON pointer, a place in the expression, or line:column.
    """


class ModelFileError(ChenxingError):
    """A model file that cannot be used.

    path, field, expected, found are kept for programs; the message is built from them.
    """

    def __init__(self, path: str | Path, field: str, expected: str, found: str, hint: str = "") -> None:
        self.path, self.field, self.expected, self.found = Path(path), field, expected, found
        text = f"{path}: {field}: expected {expected}, found {found}"
        super().__init__(f"{text}. {hint}" if hint else text)


class UnsupportedModelError(ChenxingError):
    """A sound file of an architecture, tokenizer or weight type that this version does not run."""


class ModelNotFoundError(ChenxingError):
    """A model name that is neither a file, nor pulled, nor known."""


class DownloadError(ChenxingError):
    """A model could not be fetched: network, checksum, authorisation or disk."""


class TokenizerError(ChenxingError):
    """Text or ids that the vocabulary cannot represent, or vocabulary data that contradicts itself."""


class TemplateError(ChenxingError):
    """A chat template that cannot be compiled or rendered for these messages."""


class ContextError(ChenxingError):
    """More tokens than the context holds. n_prompt and n_ctx are kept."""

    def __init__(self, n_prompt: int, n_ctx: int) -> None:
        self.n_prompt, self.n_ctx = n_prompt, n_ctx
        super().__init__(
            f"the prompt has {n_prompt} tokens, the context holds {n_ctx}: shorten the prompt or raise -c/--ctx-size"
        )


class KernelError(ChenxingError):
    """Kernels could not be compiled or loaded for this CPU."""


class OutOfMemoryError(ChenxingError):
    """Memory for weights or KV pages could not be had."""


class AgentError(ChenxingError):
    """A graph, a state, a stored run or a tool that cannot be used as it was meant."""


class NodeError(AgentError):
    """A node of a graph failed. node and step are kept; the cause is `__cause__`."""

    def __init__(self, node: str, step: int, cause: BaseException) -> None:
        self.node, self.step = node, step
        text = str(cause) or type(cause).__name__
        kind = "" if isinstance(cause, ChenxingError) else f"{type(cause).__name__}: "
        super().__init__(f"node {node!r}, step {step}: {kind}{text}")


class StepLimitError(AgentError):
    """A graph took as many steps as it may, and is not over. The run can be resumed."""
