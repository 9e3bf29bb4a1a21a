"""docs/EDITORS.md: commands and programs run against a server, settings can be read and name its address."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from markdown_blocks import ROOT, blocks
from running import Running, toy_settings

EDITORS = ROOT / "docs" / "EDITORS.md"
ADDRESS = "http://127.0.0.1:8080"


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    server = Running(toy_settings(tmp_path_factory.mktemp("toy")))
    yield f"http://127.0.0.1:{server.port}"
    server.close()


def run(command: list[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, encoding="utf-8", timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_curl(address):
    if not shutil.which("curl") or not shutil.which("sh"):
        pytest.skip("needs curl and a shell")
    lines = [block.text for block in blocks(EDITORS) if block.language == "sh" and block.text.startswith("curl")]
    models, answer = (json.loads(run(["sh", "-c", line.replace(ADDRESS, address)])) for line in lines)
    assert models["data"][0]["owned_by"] == "chenxing"
    assert answer["choices"][0]["finish_reason"] in ("stop", "length") and answer["usage"]["completion_tokens"] <= 8


@pytest.mark.peer
def test_openais_package(address):
    pytest.importorskip("openai")
    (program,) = [block.text for block in blocks(EDITORS) if block.language == "python"]
    assert program.count(ADDRESS) == 1
    program = program.replace(ADDRESS, address).replace('model="any"', 'model="any", max_tokens=8')  # a toy never ends
    run([sys.executable, "-c", program])


def test_settings_can_be_read():
    yaml = pytest.importorskip("yaml")
    readers = {"json": json.loads, "yaml": yaml.safe_load}
    texts = [block for block in blocks(EDITORS) if block.language in readers]
    assert len(texts) == 5 and all(readers[block.language](block.text) for block in texts)
    named = [block.text for block in texts if "http" in block.text]  # aider's address is in its command
    assert len(named) == 4
    for text in named:
        assert re.search(r"http://127\.0\.0\.1:808[01](/v1)?\"?$", text, re.MULTILINE) or ADDRESS in text


def test_every_program_is_marked_as_tried_or_not():
    titles = re.findall(r"^## (.*)$", Path(EDITORS).read_text(encoding="utf-8"), re.MULTILINE)
    assert len(titles) >= 8 and all(re.search(r", (un)?tried( \(.*\))?$", title) for title in titles)
