"""Every path of the server, with what it takes and gives."""

from dataclasses import dataclass
from typing import Any

from chenxing.server.openapi import answers, native_answers
from chenxing.server.protocol.chat import ChatRequest
from chenxing.server.protocol.completion import CompletionRequest, InfillRequest, NativeRequest
from chenxing.server.protocol.small import DetokenizeRequest, SlotFile, TokenizeRequest

OPENAI, LLAMA, SERVER, PAGES = "OpenAI", "llama-server", "Server", "Pages"


@dataclass(frozen=True)
class Parameter:
    """place: where it stands, `path` or `query`; values: the only ones it may have."""

    name: str
    place: str
    description: str
    values: tuple[str, ...] = ()


@dataclass(frozen=True)
class Operation:
    """One endpoint under all its paths.

    request, answer, stream  types of the body, of the answer, of the data of a stream's events; None: there is none
    media                    of the answer
    errors                   statuses beside those that every operation of its kind may end with
    """

    method: str
    paths: tuple[str, ...]
    tag: str
    summary: str
    description: str = ""
    request: Any = None
    answer: Any = None
    stream: Any = None
    media: str = "application/json"
    errors: tuple[int, ...] = ()
    parameters: tuple[Parameter, ...] = ()
    is_public: bool = False


def _with_v1(path: str) -> tuple[str, str]:
    return f"/v1{path}", path


NATIVE = native_answers.NativeAnswer
ACTION = Parameter("action", "query", "What to do.", ("save", "restore", "erase"))
MODEL_FIELDS = "`model` may be any name: this server has one model and answers under whatever it is called."

OPERATIONS = (
    Operation(
        "post",
        _with_v1("/chat/completions"),
        OPENAI,
        "The assistant's next message",
        MODEL_FIELDS,
        ChatRequest,
        answers.ChatCompletion,
        answers.ChatCompletionChunk,
    ),
    Operation(
        "post",
        _with_v1("/chat/completions/input_tokens"),
        OPENAI,
        "How many tokens a chat's prompt has",
        "Takes what the chat takes and generates nothing.",
        ChatRequest,
        native_answers.InputTokens,
    ),
    Operation(
        "post",
        ("/v1/completions",),
        OPENAI,
        "Text, continued",
        MODEL_FIELDS,
        CompletionRequest,
        answers.Completion,
        answers.Completion,
    ),
    Operation("get", _with_v1("/models"), OPENAI, "The model, as a list of one", answer=native_answers.ModelList),
    Operation(
        "get",
        ("/v1/models/{name}",),
        OPENAI,
        "The model",
        answer=native_answers.Model,
        parameters=(Parameter("name", "path", "Any name."),),
    ),
    Operation(
        "post",
        ("/completion", "/completions"),
        LLAMA,
        "Text or tokens, continued",
        "With several prompts, or n above 1, a list of answers.",
        NativeRequest,
        NATIVE | list[NATIVE],
        NATIVE,
    ),
    Operation(
        "post",
        ("/infill",),
        LLAMA,
        "What stands between a prefix and a suffix",
        "For models that were trained to fill in the middle; 501 for others.",
        InfillRequest,
        NATIVE | list[NATIVE],
        NATIVE,
        errors=(501,),
    ),
    Operation("post", ("/tokenize",), LLAMA, "Text to tokens", "", TokenizeRequest, native_answers.Tokens),
    Operation("post", ("/detokenize",), LLAMA, "Tokens to text", "", DetokenizeRequest, native_answers.Content),
    Operation(
        "post",
        ("/apply-template",),
        LLAMA,
        "Messages to the text of a prompt",
        "Takes what the chat takes and generates nothing.",
        ChatRequest,
        native_answers.RenderedPrompt,
    ),
    Operation(
        "get",
        ("/slots",),
        LLAMA,
        "Who is being answered",
        "501 after --no-slots.",
        answer=list[native_answers.SlotState],
        errors=(501,),
    ),
    Operation(
        "post",
        ("/slots/{number}",),
        LLAMA,
        "Keep a slot's conversation in a file, bring it back, or forget it",
        "501 without --slot-save-path. Erasing needs no body.",
        SlotFile,
        native_answers.SlotActed,
        errors=(501,),
        parameters=(Parameter("number", "path", "The slot's number."), ACTION),
    ),
    Operation("get", ("/props",), SERVER, "The model and the defaults", answer=native_answers.Props),
    Operation("post", ("/props",), SERVER, "Never possible: 501", errors=(501,)),
    Operation(
        "get",
        _with_v1("/health"),
        SERVER,
        "Whether requests are served; 503 while the model is loading",
        answer=answers.Health,
        is_public=True,
    ),
    Operation(
        "get",
        ("/metrics",),
        SERVER,
        "Figures for Prometheus",
        "501 without --metrics.",
        answer=str,
        media="text/plain",
        errors=(501,),
    ),
    Operation("get", ("/openapi.json",), SERVER, "This document", answer=dict[str, Any], is_public=True),
)

PAGE_OPERATIONS = (
    Operation("get", ("/",), PAGES, "The chat", answer=str, media="text/html", is_public=True),
    Operation("get", ("/docs",), PAGES, "This document for people", answer=str, media="text/html", is_public=True),
    Operation(
        "get",
        ("/page/{file}",),
        PAGES,
        "What pages load",
        answer=str,
        media="*/*",
        errors=(404,),
        parameters=(Parameter("file", "path", "The file's name."),),
        is_public=True,
    ),
)
