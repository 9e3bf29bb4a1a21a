"""Tool calls: checked requests, prompts, grammars, and answers read as they come.

request = tool_request(tools, tool_choice, parallel_tool_calls)
prompt = ToolCalling(template).render(messages, request)
prompt.grammar()                  the Lark grammar that the answer must follow
parser = prompt.parser(rng)       events out of pieces of the answer's text
"""

from chenxing.chat.tools.calling import ToolCalling, ToolPrompt
from chenxing.chat.tools.events import ArgumentsDelta, CallStart, ContentDelta, Done, Event, ReasoningDelta
from chenxing.chat.tools.parser import AnswerParser
from chenxing.chat.tools.reasoning import Reasoning, reasoning_of
from chenxing.chat.tools.request import ToolRequest, tool_request
from chenxing.chat.tools.whole import WholeAnswer, WholeCall, finish_reason

__all__ = [
    "AnswerParser",
    "ArgumentsDelta",
    "CallStart",
    "ContentDelta",
    "Done",
    "Event",
    "Reasoning",
    "ReasoningDelta",
    "ToolCalling",
    "ToolPrompt",
    "ToolRequest",
    "WholeAnswer",
    "WholeCall",
    "finish_reason",
    "reasoning_of",
    "tool_request",
]
