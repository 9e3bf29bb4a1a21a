"""Malformed requests never break anything: no 5xx, no hang, no word in the log, and the next answer is the same."""

import http.client
import json
import logging
import random
from collections.abc import Iterator

import pytest
from malformed import malformed
from running import Running, running, toy_settings

N_REQUESTS = 600


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """Answers are short, whatever is asked for."""
    folder = tmp_path_factory.mktemp("toy")
    yield from running(toy_settings(folder, n_ctx_slot=64, slot_save_path=folder))


def test_malformed_requests(server: Running, caplog: pytest.LogCaptureFixture):
    before = server.chat(max_tokens=4).json["choices"]
    rng = random.Random(6)
    connection = server.connection()
    statuses = set()
    for i in range(N_REQUESTS):
        request = malformed(rng)
        status, body = ask(connection, request)
        statuses.add(status)
        assert status < 500 or status == 501, (i, request, body)  # 501: infill, which the toy has no tokens for
        if status >= 400:
            error = json.loads(body)["error"]
            assert error["code"] == status and error["message"] and error["type"], (i, request)
    connection.close()
    assert statuses == {200, 400, 501}
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []
    assert server.chat(max_tokens=4).json["choices"] == before
    assert not any(slot["is_processing"] for slot in server.get("/slots").json)


def ask(connection: http.client.HTTPConnection, request) -> tuple[int, bytes]:
    """Over the same connection, as far as the server keeps it."""
    connection.request("POST", request.path, request.data, request.headers)
    response = connection.getresponse()
    return response.status, response.read()
