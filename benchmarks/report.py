"""Answers as Markdown tables and JSON files, and their place in docs/PERFORMANCE.md."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.answer import Answer

BEGIN, END = "<!-- figures: begin -->", "<!-- figures: end -->"


def table(answers: Sequence[Answer]) -> str:
    """Markdown: a row for each answer, the columns of the first."""
    columns = list(answers[0].cells)
    rows = [[answer.cells.get(column, "") for column in columns] for answer in answers]
    widths = [max(len(cell) for cell in cells) for cells in zip(columns, *rows, strict=True)]
    lines = [columns, ["-" * width for width in widths], *rows]
    return "\n".join(f"| {' | '.join(c.ljust(w) for c, w in zip(line, widths, strict=True))} |" for line in lines)


def save(folder: Path, question: str, title: str, note: str, setting: Sequence[str], answers: Sequence[Answer]) -> None:
    """One JSON file a question: what was measured, on what, and the table."""
    folder.mkdir(parents=True, exist_ok=True)
    content: dict[str, Any] = {"title": title, "note": note, "setting": list(setting), "table": table(answers)}
    content["measured"] = [answer.measured for answer in answers]
    (folder / f"{question}.json").write_text(json.dumps(content, indent=1, default=str) + "\n", encoding="utf-8")


def markdown(folder: Path, questions: Sequence[str]) -> str:
    """The saved tables of these questions, those of one setting under one description."""
    parts: list[str] = []
    setting = None
    for question in questions:
        path = folder / f"{question}.json"
        if not path.exists():
            continue
        saved = json.loads(path.read_text(encoding="utf-8"))
        if saved["setting"] != setting:
            setting = saved["setting"]
            parts.append("\n".join(f"- {line}" for line in setting))
        parts.append(f"### {saved['title']}\n\n{saved['note']}\n\n{saved['table']}")
    return "\n\n".join(parts)


def put_figures(document: Path, figures: str) -> None:
    """Replace what stands between the marks of a document."""
    text = document.read_text(encoding="utf-8")
    before, rest = text.split(BEGIN)
    after = rest.split(END)[1]
    document.write_text(f"{before}{BEGIN}\n{figures}\n{END}{after}", encoding="utf-8")
