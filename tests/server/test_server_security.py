"""Who may ask: keys, hosts, origins."""

from collections.abc import Iterator

import pytest
from running import Running, running, toy_settings

KEY = "sk-one"


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    settings = toy_settings(tmp_path_factory.mktemp("toy"), api_keys=(KEY, "sk-two"), allowed_hosts=("model.lan",))
    yield from running(settings)


@pytest.mark.parametrize("headers", [{}, {"Authorization": "Bearer sk-"}, {"X-Api-Key": "é"}, {"Authorization": KEY}])
def test_without_a_key_nothing_is_told(guarded: Running, headers):
    for path in ("/props", "/v1/models", "/nope"):
        reply = guarded.get(path, headers={k: v.encode().decode("latin-1") for k, v in headers.items()})
        assert reply.status in (401, 404) and (path == "/nope" or reply.error["type"] == "authentication_error")
    assert guarded.get("/health").status == 200


@pytest.mark.parametrize("headers", [{"Authorization": f"Bearer {KEY}"}, {"X-Api-Key": "sk-two"}])
def test_any_of_the_keys_opens(guarded: Running, headers):
    assert guarded.get("/props", headers=headers).status == 200


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("127.0.0.1:80", 200),
        ("localhost", 200),
        ("LOCALHOST:8080", 200),
        ("[::1]:8080", 200),
        ("192.168.1.5", 200),
        ("model.lan:8080", 200),
        ("evil.example", 403),
        ("localhost.evil.example", 403),
        ("127.0.0.1.evil.example", 403),
        ("[", 403),
        ("", 403),
    ],
)
def test_host_names_of_others_are_refused(guarded: Running, host, status):
    assert guarded.get("/health", headers={"Host": host}).status == status


ORIGINS = [
    ("http://localhost:3000", True),
    ("http://127.0.0.1", True),
    ("http://[::1]:3000", True),
    ("https://evil.example", False),
    ("http://localhost.evil.example", False),
    ("http://notlocalhost", False),
    ("null", False),
]


@pytest.mark.parametrize(("origin", "is_ours"), ORIGINS)
def test_pages_of_others_are_refused(server: Running, origin, is_ours):
    for method in ("OPTIONS", "GET"):
        reply = server.ask(method, "/v1/models", headers={"Origin": origin})
        assert reply.status == (200 if is_ours else 403)
        assert reply.headers.get("Access-Control-Allow-Origin") == (origin if is_ours else None)


def test_with_a_key_any_page_may_ask(guarded: Running):
    """It has to know the key, which no browser sends by itself."""
    origin = {"Origin": "https://chat.example"}
    reply = guarded.ask("OPTIONS", "/v1/models", headers=origin)
    assert reply.status == 200 and reply.headers["Access-Control-Allow-Origin"] == "https://chat.example"
    assert guarded.get("/v1/models", headers=origin).status == 401
    key = {"Authorization": f"Bearer {KEY}"}
    assert guarded.get("/v1/models", headers=origin | key).status == 200


def test_request_ids(server: Running):
    assert server.get("/health", headers={"X-Request-Id": "mine-1"}).headers["X-Request-Id"] == "mine-1"
    one, two = (server.get("/health").headers["X-Request-Id"] for _ in range(2))
    assert one != two
    assert server.get("/health", headers={"X-Request-Id": "x" * 100}).headers["X-Request-Id"] != "x" * 100
