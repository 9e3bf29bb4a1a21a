"""What a server says of itself on stderr."""

import json
import logging
import sys

from running import Running

from chenxing.server.logs import JsonLines


class Lines(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.setFormatter(JsonLines())
        self.told: list[dict] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.told.append(json.loads(self.format(record)))


def test_a_request_is_one_object_without_its_prompt(server: Running):
    log, lines = logging.getLogger("chenxing.server"), Lines()
    level = log.level
    log.setLevel(logging.INFO)  # not the attribute: loggers remember what they are enabled for
    log.addHandler(lines)
    try:
        server.post("/tokenize?key=secret", {"content": "secret"}, headers={"X-Request-Id": "mine-1"})
        server.get("/none")
    finally:
        log.removeHandler(lines)
        log.setLevel(level)
    one, two = lines.told
    assert (one["method"], one["path"], one["status"], one["id"]) == ("POST", "/tokenize", 200, "mine-1")
    assert two["status"] == 404 and two["level"] == "info" and two["time"].endswith("+00:00")
    assert "secret" not in json.dumps(lines.told)


def test_an_error_has_its_traceback():
    try:
        raise ValueError("晨")
    except ValueError:
        record = logging.LogRecord("x", logging.ERROR, "", 1, "it failed: %s", ("so",), sys.exc_info())
    line = JsonLines().format(record)
    assert "\n" not in line and json.loads(line)["message"] == "it failed: so"
    assert "ValueError: 晨" in json.loads(line)["error"]
