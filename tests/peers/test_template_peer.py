"""Prompts against llama.cpp's /apply-template, and against plain jinja2 set up as transformers sets it up.

llama.cpp needs a model to hold a template: a toy one is written here, with a vocabulary of bytes.
"""

import ctypes
import json
import os
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

import numpy as np
import pytest

from chenxing.chat.fallback import FALLBACKS
from chenxing.chat.template import ChatTemplate

DATA = Path(__file__).parents[1] / "data" / "chat"
TEMPLATES = {path.stem: path.read_text(encoding="utf-8") for path in sorted((DATA / "templates").glob("*.jinja"))}
CONVERSATIONS = json.loads((DATA / "conversations.json").read_text(encoding="utf-8"))
FALLBACK_PROMPTS = json.loads((DATA / "fallback_prompts.json").read_text(encoding="utf-8"))

OTHERWISE = {
    # llama.cpp continues a final answer whether asked to or not
    "answered": "all",
    # it writes a continued answer behind the generation prompt, with an empty thought where it guesses one
    "continued": "qwen3 deepseek_r1 mistral",
    "continued thought": "qwen3 deepseek_r1 mistral",
    # it has no field for documents
    "documents": "command_r",
    # it merges a system message with one line break, and leaves out what it does not show
    "system": "gemma mistral",
    "turns": "gemma mistral",
    "developer": "gemma mistral",
    "two questions": "gemma mistral",
    "late system": "gemma mistral deepseek_r1",
    "assistant first": "gemma mistral",
    # it shows calls where the content is null as nothing, and does not fold them into text
    "call": "smollm2 gemma deepseek_r1 command_r",
    "call and answer": "smollm2 gemma deepseek_r1 command_r",
    "reasoning between calls": "smollm2 gemma deepseek_r1 command_r",
    # its jinja does not take `indent(2, first=true)`
    "tools": "command_r",
}
"""Conversations for which we do better on purpose, by template: checked against prompts.json only."""


def toy_model(path: Path) -> None:
    """A llama of 32 dimensions that only needs to load."""
    import gguf

    tokens = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256))]
    kinds = gguf.TokenType
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_context_length(512)
    writer.add_embedding_length(32)
    writer.add_block_count(1)
    writer.add_feed_forward_length(32)
    writer.add_head_count(1)
    writer.add_head_count_kv(1)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_dimension_count(32)
    writer.add_tokenizer_model("llama")
    writer.add_token_list(tokens)
    writer.add_token_scores([0.0] * len(tokens))
    writer.add_token_types([kinds.UNKNOWN, kinds.CONTROL, kinds.CONTROL, *[kinds.BYTE] * 256])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_add_bos_token(False)  # or llama.cpp takes the template's BOS away
    square = np.zeros((32, 32), dtype=np.float32)
    writer.add_tensor("token_embd.weight", np.zeros((len(tokens), 32), dtype=np.float32))
    writer.add_tensor("output_norm.weight", np.ones(32, dtype=np.float32))
    for name in ("attn_norm", "ffn_norm"):
        writer.add_tensor(f"blk.0.{name}.weight", np.ones(32, dtype=np.float32))
    for name in ("attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down"):
        writer.add_tensor(f"blk.0.{name}.weight", square)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


@pytest.fixture(scope="module")
def toy(tmp_path_factory):
    path = tmp_path_factory.mktemp("toy") / "toy.gguf"
    toy_model(path)
    return path


def llama_cpp(model: Path, template: str) -> dict[str, str | None]:
    """llama.cpp's prompts of all conversations, None where it refuses.

    In a process of its own, which ends without ceremony: the server's own end hangs now and then.
    """
    pytest.importorskip("xllamacpp")
    command = [sys.executable, __file__, str(model)]
    done = subprocess.run(command, input=template, capture_output=True, encoding="utf-8", timeout=120, check=True)
    return json.loads(done.stdout)


def serve(model: str, template: str) -> None:
    """What that process does."""
    import xllamacpp

    params = xllamacpp.CommonParams()
    params.model.path = model
    params.n_ctx, params.n_parallel, params.warmup, params.verbosity = 64, 1, False, -1
    params.cpuparams.n_threads = 1
    params.chat_template, params.use_jinja = template, True
    server = xllamacpp.Server(params)
    print(json.dumps({key: _ask(server.listening_address, body) for key, body in CONVERSATIONS.items()}), flush=True)
    os._exit(0)


