"""Errors as clients see them: llama-server's JSON shape, which OpenAI's clients read too."""

from typing import Any

from chenxing.errors import ChenxingError, ContextError, OutOfMemoryError


class ApiError(Exception):
    """status is the HTTP status; kind the error's `type`; extra are further members of the error object."""

    def __init__(self, status: int, kind: str, message: str, **extra: Any) -> None:
        super().__init__(message)
        self.status, self.kind, self.message, self.extra = status, kind, message, extra

    def body(self) -> dict[str, Any]:
        """The JSON body."""
        return {"error": {"code": self.status, "message": self.message, "type": self.kind, **self.extra}}


def invalid(message: str) -> ApiError:
    """The request cannot be meant."""
    return ApiError(400, "invalid_request_error", message)


def not_enforced(field: str) -> ApiError:
    """The request asks for something that this server cannot hold the model to."""
    return ApiError(400, "not_supported_error", f"{field}: this server cannot enforce it; send the request without it")


def disabled(message: str) -> ApiError:
    """The server was started without this."""
    return ApiError(501, "not_supported_error", message)


def unavailable(message: str) -> ApiError:
    """Not yet, or not any more."""
    return ApiError(503, "unavailable_error", message)


def not_found() -> ApiError:
    """No such path, or not with this method."""
    return ApiError(404, "not_found_error", "File Not Found")


def too_long(n_prompt: int, n_ctx: int) -> ApiError:
    """The prompt does not fit into the context."""
    message = (
        f"request ({n_prompt} tokens) exceeds the available context size ({n_ctx} tokens): shorten it, or start the "
        "server with a larger --ctx-size"
    )
    return ApiError(400, "exceed_context_size_error", message, n_prompt_tokens=n_prompt, n_ctx=n_ctx)


def api_error(error: Exception) -> ApiError:
    """What a client is told of an exception from below. Only our own errors speak; anything else is a 500."""
    if isinstance(error, ApiError):
        return error
    if isinstance(error, ContextError):
        return too_long(error.n_prompt, error.n_ctx)
    if isinstance(error, OutOfMemoryError):
        return unavailable(str(error))
    if isinstance(error, ChenxingError):
        return invalid(str(error))
    return ApiError(500, "server_error", "internal error: the server's log has its cause")
