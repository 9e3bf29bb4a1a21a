"""Records in a file: whatever happens to it, what is read is a beginning of what was written."""

import os
import random
import stat
import sys
import threading

import pytest

from chenxing.chat.journal import Journal
from chenxing.kvcache.files import Files
from chenxing.kvcache.lock import WriterLock

BODIES = [b"one", b"", b"three" * 50, b"4"]


def write(path, bodies, limit=1 << 16) -> Journal:
    journal = Journal(path, limit)
    with journal.locked() as held:
        assert held
        journal.read()
        journal.append(bodies) if journal.has_room(bodies) else journal.replace(bodies)
    return journal


def test_nothing_is_there_at_first(tmp_path):
    assert Journal(tmp_path / "no" / "file", 1000).read() == []


def test_what_is_appended_is_read_once(tmp_path):
    write(tmp_path / "j", BODIES[:2])
    reader = Journal(tmp_path / "j", 1000)
    assert reader.read() == BODIES[:2]
    write(tmp_path / "j", BODIES[2:])
    assert reader.read() == BODIES[2:]
    assert reader.read() == []


def test_another_generation_is_read_from_its_beginning(tmp_path):
    journal = write(tmp_path / "j", BODIES)
    reader = Journal(tmp_path / "j", 1000)
    reader.read()
    journal.replace([b"new"])
    assert reader.read() == [b"new"]


def test_a_full_file_has_no_room(tmp_path):
    journal = write(tmp_path / "j", [b"x" * 50], limit=100)
    assert journal.has_room([b""]) and not journal.has_room([b"x" * 50])
    assert not Journal(tmp_path / "none", 100).has_room([])


@pytest.mark.parametrize("seed", range(3))
def test_damage_ends_the_file(tmp_path, seed):
    rng = random.Random(seed)
    path = tmp_path / "j"
    write(path, BODIES)
    sound = path.read_bytes()
    for _ in range(60):
        data = bytearray(sound)
        if rng.random() < 0.5:
            data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        else:
            del data[rng.randrange(len(data)) :]
        path.write_bytes(data)
        reader = Journal(path, 1000)
        found = reader.read()
        assert found == BODIES[: len(found)]
        write(path, [b"after"])  # cuts off what is torn
        assert Journal(path, 1000).read() in ([*found, b"after"], [b"after"])


def test_a_file_of_random_bytes_is_empty(tmp_path):
    (tmp_path / "j").write_bytes(random.Random(1).randbytes(500))
    assert Journal(tmp_path / "j", 1000).read() == []


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX permissions")
def test_files_are_private(tmp_path):
    write(tmp_path / "folder" / "j", BODIES)
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "folder", *tmp_path.glob("folder/*"))}
    assert modes == {"folder": 0o700, "j": 0o600, "j.lock": 0o600}


def test_who_cannot_have_the_lock_is_told(tmp_path):
    lock = WriterLock.acquire(Files(), tmp_path / "j.lock")
    assert lock is not None
    with Journal(tmp_path / "j", 1000).locked() as held:
        assert not held
    lock.release()


def test_writers_side_by_side_lose_nothing(tmp_path):
    bodies = [[f"{writer}:{i}".encode() for i in range(40)] for writer in range(4)]
    threads = [threading.Thread(target=lambda b=b: [write(tmp_path / "j", [body]) for body in b]) for b in bodies]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = Journal(tmp_path / "j", 1 << 16).read()
    assert sorted(found) == sorted(body for b in bodies for body in b)
    assert not [name for name in os.listdir(tmp_path) if name.endswith(".tmp")]
