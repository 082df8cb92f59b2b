"""A headless Chromium for the tests that look at a page, spoken to through its own debugging pipe."""

import base64
import itertools
import json
import os
import select
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

PROGRAMS = ("chromium", "chromium-browser", "google-chrome")
FLAGS = (
    "--headless",
    "--remote-debugging-pipe",
    "--no-first-run",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--hide-scrollbars",
)
# The browser reads from its file 3 and writes to its file 4, wherever the pipes were before.
MOVE_FILES = """
import fcntl, os, sys
high = [fcntl.fcntl(int(number), fcntl.F_DUPFD, 10) for number in sys.argv[1:3]]
os.dup2(high[0], 3)
os.dup2(high[1], 4)
os.closerange(10, 256)
os.execv(sys.argv[3], sys.argv[3:])
"""
SECONDS = 60.0
READ_BYTES = 1 << 16


def program() -> str | None:
    """The browser of this machine, if there is one."""
    return next(filter(None, map(shutil.which, PROGRAMS)), None)


class Browser:
    """One page in a browser of its own, used as `with Browser() as browser:`.

    `requests` are the addresses that the present page asked for, `complaints` what its console and its policy said.
    """

    def __init__(self) -> None:
        self.requests: list[str] = []
        self.complaints: list[str] = []
        self._numbers = itertools.count(1)
        self._unread = b""
        self._loaded = False
        self._session = None

    def __enter__(self) -> "Browser":
        self._folder = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        from_us, self._to_browser = os.pipe()
        self._from_browser, to_us = os.pipe()
        # Root has no sandbox of its own to go into.
        flags = [*FLAGS, *["--no-sandbox"] * (os.geteuid() == 0), f"--user-data-dir={self._folder.name}"]
        moved = [sys.executable, "-c", MOVE_FILES, str(from_us), str(to_us)]
        self._process = subprocess.Popen(
            [*moved, program(), *flags, "about:blank"],
            pass_fds=(from_us, to_us),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(from_us)
        os.close(to_us)
        try:
            target = self.call("Target.createTarget", url="about:blank")["targetId"]
            self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
            for domain in ("Page", "Network", "Runtime", "Log"):
                self.call(f"{domain}.enable")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_) -> None:
        try:
            # Its own end takes its children along, which would write into the folder otherwise.
            self._session = None
            self.call("Browser.close")
            self._process.wait(SECONDS)
        except (OSError, AssertionError, subprocess.TimeoutExpired):
            self._process.kill()
            self._process.wait()
        os.close(self._to_browser)
        os.close(self._from_browser)
        self._folder.cleanup()

    def open(self, path: Path, width: int = 1200, height: int = 900, scheme: str = "light") -> None:
        """Loads a file without a network, on a screen of that size, for a reader who prefers `scheme`."""
        offline = {"offline": True, "latency": 0, "downloadThroughput": -1, "uploadThroughput": -1}
        self.call("Network.emulateNetworkConditions", **offline)
        screen = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
        self.call("Emulation.setDeviceMetricsOverride", **screen)
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        self.requests.clear()
        self.complaints.clear()
        self._loaded = False
        self.call("Page.navigate", url=path.resolve().as_uri())
        deadline = time.monotonic() + SECONDS
        while not self._loaded:
            self._take(self._message(deadline))

    def evaluate(self, expression: str):
        """The value of an expression in the page."""
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def screenshot(self, path: Path) -> None:
        """The whole page as a picture."""
        answer = self.call("Page.captureScreenshot", captureBeyondViewport=True)
        path.write_bytes(base64.b64decode(answer["data"]))

    def call(self, method: str, **parameters) -> dict:
        """One command of the debugging protocol and its answer."""
        number = next(self._numbers)
        message = {"id": number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._to_browser, json.dumps(message).encode() + b"\0")
        deadline = time.monotonic() + SECONDS
        while True:
            answer = self._message(deadline)
            if answer.get("id") == number:
                assert "error" not in answer, (method, answer)
                return answer["result"]
            self._take(answer)

    def _take(self, event: dict) -> None:
        """Keeps what an event tells about the page."""
        parameters = event.get("params", {})
        match event.get("method"):
            case "Page.loadEventFired":
                self._loaded = True
            case "Network.requestWillBeSent":
                self.requests.append(parameters["request"]["url"])
            case "Runtime.exceptionThrown":
                self.complaints.append(parameters["exceptionDetails"]["text"])
            case "Runtime.consoleAPICalled":
                self.complaints.append(str(parameters["args"]))
            case "Log.entryAdded":
                self.complaints.append(parameters["entry"]["text"])

    def _message(self, deadline: float) -> dict:
        while b"\0" not in self._unread:
            ready, _, _ = select.select([self._from_browser], [], [], max(0.0, deadline - time.monotonic()))
            assert ready, "the browser does not answer"
            more = os.read(self._from_browser, READ_BYTES)
            assert more, f"the browser ended with {self._process.wait()}"
            self._unread += more
        message, _, self._unread = self._unread.partition(b"\0")
        return json.loads(message)
