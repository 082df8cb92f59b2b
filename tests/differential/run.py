"""Sends one history to two servers in lockstep and tells where they differ.

Both get each pipeline at nearly the same moment, so that times that are left can be compared closely. After a
difference both are emptied and connected to afresh: what follows cannot be an echo of it, and the commands since
then are all that can have caused the next.
"""

import re
import time
from collections.abc import Callable, Iterator
from typing import NamedTuple

from differential.compare import Pair, differing
from differential.frames import Reply, parse, show
from differential.history import CONNECTIONS, Step
from differential.script import line_of
from differential.target import Connection, Target, encode

STRETCH_BYTES = 200_000
# DBSIZE may count what has expired for this long.
LAG_SECONDS = 10.0
SILENCERS = {(b"CLIENT", b"REPLY", b"OFF"): "off", (b"CLIENT", b"REPLY", b"SKIP"): "skip", (b"CLIENT", b"REPLY", b"ON"): "on"}
QUOTED_WORD = re.compile(rb"'[^']*'")
MULTI_OK = b"+OK\r\n"
QUEUED = b"+QUEUED\r\n"


class Difference(NamedTuple):
    """Two replies that differ, and the steps since both servers were empty, the last of which was so answered."""

    pair: Pair
    steps: list[Step]

    @property
    def signature(self) -> tuple:
        """What makes two differences the same fault: the command, and how each side answered."""
        name = self.pair.words[0].upper() if self.pair.words else b""
        return name, gist(name, self.pair.left), gist(name, self.pair.right)

    def __str__(self) -> str:
        words, left, right = self.pair
        return f"{line_of(words)}\n    redis    {show(left)}\n    tollgate {show(right)}"


def gist(name: bytes, reply: Reply) -> tuple:
    """The type, what an encoding is called, and for an error its first words without what is quoted of the command."""
    if name == b"OBJECT" and reply.kind == "$":
        return reply.kind, reply.value
    if reply.kind == "-":
        return reply.kind, b" ".join(QUOTED_WORD.sub(b"''", reply.value).split()[:4])
    return reply.kind, reply.is_null


class Both:
    """One connection of the history, to both servers, and what has to be known about its state."""

    def __init__(self, left: Connection, right: Connection) -> None:
        self.sides = (left, right)
        self.silence = ""
        self.queue: list | None = None

    def exchange(self, steps: list[Step]) -> tuple[list[bytes | None], list[bytes | None]]:
        """The replies of both sides, `None` where none is due."""
        due = [self.is_answered(step.words) for step in steps]
        commands = [step.words for step in steps]
        return tuple(self.spread(side.exchange(commands, sum(due)), due) for side in self.sides)

    def spread(self, replies: list[bytes], due: list[bool]) -> list[bytes | None]:
        taken = iter(replies)
        return [next(taken) if is_due else None for is_due in due]

    def is_answered(self, words) -> bool:
        """Whether this command is answered, by what CLIENT REPLY said before. Must be asked once for each, in order."""
        silencer = SILENCERS.get(tuple(map(bytes.upper, words)))
        if silencer == "on":
            self.silence = ""
            return True
        is_silent = self.silence != "" or silencer is not None
        if silencer == "off" or (silencer == "skip" and self.silence != "off"):
            self.silence = silencer
        elif self.silence == "skip":
            self.silence = ""
        return not is_silent

    def follow(self, words, reply: bytes | None) -> list:
        """Keeps book of a transaction; returns the commands that an EXEC ran."""
        name = words[0].upper() if words else b""
        if self.queue is not None and reply == QUEUED:
            self.queue.append(words)
        elif name == b"MULTI" and reply == MULTI_OK:
            self.queue = []
        elif self.queue is not None and name in (b"EXEC", b"DISCARD", b"RESET") and len(words) == 1:
            ran, self.queue = self.queue, None
            return ran
        return []

    def close(self) -> None:
        for side in self.sides:
            side.close()


