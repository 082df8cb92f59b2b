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

# What may come of a piece of data while the network is bad: parts of all pieces.
CUT, STOP = 0.002, 0.01
DELAY_SECONDS = 0.15
# A stop is longer than a lease: what is told before it arrives when that has ended.
STOP_SECONDS = (0.3, 1.5)
CHUNK_BYTES = 1 << 16


class BadLink:
    """Passes on what comes at a port of its own to another, badly while told so."""

    def __init__(self, seed: str) -> None:
        self.seed, self.made = seed, 0
        self.port = free_port()
        self.target = 0
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
            for source, sink in ((client, target), (target, client)):
                source.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                chance = random.Random(f"{self.seed} {self.made}")
                self.made += 1
                threading.Thread(target=self.carry, args=(source, sink, chance), daemon=True).start()

    def carry(self, source: socket.socket, sink: socket.socket, chance: random.Random) -> None:
        try:
            while data := source.recv(CHUNK_BYTES):
                if self.is_bad and not self.waits(chance):
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

    def waits(self, chance: random.Random) -> bool:
        """Holds a piece back; says whether the link goes on."""
        kind = chance.random()
        if kind < CUT:
            return False
        time.sleep(chance.uniform(*STOP_SECONDS) if kind < CUT + STOP else chance.uniform(0, DELAY_SECONDS))
        return True


class BadLinks:
    """One before each of so many nodes: `flags(place)` are what that node is started with."""

    def __init__(self, count: int, seed: str) -> None:
        self.links = [BadLink(f"{seed} {place}") for place in range(count)]

    def flags(self, place: int) -> tuple[str, ...]:
        return ("--announce-cluster-port", str(self.links[place].port))

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
            link.is_bad = is_bad
