"""Network namespaces of our own: each node in one, all on a bridge in another, where who calls them stands.

A way from one node to another is cut without a word, as by a switch that drops: the sender's table of neighbours is
told an Ethernet address that nobody has. So each direction can be cut by itself, and callers reach both sides all the
time.
The kernel needs nothing but veth and bridges for it; whoever runs it must be root.
"""

import contextlib
import ctypes
import os
import shutil
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

CLONE_NEWNET = 0x40000000
NETWORK = "10.77.0"
NOBODY = "02:00:00:00:00:01"
SECONDS = 20


def why_not() -> str:
    """Why there can be no namespaces here, or nothing."""
    if os.geteuid() != 0:
        return "only root makes network namespaces"
    if shutil.which("ip") is None:
        return "ip is not there (Debian's package iproute2)"
    name = f"tollgate-{os.getpid()}-try"
    try:
        ip("netns", "add", name)
        ip("netns", "del", name)
    except subprocess.CalledProcessError as error:
        return f"ip netns add: {error.stderr.strip()}"
    return ""


def ip(*words: str, text: str = "") -> None:
    subprocess.run(["ip", *words], input=text, check=True, capture_output=True, text=True, timeout=SECONDS)


class Net:
    """A bridge in a namespace, and namespaces of nodes on it, numbered from 0; they end with the `with`."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.hub = f"tollgate-{os.getpid()}-hub"

    def name(self, place: int) -> str:
        return f"tollgate-{os.getpid()}-{place}"

    def host(self, place: int) -> str:
        return f"{NETWORK}.{place + 1}"

    def __enter__(self) -> "Net":
        try:
            self.make()
        except BaseException:
            self.remove()
            raise
        return self

    def __exit__(self, *_error) -> None:
        self.remove()

    def make(self) -> None:
        ip("netns", "add", self.hub)
        lines = ["link set lo up", "link add bridge type bridge", f"address add {NETWORK}.254/24 dev bridge"]
        for place in range(self.count):
            ip("netns", "add", self.name(place))
            lines.append(f"link add port{place} type veth peer name wire netns {self.name(place)}")
            lines += [f"link set port{place} master bridge", f"link set port{place} up"]
        ip("-n", self.hub, "-batch", "-", text="\n".join([*lines, "link set bridge up", ""]))
        for place in range(self.count):
            lines = ["link set lo up", f"address add {self.host(place)}/24 dev wire", "link set wire up", ""]
            ip("-n", self.name(place), "-batch", "-", text="\n".join(lines))

    def remove(self) -> None:
        for name in [self.hub, *map(self.name, range(self.count))]:
            with contextlib.suppress(subprocess.CalledProcessError):
                ip("netns", "del", name)

    def before(self, place: int) -> tuple[str, ...]:
        """What stands before a command that runs in a node's namespace; it is the same process."""
        return ("ip", "netns", "exec", self.name(place))

    def cut(self, ways: list[tuple[int, int]]) -> None:
        """Drops what is sent from the one to the other, of each pair."""
        self.tell(ways, "neighbor replace {host} lladdr " + NOBODY + " dev wire nud permanent")

    def heal(self, ways: list[tuple[int, int]]) -> None:
        self.tell(ways, "neighbor del {host} dev wire")

    def tell(self, ways: list[tuple[int, int]], line: str) -> None:
        for sender in sorted({sender for sender, _ in ways}):
            hosts = [self.host(receiver) for one, receiver in ways if one == sender]
            text = "".join(line.format(host=host) + "\n" for host in hosts)
            ip("-n", self.name(sender), "-batch", "-", text=text)

    def connect(self, address: tuple[str, int], timeout: float) -> socket.socket:
        """A connection from the bridge; a socket stays in the namespace that it was made in."""
        with self.entered():
            return socket.create_connection(address, timeout)

    @contextlib.contextmanager
    def entered(self) -> Iterator[None]:
        """The thread stands in the bridge's namespace meanwhile."""
        home = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
        away = os.open(Path("/run/netns") / self.hub, os.O_RDONLY)
        try:
            enter(away)
            try:
                yield
            finally:
                enter(home)
        finally:
            os.close(away)
            os.close(home)


def enter(namespace: int) -> None:
    library = ctypes.CDLL(None, use_errno=True)
    if library.setns(namespace, CLONE_NEWNET) != 0:
        raise OSError(ctypes.get_errno(), "setns")
