"""A headless Chromium and one page in it, driven by the DevTools protocol. Source: chromedevtools.github.io."""

import asyncio
import re
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any

import aiohttp

FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync", "--lang=en-US"),
    "--remote-debugging-port=0",
)
SECONDS = 120.0  # for the browser's answer; a busy machine starts one slowly
N_LOOKS = 1500  # at a page, for what is to come


def find() -> str | None:
    """A Chromium's path."""
    names = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
    return next((path for name in names if (path := shutil.which(name))), None)


class Page:
    """Every call runs the loop until its answer is there; events that come meanwhile are kept."""

    def __init__(self, executable: str, folder: Path) -> None:
        command = [executable, *FLAGS, f"--user-data-dir={folder}", "about:blank"]
        self._process = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
        assert self._process.stderr
        line = next(line for line in self._process.stderr if "DevTools listening" in line)
        self._loop = asyncio.new_event_loop()
        self._n_sent = 0
        self.events: list[dict[str, Any]] = []
        self._loop.run_until_complete(self._connect(re.search(r"127\.0\.0\.1:\d+", line)[0]))
        for domain in ("Page", "Network", "Runtime", "Log"):
            self.call(f"{domain}.enable")

    async def _connect(self, address: str) -> None:
        self._session = aiohttp.ClientSession()
        async with self._session.put(f"http://{address}/json/new?about:blank") as reply:
            target = await reply.json(content_type=None)
        self._socket = await self._session.ws_connect(target["webSocketDebuggerUrl"], max_msg_size=0)

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        return self._loop.run_until_complete(self._call(method, params))

    async def _call(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        self._n_sent += 1
        await self._socket.send_json({"id": self._n_sent, "method": method, "params": params})
        while True:
            message = await self._socket.receive_json(timeout=SECONDS)
            if message.get("id") == self._n_sent:
                assert "error" not in message, message
                return message["result"]
            self.events.append(message)

    def go(self, url: str) -> None:
        self.call("Page.navigate", url=url)
        self.until("document.readyState === 'complete'")

    def evaluate(self, expression: str) -> Any:
        """The value of an expression, or of what it promises."""
        found = self.call("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in found, found["exceptionDetails"]
        return found["result"].get("value")

    def until(self, expression: str) -> Any:
        """Wait until it is true. -> its value."""
        for _ in range(N_LOOKS):  # not seconds: where everything stands still for a while, the page does so too
            if value := self.evaluate(expression):
                return value
            time.sleep(0.02)
        raise AssertionError(f"never true: {expression}; the page: {self.evaluate('document.body.innerText')}")

    def press(self, key: str, code: int, *, shift: bool = False) -> None:
        both = {"key": key, "code": key, "windowsVirtualKeyCode": code, "modifiers": 8 if shift else 0}
        text = {"text": "\r"} if key == "Enter" else {}
        self.call("Input.dispatchKeyEvent", type="keyDown", **both, **text)
        self.call("Input.dispatchKeyEvent", type="keyUp", **both)

    def write(self, text: str) -> None:
        self.call("Input.insertText", text=text)

    @property
    def addresses(self) -> list[str]:
        """Of all requests so far."""
        sent = [event for event in self.events if event["method"] == "Network.requestWillBeSent"]
        return [event["params"]["request"]["url"] for event in sent]

    @property
    def complaints(self) -> list[str]:
        """Errors of scripts, and what the browser's log says."""
        kinds = ("Runtime.exceptionThrown", "Log.entryAdded")
        return [str(event["params"]) for event in self.events if event["method"] in kinds]

    def close(self) -> None:
        self._loop.run_until_complete(self._session.close())
        self._loop.close()
        self._process.terminate()
        self._process.wait(30)
        assert self._process.stderr
        self._process.stderr.close()
