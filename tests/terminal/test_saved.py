from pathlib import Path

import pytest

from chenxing.errors import ChenxingError
from chenxing.terminal.saved import load_messages, parse_conversation, save_messages

MESSAGES = [
    {"role": "system", "content": "简短"},
    {"role": "user", "content": "What is <b>?"},
    {"role": "assistant", "content": "A tag.", "reasoning_content": "HTML"},
]


def test_what_is_saved_is_loaded(tmp_path: Path) -> None:
    path = tmp_path / "talk.json"
    save_messages(path, MESSAGES)
    assert load_messages(path) == MESSAGES
    assert "简短" in path.read_text(encoding="utf-8")


def test_an_older_conversation_is_replaced_but_no_other_file(tmp_path: Path) -> None:
    path, notes = tmp_path / "talk.json", tmp_path / "notes.md"
    save_messages(path, MESSAGES)
    save_messages(path, MESSAGES[:2])
    assert load_messages(path) == MESSAGES[:2]
    notes.write_text("# Notes")
    with pytest.raises(ChenxingError, match="exists and is no saved conversation"):
        save_messages(notes, MESSAGES)
    assert notes.read_text() == "# Notes"


def test_a_lone_surrogate_does_not_lose_the_conversation(tmp_path: Path) -> None:
    path = tmp_path / "talk.json"
    save_messages(path, [{"role": "user", "content": "\ud800 and more"}])
    assert load_messages(path)[0]["content"].endswith("and more")


def test_a_folder_that_is_missing_is_named(tmp_path: Path) -> None:
    with pytest.raises(ChenxingError, match="cannot be written: No such file"):
        save_messages(tmp_path / "missing" / "talk.json", MESSAGES)


@pytest.mark.parametrize(
    ("data", "complaint"),
    [
        (b"", "expected a JSON list of messages, found nothing"),
        (b"{", "Expecting property name enclosed in double quotes at line 1 column 2"),
        (b'"hi"', "expected a JSON list of messages, found str"),
        (b'{"messages": 3}', "found an object without one in `messages`"),
        (b'["caf\xe9"]', "found no UTF-8 at byte 5"),
        (b"[" * 100_000, "found values nested too deeply"),
    ],
)
def test_what_is_no_conversation_is_said(data: bytes, complaint: str) -> None:
    with pytest.raises(ChenxingError) as caught:
        parse_conversation(data, "talk.json")
    assert str(caught.value).startswith("talk.json: ") and complaint in str(caught.value)


def test_an_object_keeps_its_other_keys() -> None:
    body = b'{"messages": [], "tools": [], "chat_template_kwargs": {"enable_thinking": false}}'
    assert parse_conversation(body, "x") == {"messages": [], "tools": [], "enable_thinking": False}


@pytest.mark.parametrize(
    ("text", "field"),
    [("[]", "messages"), ('["hi"]', "messages[0]"), ('[{"role": "bot", "content": "b"}]', "messages[0].role")],
)
def test_a_file_without_sound_messages_is_named(tmp_path: Path, text: str, field: str) -> None:
    path = tmp_path / "talk.json"
    path.write_text(text)
    with pytest.raises(ChenxingError) as caught:
        load_messages(path)
    assert str(caught.value).startswith(f"{path}: {field}: expected")
