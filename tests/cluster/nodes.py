"""Nodes of a cluster as child processes, and the cluster that they are: started, joined, killed, paused, ended by id.

The cluster is made as an operator's tool makes it, by CLUSTER ADDSLOTSRANGE, MEET and REPLICATE over RESP, with no
redis-cli. Whoever reads a cluster from outside reads CLUSTER NODES here, as tools do.
"""

import contextlib
import dataclasses
import json
import random
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from reply import Error
from server.process import BINARY, clean_environment
from server.wire import Closed, Wire

SLOTS = 16_384
# Of a node's port and that which other nodes reach it at.
PEER_PORT_ABOVE = 10_000
# Below the range from which the kernel takes ports for outgoing connections, and so is each peer port.
PORTS = range(10_000, 22_000)
START_SECONDS = 20.0
STOP_SECONDS = 20.0
# How long a healthy cluster may take, on a busy machine, until all agree.
AGREE_SECONDS = 30.0
LOOK_SECONDS = 0.01
# What a node's log says when it leads the group.
LEADS = "cluster: this node leads"


class Failure(Exception):
    """A cluster that does not come about, and why."""


@dataclasses.dataclass(frozen=True)
class Line:
    """A line of CLUSTER NODES."""

    id: str
    address: str
    peer_port: int
    flags: frozenset[str]
    primary: str
    is_connected: bool
    slots: tuple[tuple[int, int], ...]

    @classmethod
    def of(cls, line: str) -> "Line":
        node_id, place, flags, primary, _ping, _pong, _epoch, link, *slots = line.split(" ")
        address, _, peers = place.partition("@")
        ranges = [word.partition("-") for word in slots if not word.startswith("[")]
        return cls(
            node_id,
            address,
            int(peers.partition(",")[0]),
            frozenset(flags.split(",")),
            primary,
            link == "connected",
            tuple((int(first), int(last or first)) for first, _, last in ranges),
        )

    @property
    def is_primary(self) -> bool:
        return "master" in self.flags

    @property
    def is_healthy(self) -> bool:
        return self.is_connected and not self.flags & {"fail", "fail?", "handshake", "noaddr"}

    @property
    def slot_count(self) -> int:
        return sum(last - first + 1 for first, last in self.slots)

    @property
    def port(self) -> int:
        return int(self.address.rpartition(":")[2])


