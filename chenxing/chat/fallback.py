"""Chat formats by llama.cpp's names, as Jinja templates, for files that have none of their own.

The formats are facts of the models, read in llama.cpp's src/llama-chat.cpp (b11434) and compared with it by
tests/peers. Nearly all of them are a text before and a text after each message's content. A role that a format lacks
is missing here, and fold.py puts its text into the user's. As in llama.cpp, none begins with the BOS token: the
tokenizer adds that where the model wants it.
"""

import json
from collections.abc import Collection

LOOP = "{% for message in messages %}"
END = "{% endif %}{% endfor %}"


def _text(text: str) -> str:
    """A Jinja string."""
    return json.dumps(text, ensure_ascii=False)


def _content(role: str, trim: Collection[str]) -> str:
    return "message.content | trim" if role in trim else "message.content"


def same(before: str, middle: str, after: str, ask: str, *, start: str = "", trim: Collection[str] = ()) -> str:
    """All roles alike: `before` ROLE `middle` CONTENT `after`. `ask` opens the answer, `trim` names trimmed roles."""
    trimmed = f"(message.content | trim) if message.role in {json.dumps(list(trim))} else message.content"
    return (
        f"{{{{ {_text(start)} }}}}{LOOP}"
        f"{{{{ {_text(before)} + message.role + {_text(middle)} + ({trimmed}) + {_text(after)} }}}}{{% endfor %}}"
        f"{{% if add_generation_prompt %}}{{{{ {_text(ask)} }}}}{{% endif %}}"
    )


def each(
    ask: str, *, start: str = "", no_system: str = "", trim: Collection[str] = (), **roles: tuple[str, str]
) -> str:
    """Each role with its own texts before and after the content. `no_system` stands in for a missing system message."""
    branches = "{% elif ".join(
        f"message.role == {_text(role)} %}}{{{{ {_text(before)} + ({_content(role, trim)}) + {_text(after)} }}}}"
        for role, (before, after) in roles.items()
    )
    return (
        f"{{{{ {_text(start)} }}}}{{% if messages[0].role != 'system' %}}{{{{ {_text(no_system)} }}}}{{% endif %}}"
        f"{LOOP}{{% if {branches}{END}"
        f"{{% if add_generation_prompt %}}{{{{ {_text(ask)} }}}}{{% endif %}}"
    )


def bracketed(
    opening: str,
    system: tuple[str, str],
    user_end: str,
    assistant: tuple[str, str],
    *,
    again: str = "",
    trim: Collection[str] = (),
) -> str:
    """The Llama-2 and Mistral family: system and user share one bracket, which an answer closes.

    again  opens a bracket after an answer, if not `opening` does
    """
    return (
        "{% set ns = namespace(open=false) %}"
        f"{LOOP}{{% if message.role in ['system', 'user'] and not ns.open %}}{{% set ns.open = true %}}"
        f"{{{{ {_text(opening)} if loop.first else {_text(again or opening)} }}}}{{% endif %}}"
        f"{{% if message.role == 'system' %}}"
        f"{{{{ {_text(system[0])} + ({_content('system', trim)}) + {_text(system[1])} }}}}"
        f"{{% elif message.role == 'user' %}}{{{{ ({_content('user', trim)}) + {_text(user_end)} }}}}"
        f"{{% elif message.role == 'assistant' %}}{{% set ns.open = false %}}"
        f"{{{{ {_text(assistant[0])} + ({_content('assistant', trim)}) + {_text(assistant[1])} }}}}{END}"
    )


_ALL = ("system", "user", "assistant")
_SYS = ("<<SYS>>\n", "\n<</SYS>>\n\n")
_GRANITE = same(
    "<|start_of_role|>", "<|end_of_role|>", "<|end_of_text|>\n", "<|start_of_role|>assistant<|end_of_role|>"
)


def _bailing(ask: str = "", *, end: str = "", no_system: str = "") -> str:
    return each(
        "<role>ASSISTANT</role>" + ask,
        no_system=no_system,
        system=("<role>SYSTEM</role>", end),
        user=("<role>HUMAN</role>", end),
        assistant=("<role>ASSISTANT</role>", end),
    )


