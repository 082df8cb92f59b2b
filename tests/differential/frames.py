"""Replies as they are on the wire.

A client library hides what two servers may do differently: which kind of null, a status or a bulk string, a map or a
flat array. So replies are cut out of the stream as bytes, compared as bytes, and parsed, with their types, only where
the bytes are not equal.
"""

from typing import NamedTuple

SIMPLE = b"+-:_#,("
BULK = b"$=!"
AGGREGATE = {ord("*"): 1, ord("~"): 1, ord(">"): 1, ord("%"): 2}
# How much of a long string is shown.
SHOWN_BYTES = 160


class NotAReply(Exception):
    """What came is no RESP."""


class Reply(NamedTuple):
    """One reply: its type on the wire and what it holds, `None` for the nulls of RESP2."""

    kind: str
    value: bytes | list | None

    @property
    def is_null(self) -> bool:
        return self.value is None or self.kind == "_"


class Frames:
    """Cuts a stream of bytes into replies."""

    def __init__(self) -> None:
        self.buffer = b""
        self.position = 0

    def feed(self, data: bytes) -> None:
        self.buffer = self.buffer[self.position :] + data
        self.position = 0

    def take(self) -> bytes | None:
        """The next whole reply, or `None` until more is fed."""
        end = end_of(self.buffer, self.position)
        if end is None:
            return None
        frame = self.buffer[self.position : end]
        self.position = end
        return frame


def end_of(data: bytes, start: int) -> int | None:
    """Where the reply that begins at `start` ends, or `None` where it is not all there."""
    line_end = data.find(b"\r\n", start)
    if line_end < 0:
        return None
    kind, after_line = data[start], line_end + 2
    if kind in SIMPLE:
        return after_line
    if kind not in BULK and kind not in AGGREGATE:
        raise NotAReply(repr(data[start : start + 40]))
    length = int(data[start + 1 : line_end])
    if length < 0:
        return after_line
    if kind in BULK:
        end = after_line + length + 2
        if len(data) < end:
            return None
        if data[end - 2 : end] != b"\r\n":
            raise NotAReply(f"a string of {length} bytes does not end there")
        return end
    end: int | None = after_line
    for _ in range(length * AGGREGATE[kind]):
        end = end_of(data, end)
        if end is None:
            return None
    return end


def parse(frame: bytes) -> Reply:
    """A whole reply with its types."""
    return parse_at(frame, 0)[0]


def parse_at(data: bytes, start: int) -> tuple[Reply, int]:
    line_end = data.index(b"\r\n", start)
    kind, rest, after_line = data[start], data[start + 1 : line_end], line_end + 2
    if kind in SIMPLE:
        return Reply(chr(kind), rest), after_line
    length = int(rest)
    if length < 0:
        return Reply(chr(kind), None), after_line
    if kind in BULK:
        return Reply(chr(kind), data[after_line : after_line + length]), after_line + length + 2
    members, end = [], after_line
    for _ in range(length * AGGREGATE[kind]):
        member, end = parse_at(data, end)
        members.append(member)
    return Reply(chr(kind), members), end


def show(reply: Reply) -> str:
    """One line of text for a reply, its type first: `+OK`, `:5`, `$"text"`, `$nil`, `_`, `*[:1, :2]`."""
    if reply.value is None:
        return f"{reply.kind}nil"
    if isinstance(reply.value, list):
        return f"{reply.kind}[{', '.join(map(show, reply.value))}]"
    if reply.kind in "$=!":
        return f"{reply.kind}{quote(reply.value)}"
    return reply.kind + reply.value.decode("latin-1")


def quote(data: bytes) -> str:
    """Bytes between quotes with the escapes of redis-cli; a long string is cut and its length told."""
    text = "".join(map(escape, data[:SHOWN_BYTES]))
    return f'"{text}"' if len(data) <= SHOWN_BYTES else f'"{text}..." ({len(data)} bytes)'


def escape(byte: int) -> str:
    if byte in b'"\\':
        return "\\" + chr(byte)
    return chr(byte) if 32 <= byte < 127 else f"\\x{byte:02x}"
