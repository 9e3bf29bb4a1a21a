"""What comes over a socket and is no HTTP, or no body as its headers say: an error as any other, and a silent log."""

import gzip
import http.client
import json
import logging
import socket
import time

import pytest
from running import Running, toy_settings

HOST = b"Host: localhost\r\nConnection: close\r\n"
POST = b"POST /tokenize HTTP/1.1\r\n" + HOST
BODY = b'{"content":"a"}'
LENGTH = b"Content-Length: 15\r\n\r\n"
BOMB = gzip.compress(b'"' + b"a" * 5_000_000)

BROKEN = {
    "no request": (b"NONSENSE\r\n\r\n", 400),
    "version": (b"GET / HTTP/9.9\r\n\r\n", 400),
    "no host": (b"GET /health HTTP/1.1\r\n\r\n", 400),
    "null in a header": (b"GET /health HTTP/1.1\r\n" + HOST + b"X: \x00\r\n\r\n", 400),
    "long header": (b"GET /health HTTP/1.1\r\n" + HOST + b"X: " + b"a" * 20_000 + b"\r\n\r\n", 400),
    "many headers": (
        b"GET /health HTTP/1.1\r\n" + HOST + b"".join(b"X%d: a\r\n" % i for i in range(999)) + b"\r\n",
        400,
    ),
    "long address": (b"GET /" + b"a" * 20_000 + b" HTTP/1.1\r\n" + HOST + b"\r\n", 400),
    "address": (b"GET http://[/health HTTP/1.1\r\n" + HOST + b"\r\n", 400),
    "TLS": (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 400),
    "length": (POST + b"Content-Length: -5\r\n\r\n", 400),
    "two lengths": (POST + b"Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n", 400),
    "chunks": (POST + b"Transfer-Encoding: chunked\r\n\r\n5\r\nabc\r\n0\r\n\r\n", 400),
    "gzip": (POST + b"Content-Encoding: gzip\r\n" + LENGTH + BODY, 415),
    "brotli": (POST + b"Content-Encoding: br\r\n" + LENGTH + BODY, 415),
    "bomb": (POST + b"Content-Encoding: gzip\r\nContent-Length: %d\r\n\r\n" % len(BOMB) + BOMB, 415),
    "host": (b"GET /health HTTP/1.1\r\nHost: \xff\xfe\r\nConnection: close\r\n\r\n", 403),
    "origin": (b"GET /health HTTP/1.1\r\n" + HOST + b"Origin: http://[\r\n\r\n", 403),
    "method": (b"CONNECT a:80 HTTP/1.1\r\n" + HOST + b"\r\n", 404),
    "slot": (b"POST /slots/" + b"9" * 5000 + b"?action=erase HTTP/1.1\r\n" + HOST + b"\r\n", 501),
}


def talk(port: int, *parts: bytes) -> tuple[int, bytes]:
    """The status and the body of what comes back."""
    with socket.create_connection(("127.0.0.1", port), timeout=60) as s:
        for part in parts:
            s.sendall(part)
            if len(parts) > 1:
                time.sleep(0.1)  # so that they come one by one
        response = http.client.HTTPResponse(s)
        response.begin()
        return response.status, response.read()


@pytest.mark.parametrize(("data", "status"), BROKEN.values(), ids=BROKEN)
def test_what_is_no_request(server: Running, caplog, data, status):
    found, body = talk(server.port, data)
    error = json.loads(body)["error"]
    assert found == status == error["code"] and error["message"] and error["type"]
    assert len(body) < 1000
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []


@pytest.mark.parametrize(
    ("head", "rest"),
    [
        (b"Content-Length: 20\r\n\r\n", BODY),
        (b"Transfer-Encoding: chunked\r\n\r\nf\r\n", BODY),
        (b"Transfer-Encoding: chunked\r\n\r\n5\r\n", b"abcde\r\nzz\r\n"),
    ],
    ids=["too short", "no last chunk", "a chunk that is none"],
)
def test_a_body_that_never_ends(tmp_path, caplog, head, rest):
    server = Running(toy_settings(tmp_path, body_seconds=0.3))
    found, body = talk(server.port, POST + head, rest)
    assert found == 408 and json.loads(body)["error"]["code"] == 408
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []
    server.close()


@pytest.mark.parametrize("expected", [b"100-continue", b"the moon"])
def test_expect(server: Running, expected):
    assert talk(server.port, POST + b"Expect: " + expected + b"\r\n" + LENGTH + BODY)[1].startswith(b'{"tokens":[')


def test_a_slots_number_of_five_thousand_digits(tmp_path):
    server = Running(toy_settings(tmp_path, slot_save_path=tmp_path))
    reply = server.post(f"/slots/{'9' * 5000}?action=erase", None)
    assert reply.status == 400 and reply.error["message"].startswith("id_slot: expected 0 to 3, found '999")
    server.close()