FALLBACKS: dict[str, str] = {
    "chatml": same("<|im_start|>", "\n", "<|im_end|>\n", "<|im_start|>assistant\n"),
    "llama2": bracketed("[INST] ", ("", "\n"), " [/INST]", ("", "</s>")),
    "llama2-sys": bracketed("[INST] ", _SYS, " [/INST]", ("", "</s>")),
    "llama2-sys-bos": bracketed("[INST] ", _SYS, " [/INST]", ("", "</s>"), again="<s>[INST] "),
    "llama2-sys-strip": bracketed("[INST] ", _SYS, " [/INST]", ("", "</s>"), trim=_ALL),
    "mistral-v1": bracketed(" [INST] ", ("", "\n\n"), " [/INST]", (" ", "</s>")),
    "mistral-v3": bracketed("[INST] ", ("", "\n\n"), "[/INST]", (" ", "</s>"), trim=("assistant",)),
    "mistral-v3-tekken": bracketed("[INST]", ("", "\n\n"), "[/INST]", ("", "</s>")),
    "mistral-v7": each(
        "", system=("[SYSTEM_PROMPT] ", "[/SYSTEM_PROMPT]"), user=("[INST] ", "[/INST]"), assistant=(" ", "</s>")
    ),
    "mistral-v7-tekken": each(
        "", system=("[SYSTEM_PROMPT]", "[/SYSTEM_PROMPT]"), user=("[INST]", "[/INST]"), assistant=("", "</s>")
    ),
    "phi3": same("<|", "|>\n", "<|end|>\n", "<|assistant|>\n"),
    "phi4": same("<|im_start|>", "<|im_sep|>", "<|im_end|>", "<|im_start|>assistant<|im_sep|>"),
    "falcon3": same("<|", "|>\n", "\n", "<|assistant|>\n"),
    "zephyr": same("<|", "|>\n", "<|endoftext|>\n", "<|assistant|>\n"),
    "monarch": f"{LOOP}{{{{ ('' if loop.first else '<s>') + message.role + '\\n' + message.content + '</s>\\n' }}}}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<s>assistant\\n' }}{% endif %}",
    "gemma": each(
        "<start_of_turn>model\n",
        user=("<start_of_turn>user\n", "<end_of_turn>\n"),
        assistant=("<start_of_turn>model\n", "<end_of_turn>\n"),
        trim=_ALL,
    ),
    "orion": each("", user=("Human: ", "\n\nAssistant: </s>"), assistant=("", "</s>")),
    "openchat": each(
        "GPT4 Correct Assistant:",
        system=("", "<|end_of_turn|>"),
        user=("GPT4 Correct User: ", "<|end_of_turn|>"),
        assistant=("GPT4 Correct Assistant: ", "<|end_of_turn|>"),
    ),
    "vicuna": each("ASSISTANT:", system=("", "\n\n"), user=("USER: ", "\n"), assistant=("ASSISTANT: ", "</s>\n")),
    "vicuna-orca": each(
        "ASSISTANT:", system=("SYSTEM: ", "\n"), user=("USER: ", "\n"), assistant=("ASSISTANT: ", "</s>\n")
    ),
    "deepseek": each(
        "### Response:\n",
        system=("", ""),
        user=("### Instruction:\n", "\n"),
        assistant=("### Response:\n", "\n<|EOT|>\n"),
    ),
    "deepseek2": each(
        "Assistant:",
        system=("", "\n\n"),
        user=("User: ", "\n\n"),
        assistant=("Assistant: ", "<｜end▁of▁sentence｜>"),
    ),
    "deepseek3": each(
        "<｜Assistant｜>",
        system=("", "\n\n"),
        user=("<｜User｜>", ""),
        assistant=("<｜Assistant｜>", "<｜end▁of▁sentence｜>"),
    ),
    "command-r": each(
        "<|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|>",
        system=("<|START_OF_TURN_TOKEN|><|SYSTEM_TOKEN|>", "<|END_OF_TURN_TOKEN|>"),
        user=("<|START_OF_TURN_TOKEN|><|USER_TOKEN|>", "<|END_OF_TURN_TOKEN|>"),
        assistant=("<|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|>", "<|END_OF_TURN_TOKEN|>"),
        trim=_ALL,
    ),
    "llama3": same(
        "<|start_header_id|>",
        "<|end_header_id|>\n\n",
        "<|eot_id|>",
        "<|start_header_id|>assistant<|end_header_id|>\n\n",
        trim=_ALL,
    ),
    "llama4": same(
        "<|header_start|>", "<|header_end|>\n\n", "<|eot|>", "<|header_start|>assistant<|header_end|>\n\n", trim=_ALL
    ),
    "chatglm3": same("<|", "|>\n ", "", "<|assistant|>", start="[gMASK]sop"),
    "chatglm4": same("<|", "|>\n", "", "<|assistant|>\n", start="[gMASK]<sop>"),
    "glmedge": same("<|", "|>\n", "", "<|assistant|>"),
    "minicpm": each("", system=("", ""), user=("<用户>", "<AI>"), assistant=("", ""), trim=_ALL),
    "exaone3": each(
        "[|assistant|]",
        system=("[|system|]", "[|endofturn|]\n"),
        user=("[|user|]", "\n"),
        assistant=("[|assistant|]", "[|endofturn|]\n"),
        trim=_ALL,
    ),
    "exaone4": each(
        "[|assistant|]",
        system=("[|system|]", "[|endofturn|]\n"),
        user=("[|user|]", "\n"),
        assistant=("[|assistant|]", "[|endofturn|]\n"),
        trim=_ALL,
    ),
    "exaone-moe": each(
        "<|assistant|>\n",
        system=("<|system|>\n", "<|endofturn|>\n"),
        user=("<|user|>\n", "<|endofturn|>\n"),
        assistant=("<|assistant|>\n", "<|endofturn|>\n"),
        trim=_ALL,
    ),
    "rwkv-world": each(
        "Assistant:",
        system=("System: ", "\n\n"),
        user=("User: ", "\n\n"),
        assistant=("Assistant: ", "\n\n"),
        trim=_ALL,
    ),
    "granite": _GRANITE,
    "granite-4.0": _GRANITE,
    "granite-4.1": _GRANITE,
    "gigachat": each(
        "assistant<|role_sep|>",
        start="<s>",
        system=("", "<|message_sep|>"),
        user=("user<|role_sep|>", "<|message_sep|>available functions<|role_sep|>[]<|message_sep|>"),
        assistant=("assistant<|role_sep|>", "<|message_sep|>"),
    ),
    "megrez": same("<|role_start|>", "<|role_end|>", "<|turn_end|>", "<|role_start|>assistant<|role_end|>"),
    "yandex": each(" Ассистент:[SEP]", user=(" Пользователь: ", "\n\n"), assistant=(" Ассистент: ", "\n\n")),
    "bailing": _bailing(),
    "bailing-think": _bailing("<think>"),
    "bailing2": _bailing(end="<|role_end|>", no_system="<role>SYSTEM</role>detailed thinking off<|role_end|>"),
    "smolvlm": each(
        "Assistant:",
        start="<|im_start|>",
        system=("", "\n\n"),
        user=("User: ", "<end_of_utterance>\n"),
        assistant=("Assistant: ", "<end_of_utterance>\n"),
    ),
    "hunyuan-moe": each(
        "",
        system=("<|startoftext|>", "<|extra_4|>"),
        user=("<|startoftext|>", "<|extra_0|>"),
        assistant=("", "<|eos|>"),
    ),
    "gpt-oss": each(
        "<|start|>assistant",
        system=("<|start|>system<|message|>", "<|end|>"),
        developer=("<|start|>developer<|message|>", "<|end|>"),
        user=("<|start|>user<|message|>", "<|end|>"),
        assistant=("<|start|>assistant<|message|>", "<|return|>"),
    ),
    "kimi-k2": each(
        "<|im_assistant|>assistant<|im_middle|>",
        system=("<|im_system|>system<|im_middle|>", "<|im_end|>"),
        user=("<|im_user|>user<|im_middle|>", "<|im_end|>"),
        assistant=("<|im_assistant|>assistant<|im_middle|>", "<|im_end|>"),
    ),
    "seed_oss": same("<seed:bos>", "\n", "<seed:eos>", "<seed:bos>assistant\n", trim=("assistant",)),
    "grok-2": each(
        "Assistant:",
        system=("System: ", "<|separator|>\n\n"),
        user=("Human: ", "<|separator|>\n\n"),
        assistant=("Assistant: ", "<|separator|>\n\n"),
        trim=("system", "user"),
    ),
    "pangu-embedded": each(
        "[unused9]助手：",
        no_system="[unused9]系统：[unused10]",
        system=("[unused9]系统：", "[unused10]"),
        user=("[unused9]用户：", "[unused10]"),
        assistant=("[unused9]助手：", "[unused10]"),
    ),
    "solar-open": same("<|begin|>", "<|content|>", "<|end|>", "<|begin|>assistant"),
}
