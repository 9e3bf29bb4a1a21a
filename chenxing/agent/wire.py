"""Events of a ReAct run as JSON, one object each, for programs that read along."""

from typing import Any

import msgspec

from chenxing.agent.events import Asked, Emitted, Event, NodeEnd, NodeStart, StepEnd
from chenxing.agent.model import Piece
from chenxing.agent.react import Answered, Called, Observed, ReactState


def as_json(event: Event) -> dict[str, Any]:
    """ "event" says which it is: node_start, node_end, token, call, observation, answer, ask, step."""
    match event:
        case NodeStart(node, step):
            return {"event": "node_start", "node": node, "step": step}
        case NodeEnd(node, step, update):
            return {"event": "node_end", "node": node, "step": step, "update": update}
        case Emitted(node, step, what):
            return {**_emitted(what), "node": node, "step": step}
        case Asked(node, step, question):
            return {"event": "ask", "node": node, "step": step, "question": question}
        case StepEnd(at, _):
            return {"event": "step", "run": at.run, "step": at.step, "next": list(at.next)}


def end_as_json(run: str, step: int, state: ReactState) -> dict[str, Any]:
    """The last event: the answer, with the tokens of all of the model's answers together."""
    cached = [usage.n_cached for usage in state.usage if usage.n_cached is not None]
    usage = {
        "prompt_tokens": sum(usage.n_prompt for usage in state.usage),
        "cached_tokens": sum(cached) if cached else None,
        "completion_tokens": sum(usage.n_generated for usage in state.usage),
    }
    end = {"event": "end", "run": run, "step": step, "ending": state.ending, "answer": state.answer}
    return end | {"answers": state.n_answers, "usage": usage}


def _emitted(what: Any) -> dict[str, Any]:
    match what:
        case Piece(kind, text):
            return {"event": "token", "kind": kind, "text": text}
        case Called(call):
            return {"event": "call", **msgspec.to_builtins(call)}
        case Observed(call, observation):
            found = {"text": observation.text, "is_error": observation.is_error}
            return {"event": "observation", "id": call.id, "name": call.name, **found}
        case Answered(answer):
            return {"event": "answer", **msgspec.to_builtins(answer)}
    return {"event": "emitted", "what": msgspec.to_builtins(what)}
