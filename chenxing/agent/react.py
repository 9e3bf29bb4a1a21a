"""ReAct as a graph of two nodes: think, which asks the model, and act, which makes one of the calls that it wants.

One call a step: each is stored before the next begins, and one that changes something stands alone behind its question.
A run cannot go on for ever: the last time that the model may be asked, it has to answer without tools, and so it has to
when it makes the same call over and over.

Source: Yao 2023 (ReAct).
"""

from dataclasses import dataclass, field
from operator import add
from typing import Annotated, Any

from chenxing.agent.flow import Context
from chenxing.agent.graph import END, START, Graph
from chenxing.agent.model import Answer, Call, Choice, Message, Model, Usage
from chenxing.agent.tools import Observation, Toolbox

MAX_ANSWERS = 12
MOST_REPETITIONS = 3
"""Times that one call is made before the model has to answer."""
SYSTEM = (
    "You answer questions with the help of tools. Call a tool when it can give you a fact that you do not know for "
    "certain; its result is then shown to you. When you know enough, answer in plain text, without a call."
)
LAST = "No further calls are possible. Answer now, in plain text, with what you know."
DECLINED = "The person did not permit this call. Go on without it, or answer."


@dataclass(frozen=True)
class Called:
    """The model wants this call."""

    call: Call


@dataclass(frozen=True)
class Observed:
    """What a call gave, as the model is shown it."""

    call: Call
    observation: Observation


@dataclass(frozen=True)
class Answered:
    """The model has ended an answer."""

    answer: Answer


@dataclass
class ReactState:
    """messages   the conversation
    calls      of the last answer, that are still to be made
    n_answers  how often the model was asked
    usage      of each time
    ending     "answer", or "length" for one that was cut off; "" while it goes on
    """

    messages: Annotated[list[Message], add]
    calls: list[Call] = field(default_factory=list)
    n_answers: int = 0
    usage: Annotated[list[Usage], add] = field(default_factory=list)
    ending: str = ""

    @property
    def answer(self) -> str:
        """The last thing that the model said."""
        said = [m["content"] for m in self.messages if m["role"] == "assistant"]
        return said[-1] if said else ""


def react(model: Model, toolbox: Toolbox, *, max_answers: int = MAX_ANSWERS, first_choice: Choice = "auto") -> Graph:
    """A graph over ReactState that asks before calls which change something, and goes on for True as the answer.

    max_answers   how often the model is asked at most, the last time for an answer without calls
    first_choice  "required" makes the first answer a call
    """

    async def think(state: ReactState, context: Context) -> dict[str, Any]:
        n = state.n_answers + 1
        is_last = n >= max_answers or _goes_in_circles(state.messages)
        choice: Choice = "none" if is_last else first_choice if n == 1 else "auto"
        last = [{"role": "user", "content": LAST}] if choice == "none" and n > 1 else []
        answer = await model.answer([*state.messages, *last], toolbox.described, choice, context.emit)
        context.emit(Answered(answer))
        for call in answer.calls:
            context.emit(Called(call))
        ending = "" if answer.calls else "length" if answer.finish_reason == "length" else "answer"
        update = {"messages": [*last, answer.message], "calls": list(answer.calls), "usage": [answer.usage]}
        return update | {"n_answers": n, "ending": ending}

    async def act(state: ReactState, context: Context) -> dict[str, Any]:
        call, *rest = state.calls
        question = toolbox.question(call.name, call.arguments)
        if question is None or context.interrupt({"tool": call.name, "text": question}) is True:
            observation = await toolbox.call(call.name, call.arguments)
        else:
            observation = Observation(DECLINED, True)
        context.emit(Observed(call, observation))
        message = {"role": "tool", "tool_call_id": call.id, "name": call.name, "content": _shown(observation)}
        return {"messages": [message], "calls": rest}

    graph = Graph(ReactState)
    graph.add_node("think", think)
    graph.add_node("act", act)
    graph.add_edge(START, "think")
    graph.add_conditional_edges("think", _after, {"calls": "act", "no calls": END})
    graph.add_conditional_edges("act", _after, {"calls": "act", "no calls": "think"})
    return graph


def question(text: str, *, system: str | None = SYSTEM) -> dict[str, Any]:
    """The state that a run begins with."""
    first = [{"role": "system", "content": system}] if system else []
    return {"messages": [*first, {"role": "user", "content": text}]}


def _after(state: ReactState) -> str:
    return "calls" if state.calls else "no calls"


def _goes_in_circles(messages: list[Message]) -> bool:
    """The latest calls have all been made often enough, word for word."""
    made = [[call["function"] for call in m["tool_calls"]] for m in messages if m.get("tool_calls")]
    return bool(made) and all(sum(call in calls for calls in made) >= MOST_REPETITIONS for call in made[-1])


def _shown(observation: Observation) -> str:
    return f"Error: {observation.text}" if observation.is_error else observation.text
