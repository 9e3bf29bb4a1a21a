"""Law L7: no text of a message becomes a special token, and nothing but the guard is added to it."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chenxing.chat.guard import GUARDS, Guard, guard_character, guard_messages, guard_values, guarded_texts
from chenxing.chat.template import ChatTemplate
from chenxing.errors import UsageError

SEEDED = settings(derandomize=True, deadline=None, max_examples=150)

G = GUARDS[0]
SPECIAL = ["<|im_start|>", "<|im_end|>", "<s>", "</s>", "<think>", "</think>", "[INST]", "<|a|>b|>", "|>b|>", "<<"]
MATCH = re.compile("|".join(map(re.escape, sorted(SPECIAL, key=len, reverse=True))))

pieces = st.sampled_from([*SPECIAL, "<", "|", ">", "im", "_end|>", "|>", "s", "b", "ä", "\n", "end", "[", "]", "/"])
texts = st.lists(pieces, max_size=8).map("".join)


@SEEDED
@given(texts)
def test_whole_breaks_every_occurrence_and_adds_nothing_else(text):
    guarded = Guard(SPECIAL, G).whole(text)
    assert guarded.replace(G, "") == text
    assert not MATCH.search(guarded)
    assert (G in guarded) == bool(MATCH.search(text))


@SEEDED
@given(texts, texts, texts)
def test_edges_break_what_comes_about_between_strings(before, text, after):
    # what a template writes around a string, and what other strings bring, must not complete a token with it
    guarded = Guard(SPECIAL, G).edges(text)
    assert guarded.replace(G, "") == text
    start, end = len(before), len(before) + len(guarded)
    for match in _overlapping(before + guarded + after):
        assert match.end() <= start or match.start() >= end or not guarded


def _overlapping(text):
    return [m for at in range(len(text)) if (m := MATCH.match(text, at))]


def test_overlapping_occurrences_are_both_broken():
    assert Guard(SPECIAL, G).whole("<|a|>b|>") == f"<{G}|a|{G}>b|>"


def test_edges_only_where_needed():
    guard = Guard(["<|im_end|>"], G)
    assert guard.edges("plain text > and more |") == "plain text > and more |"
    assert guard.edges("a <") == f"a <{G}"
    assert guard.edges("> quoted") == f"{G}> quoted"
    assert guard.edges("im_end") == f"{G}im_end"
    assert guard.edges(" \n") == " \n"


def test_a_border_is_also_where_trimming_puts_it():
    assert Guard(["<|im_end|>"], G).edges("\n|> a <| \n") == f"\n{G}|> a <|{G} \n"
    assert Guard(["<| x |>"], G).edges("a <| ") == f"a <|{G} {G}"


def test_white_space_and_single_characters_are_left():
    assert Guard(["\n\n", "  ", "x", ""], G).edges("x\n\nx  x") == "x\n\nx  x"


def test_no_texts_no_guards():
    assert Guard([], G).edges("<|im_end|>") == "<|im_end|>"


def test_many_texts_are_fast():
    # Gemma has 6,000 of them, and a text may hold as many beginnings
    guard = Guard([f"<unused{i}>" for i in range(6000)], G)
    text = "<unused7> <unused6001> <b>" * 5000
    assert guard.whole(text).count(G) == 5000


def test_the_guard_character_is_one_that_is_not_used():
    assert guard_character(["a", {"b": ["c"]}]) == GUARDS[0]
    assert guard_character([GUARDS[0], {GUARDS[1]: [GUARDS[2]]}]) == GUARDS[3]
    with pytest.raises(UsageError, match="one must be left unused"):
        guard_character("".join(GUARDS))


def test_which_texts_are_guarded():
    special, user_defined = ["<|im_end|>", "[THINK]", "<|x|>"], ["<tool_call>", "<h1>", "<|x|>"]
    source = "{{ '<tool_call>' }}{% if '[THINK]' in m.content %}"
    assistant, others = guarded_texts(special, user_defined, source, ["[THINK]\n"])
    # the template writes <tool_call> and looks for [THINK]; a user-defined token in an answer is what the model wrote
    assert others == {"<|im_end|>", "[THINK]", "<|x|>", "<tool_call>"}
    assert assistant == {"<|im_end|>"}


def test_all_strings_of_a_message_are_guarded():
    evil, broken = "<|im_end|>", f"<{G}|im_end|>"
    message = {
        "role": "assistant",
        "content": [{"type": "text", "text": evil}],
        "reasoning_content": evil,
        "name": evil,
        "tool_calls": [{"id": evil, "function": {"name": evil, "arguments": {evil: [evil, 1, None, {"a": evil}]}}}],
    }
    (guarded,) = guard_messages([message], Guard([evil], G), Guard([], G))
    assert guarded == {
        "role": "assistant",
        "content": [{"type": "text", "text": broken}],
        "reasoning_content": broken,
        "name": broken,
        "tool_calls": [
            {"id": broken, "function": {"name": broken, "arguments": {broken: [broken, 1, None, {"a": broken}]}}}
        ],
    }


def test_words_that_templates_compare_are_spared():
    guard = Guard(["<|im_end|>", "<|text|>", "<|user|>"], G)
    message = {"role": "user", "content": [{"type": "text", "text": "text"}], "name": "user"}
    (guarded,) = guard_messages([message], guard, guard)
    assert guarded == {"role": "user", "content": [{"type": "text", "text": f"{G}text"}], "name": "user"}
    tool = {"type": "function", "function": {"name": "user", "parameters": {"type": "text"}}}
    assert guard_values([tool], guard, edges=False) == [tool]


TEMPLATE = (
    "{{ bos_token }}{% for m in messages %}<|im_start|>{{ m.role }}\n"
    "{% if m.role == 'assistant' and '</think>' in m.content %}{{ m.content.split('</think>')[-1] | trim }}"
    "{% else %}{{ m.content | trim }}{% endif %}{{ m.name }}{% if m.tool_calls %}"
    "{% for c in m.tool_calls %}[INST]{{ c.function | tojson(ensure_ascii=true) }}{{ c.id }}{% endfor %}{% endif %}"
    "<|im_end|>\n{% endfor %}"
)

CONTROL = [text for text in SPECIAL if "think" not in text]
UNGUARDED = ChatTemplate(TEMPLATE, bos="<s>", eos="</s>")
GUARDED = ChatTemplate(TEMPLATE, bos="<s>", eos="</s>", special=CONTROL)

messages = st.lists(
    st.fixed_dictionaries({"role": st.sampled_from(["user", "system", "assistant"]), "content": texts})
    | st.builds(
        lambda content, name, arguments: {
            "role": "assistant",
            "content": content,
            "tool_calls": [{"id": "1", "function": {"name": name, "arguments": arguments}}],
        },
        texts,
        texts,
        st.dictionaries(texts, texts, max_size=2),
    ),
    min_size=1,
    max_size=4,
)


@SEEDED
@given(messages)
def test_in_a_template_only_the_template_writes_special_tokens(messages):
    prompt = GUARDED.render(messages)
    assert prompt.plain == UNGUARDED.render(messages).text
    tokens = [m[0] for m in MATCH.finditer(prompt.text) if m[0] in CONTROL]
    calls = sum(len(m.get("tool_calls", ())) for m in messages)
    starts_and_ends = ["<|im_start|>", "<|im_end|>"] * len(messages)
    assert sorted(tokens) == sorted(["<s>", *starts_and_ends, *["[INST]"] * calls])


def test_a_prompt_without_special_texts_in_it_has_no_guard():
    prompt = ChatTemplate(TEMPLATE, bos="<s>", eos="", special=SPECIAL).render([{"role": "user", "content": "Hi"}])
    assert prompt.guard is None
    assert prompt.plain == prompt.text


def test_guard_characters_in_the_text_are_kept():
    template = ChatTemplate("{{ messages[0].content }}", bos="", eos="", special=["<s>"])
    prompt = template.render([{"role": "user", "content": f"{GUARDS[0]}<s>"}])
    assert (prompt.text, prompt.guard) == (f"{GUARDS[0]}<{GUARDS[1]}s>", GUARDS[1])
    assert prompt.plain == f"{GUARDS[0]}<s>"
