"""Faults to plant: a connection to a sound server that falsifies what is asked or what is answered.

A comparison is worth what it finds. Each fault here is small, of a kind that a reimplementation of Redis can well
have, and must be found.
"""

from collections.abc import Callable
from typing import NamedTuple

from differential.frames import parse
from differential.target import Connection, Target, encode

Ask = Callable[[Connection, tuple], bytes | None]


class Fault(NamedTuple):
    """What is wrong, and how: `change(words)` gives other words to send, `answer(words, frame)` another reply."""

    name: str
    change: Callable[[list[bytes]], list[bytes]] = lambda words: words
    answer: Callable[[list[bytes], bytes], bytes] = lambda words, frame: frame


class FaultyConnection(Connection):
    """A connection through the fault. Other than the sound one it takes one command at a time."""

    fault: Fault

    def exchange(self, commands: list, replies: int) -> list[bytes]:
        changed = [self.fault.change(list(words)) if words else words for words in commands]
        frames = super().exchange(changed, replies)
        if len(frames) != len(commands):
            return frames
        return [self.fault.answer(list(words), frame) if words else frame for words, frame in zip(commands, frames)]


class FaultyTarget(Target):
    """A sound server behind a fault."""

    def __init__(self, address: tuple[str, int], protocol: int, fault: Fault) -> None:
        super().__init__(address, protocol)
        self.fault = fault

    def connect(self) -> Connection:
        kind = type("Planted", (FaultyConnection,), {"fault": self.fault})
        return kind(self.address, self.protocol)


def is_named(words: list[bytes], *names: bytes) -> bool:
    return words[0].upper() in names


def without(name: bytes, option: bytes):
    """Leaves an option of a command out."""

    def change(words: list[bytes]) -> list[bytes]:
        return [word for word in words if word.upper() != option] if is_named(words, name) else words

    return change


def renamed(name: bytes, other: bytes):
    def change(words: list[bytes]) -> list[bytes]:
        return [other, *words[1:]] if is_named(words, name) else words

    return change


def replaced(before: bytes, after: bytes, *names: bytes):
    """Puts other bytes into the replies, of all commands or of those named."""

    def answer(words: list[bytes], frame: bytes) -> bytes:
        return frame.replace(before, after) if not names or is_named(words, *names) else frame

    return answer


def added(number: int, *names: bytes):
    """Answers another integer, where it is not negative."""

    def answer(words: list[bytes], frame: bytes) -> bytes:
        is_number = is_named(words, *names) and frame[:1] == b":" and frame[1:2] != b"-"
        return b":%d\r\n" % (int(frame[1:]) + number) if is_number else frame

    return answer


def one_key_short(words: list[bytes], frame: bytes) -> bytes:
    """KEYS and SCAN lose a key where there are many."""
    if not is_named(words, b"KEYS", b"SCAN"):
        return frame
    reply = parse(frame)
    if is_named(words, b"KEYS") and isinstance(reply.value, list) and len(reply.value) > 3:
        return encode([key.value for key in reply.value[1:]])
    if is_named(words, b"SCAN") and reply.kind == "*" and len(reply.value) == 2 and len(reply.value[1].value) > 3:
        return b"*2\r\n" + encode([reply.value[0].value])[4:] + encode([key.value for key in reply.value[1].value[1:]])
    return frame


def shorter(name: bytes, least: int):
    """Takes the last two words of a command that is long enough for it to be legal still."""

    def change(words: list[bytes]) -> list[bytes]:
        return words[:-2] if is_named(words, name) and len(words) >= least + 2 and len(words) % 2 else words

    return change


def unwatched(words: list[bytes]) -> list[bytes]:
    """WATCH watches a key that nobody has."""
    return [words[0], b"nobody's"] if is_named(words, b"WATCH") and len(words) > 1 else words


def cut_at_zero(words: list[bytes]) -> list[bytes]:
    """A value ends at its first zero byte, as a string in C does."""
    return [*words[:2], words[2].split(b"\0")[0], *words[3:]] if is_named(words, b"SET") and len(words) > 2 else words


def wrong_random_key(words: list[bytes], frame: bytes) -> bytes:
    return b"$4\r\ngone\r\n" if is_named(words, b"RANDOMKEY") and frame[:1] == b"$" else frame


def second_too_long(words: list[bytes]) -> list[bytes]:
    """A span of seconds is a second too long: more than what can pass between two servers."""
    if is_named(words, b"EXPIRE", b"SETEX") and len(words) > 2 and words[2].isdigit() and len(words[2]) < 12:
        return [*words[:2], b"%d" % (int(words[2]) + 3), *words[3:]]
    return words


FAULTS = [
    Fault("GETDEL leaves the key", renamed(b"GETDEL", b"GET")),
    Fault("SET forgets NX", without(b"SET", b"NX")),
    Fault("SET forgets KEEPTTL", without(b"SET", b"KEEPTTL")),
    Fault("COPY forgets REPLACE", without(b"COPY", b"REPLACE")),
    Fault("EXPIRE forgets GT", without(b"EXPIRE", b"GT")),
    Fault("PEXPIREAT forgets LT", without(b"PEXPIREAT", b"LT")),
    Fault("GETEX forgets PERSIST", without(b"GETEX", b"PERSIST")),
    Fault("RENAME copies", lambda words: [b"COPY", *words[1:], b"REPLACE"] if is_named(words, b"RENAME") else words,
          lambda words, frame: b"+OK\r\n" if is_named(words, b"RENAME") and frame == b":1\r\n" else frame),
    Fault("DECR adds", renamed(b"DECR", b"INCR")),
    Fault("MSET loses its last pair", shorter(b"MSET", 3)),
    Fault("WATCH watches nothing", unwatched),
    Fault("a value ends at a zero byte", cut_at_zero),
    Fault("three seconds too long", second_too_long),
    Fault("PTTL is 5 s off", answer=added(5000, b"PTTL")),
    Fault("STRLEN counts one more", answer=added(1, b"STRLEN")),
    Fault("DEL counts one more", answer=added(1, b"DEL")),
    Fault("KEYS or SCAN loses a key", answer=one_key_short),
    Fault("RANDOMKEY names a key that is gone", answer=wrong_random_key),
    Fault("DBSIZE counts one more", answer=added(1, b"DBSIZE")),
    Fault("the null of the other protocol", answer=lambda words, frame: {b"$-1\r\n": b"_\r\n", b"_\r\n": b"$-1\r\n"}.get(frame, frame)),
    Fault("a status that is a string", answer=replaced(b"+string\r\n", b"$6\r\nstring\r\n", b"TYPE")),
    Fault("a text with one letter changed", answer=replaced(b"would overflow", b"would overflaw")),
    Fault("another code", answer=replaced(b"-EXECABORT", b"-ERR", b"EXEC")),
    Fault("a float with a zero at its end", answer=replaced(b"$3\r\n0.5\r\n", b"$4\r\n0.50\r\n")),
    Fault("a null for an empty string", answer=replaced(b"$0\r\n\r\n", b"$-1\r\n", b"GET")),
    Fault("an unknown name is not shown", answer=replaced(b"unknown command 'NOSUCH'", b"unknown command ''")),
]  # fmt: skip
