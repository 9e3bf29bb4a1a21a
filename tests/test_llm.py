"""Conversations with a real model: the next turn finds the keys and values of the last answer, to the token."""

import json
import os
import subprocess
import sys

import pytest

from chenxing import LLM
from chenxing.chat.turns import Turns
from chenxing.errors import UsageError
from chenxing.sampling import SamplingParams

pytestmark = pytest.mark.model
# hot enough that the model spells words in pieces that the tokenizer would join
WILD = SamplingParams(temp=2.0, top_k=0, top_p=1.0, min_p=0.0005, seed=2)


@pytest.fixture(scope="module")
def loaded(smollm2_path):
    with LLM.load(smollm2_path, n_ctx=2048, disk_cache=False) as llm:
        yield llm


@pytest.fixture
def llm(loaded, tmp_path, monkeypatch):
    """Remembers in a folder of the test's own."""
    monkeypatch.setattr(loaded, "_turns", Turns(tmp_path, loaded.tokenizer.key))
    return loaded


def user(text):
    return {"role": "user", "content": text}


def assistant(text):
    return {"role": "assistant", "content": text}


def conversation(llm, n_turns, **options):
    """-> messages, answers, prompts"""
    messages, answers, prompts = [], [], []
    for i in range(n_turns):
        messages.append(user(f"Tell me story number {i + 1}."))
        prompts.append(llm.prompt_ids(messages))
        answers.append(llm.chat(messages, params=WILD, max_tokens=60, **options))
        messages.append(assistant(answers[-1].text))
    return messages, answers, prompts


def test_three_turns_reuse_every_token(llm):
    messages, answers, prompts = conversation(llm, 3)
    respelt = [llm.tokenize(answer.text, add_special=False) for answer in answers]
    assert all(ids != answer.token_ids for ids, answer in zip(respelt, answers, strict=True))  # else nothing is shown
    for before, prompt, answer, after in zip(prompts, prompts[1:], answers, answers[1:], strict=False):
        assert prompt[: len(before) + len(answer.token_ids)] == [*before, *answer.token_ids]
        # the last token of an answer that max_tokens ended was never computed
        n_computed = len(before) + len(answer.token_ids) - (answer.finish_reason == "length")
        assert after.stats.n_cached == n_computed
    assert llm.detokenize(llm.prompt_ids(messages)) == llm.detokenize(
        llm.tokenize(llm.template.render(messages).plain, parse_special=True)
    )


def test_the_next_process_spells_alike(llm, tmp_path, smollm2_path):
    messages, answers, prompts = conversation(llm, 2)
    messages.append(user("Another one."))
    code = """if True:
        import json, sys
        from pathlib import Path
        from chenxing.chat import load_template
        from chenxing.chat.turns import Turns
        from chenxing.gguf import open_gguf
        from chenxing.tokenizer import load_tokenizer
        model = open_gguf(Path(sys.argv[1]))
        tokenizer = load_tokenizer(model)
        template = load_template(model.metadata, tokenizer)
        prompt = template.render(json.loads(sys.argv[3]))
        turns = Turns(Path(sys.argv[2]), tokenizer.key)
        print(tokenizer.encode(prompt.text, parse_special=True, guard=prompt.guard, spellings=turns))
    """
    arguments = [sys.executable, "-c", code, str(smollm2_path), str(tmp_path), json.dumps(messages)]
    run = subprocess.run(arguments, env=os.environ | {"CHENXING_HOME": str(tmp_path)}, capture_output=True, check=True)
    ids = json.loads(run.stdout)
    assert ids == llm.prompt_ids(messages)
    assert ids[: len(prompts[1]) + len(answers[1].token_ids)] == [*prompts[1], *answers[1].token_ids]


def test_an_edited_answer_is_tokenised_as_text(llm):
    messages, answers, prompts = conversation(llm, 1)
    edited = [messages[0], assistant(answers[0].text + "!"), user("More.")]
    ids = llm.prompt_ids(edited)
    prompt = llm.template.render(edited)
    assert ids == llm.tokenize(prompt.plain, parse_special=True)
    assert llm.chat(edited, params=WILD, max_tokens=1).stats.n_cached >= len(prompts[0])


def test_a_stop_string_cuts_what_is_remembered(llm):
    question = [user("Tell me a story.")]
    free = llm.chat(question, params=WILD, max_tokens=40)
    stop = llm.detokenize(free.token_ids[20:23])
    cut = llm.chat(question, params=WILD, max_tokens=40, stop=[stop])
    assert cut.finish_reason == "stop" and len(cut.token_ids) > 20 > 0
    n = len(llm.prompt_ids(question))
    ids = llm.prompt_ids([*question, assistant(cut.text), user("More.")])
    assert ids[n : n + 20] == free.token_ids[:20] and cut.text == llm.detokenize(free.token_ids[:20])


def test_a_continued_answer_is_one(llm):
    question = [user("Tell me a story.")]
    first = llm.chat(question, params=WILD, max_tokens=20)
    begun = [*question, assistant(first.text)]
    more = llm.chat(begun, params=WILD, max_tokens=20, continue_final_message=True)
    assert more.stats.n_cached == len(llm.prompt_ids(question)) + 19
    ids = llm.prompt_ids([*question, assistant(first.text + more.text), user("And then?")])
    n = len(llm.prompt_ids(question))
    assert ids[n : n + 40] == first.token_ids + more.token_ids


def test_clients_with_a_template_of_their_own(llm):
    """Raw prompts are spelt alike where a special token follows the answer."""
    before = "<|im_start|>user\nTell me a story.<|im_end|>\n<|im_start|>assistant\n"
    answer = llm.generate(before, raw=True, params=WILD, max_tokens=40)
    n = len(llm.prompt_ids(before, raw=True))
    ids = llm.prompt_ids(f"{before}{answer.text}<|im_end|>\n<|im_start|>user\n", raw=True)
    assert ids[n : n + 40] == answer.token_ids != llm.tokenize(answer.text, add_special=False)
    plain = f"{before}{answer.text} and so on"
    assert llm.prompt_ids(plain, raw=True) == llm.tokenize(plain, parse_special=True)


def test_a_cancelled_answer_is_remembered_as_far_as_it_came(llm):
    question = [user("Tell me a story.")]
    generation = llm.stream(question, params=WILD)
    for _ in generation:
        if len(generation.token_ids) == 30:
            generation.cancel()
    assert generation.finish_reason == "cancelled" and len(generation.token_ids) == 30
    later = [*question, assistant(generation.text), user("Go on.")]
    n = len(llm.prompt_ids(question))
    assert llm.prompt_ids(later)[n : n + 30] == generation.token_ids
    assert llm.chat(later, params=WILD, max_tokens=1).stats.n_cached >= n + 30


def test_a_prompt_that_a_template_has_rendered_and_a_constraint(llm):
    question = [user("Is the sky blue?")]
    rendered = llm.template.render(question)
    answer = llm.generate(rendered, constraint=llm.grammars.regex("(yes|no)"), params=SamplingParams(temp=0.0))
    assert answer.text in ("yes", "no")
    with pytest.raises(UsageError, match="constraint and regex exclude each other"):
        llm.stream(question, regex="a", constraint=llm.grammars.regex("b"))
