"""Formats by llama.cpp's names. fallback_prompts.json equals llama.cpp's output (tests/peers/test_template_peer.py)."""

import json
from pathlib import Path

import pytest

from chenxing.chat.fallback import FALLBACKS
from chenxing.chat.template import ChatTemplate

DATA = Path(__file__).parents[1] / "data" / "chat"
CONVERSATIONS = json.loads((DATA / "conversations.json").read_text(encoding="utf-8"))
PROMPTS = json.loads((DATA / "fallback_prompts.json").read_text(encoding="utf-8"))


def test_every_format_has_a_prompt():
    assert PROMPTS.keys() == FALLBACKS.keys()


@pytest.mark.parametrize("name", FALLBACKS)
def test_prompts(name):
    template = ChatTemplate(FALLBACKS[name], bos="<s>", eos="</s>")
    assert {key: template.render(**CONVERSATIONS[key]).text for key in PROMPTS[name]} == PROMPTS[name]


@pytest.mark.parametrize("name", FALLBACKS)
def test_every_conversation_is_served(name):
    template = ChatTemplate(FALLBACKS[name], bos="<s>", eos="</s>")
    for key, conversation in CONVERSATIONS.items():
        text = template.render(**conversation).text
        for message in conversation["messages"]:
            content = message["content"]
            if isinstance(content, str):  # nothing that was said is lost
                assert content.strip() in text, key
