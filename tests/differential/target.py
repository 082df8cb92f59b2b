"""The two sides of a comparison: a redis-server of the test's own, and a connection that keeps raw replies."""

import os
import select
import shutil
import socket
import subprocess
import tempfile
import time

from differential.frames import Frames, NotAReply
from server.process import START_SECONDS, STOP_SECONDS, free_port

REDIS_SERVER = os.environ.get("REDIS_SERVER") or shutil.which("redis-server") or "/usr/bin/redis-server"
TIMEOUT_SECONDS = 10.0
CHUNK_BYTES = 1 << 18
# What stands in the place of a reply that did not come.
CLOSED = b"-(the connection was closed)\r\n"
SILENT = b"-(no reply came)\r\n"
GARBLED = b"-(what came is no RESP: %s)\r\n"


def encode(words) -> bytes:
    parts = [b"*%d\r\n" % len(words)]
    for word in words:
        parts.append(b"$%d\r\n%b\r\n" % (len(word), word))
    return b"".join(parts)


class Connection:
    """One connection: commands in, raw replies out. It never raises: a reply that is missing has a stand-in."""

    def __init__(self, address: tuple[str, int], protocol: int) -> None:
        self.socket = socket.create_connection(address, TIMEOUT_SECONDS)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket.setblocking(False)
        self.frames = Frames()
        self.failed: bytes | None = None
        if protocol == 3:
            self.ask(b"HELLO", b"3")

    def ask(self, *words: bytes) -> bytes:
        return self.exchange([words], 1)[0]

    def exchange(self, commands: list, replies: int) -> list[bytes]:
        """Sends all commands and takes the given number of replies, reading while it writes, so that neither side can
        wait for the other for ever."""
        unsent = memoryview(b"".join(map(encode, commands)))
        taken: list[bytes] = []
        while unsent or len(taken) < replies:
            if self.failed:
                return taken + [self.failed] * (replies - len(taken))
            try:
                unsent = self.pump(unsent)
                while len(taken) < replies and (frame := self.frames.take()) is not None:
                    taken.append(frame)
            except NotAReply as error:
                self.failed = GARBLED % repr(error).encode()
            except OSError:
                self.failed = CLOSED
        return taken

    def pump(self, unsent: memoryview) -> memoryview:
        """Moves what can be moved now, or waits until something can."""
        readable, writable, _ = select.select([self.socket], [self.socket] if unsent else [], [], TIMEOUT_SECONDS)
        if not readable and not writable:
            self.failed = SILENT
        if writable:
            unsent = unsent[self.socket.send(unsent[:CHUNK_BYTES]) :]
        if readable:
            data = self.socket.recv(CHUNK_BYTES)
            if not data:
                self.failed = CLOSED
            self.frames.feed(data)
        return unsent

    def close(self) -> None:
        self.socket.close()


class Target:
    """A server to be compared: it can be emptied and connected to."""

    def __init__(self, address: tuple[str, int], protocol: int) -> None:
        self.address = address
        self.protocol = protocol

    def connect(self) -> Connection:
        return Connection(self.address, self.protocol)

    def empty(self) -> None:
        connection = self.connect()
        reply = connection.ask(b"FLUSHALL")
        connection.close()
        assert reply == b"+OK\r\n", reply


class RedisServer:
    """A redis-server that writes nothing, has one database, as Tollgate has, and ends with the test."""

    def __init__(self) -> None:
        self.port = free_port()
        self.folder = tempfile.TemporaryDirectory()
        flags = ["--port", str(self.port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]
        flags += ["--databases", "1", "--dir", self.folder.name, "--daemonize", "no"]
        self.log_file = tempfile.TemporaryFile()
        self.process = subprocess.Popen(
            [REDIS_SERVER, *flags], stdin=subprocess.DEVNULL, stdout=self.log_file, stderr=self.log_file
        )

    def wait_until_ready(self) -> "RedisServer":
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline and self.process.poll() is None:
            try:
                connection = Connection(self.address, 2)
            except OSError:
                time.sleep(0.005)
                continue
            answer = connection.ask(b"PING")
            connection.close()
            if answer == b"+PONG\r\n":
                return self
        self.log_file.seek(0)
        raise AssertionError(f"redis-server does not answer: {self.log_file.read().decode(errors='replace')}")

    @property
    def address(self) -> tuple[str, int]:
        return ("127.0.0.1", self.port)

    def stop(self) -> None:
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        self.folder.cleanup()