def _ask(address: str, conversation: dict) -> str | None:
    body = {key: value for key, value in conversation.items() if key != "enable_thinking"}
    if "enable_thinking" in conversation:
        body["chat_template_kwargs"] = {"enable_thinking": conversation["enable_thinking"]}
    if conversation.get("continue_final_message"):
        body["add_generation_prompt"] = False
    data = json.dumps(body).encode()
    request = urllib.request.Request(f"{address}/apply-template", data, {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.load(answer)["prompt"]
    except urllib.error.HTTPError:
        return None


def llama_cpp_format(name: str, messages: list[dict]) -> str:
    """llama.cpp's built-in format of that name, through its C API (llama.h, llama_chat_apply_template)."""
    library = ctypes.CDLL(pytest.importorskip("xllamacpp.xllamacpp").__file__)
    if not hasattr(library, "llama_chat_apply_template"):
        pytest.skip("this platform's wheel hides llama.cpp's C API")

    class Message(ctypes.Structure):
        _fields_ = [("role", ctypes.c_char_p), ("content", ctypes.c_char_p)]

    chat = (Message * len(messages))(*[(m["role"].encode(), m["content"].encode()) for m in messages])
    buffer = ctypes.create_string_buffer(4096)
    n = library.llama_chat_apply_template(name.encode(), chat, ctypes.c_size_t(len(chat)), True, buffer, len(buffer))
    assert 0 <= n < len(buffer)
    return buffer.raw[:n].decode()


@pytest.mark.peer
@pytest.mark.parametrize("name", TEMPLATES)
def test_templates_as_llama_cpp(toy, name):
    theirs = llama_cpp(toy, TEMPLATES[name])
    template = ChatTemplate(TEMPLATES[name], bos="<s>", eos="</s>")
    same = [key for key in CONVERSATIONS if OTHERWISE.get(key) != "all" and name not in OTHERWISE.get(key, "").split()]
    assert len(same) >= 9
    assert {key: template.render(**CONVERSATIONS[key]).text for key in same} == {key: theirs[key] for key in same}


@pytest.mark.peer
@pytest.mark.parametrize("name", FALLBACKS)
def test_fallbacks_as_llama_cpp(name):
    for key, prompt in FALLBACK_PROMPTS[name].items():
        if name == "yandex" and key == "turns":
            continue  # llama.cpp leaves the system message out
        assert prompt == llama_cpp_format(name, CONVERSATIONS[key]["messages"]), key


@pytest.mark.parametrize("name", TEMPLATES)
def test_templates_as_plain_jinja2(name):
    """The sandbox, the metering and the guards change nothing in what a template prints."""
    from datetime import datetime

    from jinja2 import nodes
    from jinja2.ext import Extension, loopcontrols
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    class Generation(Extension):
        tags = {"generation"}  # noqa: RUF012

        def parse(self, parser):
            line = next(parser.stream).lineno
            return nodes.Scope(parser.parse_statements(("name:endgeneration",), drop_needle=True), lineno=line)

    def tojson(value, indent=None):
        return json.dumps(value, ensure_ascii=False, indent=indent)

    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[loopcontrols, Generation]
    )
    environment.filters["tojson"] = tojson
    environment.globals["strftime_now"] = datetime(2025, 7, 4).strftime
    environment.globals["raise_exception"] = None
    plain = environment.from_string(TEMPLATES[name])
    ours = ChatTemplate(
        TEMPLATES[name],
        bos="<s>",
        eos="</s>",
        special=["<|im_start|>", "<|im_end|>"],
        clock=lambda: datetime(2025, 7, 4),
    )
    for key in ("one question", "tools", "reasoning", "reasoning in text", "no thinking", "special tokens in text"):
        conversation = {"add_generation_prompt": True} | CONVERSATIONS[key]
        expected = plain.render(bos_token="<s>", eos_token="</s>", **conversation)
        assert ours.render(**conversation).plain == expected, key


if __name__ == "__main__":
    serve(sys.argv[1], sys.stdin.read())
