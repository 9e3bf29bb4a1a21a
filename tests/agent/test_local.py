"""The local model: valid calls from any weights, and prefixes that are computed once, whoever goes on from where."""

import asyncio
import json
import threading
from itertools import pairwise

import pytest
from reference.toys import TOYS

from chenxing import LLM
from chenxing.agent import Checkpoints, Emitted
from chenxing.agent.local import LocalModel
from chenxing.agent.react import Answered, Observed, question, react
from chenxing.agent.tools import Toolbox, tool
from chenxing.agent.tools.calculator import calculator_tool
from chenxing.errors import UsageError
from chenxing.sampling import SamplingParams

TEMPLATE = "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}assistant: "


@tool
def pick(colour: bool) -> str:
    """Pick."""
    return f"picked {colour}"


@pytest.fixture(scope="module")
def toy(tmp_path_factory):
    path = TOYS["llama"].write(tmp_path_factory.mktemp("toy"))
    options = {"n_ctx": 2048, "n_threads": 1, "chat_template": TEMPLATE, "weight_cache": False, "disk_cache": False}
    with LLM.load(path, **options) as llm:
        yield llm


def run(graph, given, **options):
    return [event for event in graph.stream(given, **options) if isinstance(event, Emitted)]


def test_weights_without_sense_call_with_valid_arguments(toy):
    for seed in range(4):
        model = LocalModel(toy, params=SamplingParams(seed=seed, temp=1.5), max_tokens=200)
        answer = asyncio.run(
            model.answer([{"role": "user", "content": "x"}], [pick.described], "required", lambda piece: None)
        )
        assert answer.calls or answer.finish_reason == "length"
        for call in answer.calls[: -1 if answer.finish_reason == "length" else None]:
            assert call.name == "pick" and set(json.loads(call.arguments)) == {"colour"}


def test_what_is_in_front_is_never_computed_again(toy, tmp_path):
    """Each answer's prompt has the one before in the cache; a replay has all of it but the last token."""
    model = LocalModel(toy, params=SamplingParams(temp=0.0, seed=1), max_tokens=60)
    graph = react(model, Toolbox([pick]), first_choice="required", max_answers=3)
    with Checkpoints(tmp_path / "runs.db") as store:
        used = graph.invoke(question("Which one?"), run="r", store=store).state.usage
        for before, after in pairwise(used):
            assert after.n_cached >= before.n_prompt  # the call itself may be written with other white space
        thinks = [at for at in store.history("r") if at.next == ("think",)]
        assert len(thinks) == len(used)
        for number, (at, first) in enumerate(zip(thinks, used, strict=True)):
            again = graph.invoke(store.fork(at, f"again{number}"), store=store).state.usage[number]
            assert (again.n_prompt, again.n_cached) == (first.n_prompt, first.n_prompt - 1)


def test_branches_share_what_is_before_them(toy, tmp_path):
    model = LocalModel(toy, params=SamplingParams(temp=0.0, seed=1), max_tokens=4)
    graph = react(model, Toolbox([pick]))
    with Checkpoints(tmp_path / "runs.db") as store:
        first = graph.invoke(question("One long question about stars and what they are made of."), run="r", store=store)
        at = store.at("r", 0)
        other = [*at.values["messages"], {"role": "user", "content": "And another one."}]
        used = graph.invoke(store.fork(at, "b", {"messages": other}), store=store).state.usage
    assert used[0].n_prompt > used[0].n_cached >= first.state.usage[0].n_prompt - 32


def test_cancelling_ends_the_answer_and_leaves_the_model_usable(toy):
    model = LocalModel(toy, params=SamplingParams(temp=1.0, seed=1, ignore_eos=True), max_tokens=1500)

    async def leave():
        first = threading.Event()
        work = asyncio.create_task(model.answer([{"role": "user", "content": "x"}], [], "auto", lambda p: first.set()))
        await asyncio.to_thread(first.wait, 100)
        work.cancel()
        with pytest.raises(asyncio.CancelledError):
            await work

    asyncio.run(leave())
    short = LocalModel(toy, max_tokens=3)
    answer = asyncio.run(short.answer([{"role": "user", "content": "x"}], [], "auto", lambda piece: None))
    assert answer.usage.n_generated <= 3


def test_a_model_without_a_template(toy):
    template, toy.template = toy.template, None
    try:
        with pytest.raises(UsageError, match="has no chat template"):
            LocalModel(toy)
    finally:
        toy.template = template


@pytest.mark.model
def test_a_model_of_135_million_calls_the_calculator(smollm2_path, tmp_path):
    with LLM.load(smollm2_path, n_ctx=2048, disk_cache=False) as llm:
        model = LocalModel(llm, params=SamplingParams(temp=0.0), max_tokens=80)
        graph = react(model, Toolbox([calculator_tool()]), first_choice="required", max_answers=3)
        with Checkpoints(tmp_path / "runs.db") as store:
            events = run(graph, question("What is 1234 * 5678?"), run="r", store=store)
            told = [event.what.observation.text for event in events if isinstance(event.what, Observed)]
            assert told[0] == "7006652"
            state = graph.state.view(store.latest("r").values)
            assert state.ending and state.n_answers <= 3
            answers = [event.what.answer for event in events if isinstance(event.what, Answered)]
            assert all(answer.usage.n_cached >= before.usage.n_prompt for before, answer in pairwise(answers))
            fork = store.fork(next(at for at in store.history("r") if at.step and at.next == ("think",)), "again")
            again = graph.invoke(fork, store=store).state.usage[1]
            assert again.n_cached == again.n_prompt - 1
