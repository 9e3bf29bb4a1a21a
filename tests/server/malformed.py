"""Sound requests with something wrong in them, without end, the same ones for the same seed."""

import copy
import json
import random
from dataclasses import dataclass
from typing import Any

MESSAGES = [
    {"role": "system", "content": "some"},
    {"role": "user", "content": [{"type": "text", "text": "the"}]},
    {"role": "assistant", "content": None, "reasoning_content": "so"},
    {"role": "user", "content": "star"},
]
TOOL = {"type": "function", "function": {"name": "look", "parameters": {"type": "object", "properties": {}}}}
SAMPLING = {
    "temperature": 1,
    "top_p": 0.9,
    "min_p": 0.1,
    "seed": 3,
    "n": 1,
    "stop": ["a"],
    "logit_bias": {"5": 1},
    "samplers": ["top_k"],
    "dry_sequence_breakers": ["\n"],
    "stream": False,
    "stream_options": {"include_usage": True},
    "max_tokens": 2,
}
SCHEMA = {
    "type": "object",
    "properties": {"a": {"enum": ["b", 1]}, "c": {"type": "array", "items": {"$ref": "#/$defs/d"}, "maxItems": 2}},
    "required": ["a"],
    "$defs": {"d": {"type": "string", "pattern": "^[a-z]{1,3}$"}},
}
FORMAT = {"type": "json_schema", "json_schema": {"name": "n", "schema": SCHEMA}}
SOUND: list[tuple[str, dict[str, Any]]] = [
    ("/v1/chat/completions", {"messages": MESSAGES, "logprobs": True, "top_logprobs": 1, **SAMPLING}),
    ("/chat/completions", {"messages": MESSAGES, "tools": [TOOL], "tool_choice": "auto", "max_tokens": 2}),
    ("/v1/chat/completions", {"messages": MESSAGES, "response_format": FORMAT, "max_tokens": 2}),
    ("/v1/chat/completions/input_tokens", {"messages": MESSAGES, "chat_template_kwargs": {"a": [1]}}),
    ("/v1/completions", {"prompt": ["the", "star"], "logprobs": 1, **SAMPLING}),
    ("/completion", {"prompt": [[5, "the"], {"prompt_string": "star"}], "n_predict": 1, "n_probs": 1, "id_slot": 0}),
    ("/completion", {"prompt": "the", "n_predict": 2, "json_schema": SCHEMA}),
    ("/completion", {"prompt": "the", "n_predict": 2, "grammar": 'root ::= [a-z]+ ("," root)?'}),
    ("/infill", {"input_prefix": "a", "input_suffix": "b", "input_extra": [{"text": "c"}], "n_predict": 1}),
    ("/tokenize", {"content": "the star", "add_special": True, "with_pieces": True}),
    ("/detokenize", {"tokens": [5, 6]}),
    ("/apply-template", {"messages": MESSAGES}),
    ("/slots/0?action=save", {"filename": "a"}),
]
# what json.dumps cannot write, or would write otherwise
RAW = {"@huge": "1e999", "@digits": "1" * 5000, "@minus": "-0.0", "@lone": '"\\ud800"', "@zero": '"\\u0000"'}
JUNK = [None, True, -1, 0, 1e308, 2**63, -(2**64), 0.5, "", "the", "\x00", [], {}, [[]], {"a": 1}, [None], "é" * 3000]
JUNK += [float("nan"), float("inf"), "1" * 500, [1] * 2000, {str(i): i for i in range(300)}, *RAW]
KINDS = ["text/plain", "multipart/form-data; boundary=x", "application/x-www-form-urlencoded", "application/json; "]
KINDS += ["application/json; charset=utf-16", "application/json; charset=nope", "*/*", ""]


@dataclass(frozen=True)
class Malformed:
    path: str
    headers: dict[str, str]
    data: bytes


def malformed(rng: random.Random) -> Malformed:
    """The next one."""
    path, sound = rng.choice(SOUND)
    body = json.loads(json.dumps(sound))
    for _ in range(rng.choice((0, 1, 1, 1, 2, 3))):
        _change(rng, body)
    text = json.dumps(body)
    for name, raw in RAW.items():
        text = text.replace(f'"{name}"', raw)
    headers = {"Content-Type": rng.choice(KINDS)} if rng.random() < 0.15 else {}
    return Malformed(path, headers, _damaged(rng, text))


def _change(rng: random.Random, body: Any) -> None:
    """Something inside of it becomes something else, goes, or comes."""
    target = body
    while True:
        keys = list(target) if isinstance(target, dict) else list(range(len(target)))
        key = rng.choice(keys)
        inner = target[key]
        if isinstance(inner, dict | list) and inner and rng.random() < 0.6:
            target = inner
            continue
        what = rng.random()
        if what < 0.75:
            target[key] = _junk(rng)
        elif what < 0.85 and len(target) > 1:
            del target[key]
        elif isinstance(target, dict):
            target[rng.choice(("unknown", "", "role", "type", "é", "__proto__"))] = _junk(rng)
        else:
            target.insert(rng.randrange(len(target) + 1), _junk(rng))
        return


def _junk(rng: random.Random) -> Any:
    return copy.deepcopy(rng.choice(JUNK))  # it may be changed too


def _damaged(rng: random.Random, text: str) -> bytes:
    """Its bytes, now and then not as they should be."""
    data = text.encode()
    if rng.random() < 0.6:
        return data
    at = rng.randrange(len(data) + 1)
    what = rng.randrange(9)
    if what == 0:
        return data[:at]
    if what == 1:
        return data[:at] + bytes([rng.randrange(256)]) + data[at + 1 :]
    if what == 2:
        return data[:at] + rng.choice((b"\xff", b"\xc0\x80", b"\xed\xa0\x80", b"\xf5\x80\x80\x80")) + data[at:]
    if what == 3:
        return rng.choice((b"\xef\xbb\xbf", b"\x00", b"\n\n", b"//", b"1")) + data
    if what == 4:
        return data + rng.choice((b"}", b"\x00", b"garbage", data))
    if what == 5:
        return text.encode(rng.choice(("utf-16", "utf-32")))
    if what == 6:
        deep = rng.choice(("[", '{"a":')) * rng.choice((100, 2000, 50_000))
        return b'{"messages":' + deep.encode() + data
    if what == 7:
        return rng.choice((b"", b" ", b"null", b"[]", b'""', b"1", b"NaN", b"{}"))
    return data[:-1] + b"," + data[1:]  # every key twice
