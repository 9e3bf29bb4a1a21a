"""What is remembered of conversations: found again, by other processes too, bounded, and lost without harm."""

import random
from datetime import datetime, timedelta

import pytest
from xxhash import xxh3_128_digest

from chenxing.chat.spelling import Spelling
from chenxing.chat.turns import Turns

KEY = b"k" * 16
MORNING = datetime(2025, 7, 4, 9, 30)
BEFORE = b"question: "


def spelling(text: bytes, ids: bytes = b"\1\0\0\0", before: bytes = BEFORE) -> Spelling:
    return Spelling(len(before), xxh3_128_digest(before), text, ids)


def found(turns: Turns, text: bytes, before: bytes = BEFORE):
    return turns.find(before + text + b" and more", 0, len(before + text))


def test_found_in_its_place_alone():
    turns = Turns(None, KEY)
    turns.remember([spelling(b"yes")])
    assert found(turns, b"yes") == (len(BEFORE), [1])
    assert found(turns, b"yes", b"Question: ") is None
    assert found(turns, b"yea") is None
    assert turns.find(BEFORE + b"yes", len(BEFORE), len(BEFORE) + 3) is not None
    assert turns.find(BEFORE + b"yes", len(BEFORE) + 1, len(BEFORE) + 3) is None


def test_the_latest_spelling_of_a_text_counts():
    turns = Turns(None, KEY)
    turns.remember([spelling(b"yes"), spelling(b"no!"), spelling(b"yes", b"\2\0\0\0")])
    assert found(turns, b"yes") == (len(BEFORE), [2])
    assert found(turns, b"no!") == (len(BEFORE), [1])


def test_the_next_process_knows(tmp_path):
    Turns(tmp_path, KEY).remember([spelling(b"yes"), spelling(b"no")])
    turns = Turns(tmp_path, KEY)
    assert found(turns, b"yes") and found(turns, b"no")
    assert found(Turns(tmp_path, b"o" * 16), b"yes") is None


def test_processes_side_by_side(tmp_path):
    one, other = Turns(tmp_path, KEY), Turns(tmp_path, KEY)
    one.remember([spelling(b"one")])
    other.remember([spelling(b"other")])
    one.remember([spelling(b"third")])  # reads what the other one wrote
    assert found(one, b"other")
    assert all(found(Turns(tmp_path, KEY), text) for text in (b"one", b"other", b"third"))


def test_memory_and_file_are_bounded(tmp_path):
    limit = 20_000
    turns = Turns(tmp_path, KEY, limit_bytes=limit)
    texts = [f"answer {i} ".encode() * 10 for i in range(300)]
    for i, text in enumerate(texts):
        turns.remember([spelling(text)])
        turns.first_time(i.to_bytes(16), MORNING, is_new=True)
        assert sum(path.stat().st_size for path in tmp_path.glob("*.turns")) <= limit
        assert found(turns, texts[max(0, i - 5)])
        assert turns._n_bytes <= limit
    assert found(turns, texts[0]) is None
    assert sum(map(len, turns._by_end.values())) == len(turns._spellings) < 60
    again = Turns(tmp_path, KEY, limit_bytes=limit)
    assert (
        found(again, texts[-1])
        and again.first_time((299).to_bytes(16), MORNING + timedelta(9), is_new=False) == MORNING
    )


def test_what_is_used_stays():
    turns = Turns(None, KEY, limit_bytes=20_000)
    turns.remember([spelling(b"used")])
    for i in range(200):
        assert found(turns, b"used")
        turns.remember([spelling(f"answer {i}".encode())])


def test_an_answer_beyond_all_bounds_is_not_kept(tmp_path):
    turns = Turns(tmp_path, KEY, limit_bytes=5_000)
    turns.remember([spelling(b"x" * 10_000)])
    assert found(turns, b"x" * 10_000) is None
    turns.remember([spelling(b"yes")])
    assert found(turns, b"yes")


def test_damage_is_a_miss(tmp_path):
    Turns(tmp_path, KEY).remember([spelling(f"answer {i}".encode()) for i in range(20)])
    (path,) = tmp_path.glob("*.turns")
    sound, rng = path.read_bytes(), random.Random(0)
    for _ in range(100):
        data = bytearray(sound)
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        path.write_bytes(data[: rng.choice([len(data), rng.randrange(len(data))])])
        turns = Turns(tmp_path, KEY)
        for i in range(20):
            assert found(turns, f"answer {i}".encode()) in (None, (len(BEFORE), [1]))


@pytest.mark.parametrize("what", ["file", "folder"])
def test_where_nothing_can_be_written_memory_remembers(tmp_path, what):
    folder = tmp_path / "turns"
    if what == "file":
        (folder / f"{KEY.hex()}.turns").mkdir(parents=True)
    else:
        folder.write_text("in the way")
    turns = Turns(folder, KEY)
    turns.remember([spelling(b"yes")])
    assert turns.first_time(KEY, MORNING, is_new=True) == MORNING
    assert found(turns, b"yes")


def test_first_times(tmp_path):
    turns = Turns(tmp_path, KEY)
    later, next_day = MORNING + timedelta(hours=5), MORNING + timedelta(days=1)
    assert turns.first_time(b"a" * 16, MORNING, is_new=True) == MORNING
    assert turns.first_time(b"a" * 16, later, is_new=True) == MORNING
    for known in (turns, Turns(tmp_path, KEY)):
        assert known.first_time(b"a" * 16, next_day, is_new=False) == MORNING
    assert turns.first_time(b"b" * 16, next_day, is_new=False) == next_day
    assert turns.first_time(b"a" * 16, next_day, is_new=True) == next_day
    assert turns.first_time(b"a" * 16, next_day + timedelta(days=3), is_new=False) == next_day
