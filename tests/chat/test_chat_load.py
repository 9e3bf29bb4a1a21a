"""Which template a model gets."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pytest

from chenxing.chat import load_template
from chenxing.errors import TemplateError, UsageError

HI = [{"role": "user", "content": "Hi"}]


@pytest.fixture(autouse=True)
def home(monkeypatch, tmp_path):
    """Compiled templates go to a folder of this test."""
    from chenxing.chat import load
    from chenxing.config import read_settings

    monkeypatch.setattr(load, "settings", lambda: read_settings({"CHENXING_HOME": str(tmp_path)}))


@dataclass
class Vocabulary:
    """What is asked of a tokenizer."""

    special_texts: Sequence[str] = ()
    bos_id: int | None = 0
    eos_id: int | None = 1

    def token_bytes(self, token_id):
        return (b"<s>", b"</s>")[token_id]


def load(metadata, special_texts=(), **more):
    return load_template(metadata, Vocabulary(special_texts), **more)


def test_the_files_own():
    assert load({"tokenizer.chat_template": "{{ bos_token }}own{{ eos_token }}"}).render(HI).text == "<s>own</s>"


def test_the_files_own_for_tools():
    metadata = {
        "tokenizer.chat_templates": ["tool_use", "rag"],
        "tokenizer.chat_template": "own",
        "tokenizer.chat_template.tool_use": "tools",
        "tokenizer.chat_template.rag": "rag",
    }
    template = load(metadata)
    assert template.render(HI).text == "own"
    assert template.render(HI, tools=[{"type": "function"}]).text == "tools"
    assert load(metadata, override="rag").render(HI).text == "rag"
    assert load(metadata, override="tool_use").render(HI).text == "tools"


def test_only_a_template_for_tools():
    template = load({"tokenizer.chat_template.tool_use": "tools"})
    assert template.render(HI).text == template.render(HI, tools=[{"type": "function"}]).text == "tools"


def test_a_base_model_has_none():
    assert load({"general.name": "Gemma 3 270m", "general.architecture": "gemma3"}, ["<start_of_turn>"]) is None
    assert load({"tokenizer.chat_template": " \n"}) is None


@pytest.mark.parametrize(
    ("metadata", "special", "start"),
    [
        ({"general.finetune": "Instruct"}, ["<|im_start|>", "<|im_end|>"], "<|im_start|>user\nHi"),
        ({"general.name": "Gemma 2 2b It"}, ["<start_of_turn>"], "<start_of_turn>user\nHi"),
        ({"general.basename": "my_chat_model"}, ["<|start_header_id|>"], "<|start_header_id|>user"),
    ],
)
def test_a_chat_model_without_a_template_is_recognised(metadata, special, start):
    assert load(metadata, special).render(HI).text.startswith(start)


def test_ambiguous_or_missing_hints_give_none():
    assert load({"general.finetune": "Instruct"}, ["<|im_start|>", "<start_of_turn>"]) is None
    assert load({"general.finetune": "Instruct"}, []) is None
    assert load({"general.name": "Bitter"}, ["<|im_start|>"]) is None


def test_override_by_name():
    template = load({"tokenizer.chat_template": "own"}, override="chatml")
    assert template.render(HI).text == "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n"


def test_override_by_source():
    assert load({}, override="{{ messages[0].content }}!").render(HI).text == "Hi!"
    text = "Not Jinja, but a text all the same"
    assert load({}, override=text).render(HI).text == text


def test_a_misspelt_name_is_not_a_text():
    with pytest.raises(UsageError, match=r"'chatlm' is neither Jinja source nor .*; did you mean .*chatml"):
        load({}, override="chatlm")
    with pytest.raises(UsageError, match=r"known are .*chatml, .*llama3.*"):
        load({}, override="qqqqq")


def test_a_name_in_place_of_a_template():
    assert load({"tokenizer.chat_template": "zephyr"}).render(HI).text == "<|user|>\nHi<|endoftext|>\n<|assistant|>\n"


def test_metadata_that_is_no_text():
    with pytest.raises(TemplateError, match=r"tokenizer\.chat_template: expected a string, found int"):
        load({"tokenizer.chat_template": 3})


def test_user_defined_tokens_come_from_the_vocabulary():
    metadata = {
        "tokenizer.chat_template": "{% for m in messages %}{{ m.content }}<tool>{% endfor %}",
        "tokenizer.ggml.tokens": ["<s>", "a", "<tool>", "<h1>"],
        "tokenizer.ggml.token_type": np.array([3, 1, 4, 4], dtype=np.int32),
    }
    template = load(metadata, ["<s>"])
    assert template.render([{"role": "user", "content": "<s><tool><h1>"}]).text == "<\ufdd0s><\ufdd0tool><h1><tool>"
    assert template.render([*HI, {"role": "assistant", "content": "<s><tool>"}]).text == "Hi<tool><\ufdd0s><tool><tool>"


def test_importing_chat_does_not_import_jinja2():
    import subprocess
    import sys

    code = "import sys, chenxing.chat; sys.exit('jinja2' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
