import pytest
from fake_llm import FakeLLM

from chenxing.errors import UsageError
from chenxing.sampling import SamplingParams
from chenxing.terminal.session import Options, Session


def session_of(llm: FakeLLM, **options: object) -> Session:
    return Session(llm, Options(SamplingParams(), **options))


def answer(session: Session, generation) -> str:
    text = "".join(generation)
    session.record(generation)
    return text


def test_messages_grow_by_question_and_answer() -> None:
    llm = FakeLLM(["Hel", "lo"], ["Fine"])
    session = session_of(llm)
    session.system = "Be short."
    answer(session, session.ask("Hi"))
    answer(session, session.ask("How are you?"))
    assert [message["content"] for message in session.messages] == ["Be short.", "Hi", "Hello", "How are you?", "Fine"]
    assert [message["role"] for message in llm.calls[1].prompt] == ["system", "user", "assistant", "user"]


def test_options_reach_the_model() -> None:
    llm = FakeLLM(["a"])
    params = SamplingParams(temp=0.1)
    session = Session(llm, Options(params, 7, ("END",), {"enable_thinking": False}))
    session.ask("Hi")
    (call,) = llm.calls
    assert (call.params, call.max_tokens, call.stop, call.raw) == (params, 7, ("END",), False)
    assert call.template_kwargs == {"enable_thinking": False}


def test_what_the_model_was_asked_does_not_change_afterwards() -> None:
    llm = FakeLLM(["a"], ["b"])
    session = session_of(llm)
    answer(session, session.ask("1"))
    asked = list(llm.calls[0].prompt)
    answer(session, session.ask("2"))
    assert llm.calls[0].prompt == asked


@pytest.mark.parametrize("llm", [FakeLLM(["a"], ["b"], template=False), FakeLLM(["a"], ["b"])])
def test_raw_inputs_stand_alone(llm: FakeLLM) -> None:
    session = session_of(llm, raw=llm.template is not None)
    answer(session, session.ask("Once"))
    answer(session, session.ask("Twice"))
    assert [(call.prompt, call.raw) for call in llm.calls] == [("Once", True), ("Twice", True)]
    assert session.messages == []
    with pytest.raises(UsageError, match="needs a chat template"):
        session.system = "Be short."


def test_reasoning_is_kept_beside_the_answer() -> None:
    session = session_of(FakeLLM(["<think>Hm", "</think>\n\n", "Yes."]))
    answer(session, session.ask("Sure?"))
    assert session.messages[-1] == {"role": "assistant", "content": "Yes.", "reasoning_content": "Hm"}


def test_reasoning_that_the_template_opened() -> None:
    session = session_of(FakeLLM(["Hm", "</think>", "Yes."], opening="<think>\n"))
    assert session.reasoning_opened()
    answer(session, session.ask("Sure?"))
    assert session.messages[-1] == {"role": "assistant", "content": "Yes.", "reasoning_content": "Hm"}


def test_an_answer_that_was_stopped_is_kept_as_far_as_it_came() -> None:
    session = session_of(FakeLLM(["One ", lambda generation: generation.cancel(), "two"]))
    answer(session, session.ask("Count"))
    assert session.messages[-1]["content"] == "One "


def test_a_question_that_was_stopped_before_its_answer_is_taken_back() -> None:
    session = session_of(FakeLLM(["a"], [lambda generation: generation.cancel(), "b"]))
    answer(session, session.ask("1"))
    answer(session, session.ask("2"))
    assert [message["content"] for message in session.messages] == ["1", "a"]


def test_asking_again_replaces_the_answer() -> None:
    llm = FakeLLM(["first"], ["second"])
    session = session_of(llm)
    answer(session, session.ask("Hi"))
    answer(session, session.ask_again())
    assert [message["content"] for message in session.messages] == ["Hi", "second"]
    assert llm.calls[1].prompt == [{"role": "user", "content": "Hi"}]


def test_the_old_answer_comes_back_if_the_new_one_fails() -> None:
    session = session_of(FakeLLM(["first"], [lambda generation: generation.cancel(), "x"], ["y"]))
    answer(session, session.ask("Hi"))
    answer(session, session.ask_again())
    assert [message["content"] for message in session.messages] == ["Hi", "first"]
    session.ask_again()
    session.abandon()
    assert [message["content"] for message in session.messages] == ["Hi", "first"]


def test_a_fixed_seed_moves_on_so_that_another_answer_is_another_one() -> None:
    llm = FakeLLM(["a"], ["b"], ["c"], ["d"])
    session = Session(llm, Options(SamplingParams(seed=10)))
    answer(session, session.ask("Hi"))
    answer(session, session.ask_again())
    answer(session, session.ask_again())
    answer(session, session.ask("Next"))
    assert [call.params.seed for call in llm.calls] == [10, 11, 12, 10]


def test_there_must_be_something_to_answer_again() -> None:
    session = session_of(FakeLLM())
    session.system = "Be short."
    with pytest.raises(UsageError, match="nothing to answer again"):
        session.ask_again()


def test_clear_keeps_the_system_prompt() -> None:
    session = session_of(FakeLLM(["a"]))
    session.system = "Be short."
    answer(session, session.ask("Hi"))
    session.clear()
    assert session.messages == [{"role": "system", "content": "Be short."}]
    session.system = None
    assert session.messages == [] and session.system is None


@pytest.mark.model
def test_another_answer_and_another_question_compute_the_last_turn_only(smollm2_path, tmp_path, monkeypatch) -> None:
    from chenxing import LLM
    from chenxing.chat.turns import Turns

    with LLM.load(smollm2_path, n_ctx=1024, disk_cache=False) as llm:
        monkeypatch.setattr(llm, "_turns", Turns(tmp_path, llm.tokenizer.key))
        # hot enough that the tokenizer would spell the answers otherwise
        session = Session(
            llm, Options(SamplingParams(temp=2.0, top_k=0, top_p=1.0, min_p=0.0005, seed=2), max_tokens=40)
        )
        for text in ("Tell me a story.", "Another one.", "And a third."):
            generation = session.ask(text)
            answer(session, generation)
        n_prompt = generation.stats.n_prompt

        again = session.ask_again()
        answer(session, again)
        assert (again.stats.n_prompt, again.stats.n_cached) == (n_prompt, n_prompt - 1)

        edited = session.messages[-2]["content"].replace("third", "last")
        del session.messages[-2:]  # the question is asked otherwise
        generation = session.ask(edited)
        answer(session, generation)
        until_question = len(llm.prompt_ids(session.messages[:-2])) - len(llm.tokenize("assistant\n")) - 1
        assert generation.stats.n_cached > until_question
        assert generation.stats.n_prompt == n_prompt
