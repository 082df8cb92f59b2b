"""A small RESP2 and RESP3 client over a raw socket: exact bytes out, plain Python values in."""

import socket
import struct
import time

from reply import Error, Status

TIMEOUT_SECONDS = 10.0
Words = str | bytes | list


class Closed(Exception):
    """The server closed the connection."""


class Wire:
    """One connection. Commands are lines of words, or lists of words where a word is not plain text."""

    def __init__(self, address: tuple[str, int] | str, protocol: int = 2) -> None:
        family = socket.AF_UNIX if isinstance(address, str) else socket.AF_INET
        self.socket = socket.socket(family, socket.SOCK_STREAM)
        self.socket.settimeout(TIMEOUT_SECONDS)
        self.socket.connect(address)
        if family == socket.AF_INET:
            self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.buffer = b""
        self.position = 0
        if protocol == 3:
            self("HELLO 3")

    def __enter__(self) -> "Wire":
        return self

    def __exit__(self, *_error) -> None:
        self.close()

    def __call__(self, command: Words):
        """Sends one command and reads its reply."""
        self.send(command)
        return self.read()

    def send(self, *commands: Words) -> None:
        self.send_bytes(b"".join(map(encode, commands)))

    def send_bytes(self, data: bytes) -> None:
        try:
            self.socket.sendall(data)
        except (ConnectionError, BrokenPipeError) as error:
            raise Closed(str(error)) from error

    def pipeline(self, commands: list[Words]) -> list:
        """Sends all commands at once, then reads as many replies."""
        self.send(*commands)
        return [self.read() for _ in commands]

    def read(self):
        """Reads one reply, whatever its type."""
        line = self.line()
        kind, rest = line[:1], line[1:]
        if kind == b":":
            return int(rest)
        if kind == b"*" or kind == b">":
            return None if rest == b"-1" else [self.read() for _ in range(int(rest))]
        if kind == b"$":
            return None if rest == b"-1" else self.exactly(int(rest))
        if kind == b"+":
            return Status(rest.decode("latin-1"))
        if kind == b"-":
            return Error(rest.decode("latin-1"))
        return self.read_of_three(kind, rest)

    def read_of_three(self, kind: bytes, rest: bytes):
        """The types that only RESP3 has."""
        if kind == b"%":
            return {self.read(): self.read() for _ in range(int(rest))}
        if kind == b"~":
            return set_of([self.read() for _ in range(int(rest))])
        if kind == b"_":
            return None
        if kind == b"#":
            return rest == b"t"
        if kind == b",":
            return float(rest)
        if kind == b"(":
            return int(rest)
        if kind == b"=":
            return self.exactly(int(rest))[4:]
        raise AssertionError(f"not a reply: {kind + rest!r}")

    def line(self) -> bytes:
        while (end := self.buffer.find(b"\r\n", self.position)) < 0:
            self.fill()
        line = self.buffer[self.position : end]
        self.position = end + 2
        return line

    def exactly(self, length: int) -> bytes:
        while len(self.buffer) < self.position + length + 2:
            self.fill()
        data = self.buffer[self.position : self.position + length]
        assert self.buffer[self.position + length : self.position + length + 2] == b"\r\n"
        self.position += length + 2
        return data

    def fill(self) -> None:
        try:
            more = self.socket.recv(1 << 16)
        except ConnectionError as error:
            raise Closed(str(error)) from error
        if not more:
            raise Closed(f"after {self.buffer[self.position :]!r}")
        self.buffer = self.buffer[self.position :] + more
        self.position = 0

    def rest(self) -> bytes:
        """All bytes until the server closes the connection."""
        try:
            while True:
                self.fill()
        except Closed:
            return self.buffer[self.position :]

    def is_closed(self) -> bool:
        """Whether the server has closed this connection, asked with a PING that must otherwise be answered."""
        try:
            self.send("PING")
            self.read()
        except Closed:
            return True
        return False

    def close(self) -> None:
        self.socket.close()

    def vanish(self) -> None:
        """Ends the connection at once, as a process that dies does: unread bytes are dropped, a reset is sent."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.socket.close()


def encode(command: Words) -> bytes:
    """A command as an array of bulk strings."""
    words = command.split() if isinstance(command, str | bytes) else command
    parts = [b"*%d\r\n" % len(words)]
    for word in words:
        data = word if isinstance(word, bytes) else str(word).encode()
        parts.append(b"$%d\r\n%s\r\n" % (len(data), data))
    return b"".join(parts)


def set_of(members: list) -> set | list:
    """A set, or the list as it came where members are maps or arrays, which Python's sets cannot hold."""
    simple = all(isinstance(member, bytes | str | int) for member in members)
    return set(members) if simple else members


def flat_map(reply) -> dict:
    """A map as RESP3 has it, also from the flat array that RESP2 sends in its place."""
    if isinstance(reply, dict):
        return reply
    return dict(zip(reply[::2], reply[1::2]))


def eventually(condition, seconds: float = 10.0) -> bool:
    """Asks a condition again and again, for what only the operating system's clock can bring about."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True
