"""Two servers that must decide alike: redis-server, and the server under test."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

import pytest

from server.wire import Wire, eventually

Decisions = TypeVar("Decisions")

# For tests that start an interpreter of their own each time: the fewest cores and the most.
FEWEST_AND_MOST_CORES = pytest.mark.parametrize("subject", [1, 4], indirect=True, ids="{}core".format)


@dataclass(frozen=True)
class Pair:
    """The ports of both servers."""

    subject: int
    reference: int

    @property
    def ports(self) -> tuple[int, int]:
        return (self.subject, self.reference)

    def flush(self) -> None:
        for port in self.ports:
            with Wire(("127.0.0.1", port)) as wire:
                assert wire("FLUSHALL") == "OK"

    def same(self, run: Callable[[int], Decisions]) -> Decisions:
        """Runs `run(port)` against one server after the other, and returns what it returned for both."""
        decided, expected = [run(port) for port in self.ports]
        assert decided == expected
        return decided

    def same_at_once(self, run: Callable[[int], Decisions]) -> Decisions:
        """The same, both at once, for runs that wait for something to expire."""
        with ThreadPoolExecutor(len(self.ports)) as pool:
            decided, expected = pool.map(run, self.ports)
        assert decided == expected
        return decided


def until_empty(port: int) -> None:
    """Waits until every key of a server has expired."""
    with Wire(("127.0.0.1", port)) as wire:
        assert eventually(lambda: wire("KEYS *") == []), wire("KEYS *")
