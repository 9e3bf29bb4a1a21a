"""Every example runs as it stands and prints something sensible."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = sorted((Path(__file__).parent.parent / "examples").glob("*.py"))
pytestmark = [pytest.mark.model, pytest.mark.slow]


def run(name: str) -> str:
    path = next(p for p in EXAMPLES if p.name == name)
    done = subprocess.run([sys.executable, path], capture_output=True, text=True, encoding="utf-8", timeout=500)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_complete():
    assert run("complete.py").startswith(" Paris")


def test_chat_reuses_what_the_first_answer_computed():
    """The first prompt may be known from an earlier run; the second one has it, and the answer, in front of it."""
    first, second = re.findall(r"^\[(\d+) of (\d+) ", run("chat.py"), re.MULTILINE)
    assert int(second[0]) > int(first[1]) and int(second[0]) < int(second[1])


def test_surprise():
    lines = run("surprise.py").splitlines()
    assert len(lines) > 8 and all(" bits  " in line for line in lines)


def test_agent_react():
    lines = run("agent_react.py").splitlines()
    assert any(re.fullmatch(r"call         (distance|calculator) \{.*\}", line) for line in lines)
    reused, prompt = re.search(r"\[replayed: (\d+) of (\d+) ", lines[-1]).groups()
    assert int(reused) == int(prompt) - 1


def test_agent_approval():
    out = run("agent_approval.py")
    assert "writer -.-> critic" in out and "asked: {'editor': {'publish?': " in out
    assert out.endswith("published: True, after 2 drafts and 1 remark\n")


def test_agent_mcp():
    pytest.importorskip("mcp_server_time")
    out = run("agent_mcp.py")
    assert out.startswith("tools: get_current_time, convert_time\n")
    assert re.search(r"^call         (get_current_time|convert_time) \{", out, re.MULTILINE) and "observation  " in out


def test_none_is_left_out():
    names = ["agent_approval.py", "agent_mcp.py", "agent_react.py", "chat.py", "complete.py", "surprise.py"]
    assert [p.name for p in EXAMPLES] == names
