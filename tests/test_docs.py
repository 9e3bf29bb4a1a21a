"""The documents: links lead somewhere, commands exist, code runs. No network but for the model of the last test."""

import re
import shlex
import subprocess
import sys
import tomllib

import pytest
from markdown_blocks import DOCUMENTS, ROOT, anchors, blocks, links

from chenxing import cli

README, CHINESE = ROOT / "README.md", ROOT / "README.zh-CN.md"
NAMES = [path.relative_to(ROOT).as_posix() for path in DOCUMENTS]


def test_the_documents_are_found():
    assert {"README.md", "README.zh-CN.md", "CHANGELOG.md", "docs/EDITORS.md", "docs/formats/kv-store.md"} <= set(NAMES)


@pytest.mark.parametrize("document", DOCUMENTS, ids=NAMES)
def test_links_lead_somewhere(document):
    for link in links(document):
        if re.match(r"https?://[\w.-]+\.\w+(/\S*)?$", link):
            continue
        path, _, anchor = link.partition("#")
        target = (document.parent / path).resolve() if path else document
        assert target.exists() and target.is_relative_to(ROOT), f"{link} is not there"
        assert not anchor or anchor in anchors(target), f"{link}: no such heading"


def test_the_site_has_every_document():
    """The site is made of docs/ alone: its documents link to nothing outside, and its menu leaves none out."""
    menu = set(re.findall(r"^ +- (\S+\.md)$", (ROOT / "mkdocs.yml").read_text(encoding="utf-8"), re.MULTILINE))
    assert menu == {path.relative_to(ROOT / "docs").as_posix() for path in DOCUMENTS if path.parent != ROOT}
    for document in (path for path in DOCUMENTS if path.parent != ROOT):
        inside = [(document.parent / link.partition("#")[0]).resolve() for link in links(document) if ":" not in link]
        assert all(target.is_relative_to(ROOT / "docs") for target in inside)


@pytest.mark.parametrize("document", [README, CHINESE], ids=["English", "Chinese"])
def test_the_list_of_commands_is_whole(document):
    (listed,) = [block.text for block in blocks(document) if not block.language]
    names = {word for line in listed.splitlines() for word in re.findall(r"[a-z]+", line[:60].partition("  ")[0])}
    missing = set(cli.COMMANDS) - names - {"ls"}  # the other name of list
    assert not missing


def test_both_readmes_have_the_same_code():
    def code(document):
        return [block for block in blocks(document) if block.language]

    assert code(README) == code(CHINESE)


def test_the_set_up_lines_name_what_the_package_has():
    run, test = (block.text for block in blocks(README) if block.language == "sh")
    words = shlex.split(run)
    start = words.index(".venv/bin/chenxing")
    cli._parser([words[start + 1]])[1][words[start + 1]].parse(words[start + 2 :])
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    assert all(extra in extras for extra in re.search(r"\.\[(.*?)\]", test)[1].split(","))


@pytest.mark.parametrize("document", DOCUMENTS, ids=NAMES)
def test_commands_in_blocks_can_be_meant(document):
    """Every line that begins with chenxing, up to where it is piped: its flags exist."""
    for block in blocks(document):
        if block.language not in ("sh", "") or "MODEL" in block.text:  # the list of commands is no command
            continue
        for line in block.text.splitlines():
            words = shlex.split(line.split(" > ")[0].split(" | ")[0], comments=True) if line[:9] == "chenxing " else []
            if len(words) > 1 and words[1] in cli.COMMANDS:
                cli._parser([words[1]])[1][words[1]].parse(words[2:])


@pytest.mark.model
@pytest.mark.slow
def test_the_readmes_program_runs(tmp_path):
    (program,) = [block.text for block in blocks(README) if block.language == "python"]
    program = program.replace('"smollm2")', '"smollm2", n_ctx=128)')  # an answer ends where the context does
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, encoding="utf-8", timeout=500, cwd=tmp_path)
    assert done.returncode == 0 and done.stdout.strip(), done.stderr  # what it says is drawn at random
