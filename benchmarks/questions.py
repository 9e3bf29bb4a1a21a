"""All questions by name, in the order of the report. A question module has TITLE, NOTE and `ask`."""

from types import ModuleType

from benchmarks import (
    busy,
    decode,
    depth,
    load_time,
    memory,
    persistence,
    prefill,
    prefix,
    prefix_tree,
    server,
    speculation,
    stall,
    throughput,
)

QUESTIONS: dict[str, ModuleType] = {
    "prefill": prefill,
    "decode": decode,
    "depth": depth,
    "busy": busy,
    "throughput": throughput,
    "stall": stall,
    "memory": memory,
    "load_time": load_time,
    "prefix": prefix,
    "persistence": persistence,
    "prefix_tree": prefix_tree,
    "speculation": speculation,
    "server": server,
}
