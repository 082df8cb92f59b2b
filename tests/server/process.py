"""The server under test as a child process: started on free ports, watched, ended and checked."""

import os
import random
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path

from server.wire import Wire

ROOT = Path(__file__).resolve().parents[2]
BINARY = Path(os.environ.get("TOLLGATE_BIN") or ROOT / "target" / "release" / "tollgate")
START_SECONDS = 20.0
STOP_SECONDS = 20.0
# Below the range from which the kernel takes ports for outgoing connections.
PORTS = range(10_000, 32_000)


class Server:
    """A running server. `arguments` are added to the flags that every test needs."""

    def __init__(
        self,
        cores: int = 1,
        *arguments: str,
        test_clock: bool = True,
        admin: bool = False,
        bind: str = "127.0.0.1",
        port: int | None = None,
    ) -> None:
        self.cores = cores
        self.port = port or free_port()
        self.admin_port = free_port() if admin else 0
        self.log_file = tempfile.TemporaryFile()
        flags = [*tcp_flags(self.port, self.admin_port, bind), "--cores", str(cores)]
        flags += ["--test-clock"] * test_clock
        self.process = subprocess.Popen(
            [BINARY, "serve", *flags, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=self.log_file,
            stderr=self.log_file,
            env=clean_environment(),
        )

    def wait_until_ready(self) -> "Server":
        """Returns once a connection is answered, be it by an error: the port is open a moment before the cores run and
        the admin port is there. Ends the test if the process ends or takes too long."""
        deadline = time.monotonic() + START_SECONDS
        while True:
            try:
                with socket.create_connection(("127.0.0.1", self.port), 1.0) as probe:
                    probe.settimeout(START_SECONDS)
                    probe.sendall(b"PING\r\n")
                    if probe.recv(64):
                        return self
            except OSError:
                assert self.process.poll() is None, f"the server ended: {self.log()}"
                if time.monotonic() > deadline:
                    self.kill()
                    raise AssertionError(f"the server does not accept: {self.log()}") from None
                time.sleep(0.005)

    @property
    def address(self) -> tuple[str, int]:
        return ("127.0.0.1", self.port)

    @property
    def pid(self) -> int:
        return self.process.pid

    def connect(self, protocol: int = 2) -> Wire:
        return Wire(self.address, protocol)

    def ask(self, command):
        """One command on a connection of its own."""
        with self.connect() as wire:
            return wire(command)

    def log(self) -> str:
        self.log_file.seek(0)
        return self.log_file.read().decode(errors="replace")

    def memory_bytes(self) -> int:
        """Resident memory as the kernel counts it."""
        status = Path(f"/proc/{self.pid}/status").read_text()
        return int(status.split("VmRSS:")[1].split()[0]) * 1024

    def stop(self) -> int:
        """Asks the process to end and returns its exit code; one that does not listen is killed."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(f"the server did not end on SIGTERM: {self.log()}") from None

    def kill(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()


def tcp_flags(port: int, admin_port: int = 0, bind: str = "127.0.0.1") -> list[str]:
    return ["--bind", bind, "--port", str(port), "--admin-port", str(admin_port)]


def run_once(*arguments: str, environment: dict | None = None) -> subprocess.CompletedProcess:
    """Runs the binary to its end and returns what it said."""
    return subprocess.run(
        [BINARY, *arguments],
        capture_output=True,
        text=True,
        timeout=START_SECONDS,
        env=clean_environment() | (environment or {}),
    )


def clean_environment() -> dict[str, str]:
    """The environment without settings that the server would take from it."""
    return {name: value for name, value in os.environ.items() if not name.startswith("TOLLGATE_")}


def free_port() -> int:
    """A port that nothing listens on."""
    while True:
        port = random.SystemRandom().choice(PORTS)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
                return port
            except OSError:
                continue
