"""Fenced blocks and links of Markdown documents."""

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent
DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Block:
    language: str
    text: str


def blocks(document: Path) -> list[Block]:
    return [Block(*found) for found in _FENCE.findall(document.read_text(encoding="utf-8"))]


def links(document: Path) -> list[str]:
    """Targets of links and pictures, not of those inside code."""
    text = re.sub(r"`[^`\n]*`", "", _FENCE.sub("", document.read_text(encoding="utf-8")))
    return re.findall(r"\]\(([^)\s]+)\)", text)


def anchors(document: Path) -> set[str]:
    """What headings can be linked as, after GitHub's manner."""
    titles = re.findall(r"^#+ (.+)$", _FENCE.sub("", document.read_text(encoding="utf-8")), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}
