"""Callers of a cluster that keep the moments of each call, by the one clock of this machine.

A call's interval is from before it was sent until after its answer was read: whatever a node did for it, it did within.
An `Asker` calls one node and follows nobody, at a steady rate whether it is answered or not, so that calls also wait
at a node that stands still. A `Follower` goes where MOVED leads, one call at a time.
"""

import contextlib
import dataclasses
import socket
import threading
import time
from collections import deque

from cluster.nodes import Cluster, Failure, Node
from server.wire import Closed

# A window whose next begins in years: what is admitted counts in one.
WINDOW = "3650d"
# No limit at all for what a test can call.
FAR = 10**9
# A node that stands still is waited for; the pauses of the tests are shorter.
ANSWER_SECONDS = 20.0
CONNECT_SECONDS = 1.0
RETRY_SECONDS = 0.002


@dataclasses.dataclass(frozen=True)
class Call:
    """A call of one unit, and what came of it: `allowed` is None for one that was not decided."""

    address: str
    key: str
    limit: int
    invoked: float
    answered: float
    allowed: bool | None
    error: str = ""


def words_of(key: str, limit: int) -> list:
    return ["RL.SLIDE", key, limit, WINDOW]


def decided(node: Node, key: str, limit: int, invoked: float, answer) -> Call:
    """The call that this answer is of, which was read now."""
    answered = time.monotonic()
    if isinstance(answer, list):
        return Call(node.address, key, limit, invoked, answered, answer[0] == 1)
    return Call(node.address, key, limit, invoked, answered, None, str(answer))


def slot_of(key: str) -> int:
    """The slot of a key without a tag, as all clients compute it: CRC16 (XMODEM) of its bytes."""
    crc = 0
    for byte in key.encode():
        crc ^= byte << 8
        for _ in range(8):
            crc = crc << 1 ^ 0x1021 if crc & 0x8000 else crc << 1
        crc &= 0xFFFF
    return crc % 16_384


def keys_of(cluster: Cluster, owner: Node, prefix: str, count: int) -> list[str]:
    """Keys whose slots a node has."""
    slots = owner.myself().slots
    keys: list[str] = []
    for number in range(1_000_000):
        key = f"{prefix}:{number}"
        if any(first <= slot_of(key) <= last for first, last in slots):
            keys.append(key)
        if len(keys) == count:
            return keys
    raise Failure(f"{owner.address} has no slots for {count} keys")


class Asker(threading.Thread):
    """Calls one node every so often, each key in turn, until it is ended."""

    def __init__(self, node: Node, limits: dict[str, int], every_seconds: float = 0.004) -> None:
        super().__init__(daemon=True)
        self.node, self.limits, self.every_seconds = node, limits, every_seconds
        self.calls: list[Call] = []
        self.is_ending = threading.Event()

    def run(self) -> None:
        while not self.is_ending.is_set():
            try:
                link = self.node.connect(timeout=CONNECT_SECONDS)
                link.socket.settimeout(ANSWER_SECONDS)
            except (OSError, Closed):
                self.is_ending.wait(RETRY_SECONDS)
                continue
            self.call_on(link)

    def call_on(self, link) -> None:
        """Calls on one connection until it breaks or the caller is ended."""
        waiting: deque = deque()
        reader = threading.Thread(target=self.read_on, args=(link, waiting), daemon=True)
        reader.start()
        keys = list(self.limits.items())
        sent = 0
        try:
            while reader.is_alive() and not self.is_ending.wait(self.every_seconds):
                key, limit = keys[sent % len(keys)]
                waiting.append((key, limit, time.monotonic()))
                link.send(words_of(key, limit))
                sent += 1
            deadline = time.monotonic() + ANSWER_SECONDS
            while reader.is_alive() and waiting and time.monotonic() < deadline:
                reader.join(self.every_seconds)
        except (OSError, Closed):
            pass
        with contextlib.suppress(OSError):
            # Wakes the thread that reads, as the close alone does not.
            link.socket.shutdown(socket.SHUT_RDWR)
        link.close()
        reader.join(ANSWER_SECONDS)

    def read_on(self, link, waiting: deque) -> None:
        try:
            while True:
                answer = link.read()
                self.calls.append(decided(self.node, *waiting.popleft(), answer))
        except (OSError, Closed, ValueError):
            pass

    def end(self) -> list[Call]:
        self.is_ending.set()
        self.join(2 * ANSWER_SECONDS)
        return self.calls


class Follower:
    """Calls whoever serves a key, going by MOVED, and on to the next node where one does not answer."""

    def __init__(self, cluster: Cluster, at: Node | None = None, timeout_seconds: float = 0.25) -> None:
        self.cluster, self.timeout_seconds = cluster, timeout_seconds
        self.node = at or cluster.nodes[0]
        self.link = None

    def attempt(self, key: str, limit: int = FAR) -> Call:
        """One call, answered or not; the next goes where this one's answer leads."""
        invoked = time.monotonic()
        asked = self.node
        try:
            if self.link is None:
                self.link = asked.connect(timeout=self.timeout_seconds)
            call = decided(asked, key, limit, invoked, self.link(words_of(key, limit)))
        except (OSError, Closed) as error:
            self.go_to(self.next_of(asked))
            return Call(asked.address, key, limit, invoked, time.monotonic(), None, repr(error))
        if call.error.startswith("MOVED "):
            self.go_to(self.cluster.by_address(call.error.split(" ")[2]))
        elif call.error:
            self.go_to(self.next_of(asked))
        return call

    def call(self, key: str, limit: int = FAR, seconds: float = 20.0) -> Call:
        """A call that is tried until it is decided."""
        deadline = time.monotonic() + seconds
        while (call := self.attempt(key, limit)).allowed is None:
            if time.monotonic() > deadline:
                raise Failure(f"nobody answers for {key}: {call.error}")
            if not call.error.startswith("MOVED "):
                time.sleep(RETRY_SECONDS)
        return call

    def next_of(self, node: Node) -> Node:
        nodes = self.cluster.nodes
        return nodes[(nodes.index(node) + 1) % len(nodes)]

    def go_to(self, node: Node) -> None:
        if self.link is not None:
            self.link.close()
        self.node, self.link = node, None

    def __enter__(self) -> "Follower":
        return self

    def __exit__(self, *_error) -> None:
        self.go_to(self.node)

