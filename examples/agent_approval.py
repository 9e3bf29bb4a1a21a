"""Two agents and a person: one writes, one criticises, and nothing is published before somebody has agreed.

The run stops at the question and is kept; here the person's answer comes at once, but it might come next week, to
another process.
"""

from dataclasses import dataclass, field
from operator import add
from typing import Annotated

from chenxing import LLM
from chenxing.agent import END, START, Checkpoints, Context, Graph, answered
from chenxing.agent.local import LocalModel
from chenxing.agent.model import Model
from chenxing.sampling import SamplingParams


@dataclass
class State:
    subject: str
    drafts: Annotated[list[str], add] = field(default_factory=list)
    remarks: Annotated[list[str], add] = field(default_factory=list)
    published: bool = False


def two_agents(model: Model) -> Graph:
    async def ask(context: Context, system: str, text: str) -> str:
        messages = [{"role": "system", "content": system}, {"role": "user", "content": text}]
        return (await model.answer(messages, [], "none", context.emit)).text.strip()

    async def writer(state: State, context: Context) -> dict:
        remark = f" Take this remark to heart: {state.remarks[-1]}" if state.remarks else ""
        draft = await ask(context, "You write one short sentence.", f"Write about {state.subject}.{remark}")
        return {"drafts": [draft]}

    async def critic(state: State, context: Context) -> dict:
        remark = await ask(context, "You criticise texts in one short sentence.", state.drafts[-1])
        return {"remarks": [remark]}

    def editor(state: State, context: Context) -> dict:
        return {"published": context.interrupt({"publish?": state.drafts[-1]}) == "yes"}

    graph = Graph(State)
    for name, node in (("writer", writer), ("critic", critic), ("editor", editor)):
        graph.add_node(name, node)
    graph.add_edge(START, "writer")
    graph.add_conditional_edges("writer", lambda s: "critic" if len(s.drafts) < 2 else "editor", ["critic", "editor"])
    graph.add_edge("critic", "writer")
    graph.add_edge("editor", END)
    return graph


if __name__ == "__main__":
    with LLM.load("smollm2", n_ctx=2048) as llm, Checkpoints(":memory:") as store:
        graph = two_agents(LocalModel(llm, params=SamplingParams(temp=0.0), max_tokens=40))
        print(graph.draw())
        asked = graph.invoke(State("the morning star"), run="star", store=store)
        print(f"asked: {asked.checkpoint.asks}")
        state = graph.invoke(answered(store.latest("star"), "yes"), store=store).state
        print(f"published: {state.published}, after {len(state.drafts)} drafts and {len(state.remarks)} remark")