class Lockstep:
    """Runs histories against two servers: the reference at the left, the one under test at the right."""

    def __init__(self, left: Target, right: Target, is_known: Callable[[Pair], bool] = lambda _pair: False) -> None:
        self.left, self.right, self.is_known = left, right, is_known
        self.connections: list[Both] = []
        self.slowest_seconds = 0.0

    def differences(self, steps: list[Step]) -> Iterator[Difference]:
        """All differences that are not known; what follows each begins with empty servers."""
        start = 0
        self.begin()
        for first, stretch in stretches(steps):
            found = self.run(stretch)
            if found is not None:
                position, pair = found
                yield Difference(pair, steps[start : first + position + 1])
                start = first + len(stretch)
                self.begin()
        self.end()

    def begin(self) -> None:
        self.end()
        self.left.empty()
        self.right.empty()
        self.connections = [Both(self.left.connect(), self.right.connect()) for _ in range(CONNECTIONS)]

    def end(self) -> None:
        for connection in self.connections:
            connection.close()
        self.connections = []

    @property
    def skew_ms(self) -> float:
        """How far apart the two servers may have run one command, twice: where it was set, and where it is read."""
        return 2000 * self.slowest_seconds

    def run(self, stretch: list[Step]) -> tuple[int, Pair] | None:
        """The first difference of a stretch and its place."""
        connection = self.connections[stretch[0].connection]
        started = time.monotonic()
        probe = PROBES.get(stretch[0].words[0].upper()) if stretch[0].words else None
        if probe and not connection.silence and connection.queue is None:
            lefts, rights = ([probe(side, stretch[0].words)] for side in connection.sides)
        else:
            lefts, rights = connection.exchange(stretch)
            self.slowest_seconds = max(self.slowest_seconds, time.monotonic() - started)
        for position, (step, left, right) in enumerate(zip(stretch, lefts, rights)):
            queued = connection.follow(step.words, left)
            if left is None or right is None:
                continue
            for pair in differing(step.words, queued, left, right, self.skew_ms):
                if not self.is_known(pair):
                    return position, pair
        return None


def stretches(steps: list[Step]) -> Iterator[tuple[int, list[Step]]]:
    """What can be sent at once: steps of one connection, bounded in bytes, a probe by itself."""
    first, stretch, size = 0, [], 0
    for number, step in enumerate(steps):
        is_probe = bool(step.words) and step.words[0].upper() in PROBES
        if stretch and (step.connection != stretch[0].connection or is_probe or size > STRETCH_BYTES):
            yield first, stretch
            stretch = []
        if not stretch:
            first, size = number, 0
        stretch.append(step)
        size += sum(map(len, step.words))
        if is_probe:
            yield first, stretch
            stretch = []
    if stretch:
        yield first, stretch


def walk(side: Connection, words) -> bytes:
    """SCAN from its first cursor to the end: the keys in order, each once. An error or anything else is returned as is."""
    cursor, found = words[1] if len(words) > 1 else None, set()
    while True:
        frame = side.ask(*words) if cursor is None else side.ask(words[0], cursor, *words[2:])
        reply = parse(frame)
        if reply.kind != "*" or not isinstance(reply.value, list) or len(reply.value) != 2:
            return frame
        next_cursor, keys = reply.value
        if next_cursor.kind != "$" or keys.kind != "*" or any(key.kind != "$" for key in keys.value):
            return frame
        cursor = next_cursor.value
        found |= {key.value for key in keys.value}
        if cursor == b"0":
            return encode(sorted(found))


def random_key(side: Connection, words) -> bytes:
    """RANDOMKEY: the answer itself unless it is a key that KEYS names too, as it must be."""
    frame = side.ask(*words)
    reply = parse(frame)
    if reply.kind != "$" or reply.value is None:
        return frame
    is_there = reply in parse(side.ask(b"KEYS", b"*")).value
    return b"+(a key)\r\n" if is_there else frame


def count(side: Connection, words) -> bytes:
    """DBSIZE, asked until it is the number of keys that KEYS names, or may not lag any longer."""
    names = parse(side.ask(b"KEYS", b"*"))
    deadline = time.monotonic() + LAG_SECONDS
    frame = side.ask(*words)
    while frame[:1] == b":" and isinstance(names.value, list) and time.monotonic() < deadline:
        if int(frame[1:]) == len(names.value):
            break
        time.sleep(0.02)
        frame = side.ask(*words)
    return frame


PROBES: dict[bytes, Callable] = {b"SCAN": walk, b"RANDOMKEY": random_key, b"DBSIZE": count}
