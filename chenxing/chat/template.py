"""A model's chat template: messages in, prompt text out.

One rendering: messages are checked and copied (messages.py), without clients' bookkeeping (client_lines.py); tools get
one order of keys (tool_order.py), the conversation gets its date (dates.py); what the template does not take is folded
(fold.py, asked of capabilities.py); strings are guarded (guard.py); the compiled template runs within its budget
(program.py).
"""

import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from itertools import chain, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from chenxing.chat import fold
from chenxing.chat.client_lines import without_request_lines
from chenxing.chat.dates import FirstTimes, frozen_time, shows_date
from chenxing.chat.guard import Guard, guard_character, guard_messages, guard_values, guarded_texts, n_characters
from chenxing.chat.messages import Message, parsed_arguments, plain_list, plain_messages, text_of
from chenxing.chat.tool_order import in_order
from chenxing.errors import TemplateError, UsageError

if TYPE_CHECKING:  # these import jinja2, which costs 100 ms: only when a template is rendered
    from chenxing.chat.capabilities import Capabilities
    from chenxing.chat.program import Program

_TAG = re.compile(r"[<\[].+[>\]]")

REASONING_KEYS = ("thinking", "reasoning")
"""What some templates read in place of reasoning_content."""


@dataclass(frozen=True)
class Prompt:
    """text     the prompt, to be tokenised with parse_special=True
    guard    the noncharacter in it that keeps users' text from matching special tokens, None if none was needed
    has_bos  the template has written the BOS token, so the tokenizer must not add it (add_special=False)
    """

    text: str
    guard: str | None
    has_bos: bool = False

    @property
    def plain(self) -> str:
        """The text without guards, to be shown."""
        return self.text if self.guard is None else self.text.replace(self.guard, "")


