"""HTTP GET to hosts that a person has listed, and to nothing else.

A host stands in the list as `example.com` (ports 80 and 443) or `example.com:8080`. Every redirect is checked as the
first address was. Names are resolved here and connections go to the addresses that were checked; an address that is
not public (loopback, private, link-local, ...) is refused, unless it is in the list as an address, or the name is
`localhost` and in the list. No proxies, no cookies, no credentials.
"""

import errno
import ipaddress
import re
import socket
from collections.abc import Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from chenxing.agent.tools.tool import Tool, ToolError, tool
from chenxing.errors import AgentError

if TYPE_CHECKING:
    import aiohttp
    from yarl import URL

MAX_BYTES = 1 << 20
MAX_REDIRECTS = 5
SECONDS = 20.0
_NAT64 = ipaddress.ip_network("64:ff9b::/96")
_REDIRECTS = (301, 302, 303, 307, 308)
_TEXT = re.compile(r"text/|application/(json|xml|yaml|toml|javascript)|[^;]*\+(json|xml)\b", re.IGNORECASE)


@dataclass(frozen=True)
class Host:
    """port  None: 80 for http, 443 for https"""

    name: str
    port: int | None


def parse_host(text: str) -> Host:
    """`example.com`, `example.com:8080`, `127.0.0.1:8000`, `[::1]:8000`. Raises AgentError for anything else."""
    from yarl import URL

    try:
        url = URL(f"http://{text}")
        name, port = url.raw_host, url.explicit_port
    except ValueError as error:
        raise AgentError(f"host {text!r}: {error}") from error
    if not name or re.search(r"[\s/?#@\\]", text):
        raise AgentError(f"host {text!r}: expected a name such as example.com or example.com:8080")
    return Host(_canonical(name), port)


def http_tool(hosts: Collection[Host], *, seconds: float = SECONDS) -> Tool:
    """hosts  that may be asked"""

    @tool(timeout=seconds)
    async def http_get(url: str) -> str:
        """Read a web address. Only some hosts are permitted.

        url  beginning with http:// or https://
        """
        return await get(url, hosts)

    return http_get


async def get(url: str, hosts: Collection[Host]) -> str:
    """The text at an address. Raises ToolError for what is not permitted, not found, not text, or too large."""
    import aiohttp

    connector = aiohttp.TCPConnector(resolver=_resolver(hosts), use_dns_cache=False)
    options: dict[str, Any] = {"allow_redirects": False, "headers": {"Accept": "text/*, */*;q=0.1"}}
    async with aiohttp.ClientSession(connector=connector, cookie_jar=aiohttp.DummyCookieJar()) as session:
        checked = check_url(url, hosts)
        for _ in range(MAX_REDIRECTS + 1):
            try:
                async with session.get(checked, **options) as reply:
                    if reply.status not in _REDIRECTS or "Location" not in reply.headers:
                        return await _text(str(checked), reply)
                    target = reply.headers["Location"]
            except (aiohttp.ClientError, OSError) as error:
                raise ToolError(f"{checked}: {str(error) or type(error).__name__}") from error
            checked = check_url(target, hosts, base=checked)
    raise ToolError(f"{url}: more than {MAX_REDIRECTS} redirects")


def check_url(text: str, hosts: Collection[Host], *, base: "URL | None" = None) -> "URL":
    """An address that may be asked, read by the same code that connects to it. Raises ToolError."""
    from yarl import URL

    try:
        url = URL(text.strip()) if base is None else base.join(URL(text.strip()))
        name, port = url.raw_host, url.port
    except ValueError as error:
        raise ToolError(f"{text!r}: {error}") from error
    if url.scheme not in ("http", "https") or not name or "\\" in text:
        raise ToolError(f"{text!r}: expected an address that begins with http:// or https://")
    if url.user is not None or url.password is not None:
        raise ToolError(f"{text!r}: expected an address without a user's name")
    standard = 443 if url.scheme == "https" else 80
    if not any(host.name == _canonical(name) and port == (host.port or standard) for host in hosts):
        listed = ", ".join(host.name if host.port is None else f"{host.name}:{host.port}" for host in hosts)
        raise ToolError(f"{str(url)!r}: the host is not permitted; permitted: {listed or 'none'}")
    return url.with_fragment(None)


def _canonical(name: str) -> str:
    address = _address(name)
    return str(address) if address else name.rstrip(".").lower()


def _address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return None


def is_public(address: str) -> bool:
    """It belongs to nobody's own machine or network."""
    found = _address(address)
    if found is None:
        return False
    inner = None
    if isinstance(found, ipaddress.IPv6Address):  # an IPv4 address may be inside
        inner = found.ipv4_mapped or found.sixtofour
        if found in _NAT64:
            inner = ipaddress.IPv4Address(int(found) & 0xFFFFFFFF)
    return found.is_global and not found.is_multicast and (inner is None or is_public(str(inner)))


def _resolver(hosts: Collection[Host]) -> Any:
    from aiohttp.abc import AbstractResolver
    from aiohttp.resolver import ThreadedResolver

    listed = {host.name for host in hosts}

    class Checked(AbstractResolver):
        """Addresses that are public or listed. aiohttp asks no resolver for an address, which `check_url` has found
        in the list."""

        def __init__(self) -> None:
            self._inner = ThreadedResolver()

        async def resolve(
            self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
        ) -> "list[aiohttp.abc.ResolveResult]":
            found = await self._inner.resolve(host, port, family)
            is_own = host.lower() == "localhost" and "localhost" in listed
            for item in found:
                address = _canonical(item["host"])
                if not (is_public(address) or address in listed or is_own):
                    raise OSError(
                        errno.EACCES, f"{host} is at {address}, which is not public, and not in the list as an address"
                    )
            return found

        async def close(self) -> None:
            await self._inner.close()

    return Checked()


async def _text(url: str, reply: "aiohttp.ClientResponse") -> str:
    kind = reply.headers.get("Content-Type", "text/plain")
    if not _TEXT.match(kind):
        raise ToolError(f"{url}: expected text, found {kind:.100}")
    data = bytearray()
    async for piece in reply.content.iter_any():
        data += piece
        if len(data) > MAX_BYTES:
            raise ToolError(f"{url}: expected at most {MAX_BYTES} bytes")
    try:
        text = data.decode(reply.get_encoding(), "replace")
    except (LookupError, RuntimeError):
        text = data.decode("utf-8", "replace")
    if reply.status >= 400:
        raise ToolError(f"{url}: HTTP {reply.status} {reply.reason or ''}: {text[:500]}")
    return text
