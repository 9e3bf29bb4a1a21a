"""A ReAct agent: the local model thinks, calls a tool of one typed function, and answers with what it was shown.

Its steps are kept in a file; at the end the run is replayed from its first result, which computes nothing of the
prompt again.
"""

import tempfile
from pathlib import Path

from chenxing import LLM
from chenxing.agent import Checkpoints, Emitted
from chenxing.agent.local import LocalModel
from chenxing.agent.react import Called, Observed, question, react
from chenxing.agent.tools import Toolbox, tool
from chenxing.agent.tools.calculator import calculator_tool
from chenxing.sampling import SamplingParams


@tool
def distance(planet: str) -> str:
    """How far a planet is from the sun, in million kilometres.

    planet  its English name
    """
    known = {"mercury": 57.9, "venus": 108.2, "earth": 149.6, "mars": 227.9}
    return str(known.get(planet.lower(), "unknown"))


with LLM.load("smollm2", n_ctx=4096) as llm, tempfile.TemporaryDirectory() as folder:
    model = LocalModel(llm, params=SamplingParams(temp=0.0), max_tokens=80)
    graph = react(model, Toolbox([distance, calculator_tool()]), first_choice="required", max_answers=4)
    with Checkpoints(Path(folder) / "runs.db") as store:
        for event in graph.stream(question("How far is Mars from the sun?"), run="mars", store=store):
            match event:
                case Emitted(what=Called(call)):
                    print(f"call         {call.name} {call.arguments}")
                case Emitted(what=Observed(_, observation)):
                    print(f"observation  {observation.text}")
        state = graph.state.view(store.latest("mars").values)
        print(f"answer       {state.answer}")
        for usage in state.usage:
            print(f"[{usage.n_cached} of {usage.n_prompt} prompt tokens reused]")

        steps = [at for at in store.history("mars") if at.next == ("think",)]
        again = graph.invoke(store.fork(steps[1], "again"), store=store).state.usage[1]
        print(f"[replayed: {again.n_cached} of {again.n_prompt} prompt tokens reused]")
