"""A random history: commands on several connections, in one order, from a seed.

Most are single. The others come in blocks: transactions with errors inside, watched keys with and without a write of
somebody else's between, replies switched off. A connection sends a few dozen commands in one pipeline before the next
has its turn; any part of a history is a history too, which is what lets a failing one be shrunk.
"""

import random
from collections.abc import Iterator
from typing import NamedTuple

from differential.commands import MAKERS, PROBES, Commands, watch
from differential.words import DAY_SECONDS, TAG_KEYS, Words

CONNECTIONS = 3
STRETCH_MEAN = 25


class Step(NamedTuple):
    """A command and the connection that sends it."""

    connection: int
    words: tuple[bytes, ...]


class History:
    """The same steps for the same seed and day."""

    def __init__(self, seed: int, now_seconds: float, protocol: int) -> None:
        self.rng = random.Random(seed)
        base = int(now_seconds) // DAY_SECONDS * DAY_SECONDS
        words = Words(self.rng, base)
        self.words = words
        self.protocol = protocol
        self.queued = Commands(words, MAKERS)
        self.commands = Commands(words, MAKERS + PROBES)
        self.tagged = Commands(words.within(TAG_KEYS), MAKERS)

    def steps(self, count: int) -> list[Step]:
        made: list[Step] = []
        for step in self.endless():
            made.append(step)
            if len(made) == count:
                return made
        raise AssertionError("a history has no end")

    def endless(self) -> Iterator[Step]:
        while True:
            connection = self.rng.randrange(CONNECTIONS)
            for _ in range(1 + int(self.rng.expovariate(1 / STRETCH_MEAN))):
                yield from self.block(connection)

    def block(self, connection: int) -> Iterator[Step]:
        kind = self.rng.random()
        if kind < 0.94:
            yield self.step(connection, self.commands.draw())
        elif kind < 0.965:
            yield from self.transaction(connection, self.queued)
        elif kind < 0.99:
            yield from self.watched(connection)
        elif kind < 0.998:
            yield from self.silent(connection)
        else:
            yield from self.fresh_state(connection)

    def step(self, connection: int, words) -> Step:
        return Step(connection, tuple(word if isinstance(word, bytes) else word.encode() for word in words))

    def transaction(self, connection: int, commands: Commands, guarded: bool = False) -> Iterator[Step]:
        yield self.step(connection, ["MULTI"])
        for _ in range(self.rng.randint(0 if self.words.chance(0.1) else 1, 8)):
            step = self.step(connection, commands.draw())
            if not (guarded and moves_over_slots(step.words)):
                yield step
        if self.words.chance(0.04):
            yield self.step(connection, self.rng.choice([["MULTI"], ["WATCH", "{tag}:1"], ["UNWATCH"]]))
        yield self.step(connection, ["EXEC" if self.words.chance(0.88) else "DISCARD"])

    def watched(self, connection: int) -> Iterator[Step]:
        """A watch, then perhaps somebody's commands on the same few keys, then a transaction."""
        yield self.step(connection, watch(self.words))
        for _ in range(self.rng.randint(0, 2)):
            somebody = self.rng.randrange(CONNECTIONS)
            for _ in range(self.rng.randint(1, 2)):
                yield self.step(somebody, self.tagged.draw())
        if self.words.chance(0.1):
            yield self.step(connection, ["UNWATCH"])
        yield from self.transaction(connection, self.tagged, guarded=True)

    def silent(self, connection: int) -> Iterator[Step]:
        if self.words.chance(0.5):
            yield self.step(connection, ["CLIENT", "REPLY", "SKIP"])
            yield self.step(connection, self.queued.draw())
            return
        yield self.step(connection, ["CLIENT", "REPLY", "OFF"])
        for _ in range(self.rng.randint(1, 4)):
            yield self.step(connection, self.queued.draw())
        yield self.step(connection, ["CLIENT", "REPLY", "ON"])

    def fresh_state(self, connection: int) -> Iterator[Step]:
        """RESET goes back to RESP2, so only a history in RESP2 has it."""
        if self.protocol == 2:
            yield self.step(connection, ["RESET"])


def moves_over_slots(words: tuple) -> bool:
    """Whether a key is moved or copied to another slot, which Tollgate refuses under a guard where slots are of
    different cores: it takes two steps, between which what is watched could be written."""
    names = [word for word in words[1:3] if not word.startswith(b"{tag}")]
    return words[0].upper() in (b"RENAME", b"COPY") and bool(names)
