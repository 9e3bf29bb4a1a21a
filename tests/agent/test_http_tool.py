"""Hosts that are not listed are not asked, however the way there is dressed up."""

import asyncio
import socket

import pytest
from aiohttp import web

from chenxing.agent.tools import ToolError
from chenxing.agent.tools.http import MAX_BYTES, Host, check_url, get, is_public, parse_host
from chenxing.errors import AgentError


async def _handler(request):
    match request.path:
        case "/text":
            return web.Response(text="星 " + request.host, charset="utf-8")
        case "/latin":
            return web.Response(body="Grün".encode("latin-1"), headers={"Content-Type": "text/plain; charset=latin-1"})
        case "/picture":
            return web.Response(body=b"\x89PNG", content_type="image/png")
        case "/big":
            return web.Response(text="x" * (MAX_BYTES + 1))
        case "/missing":
            return web.Response(status=404, text="not here")
        case "/to":
            return web.Response(status=302, headers={"Location": request.query["url"]})
        case "/round":
            return web.Response(status=302, headers={"Location": "/round"})
        case "/cookie":
            reply = web.Response(status=302, headers={"Location": "/cookies"})
            reply.set_cookie("a", "b")
            return reply
        case "/cookies":
            return web.Response(text=f"cookies: {len(request.cookies)}")
    raise AssertionError(request.path)


def with_server(test):
    """Runs test(port) beside a server on 127.0.0.1 that counts nothing and knows the paths above."""

    async def run():
        app = web.Application()
        app.router.add_get("/{path:.*}", _handler)
        runner = web.AppRunner(app)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        try:
            return await test(runner.addresses[0][1])
        finally:
            await runner.cleanup()

    return asyncio.run(run())


def asked(path, *hosts, server="127.0.0.1"):
    async def test(port):
        listed = [parse_host(host.format(port=port)) for host in hosts or ("127.0.0.1:{port}",)]
        return await get(f"http://{server}:{port}{path.format(port=port)}", listed)

    return with_server(test)


def test_text():
    assert asked("/text#there").startswith("星 127.0.0.1:")
    assert asked("/latin") == "Grün"
    assert asked("/text", "localhost:{port}", server="localhost").startswith("星 localhost:")


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("/picture", "expected text, found image/png"),
        ("/big", "at most"),
        ("/missing", "HTTP 404 Not Found: not here"),
        ("/round", "more than 5 redirects"),
    ],
)
def test_what_is_not_read(path, message):
    with pytest.raises(ToolError, match=message):
        asked(path)


def test_redirects_are_checked_like_the_first_address():
    assert asked("/to?url=/text").startswith("星")
    for target in (
        "http://localhost:{port}/text",
        "//example.com/x",
        "http://169.254.169.254/latest/meta-data",
        "http://127.0.0.1:1/x",
        "https://127.0.0.1/x",
        "http://[::ffff:127.0.0.1]:{port}/text",
    ):
        with pytest.raises(ToolError, match="the host is not permitted"):
            asked(f"/to?url={target}")
    for target in ("file:///etc/passwd", "ftp://127.0.0.1/x", "javascript:1"):
        with pytest.raises(ToolError, match="begins with http"):
            asked(f"/to?url={target}")
    with pytest.raises(ToolError, match="without a user"):
        asked("/to?url=http://me:pw@127.0.0.1:{port}/text")


def test_no_cookies():
    assert asked("/cookie") == "cookies: 0"


def test_a_listed_name_that_is_at_a_private_address(monkeypatch):
    """As a name server may say at any time, of any name."""

    def at_home(host, port, *args, **kwargs):
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", port))]

    with_names = "stars.example:{port}"

    async def test(port):
        loop = asyncio.get_running_loop()

        async def getaddrinfo(host, port, **_):
            return at_home(host, port)

        monkeypatch.setattr(loop, "getaddrinfo", getaddrinfo)
        name = with_names.format(port=port)
        with pytest.raises(ToolError, match=r"127\.0\.0\.1, which is not public"):
            await get(f"http://{name}/text", [parse_host(name)])
        return await get(f"http://{name}/text", [parse_host(name), parse_host(f"127.0.0.1:{port}")])

    assert with_server(test).startswith("星 stars.example")


@pytest.mark.parametrize(
    "url",
    [
        "http://example.com.evil.org/",
        "http://evil.org/?example.com",
        "http://evil.org#@example.com/",
        "http://example.com:8080/",
        "https://example.com:80/",
        "http://2130706433/",
        "http://127.1/",
        "http://0x7f.1/",
        "http://[::1]/",
    ],
)
def test_addresses_of_other_hosts(url):
    with pytest.raises(ToolError, match=r"the host is not permitted; permitted: example\.com"):
        check_url(url, [parse_host("example.com")])


@pytest.mark.parametrize(
    "url", ["http://example.com\\@evil.org/", "http://example.com:80:80/", "example.com", "http://"]
)
def test_what_is_no_address(url):
    with pytest.raises(ToolError):
        check_url(url, [parse_host("example.com")])


def test_addresses_of_listed_hosts():
    hosts = [parse_host("Example.COM"), parse_host("other.org:8443"), parse_host("bücher.example")]
    for url in (
        "http://example.com/a?b#c",
        "https://EXAMPLE.com./",
        "https://other.org:8443/",
        "http://bücher.example/",
    ):
        assert check_url(url, hosts).fragment == ""


def test_hosts():
    assert parse_host("example.com:80") == Host("example.com", 80) and parse_host("[::1]:8") == Host("::1", 8)
    for text in ("", "http://x", "a/b", "u@h", "h:99999", "h?x", "h#x", "a b"):
        with pytest.raises(AgentError):
            parse_host(text)


@pytest.mark.parametrize(
    ("address", "expected"),
    [("1.1.1.1", True), ("2606:4700:4700::1111", True), ("64:ff9b::1.1.1.1", True)]
    + [(a, False) for a in ("127.0.0.1", "10.0.0.1", "192.168.1.1", "172.16.0.1", "169.254.169.254", "0.0.0.0")]
    + [(a, False) for a in ("100.64.0.1", "224.0.0.1", "255.255.255.255", "::1", "::", "fe80::1%eth0", "fc00::1")]
    + [
        (a, False)
        for a in ("::ffff:127.0.0.1", "::ffff:10.0.0.1", "2002:7f00:1::", "ff02::1", "64:ff9b::10.0.0.1", "nonsense")
    ],
)
def test_public_addresses(address, expected):
    assert is_public(address) is expected
