"""The files of the pages as they are served: what browsers are told about them, and that they need nobody else."""

import re
from collections.abc import Iterator
from importlib import resources

import pytest
from running import Running, running, toy_settings

FILES = {f.name: f.read_text("utf-8") for f in (resources.files("chenxing.server") / "page").iterdir()}
KEY = {"Authorization": "Bearer sk-one"}


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    yield from running(toy_settings(tmp_path_factory.mktemp("toy"), api_keys=("sk-one",), has_ui=False))


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/", "text/html"),
        ("/docs", "text/html"),
        ("/page/chat.js", "text/javascript"),
        ("/page/theme.css", "text/css"),
        ("/page/icon.svg", "image/svg+xml"),
    ],
)
def test_headers(server: Running, path, kind):
    reply = server.get(path)
    assert reply.status == 200 and reply.headers["Content-Type"] == f"{kind}; charset=utf-8"
    assert reply.headers["X-Content-Type-Options"] == "nosniff" and reply.headers["Cache-Control"] == "no-cache"
    policy = dict(rule.split(" ", 1) for rule in reply.headers["Content-Security-Policy"].split("; "))
    assert policy.pop("default-src") == "'none'"
    assert set(policy.values()) == {"'self'", "'none'"} and policy["script-src"] == policy["connect-src"] == "'self'"


def test_what_a_browser_has_is_not_sent_again(server: Running):
    first = server.get("/page/chat.js")
    again = server.get("/page/chat.js", headers={"If-None-Match": first.headers["Etag"]})
    assert again.status == 304 and again.data == b"" and again.headers["Etag"] == first.headers["Etag"]
    assert server.get("/page/chat.js", headers={"If-None-Match": '"other"'}).data == first.data
    assert server.get("/page/dom.js").headers["Etag"] != first.headers["Etag"]


@pytest.mark.parametrize(
    "path", ["/page/../app.py", "/page/%2e%2e/app.py", "/page/..%2fapp.py", "/page/", "/page/x.js"]
)
def test_only_the_files_of_the_pages(server: Running, path):
    reply = server.get(path)
    assert reply.status == 404 and reply.error["type"] == "not_found_error"


def test_switched_off(guarded: Running):
    for path in ("/", "/docs", "/page/chat.js"):
        assert guarded.get(path, headers=KEY).status == 404
    assert guarded.get("/props", headers=KEY).status == 200


def test_a_page_comes_without_the_key_and_the_model_only_with_it(tmp_path):
    server = Running(toy_settings(tmp_path, api_keys=("sk-one",)))
    for path in ("/", "/docs", "/page/chat.js"):
        assert server.get(path).status == 200
    assert server.get("/props").status == 401
    server.close()


def test_the_page_may_ask_by_whatever_name_it_was_opened(server: Running):
    """Other machines of a network open it by an address, which is no loopback origin."""
    host = {"Host": "192.168.1.5:8080"}
    assert server.get("/props", headers=host | {"Origin": "http://192.168.1.5:8080"}).status == 200
    assert server.get("/props", headers=host | {"Origin": "http://192.168.1.5:8081"}).status == 403
    assert server.get("/props", headers=host | {"Origin": "http://192.168.1.6:8080"}).status == 403


@pytest.mark.parametrize("name", sorted(FILES))
def test_nothing_comes_from_elsewhere(name):
    """Addresses are relative ones of our own files; the only absolute one is SVG's name, which is fetched by nobody."""
    text = FILES[name].replace("http://www.w3.org/2000/svg", "")
    assert not re.search(r"""["'(]\s*(https?:)?//""", text)
    for address in re.findall(r"""(?:href|src|from)\s*=?\s*["']([^"'#$]*)""", text):
        if address not in ("", "./", "docs", "openapi.json"):
            assert address.rpartition("/")[2] in FILES, address


@pytest.mark.parametrize("name", sorted(name for name in FILES if name.endswith(".js")))
def test_no_string_becomes_html_or_code(name):
    for word in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "DOMParser", "eval(", "Function("):
        assert word not in FILES[name]


def test_both_languages_have_all_words():
    english, chinese = (set(re.findall(r"^  (\w+):", part, re.M)) for part in FILES["words.js"].split("const ZH")[:2])
    assert english == chinese
    used = set(re.findall(r"words\.(?!js)(\w+)", "".join(FILES.values())))
    used |= set(re.findall(r'data-(?:word|label)="(\w+)"', FILES["chat.html"]))
    assert used <= english
