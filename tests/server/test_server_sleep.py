"""A server that lets go of its model while nobody asks."""

from collections.abc import Iterator

import pytest
from running import Running, running, toy_settings, until

WISH = {"prompt": "the star", "n_predict": 4}


@pytest.fixture
def sleepy(tmp_path) -> Iterator[Running]:
    yield from running(toy_settings(tmp_path, sleep_idle_seconds=0.2))


def is_sleeping(server: Running) -> bool:
    return server.get("/props").json["is_sleeping"]


def test_it_sleeps_and_is_woken(sleepy: Running):
    first = sleepy.post("/completion", WISH).json["content"]
    metrics = sleepy.get("/metrics").data
    metrics = sleepy.get("/metrics").data  # rates are since the last time
    assert until(lambda: is_sleeping(sleepy)) and sleepy.service.llm is None
    for path in ("/health", "/props", "/v1/models", "/slots"):
        assert sleepy.get(path).status == 200
    assert sleepy.get("/metrics").data == metrics and is_sleeping(sleepy)
    assert sleepy.post("/completion", WISH).json["content"] == first
    assert until(lambda: is_sleeping(sleepy))
    assert sleepy.post("/tokenize", {"content": "the"}).json["tokens"]


def test_it_does_not_sleep_while_it_answers(sleepy: Running):
    long = sleepy.post("/completion", WISH | {"n_predict": 400, "ignore_eos": True, "stream": True})
    assert long.events[-1]["tokens_predicted"] == 400


def test_many_wake_it_once(sleepy: Running):
    import threading

    assert until(lambda: is_sleeping(sleepy))
    n_loaded = []
    load = sleepy.service.load
    sleepy.service.load = lambda: n_loaded.append(1) or load()
    replies = []
    crowd = [threading.Thread(target=lambda: replies.append(sleepy.post("/completion", WISH))) for _ in range(8)]
    for thread in crowd:
        thread.start()
    for thread in crowd:
        thread.join()
    assert [reply.status for reply in replies] == [200] * 8 and n_loaded == [1]