class Node:
    """A node of a folder and ports of its own; a process of it may end and another go on."""

    def __init__(
        self,
        folder: Path,
        port: int,
        *flags: str,
        host: str = "127.0.0.1",
        binary: str | Path = BINARY,
        cores: int = 1,
        before: tuple[str, ...] = (),
        password: str = "",
        announced_peer_port: int | None = None,
        connect: Callable[[tuple[str, int], float], socket.socket] = socket.create_connection,
    ) -> None:
        self.folder, self.port, self.host, self.password = folder, port, host, password
        self.peer_port = port + PEER_PORT_ABOVE
        # What other nodes are told.
        self.announced_peer_port = announced_peer_port or self.peer_port
        self.connect_to = connect
        self.process: subprocess.Popen | None = None
        self.log_path = folder / "log"
        words = ["--bind", host, "--port", str(port), "--admin-port", "0", "--cores", str(cores), "--dir", str(folder)]
        words += ["--cluster-enabled", "yes", "--cluster-port", str(self.peer_port)]
        if announced_peer_port:
            words += ["--announce-cluster-port", str(announced_peer_port)]
        self.command = [*before, str(binary), "serve", *words, *flags]

    @property
    def address(self) -> str:
        return f"{self.host}:{self.port}"

    @property
    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid

    @property
    def is_running(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def start(self) -> "Node":
        self.folder.mkdir(parents=True, exist_ok=True)
        with self.log_path.open("ab") as log:
            self.process = subprocess.Popen(
                self.command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=clean_environment(),
                # Ctrl-C at a terminal is for who started the cluster, and who ends it in order.
                process_group=0,
            )
        return self

    def wait_until_ready(self) -> "Node":
        """Until it answers and says who it is."""

        def answers() -> bool:
            if not self.is_running:
                raise Failure(f"the node on port {self.port} ended: {self.log()[-2000:]}")
            try:
                return self.ask("PING") == "PONG" and any("myself" in line.flags for line in self.lines())
            except (OSError, Closed):
                return False

        wait_until(answers, START_SECONDS, f"the node on port {self.port} does not answer")
        return self

    def connect(self, protocol: int = 2, timeout: float = 10.0) -> "Link":
        return Link(self, protocol, timeout)

    def ask(self, command):
        """One command on a connection of its own."""
        with self.connect() as link:
            return link(command)

    def info(self, section: str) -> dict[str, str]:
        lines = self.ask(["INFO", section]).decode().split("\r\n")
        return dict(line.split(":", 1) for line in lines if ":" in line)

    def lines(self) -> list[Line]:
        """CLUSTER NODES, as this node says it."""
        return [Line.of(line) for line in self.ask("CLUSTER NODES").decode().splitlines() if line]

    def myself(self) -> Line:
        return next(line for line in self.lines() if "myself" in line.flags)

    def cluster_info(self) -> dict[str, str]:
        lines = self.ask("CLUSTER INFO").decode().split("\r\n")
        return dict(line.split(":", 1) for line in lines if ":" in line)

    def log(self) -> str:
        return self.log_path.read_text(errors="replace") if self.log_path.exists() else ""

    def terms_led(self) -> list[int]:
        """The terms in which it has led the group, by its log."""
        lines = [json.loads(line) for line in self.log().splitlines() if LEADS in line]
        return [int(line["term"]) for line in lines]

    def pause(self) -> None:
        self.process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        self.process.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        """Ends the process as a crash does."""
        if self.is_running:
            self.process.kill()
            self.process.wait()

    def stop(self) -> int:
        """Asks the process to end and returns its exit code; one that does not listen is killed."""
        if self.is_running:
            self.process.terminate()
            # One that is paused gets its signal only when it goes on.
            self.resume()
        try:
            return self.process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.kill()
            raise Failure(f"the node on port {self.port} did not end on SIGTERM: {self.log()[-2000:]}") from None


class Link(Wire):
    """A connection to a node, from wherever it is reached."""

    def __init__(self, node: Node, protocol: int = 2, timeout: float = 10.0) -> None:
        self.node = node
        self.socket = node.connect_to((node.host, node.port), timeout)
        self.socket.settimeout(timeout)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.buffer, self.position = b"", 0
        if node.password:
            self(["AUTH", node.password])
        if protocol == 3:
            self("HELLO 3")


class Cluster:
    """Nodes that are one cluster: `primaries` of them have equal shares of the slots, the others follow in turn."""

    def __init__(self, nodes: list[Node], primaries: int) -> None:
        self.nodes, self.primaries = nodes, primaries

    def start(self) -> "Cluster":
        """Starts all nodes; they are strangers to each other unless their folders know better."""
        for node in self.nodes:
            node.start()
        for node in self.nodes:
            node.wait_until_ready()
        return self

    def is_made(self) -> bool:
        """Whether the folders of the nodes hold a cluster."""
        return any(len(node.lines()) > 1 or node.myself().slots for node in self.nodes)

    def create(self) -> "Cluster":
        """Makes one cluster of nodes that are strangers."""
        primaries, replicas = self.nodes[: self.primaries], self.nodes[self.primaries :]
        for place, node in enumerate(primaries):
            first, last = SLOTS * place // self.primaries, SLOTS * (place + 1) // self.primaries - 1
            said(node, ["CLUSTER", "ADDSLOTSRANGE", first, last])
        for place, node in enumerate(self.nodes):
            # A node that has an epoch already keeps it, and says so.
            node.ask(["CLUSTER", "SET-CONFIG-EPOCH", place + 1])
        for node in self.nodes[1:]:
            self.meet(node, self.nodes[0])
        self.wait_until_known()
        for place, replica in enumerate(replicas):
            wanted = ["CLUSTER", "REPLICATE", primaries[place % self.primaries].myself().id]
            wait_until(lambda: replica.ask(wanted) == "OK", AGREE_SECONDS, f"{replica.address} cannot follow")
        return self

    def meet(self, node: Node, other: Node) -> None:
        said(node, ["CLUSTER", "MEET", other.host, other.port, other.announced_peer_port])

    def wait_until_known(self) -> None:
        """Until every node knows every other."""

        def all_known() -> bool:
            known = [[line for line in node.lines() if line.is_healthy] for node in self.nodes]
            return all(len(lines) == len(self.nodes) for lines in known)

        wait_until(all_known, AGREE_SECONDS, "the nodes do not come to know each other")

    def wait_until_well(self, seconds: float = AGREE_SECONDS) -> "Cluster":
        """Until all nodes run, agree, serve all slots, and all replicas are in step."""
        wait_until(self.is_well, seconds, lambda: f"the cluster is not well: {self.ails()}")
        return self

    def is_well(self) -> bool:
        return not self.ails()

    def ails(self) -> str:
        """What is wrong with the cluster, in words, or nothing."""
        views = set()
        for node in self.nodes:
            try:
                state = node.cluster_info()
                lines = node.lines()
                role = node.info("replication")
            except (OSError, Closed, ValueError, AttributeError) as error:
                return f"{node.address} does not answer: {error!r}"
            if state["cluster_state"] != "ok" or state["cluster_slots_ok"] != str(SLOTS):
                return f"{node.address}: {state}"
            if len(lines) != len(self.nodes) or not all(line.is_healthy for line in lines):
                return f"{node.address} misses a node: {lines}"
            if role["role"] == "slave" and role["master_link_status"] != "up":
                return f"{node.address} is not in step: {role}"
            views.add(tuple(sorted((line.id, line.slots, line.primary) for line in lines)))
        return "" if len(views) == 1 else "nodes do not agree"

    def by_address(self, address: str) -> Node:
        return next(node for node in self.nodes if node.address == address)

    def owner(self, slot: int, asked: Node | None = None) -> Node:
        """Who serves a slot, by what a running node says."""
        asked = asked or next(node for node in self.nodes if node.is_running)
        for line in asked.lines():
            if any(first <= slot <= last for first, last in line.slots):
                return self.by_address(line.address)
        raise Failure(f"nobody has slot {slot}")

    def owners(self) -> list[Node]:
        """The nodes with slots."""
        asked = next(node for node in self.nodes if node.is_running)
        return [self.by_address(line.address) for line in asked.lines() if line.slots]

    def replicas_of(self, primary: Node) -> list[Node]:
        lines = primary.lines()
        mine = next(line.id for line in lines if "myself" in line.flags)
        return [self.by_address(line.address) for line in lines if line.primary == mine]

    def leader(self) -> Node | None:
        """The node that leads the group that decides the map: the one whose log says so of the highest term."""
        terms = [(max(node.terms_led(), default=0), node) for node in self.nodes if node.is_running]
        term, leader = max(terms, key=lambda pair: pair[0])
        return leader if term else None

    def stop(self) -> list[int]:
        """Ends all that runs, in order; exit codes."""
        for node in self.nodes:
            if node.is_running:
                node.process.terminate()
                node.resume()
        return [node.stop() for node in self.nodes if node.process is not None]

    def kill(self) -> None:
        for node in self.nodes:
            node.kill()


def said(node: Node, command) -> None:
    """A command that must be answered by OK."""
    answer = node.ask(command)
    if answer != "OK":
        raise Failure(f"{node.address}: {' '.join(map(str, command))} was answered by {answer}")


def wait_until(condition: Callable[[], bool], seconds: float, failure: str | Callable[[], str]) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise Failure(failure() if callable(failure) else failure)
        time.sleep(LOOK_SECONDS)


def free_ports(count: int) -> list[int]:
    """Ports that nothing listens on, and neither on those that other nodes would reach them at."""
    found: list[int] = []
    while len(found) < count:
        port = random.SystemRandom().choice(PORTS)
        if port not in found and all(is_free(one) for one in (port, port + PEER_PORT_ABOVE)):
            found.append(port)
    return found


def is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True


def shape(count: int, replicas: int | None) -> int:
    """How many of so many nodes are primaries: with `replicas` for each, or half of six and more, or all."""
    if replicas is None:
        replicas = 1 if count >= 6 else 0
    primaries = count // (replicas + 1)
    if primaries == 0:
        raise Failure(f"{count} nodes are too few for a primary with {replicas} replicas")
    return primaries


@contextlib.contextmanager
def running(
    count: int,
    *flags: str,
    replicas: int | None = None,
    ports: list[int] | None = None,
    settings_of: Callable[[int], dict] = lambda _place: {},
) -> Iterator[Cluster]:
    """A cluster that ends with the `with`, its folders too. `settings_of` are those of the node at a place, `flags`
    among them are added to those of all."""
    with tempfile.TemporaryDirectory(prefix="tollgate-cluster-") as folder:
        nodes = []
        for place, port in enumerate(ports or free_ports(count)):
            settings = settings_of(place)
            more = settings.pop("flags", ())
            nodes.append(Node(Path(folder) / str(place), port, *flags, *more, **settings))
        cluster = Cluster(nodes, shape(count, replicas))
        try:
            yield cluster.start().create().wait_until_well()
            cluster.stop()
        finally:
            cluster.kill()


def is_error(answer, prefix: str = "") -> bool:
    return isinstance(answer, Error) and str(answer).startswith(prefix)