class ChatTemplate:
    """source        the template, in Jinja
    bos, eos      texts of the model's BOS and EOS tokens, "" if there is none
    special       texts of the vocabulary's tokens that are never text, to be guarded in users' text
    user_defined  texts of the tokens that the vocabulary calls user-defined
    tool_use      the template to be used when there are tools, if the file has one of its own
    clock         the time that strftime_now and date_string show when a conversation begins
    first_times   remembers it, so that they go on to show it; None: they show the time of each rendering
    cache         folder for the compiled template, so that the next process need not compile it

    Compiled at the first use; may be used from several threads.
    """

    def __init__(
        self,
        source: str,
        *,
        bos: str,
        eos: str,
        special: Collection[str] = (),
        user_defined: Collection[str] = (),
        tool_use: "ChatTemplate | None" = None,
        clock: Callable[[], datetime] = datetime.now,
        first_times: FirstTimes | None = None,
        cache: Path | None = None,
    ) -> None:
        self.source, self.bos, self.eos, self.tool_use = source, bos, eos, tool_use
        self._special, self._user_defined, self._clock = special, user_defined, clock
        self._first_times = first_times if shows_date(source) else None
        self._cache = cache
        self._guards: dict[str, tuple[Guard, Guard]] = {}

    def render(
        self,
        messages: Any,
        *,
        tools: Any = None,
        documents: Any = None,
        add_generation_prompt: bool = True,
        continue_final_message: bool = False,
        **kwargs: Any,
    ) -> Prompt:
        """The prompt for `messages`, a list of {"role", "content", ...} as in OpenAI's protocol.

        continue_final_message  the prompt ends inside the last message, which must be the assistant's
        kwargs                  further variables of the template, such as enable_thinking

        Raises UsageError for messages, tools or documents that cannot be meant, naming index and field, and
        TemplateError if the template cannot be compiled, fails even on folded messages, or is cut off.
        """
        tools, documents = plain_list(tools, "tools"), plain_list(documents, "documents")
        tools = in_order(tools) if tools else None
        if tools is not None and self.tool_use is not None:
            template = self.tool_use
        else:
            template = self
        given = {"tools": tools, "documents": documents}
        extra = {key: value for key, value in given.items() if value is not None} | kwargs
        plain = template._plain(messages)
        now = template._now(plain)
        if continue_final_message:
            return template._continued(plain, extra, now)
        return template._folded(plain, extra | {"add_generation_prompt": add_generation_prompt}, now)

    @cached_property
    def capabilities(self) -> "Capabilities":
        """What this template takes, found by trying."""
        from chenxing.chat.bounds import PROBE_SECONDS, Meter
        from chenxing.chat.capabilities import Capabilities

        def probe(messages: list[Message], tools: Any) -> str:
            extra = {"add_generation_prompt": True} | ({"tools": tools} if tools else {})
            now = self._clock()
            return self._program.render(self._variables(messages, extra, now), Meter(0, PROBE_SECONDS), now)

        return Capabilities(probe)

    @cached_property
    def _program(self) -> "Program":
        if self._cache is None:
            from chenxing.chat.program import compile_program

            return compile_program(self.source)
        from chenxing.chat.store import load_program

        return load_program(self.source, self._cache)

    # messages as this template wants them

    def _plain(self, messages: Any) -> list[Message]:
        facts = self._program.facts
        plain = plain_messages(messages, facts.strings)
        for message in plain:
            if message["role"] == "developer":  # gpt-oss, which has the role, takes "system" for it too
                message["role"] = "system"
            if "reasoning_content" in message and "reasoning_content" not in facts.keys:
                for key in facts.keys & set(REASONING_KEYS):
                    message.setdefault(key, message["reasoning_content"])
        return without_request_lines(plain)

    def _now(self, messages: list[Message]) -> datetime:
        now = self._clock()
        return now if self._first_times is None else frozen_time(messages, now, self._first_times)

    def _adapted(self, messages: list[Message]) -> list[Message]:
        """`messages` with what the template does not take folded, each feature asked for only where it occurs."""
        can = self.capabilities
        roles = [message["role"] for message in messages]
        knows_tools = "tool" in self._program.facts.strings or can.tools  # or it prints whatever role there is
        if "tool" in roles and not (knows_tools and can.tool_results):
            messages = fold.results_into_user(messages)
        if any("tool_calls" in message for message in messages) and can.call_form is None:
            messages = fold.calls_into_text(messages)
        if roles[0] == "system" and not can.system:
            messages = fold.system_into_user(messages)
        elif "system" in roles[1:] and not can.late_system:
            messages = fold.system_into_user(messages, keep_first=True)
        roles = [message["role"] for message in messages]
        pairs = set(pairwise(roles))
        if pairs & {("user", "user"), ("assistant", "assistant")} and not can.runs:
            messages = fold.runs_joined(messages)
        if "assistant" in (roles[0], *(roles[1:2] if roles[0] == "system" else ())) and not can.assistant_first:
            messages = fold.user_first(messages)
        return messages

    def _shaped(self, message: Message) -> Message:
        """Content and arguments in the form that the template reads."""
        can = self.capabilities
        content = message["content"]
        if isinstance(content, list) and not can.part_content:
            content = text_of(message)
        elif isinstance(content, str) and not can.string_content:
            content = [{"type": "text", "text": content}]
        message = {**message, "content": content}
        if "tool_calls" in message and (form := can.call_form) is not None:
            shape = _argument_text if form.as_text else parsed_arguments
            message["content"] = message["content"] or form.no_content
            message["tool_calls"] = [
                {**call, "function": {**call["function"], "arguments": shape(call["function"]["arguments"])}}
                for call in message["tool_calls"]
            ]
        return message

    # rendering

    def _folded(self, messages: list[Message], extra: dict[str, Any], now: datetime) -> Prompt:
        """Rendered as the template takes it; if it still fails, with everything folded."""
        from chenxing.chat.program import RenderError

        adapted = self._adapted(messages)
        first: RenderError | None = None
        for folded in chain([adapted], self._plainer(adapted)):
            try:
                return self._rendered(folded, extra, now)
            except RenderError as refusal:
                first = first or refusal  # what it says of the messages as they were given
        assert first is not None
        raise first from None

    def _plainer(self, adapted: list[Message]) -> Iterator[list[Message]]:
        """Everything folded, first with the system prompt in its place: the beginning of a conversation that was
        rendered before, without the message that is refused now, stays the same text."""
        folded = fold.all_folded(adapted)
        kept = fold.all_folded(adapted, keep_first=True)
        if self.capabilities.system and kept not in (adapted, folded):
            yield kept
        if folded != adapted:
            yield folded

    def _rendered(self, messages: list[Message], extra: dict[str, Any], now: datetime) -> Prompt:
        from chenxing.chat.bounds import Meter

        messages = [self._shaped(message) for message in messages]
        lists = {key: extra[key] for key in ("tools", "documents") if key in extra}
        character = guard_character([messages, *lists.values(), self.source])
        assistant, others = self._guard(character)
        guarded = guard_messages(messages, assistant, others)
        for key, values in lists.items():
            lists[key] = guard_values(values, others, edges=key == "documents")
        meter = Meter(n_characters(messages, *lists.values()))
        text = self._program.render(self._variables(guarded, extra | lists, now), meter, now)
        return Prompt(text, character if character in text else None, bool(self.bos) and text.startswith(self.bos))

    def _variables(self, messages: list[Message], extra: Mapping[str, Any], now: datetime) -> dict[str, Any]:
        """As llama.cpp passes them: tools and documents are undefined if there are none, two forms of the date."""
        dates = {"date_string": now.strftime("%d %b %Y"), "datetime": now.strftime("%b %d %Y")}
        return {"messages": messages, "bos_token": self.bos, "eos_token": self.eos} | dates | dict(extra)

    def _guard(self, character: str) -> tuple[Guard, Guard]:
        """For the assistant's messages, and for everything else."""
        if character not in self._guards:
            texts = guarded_texts(self._special, self._user_defined, self.source, self._program.facts.sought)
            assistant, others = (Guard(t, character) for t in texts)
            self._guards[character] = assistant, others
        return self._guards[character]

    def _continued(self, messages: list[Message], extra: dict[str, Any], now: datetime) -> Prompt:
        """The template writes the last message with a mark at its end, and the prompt is cut there.

        Where the text holds what the template itself looks for (`<think>`), it would be taken apart: then the prompt
        is the one that the model was given for this message, followed by the text as the model wrote it.
        """
        *before, last = messages
        if last["role"] != "assistant" or "tool_calls" in last:
            raise UsageError(
                f"messages[{len(before)}]: only an assistant's message without tool calls can be continued"
            )
        text = text_of(last, separator="\n\n")  # as llama.cpp joins the parts of a message that it continues
        if before and any(mark in text for mark in self._program.facts.sought if _TAG.fullmatch(mark)):
            head = self._folded(before, extra | {"add_generation_prompt": True}, now)
            overlap = max(n for n in range(len(text) + 1) if head.text.endswith(text[:n]))
            return self._appended(head, text[overlap:])
        key = "content" if text or "reasoning_content" not in last else "reasoning_content"
        mark = guard_character([messages, extra, self.source])
        marked = (text if key == "content" else last[key]) + mark
        prompt = self._folded([*before, {**last, key: marked}], extra | {"add_generation_prompt": False}, now)
        if prompt.text.count(mark) != 1:
            raise TemplateError(f"messages[{len(before)}]: the chat template does not show its {key}")
        return Prompt(prompt.text.partition(mark)[0], prompt.guard, prompt.has_bos)

    def _appended(self, head: Prompt, text: str) -> Prompt:
        character = head.guard or guard_character([head.text, text])
        guarded = self._guard(character)[0].edges(text)
        return Prompt(head.text + guarded, character if character in guarded else head.guard, head.has_bos)


def _argument_text(arguments: Any) -> str:
    return arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
