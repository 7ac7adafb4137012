"""A headless Chromium of the tests' own, spoken to over a pipe: no port, no driver."""

from __future__ import annotations

import base64
import fcntl
import json
import os
import select
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

LONG_S = 120.0
_NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
_OPTIONS = (
    *("--headless=new", "--remote-debugging-pipe", "--no-first-run", "--no-default-browser-check"),
    *("--disable-gpu", "--disable-extensions", "--disable-background-networking", "--disable-breakpad"),
    *("--disable-component-update", "--disable-sync", "--disable-dev-shm-usage", "--hide-scrollbars"),
)
#: what it holds, once two frames were drawn
_DRAWN = "new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done({}))))"


class Chromium:
    """One browser with one page at a time; what that asked for and complained of is kept."""

    def __init__(self, process: subprocess.Popen[bytes], to: int, back: int) -> None:
        self.process = process
        self.requests: list[str] = []  #: addresses, in their order
        self.complaints: list[str] = []  #: of the console, and exceptions
        self._to, self._back = to, back
        self._buffer, self._n, self._session = b"", 0, ""
        self._events: list[str] = []
        self._begin_page()

    @contextmanager
    def new_page(self) -> Iterator[Chromium]:
        """Open another page of this browser, with a separate profile, and close it afterwards."""
        before, self._session = self._session, ""
        profile = self.call("Target.createBrowserContext")
        self._begin_page(**profile)
        try:
            yield self
        finally:
            self._session = ""
            self.call("Target.disposeBrowserContext", **profile)
            self._session = before

    def _begin_page(self, **profile: str) -> None:
        target = self.call("Target.createTarget", url="about:blank", **profile)["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        self.requests, self.complaints = [], []
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **parameters: Any) -> Any:
        """Ask for something, and give the answer."""
        self._n += 1
        message = {"id": self._n, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        left = json.dumps(message).encode() + b"\0"
        while left:
            left = left[os.write(self._to, left) :]
        while True:
            answer = self._read()
            if answer.get("id") == self._n:
                assert "error" not in answer, (method, answer["error"])
                return answer["result"]

    def open(self, url: str) -> None:
        """Go there, and wait until it is loaded."""
        self._events.clear()
        self.call("Page.navigate", url=url)
        while "Page.loadEventFired" not in self._events:
            self._read()

    def run(self, script: str) -> Any:
        """What *script*, an expression, gives; a promise is waited for."""
        found = self.call("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in found, found["exceptionDetails"]
        return found["result"].get("value")

    def window(self, width: int, height: int = 900, *, dark: bool = False) -> None:
        """How large the page is, and whether the system is dark."""
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=False,
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])
        self.until(_DRAWN.format("innerWidth"), width)

    def draw(self) -> None:
        """Wait until what was changed is drawn, and events of scrolling have gone out with it."""
        self.until(_DRAWN.format("true"), True)

    def until(self, script: str, wanted: Any) -> None:
        """Wait until *script* gives *wanted*."""
        deadline_s = time.monotonic() + LONG_S
        while (found := self.run(script)) != wanted:
            assert time.monotonic() < deadline_s, f"{script} is {found!r}, not {wanted!r}"
            time.sleep(0.02)

    def point(self, x: float, y: float, *, click: bool = False) -> None:
        """Move the mouse there, and click."""
        for kind in ("mouseMoved", *(("mousePressed", "mouseReleased") if click else ())):
            button = "none" if kind == "mouseMoved" else "left"
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button=button, clickCount=1)

    def press(self, key: str) -> None:
        """Press a key by its name: Enter, Tab."""
        code, text = {"Enter": (13, "\r"), "Tab": (9, "")}[key]
        for kind in ("keyDown", "keyUp"):
            self.call(
                "Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=code, text=text
            )

    def picture(self, file: Path) -> None:
        """The whole page as a PNG."""
        size = self.call("Page.getLayoutMetrics")["cssContentSize"]
        clip = {"x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1}
        found = self.call("Page.captureScreenshot", captureBeyondViewport=True, clip=clip)
        file.write_bytes(base64.b64decode(found["data"]))

    def pdf(self) -> bytes:
        """What is printed."""
        return base64.b64decode(self.call("Page.printToPDF", printBackground=True)["data"])

    def _read(self) -> dict[str, Any]:
        deadline_s = time.monotonic() + LONG_S
        while b"\0" not in self._buffer:
            ready, _, _ = select.select([self._back], [], [], max(0.0, deadline_s - time.monotonic()))
            assert ready, "the browser does not answer"
            part = os.read(self._back, 1 << 20)
            assert part, "the browser ended"
            self._buffer += part
        text, self._buffer = self._buffer.split(b"\0", 1)
        message: dict[str, Any] = json.loads(text)
        if (method := message.get("method")) and message.get("sessionId", "") == self._session:
            self._note(method, message["params"])
        return message

    def _note(self, method: str, data: dict[str, Any]) -> None:
        self._events.append(method)
        if method == "Network.requestWillBeSent":
            self.requests.append(data["request"]["url"])
        elif method in ("Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Log.entryAdded"):
            self.complaints.append(json.dumps(data))


@contextmanager
def running_chromium() -> Iterator[Chromium]:
    """A browser for one test or module; skips at home where none is installed, fails in CI."""
    program = next((found for name in _NAMES if (found := shutil.which(name))), None)
    if program is None:
        if os.environ.get("CI"):
            pytest.fail("chromium is not installed, and CI must test with it")
        pytest.skip("chromium is not installed")
    with tempfile.TemporaryDirectory(prefix="ch-", ignore_cleanup_errors=True) as folder:
        theirs_in, to = _pipe()
        back, theirs_out = _pipe()

        def as_3_and_4() -> None:
            os.dup2(theirs_in, 3)
            os.dup2(theirs_out, 4)

        root = ["--no-sandbox"] if os.geteuid() == 0 else []
        process = subprocess.Popen(
            [program, *_OPTIONS, *root, f"--user-data-dir={folder}", "about:blank"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            preexec_fn=as_3_and_4,
            pass_fds=(3, 4),
            start_new_session=True,
            env={**os.environ, "HOME": folder, "TMPDIR": folder},  # a socket of its own lies there
        )
        os.close(theirs_in)
        os.close(theirs_out)
        try:
            yield Chromium(process, to, back)
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            os.close(to)
            os.close(back)


def _pipe() -> tuple[int, int]:
    """Both ends, beyond the 3 and 4 that the browser wants."""
    ends = os.pipe()
    read, write = (fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 10) for end in ends)
    for end in ends:
        os.close(end)
    return read, write
