"""The walk-through says what is so."""

import re
from pathlib import Path

from chenxing import cli

TEXT = (Path(__file__).parents[2] / "docs" / "AGENTS.md").read_text(encoding="utf-8")


def test_the_first_graph_runs(capsys):
    code = re.search(r"```python\n(.*?)```", TEXT, re.DOTALL)[1]
    exec(compile(code, "AGENTS.md", "exec"), {"__name__": "doc"})
    out = capsys.readouterr().out
    assert out.startswith("flowchart TD") and "judge -.-> planets" in out
    assert out.endswith("{'topics': ['stars', 'planets', 'stars', 'planets'], 'done': True}\n")


def test_flags_and_files_that_it_names_are_there(capsys):
    assert cli.main(["agent", "-h"]) == 0
    shown = capsys.readouterr().out
    flags = set(re.findall(r"--[a-z][a-z-]+", re.sub(r"```python.*?```", "", TEXT, flags=re.DOTALL)))
    assert len(flags) > 8 and all(flag in shown for flag in flags)
    for name in re.findall(r"`((?:agent|examples|tests)/[a-z_/]+\.py)`", TEXT):
        root = Path(__file__).parents[2]
        assert (root / name).is_file() or (root / "chenxing" / name).is_file(), name
