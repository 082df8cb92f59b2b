"""redis-cli as Debian has it: one command a call, RESP3, scanning, piping, and a person at a terminal."""

import fcntl
import os
import pty
import re
import select
import signal
import struct
import termios
import subprocess
import time

import pytest

from server.process import Server

SECONDS = 20


def cli(server: Server, *arguments: str, text: str = "") -> str:
    """Runs redis-cli and returns what it printed; it must end well."""
    done = subprocess.run(
        ["redis-cli", "-p", str(server.port), *arguments],
        input=text,
        capture_output=True,
        text=True,
        timeout=SECONDS,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.smoke
def test_the_first_session_of_the_readme(server):
    shown = cli(server, "--no-raw", "RL.SLIDE", "rl:{ak_42}:orders", "100", "1")
    numbers = re.findall(r"\d\) \(integer\) (\d+)", shown)
    assert numbers[:4] == ["1", "100", "99", "0"] and 1000 < int(numbers[4]) <= 2000


def test_resp3(server):
    assert cli(server, "-3", "RL.TOKEN", "cli:bucket", "5", "1").split() == ["1", "5", "4", "0", "1000"]
    assert "rl.slide" in cli(server, "-3", "COMMAND", "INFO", "rl.slide")
    assert "redis" in cli(server, "-3", "HELLO")
    assert "maxclients" in cli(server, "-3", "--json", "CONFIG", "GET", "max*")


def test_scan(server):
    for number in range(30):
        server.ask(f"RL.SLIDE cli:scan:{number} 5 1h")
    assert len(cli(server, "--scan", "--pattern", "cli:scan:*").split()) == 30


def test_pipe(server):
    requests = "".join(
        f"*4\r\n$8\r\nRL.SLIDE\r\n$6\r\npipe:{number}\r\n$1\r\n5\r\n$2\r\n1h\r\n" for number in range(10)
    )
    assert "errors: 0, replies: 10" in cli(server, "--pipe", text=requests)


def test_commands_from_stdin(server):
    assert cli(server, text="PING\nRL.SLIDE stdin 5 1h COST 0\nTYPE stdin\n").split() == [
        "PONG",
        "1",
        "5",
        "5",
        "0",
        "0",
        "none",
    ]


def test_stat_and_bigkeys(server):
    assert "ERR" not in cli(server, "INFO")
    assert "rl.slide" in cli(server, "--bigkeys")


def test_errors_are_shown(server):
    assert "ERR" in cli(server, "RL.SLIDE", "k", "5", "0")
    assert cli(server, "PING").strip() == "PONG"


class Terminal:
    """A redis-cli that believes a person types."""

    def __init__(self, server: Server) -> None:
        self.pid, self.file = pty.fork()
        if self.pid == 0:
            # A terminal that knows its width is not asked for it by escape sequences.
            fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 120, 0, 0))
            os.environ["TERM"] = "xterm"
            os.environ["HOME"] = "/nonexistent"
            os.execvp("redis-cli", ["redis-cli", "-p", str(server.port)])
        self.shown = ""

    def type(self, text: str) -> None:
        os.write(self.file, text.encode())

    def wait_for(self, pattern: str) -> None:
        """Reads until the pattern was shown since the last wait."""
        deadline = time.monotonic() + SECONDS
        while not (found := re.search(pattern, self.shown)):
            ready, _, _ = select.select([self.file], [], [], max(0, deadline - time.monotonic()))
            assert ready, f"{pattern} was not shown: {self.shown!r}"
            self.shown += os.read(self.file, 65_536).decode(errors="replace")
        self.shown = self.shown[found.end() :]

    def end(self) -> int:
        """Types quit until it is heard: redis-cli drops what is typed while it changes the terminal's mode."""
        deadline = time.monotonic() + SECONDS
        try:
            while time.monotonic() < deadline:
                self.type("quit\r")
                while select.select([self.file], [], [], 0.5)[0]:
                    if not os.read(self.file, 65_536):
                        break
        except OSError:
            # The terminal's other end is closed: it has ended.
            pass
        ended, status = os.waitpid(self.pid, os.WNOHANG)
        while not ended and time.monotonic() < deadline:
            select.select([], [], [], 0.01)
            ended, status = os.waitpid(self.pid, os.WNOHANG)
        if not ended:
            os.kill(self.pid, signal.SIGKILL)
            _, status = os.waitpid(self.pid, 0)
        os.close(self.file)
        return os.waitstatus_to_exitcode(status)


def test_an_interactive_session_with_hints_and_help(server):
    """Hints come from COMMAND DOCS, whose shape redis-cli asserts."""
    terminal = Terminal(server)
    # What is typed before a prompt is shown can be dropped: the terminal changes its mode then.
    prompt = r"127\.0\.0\.1:\d+> "
    terminal.wait_for(prompt)
    terminal.type("rl.slide ")
    terminal.wait_for("limit")
    terminal.type("typed 100 1\r")
    for typed, shown in [
        ("", r"3\) \(integer\) 99"),
        ("help rl.slide\r", "summary:"),
        ("rl.tok\t cli:typed 5 1\r", r"3\) \(integer\) 4"),
        ("help @generic\r", "DEL"),
    ]:
        terminal.type(typed)
        terminal.wait_for(shown)
        terminal.wait_for(prompt)
    assert terminal.end() == 0
