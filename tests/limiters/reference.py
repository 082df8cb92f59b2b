"""A redis-server beside the server under test: what a limiter decides on it is what is expected."""

import shutil
import subprocess
import tempfile
import time

from server.process import START_SECONDS, STOP_SECONDS, free_port
from server.wire import Wire


class Reference:
    """A redis-server that keeps nothing, on a free port of loopback, as a child process."""

    def __init__(self) -> None:
        binary = shutil.which("redis-server")
        assert binary, "redis-server is not installed"
        self.port = free_port()
        self.folder = tempfile.TemporaryDirectory()
        flags = ["--port", str(self.port), "--bind", "127.0.0.1", "--save", "", "--dir", self.folder.name]
        self.process = subprocess.Popen(
            [binary, *flags], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )

    def wait_until_ready(self) -> "Reference":
        deadline = time.monotonic() + START_SECONDS
        while True:
            try:
                with Wire(("127.0.0.1", self.port)) as wire:
                    assert wire("PING") == "PONG"
                    return self
            except OSError:
                assert self.process.poll() is None, "redis-server ended"
                assert time.monotonic() < deadline, "redis-server does not accept"
                time.sleep(0.005)

    def stop(self) -> None:
        self.process.terminate()
        try:
            self.process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.folder.cleanup()
