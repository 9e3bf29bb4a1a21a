"""Chat templates: from messages to the prompt's text."""

from chenxing.chat.load import load_template
from chenxing.chat.template import ChatTemplate, Prompt

__all__ = ["ChatTemplate", "Prompt", "load_template"]
