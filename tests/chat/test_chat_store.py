"""Compiled templates on disk: found again, and never believed when damaged (law L5)."""

import hashlib
import random
from datetime import datetime

import pytest

from chenxing.chat import store
from chenxing.chat.bounds import Meter
from chenxing.chat.store import load_program
from chenxing.errors import TemplateError

SOURCE = "{% for m in messages %}{{ m.content.split('</think>')[-1] }}{% endfor %}"
VARIABLES = {"messages": [{"content": "a</think>b"}]}


def run(program) -> str:
    return program.render(VARIABLES, Meter(0), datetime(2025, 7, 4))


@pytest.fixture
def compiled(monkeypatch):
    """Sources that were compiled."""
    sources = []
    compile_program = store.compile_program

    def counted(source):
        sources.append(source)
        return compile_program(source)

    monkeypatch.setattr(store, "compile_program", counted)
    return sources


def test_compiled_once(tmp_path, compiled):
    folder = tmp_path / "not" / "there" / "yet"
    first, second = load_program(SOURCE, folder), load_program(SOURCE, folder)
    assert compiled == [SOURCE]
    assert run(first) == run(second) == "b"
    assert second.facts == first.facts
    assert [path.suffix for path in folder.iterdir()] == [".template"]


def test_another_template_is_another_file(tmp_path, compiled):
    load_program(SOURCE, tmp_path)
    load_program(SOURCE + "!", tmp_path)
    assert compiled == [SOURCE, SOURCE + "!"]
    assert len(list(tmp_path.iterdir())) == 2


def test_another_jinja2_compiles_again(tmp_path, compiled, monkeypatch):
    load_program(SOURCE, tmp_path)
    monkeypatch.setattr("jinja2.__version__", "0")
    load_program(SOURCE, tmp_path)
    assert len(compiled) == 2


def test_damage_is_a_miss(tmp_path, compiled):
    load_program(SOURCE, tmp_path)
    (path,) = tmp_path.iterdir()
    good = path.read_bytes()
    seeded = random.Random(7)
    damaged = [b"", good[:31], good[:32], good[:-1], good + b"\0", bytes(len(good))]
    for _ in range(50):
        at = seeded.randrange(len(good))
        damaged.append(good[:at] + bytes([good[at] ^ 1 << seeded.randrange(8)]) + good[at + 1 :])
    for data in damaged:
        path.write_bytes(data)
        compiled.clear()
        assert run(load_program(SOURCE, tmp_path)) == "b"
        assert compiled == [SOURCE]
        assert path.read_bytes()[:32] == good[:32]  # written anew


def test_another_templates_file_under_this_name_is_a_miss(tmp_path, compiled):
    load_program(SOURCE, tmp_path)
    (path,) = tmp_path.iterdir()
    load_program("other", tmp_path)
    (other,) = set(tmp_path.iterdir()) - {path}
    path.write_bytes(other.read_bytes())
    assert run(load_program(SOURCE, tmp_path)) == "b"
    assert compiled == [SOURCE, "other", SOURCE]


def test_a_folder_that_cannot_be_written(tmp_path, compiled):
    blocked = tmp_path / "file"
    blocked.write_text("in the way")
    assert run(load_program(SOURCE, blocked)) == "b"
    assert run(load_program(SOURCE, blocked)) == "b"
    assert len(compiled) == 2


def test_a_failed_write_leaves_nothing(tmp_path, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.replace", full)
    assert run(load_program(SOURCE, tmp_path)) == "b"
    assert list(tmp_path.iterdir()) == []


def test_a_broken_template_is_not_kept(tmp_path):
    with pytest.raises(TemplateError):
        load_program("{% if %}", tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_the_key_depends_on_how_templates_are_compiled(monkeypatch):
    key = store._key(SOURCE)
    monkeypatch.setattr(store, "_own_source", lambda: b"edited")
    assert store._key(SOURCE) != key
    assert len(key) == hashlib.sha256().digest_size
