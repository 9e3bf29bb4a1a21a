import asyncio
import json

import pytest

from chenxing.agent.tools import Toolbox
from chenxing.agent.tools.files import MAX_LINES, MAX_MATCHES, file_tools
from chenxing.agent.tools.folder import open_folder


@pytest.fixture
def box(tmp_path):
    (tmp_path / "sub").mkdir()
    (tmp_path / "stars.txt").write_text("Sirius\nVega, a STAR\nEnde\n", encoding="utf-8")
    (tmp_path / "sub" / "more.md").write_text("no star\n", encoding="utf-8")
    (tmp_path / "picture.bin").write_bytes(b"\x00\x01star")
    return Toolbox(file_tools(open_folder(tmp_path)))


def call(box, name, **arguments):
    return asyncio.run(box.call(name, json.dumps(arguments)))


def test_list(box):
    assert call(box, "list_files").text == "picture.bin (6 bytes)\nstars.txt (25 bytes)\nsub/"
    assert call(box, "list_files", path="sub").text == "sub/more.md (8 bytes)"


def test_read(box, tmp_path):
    assert call(box, "read_file", path="stars.txt").text == "Sirius\nVega, a STAR\nEnde"
    assert call(box, "read_file", path="stars.txt", first_line=2, n_lines=1).text == "Vega, a STAR\n[lines 2 to 2 of 3]"
    assert "is no text file" in call(box, "read_file", path="picture.bin").text
    (tmp_path / "long").write_text("x\n" * 1000)
    assert call(box, "read_file", path="long").text.endswith(f"[lines 1 to {MAX_LINES} of 1000]")
    assert call(box, "read_file", path="../x").is_error


def test_search(box, tmp_path):
    assert call(box, "search_files", text="star").text == "stars.txt:2: Vega, a STAR\nsub/more.md:1: no star"
    assert call(box, "search_files", text="star", path="sub").text == "sub/more.md:1: no star"
    assert call(box, "search_files", text="(.*").text == "nothing found"
    assert call(box, "search_files", text="").is_error
    (tmp_path / "many").write_text("planet\n" * 500)
    assert call(box, "search_files", text="planet").text.endswith(f"[stopped after {MAX_MATCHES} lines]")


def test_write_says_what_it_would_do_first(box, tmp_path):
    arguments = json.dumps({"path": "new/a.txt", "content": "星"})
    assert (
        box.question("write_file", arguments) == f"make the file 'new/a.txt' in {tmp_path.resolve()} with 3 bytes:\n星"
    )
    assert box.question("write_file", json.dumps({"path": "stars.txt", "content": ""})).startswith("replace the file")
    assert not (tmp_path / "new").exists()
    assert asyncio.run(box.call("write_file", arguments)).text == "wrote 3 bytes to new/a.txt"
    assert (tmp_path / "new" / "a.txt").read_text(encoding="utf-8") == "星"


def test_nothing_is_asked_for_a_path_that_is_refused_anyway(box):
    for path in ("../x", "", "/x"):
        assert box.question("write_file", json.dumps({"path": path, "content": "x"})) is None
        assert call(box, "write_file", path=path, content="x").is_error


def test_only_writing_is_asked_for(box):
    assert [name for name, each in box.tools.items() if each.changes] == ["write_file"]
