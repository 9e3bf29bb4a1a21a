"""Agents: a graph of functions over one typed state, whose every step is kept and can be gone back to.

graph = Graph(State)                       nodes, edges, routes; see graph.py
for event in graph.stream({...}): ...      what happens, as it happens
Checkpoints("runs.db")                     where each step is kept: resume, replay, fork
"""

from chenxing.agent.checkpoints import Checkpoints, Run
from chenxing.agent.events import Asked, Checkpoint, Emitted, Event, NodeEnd, NodeStart, StepEnd
from chenxing.agent.flow import Context, answered
from chenxing.agent.graph import END, START, Graph

__all__ = [
    "END",
    "START",
    "Asked",
    "Checkpoint",
    "Checkpoints",
    "Context",
    "Emitted",
    "Event",
    "Graph",
    "NodeEnd",
    "NodeStart",
    "Run",
    "StepEnd",
    "answered",
]
