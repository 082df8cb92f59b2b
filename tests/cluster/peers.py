"""A bad network between nodes that are all on this machine: a proxy before each node's peer port, which others
are told.

What passes is held back by times that a seed decides, each direction by itself, with now and then a stop or a cut. So
what nodes tell each other arrives late, in bursts, or not at all, while callers reach every node.
"""

import random
import socket
import threading
import time

from cluster.nodes import PEER_PORT_ABOVE
from server.process import free_port

CHUNK_BYTES = 1 << 16
# The longest that a piece of data is held back while the network is bad: of three directions of connections one is as
# it should be.
DELAYS_SECONDS = (0.0, 0.4, 0.4)
# On the others: parts of all pieces at which the link is cut, or stops.
CUT, STOP = 0.01, 0.1
# What is told before a stop may arrive when a lease has ended.
STOP_SECONDS = (0.3, 1.5)


class BadLink:
    """Passes on what comes at a port of its own to another, badly while told so."""

    def __init__(self, seed: str) -> None:
        self.seed, self.made = seed, 0
        self.port = free_port()
        self.target = 0
        # How often the network has become bad: what a connection is like is drawn anew each time.
        self.times_bad = 0
        self.is_bad = False
        self.listener: socket.socket | None = None

    def open(self, target: int) -> "BadLink":
        self.target = target
        self.listener = socket.create_server(("127.0.0.1", self.port))
        threading.Thread(target=self.accept, daemon=True).start()
        return self

    def close(self) -> None:
        if self.listener is not None:
            # Wakes the thread that waits for it, as the close alone does not.
            self.listener.shutdown(socket.SHUT_RDWR)
            self.listener.close()

    def accept(self) -> None:
        while True:
            try:
                client, _ = self.listener.accept()
                target = socket.create_connection(("127.0.0.1", self.target))
            except ConnectionRefusedError:
                client.close()
                continue
            except OSError:
                return
            for end in (client, target):
                end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            for source, sink in ((client, target), (target, client)):
                self.made += 1
                threading.Thread(target=self.carry, args=(source, sink, self.made), daemon=True).start()

    def carry(self, source: socket.socket, sink: socket.socket, number: int) -> None:
        times, chance, delay = 0, random.Random(), 0.0
        try:
            while data := source.recv(CHUNK_BYTES):
                if times < self.times_bad:
                    times = self.times_bad
                    chance = random.Random(f"{self.seed} {number} {times}")
                    delay = chance.choice(DELAYS_SECONDS)
                if self.is_bad and delay and not self.waits(chance, delay):
                    break
                sink.sendall(data)
        except OSError:
            pass
        for end in (source, sink):
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
            end.close()

    def waits(self, chance: random.Random, delay: float) -> bool:
        """Holds a piece back; says whether the link goes on."""
        kind = chance.random()
        if kind < CUT:
            return False
        time.sleep(chance.uniform(*STOP_SECONDS) if kind < CUT + STOP else chance.uniform(0, delay))
        return True


class BadLinks:
    """One before each of so many nodes, which announces its port, `port(place)`, to others."""

    def __init__(self, count: int, seed: str) -> None:
        self.links = [BadLink(f"{seed} {place}") for place in range(count)]

    def port(self, place: int) -> int:
        return self.links[place].port

    def open(self, ports: list[int]) -> "BadLinks":
        for link, port in zip(self.links, ports):
            link.open(port + PEER_PORT_ABOVE)
        return self

    def __enter__(self) -> "BadLinks":
        return self

    def __exit__(self, *_error) -> None:
        for link in self.links:
            link.close()

    def are_bad(self, is_bad: bool) -> None:
        for link in self.links:
            link.times_bad += is_bad
            link.is_bad = is_bad
