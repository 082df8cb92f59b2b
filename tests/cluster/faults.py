"""A primary that stands still, or that the others cannot reach: what `benches/cluster-faults` and the tests do.

Callers call the old primary and every other node all the time, whatever they answer. Their intervals must show that
nothing was admitted by a primary whose lease had ended, and, as every answer waits for the replicas here
(--failover-overshoot-max 0), that no key was admitted above its limit.
"""

import contextlib
import dataclasses
import random
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from cluster import judge
from cluster.calls import FAR, Asker, Call, Follower, keys_of
from cluster.net import Net
from cluster.nodes import Cluster, Failure, Node, free_ports, running, said, wait_until
from cluster.peers import BadLinks
from server.process import BINARY

KINDS = ("pause", "clean", "one-way", "peers")
FLAGS = ("--failover-overshoot-max", "0")
# Some keys that are used up while it lasts, and some that are not.
KEYS, SMALL = 40, 30
# Calls of each caller on each node before the fault, so that all is under way.
CALLS_BEFORE = 60
PAUSE_SECONDS = (0.1, 10.0)
CUT_SECONDS = (0.7, 4.0)
# While links are bad: how often the primary stands still, for how long, and how long it goes on before each time.
STILLS, STILL_SECONDS, GO_SECONDS = 3, (0.2, 1.2), (0.1, 0.8)
PATIENCE_SECONDS = 30.0
# In namespaces of their own all nodes have one port; and who is not on loopback must prove itself.
PORT, PASSWORD = 7000, "sesame"
SECRETS = ("--requirepass", PASSWORD, "--masterauth", PASSWORD, "--cluster-secret", "open-sesame-open-sesame-open")


@dataclasses.dataclass
class Story:
    """One run: what was done when, and what callers saw."""

    kind: str
    old: str
    # Whether the old primary led the group that decides the map, as far as logs say it.
    led_group: bool
    seconds: float
    began: float
    ended: float
    calls: list[Call]

    @property
    def answered_elsewhere(self) -> float | None:
        """Seconds from the fault to the first answer of another node."""
        others = [call.answered for call in self.calls if call.address != self.old and call.allowed is not None]
        return min(others) - self.began if others else None

    def faults(self) -> list[str]:
        """What must not be, in words."""
        found = []
        if self.kind != "peers":
            late = judge.after_lease(self.calls, self.old, self.began)
            found += [f"admitted {self.told(call)} by {self.old} without a lease" for call in late]
            twice = judge.after_successor(self.calls, self.old)
            found += [f"admitted {self.told(call)} by {self.old} after its successor had answered" for call in twice]
        if self.kind == "pause" and self.answered_elsewhere is not None:
            kept = [call for call in judge.admitted_by(self.calls, self.old) if call.answered > self.ended]
            found += [f"an answer of {self.old} that admits {self.told(call)} left after its pause" for call in kept]
        found += [f"{self.told(first)}, {self.told(middle)} and {self.told(last)} were admitted by two nodes in turn"
                  for first, middle, last in judge.interleaved(self.calls)]
        above = judge.above_limits(self.calls)
        found += [f"{key} was admitted {count} above its limit" for key, count in above.items()]
        return found

    def told(self, call: Call) -> str:
        return f"{call.key} of {call.invoked - self.began:+.3f} to {call.answered - self.began:+.3f} s"


class Fault:
    """What is done to a primary: `begin` returns once it is done in full, `end` as it is undone."""

    def __init__(self, begin: Callable[[], None], end: Callable[[], None], seconds: float) -> None:
        self.begin, self.end, self.seconds = begin, end, seconds


def pause(old: Node, chance: random.Random) -> Fault:
    low, high = PAUSE_SECONDS
    return Fault(old.pause, old.resume, low * (high / low) ** chance.random())


def cut(cluster: Cluster, net: Net, old: Node, kind: str, chance: random.Random) -> Fault:
    """Both ways between the old primary and all others, or all ways from it, or all ways to it."""
    place = cluster.nodes.index(old)
    others = [other for other in range(len(cluster.nodes)) if other != place]
    mute, deaf = [(place, other) for other in others], [(other, place) for other in others]
    ways = mute + deaf if kind == "clean" else chance.choice([mute, deaf])
    return Fault(lambda: net.cut(ways), lambda: net.heal(ways), chance.uniform(*CUT_SECONDS))


def bad_peers(links: BadLinks, old: Node, chance: random.Random) -> Fault:
    """Bad links for all, and the primary stands still now and then, so that others are in a hurry to replace it."""
    stills = [(chance.uniform(*GO_SECONDS), chance.uniform(*STILL_SECONDS)) for _ in range(STILLS)]

    def stand_still() -> None:
        for going, still in stills:
            time.sleep(going)
            old.pause()
            time.sleep(still)
            old.resume()

    thread = threading.Thread(target=stand_still)

    def begin() -> None:
        links.are_bad(True)
        thread.start()

    def end() -> None:
        thread.join()
        links.are_bad(False)

    return Fault(begin, end, sum(map(sum, stills)))


@contextlib.contextmanager
def stage(
    kind: str, count: int, seed: str, replicas: int | None = None, binary: str | Path = BINARY
) -> Iterator[tuple[Cluster, Callable[[Node, random.Random], Fault]]]:
    """A cluster for this kind of fault, if nobody says otherwise of one primary, and what makes one of a primary."""
    one = {"replicas": count - 1 if replicas is None else replicas}
    its = {"binary": binary}
    if kind == "pause":
        with running(count, *FLAGS, settings_of=lambda _place: dict(its), **one) as cluster:
            yield cluster, pause
    elif kind == "peers":
        ports = free_ports(count)
        with BadLinks(count, seed) as links:
            links.open(ports)
            settings = lambda place: {"announced_peer_port": links.port(place), **its}  # noqa: E731
            with running(count, *FLAGS, ports=ports, settings_of=settings, **one) as cluster:
                yield cluster, lambda old, chance: bad_peers(links, old, chance)
    else:
        with Net(count) as net:
            settings = lambda place: in_namespace(net, place) | its  # noqa: E731
            with running(count, *FLAGS, *SECRETS, ports=[PORT] * count, settings_of=settings, **one) as cluster:
                yield cluster, lambda old, chance: cut(cluster, net, old, kind, chance)


def in_namespace(net: Net, place: int) -> dict:
    return {"host": net.host(place), "before": net.before(place), "connect": net.connect, "password": PASSWORD}


def victim_of(cluster: Cluster, kind: str, chance: random.Random) -> Node:
    """The primary that it is done to. Bad links do little to one that leads the group, whose asks take none: it hands over
    first."""
    old = chance.choice(sorted(cluster.owners(), key=lambda node: node.address))
    if kind == "peers" and old is cluster.leader():
        replica = chance.choice(cluster.replicas_of(old))
        said(replica, "CLUSTER FAILOVER")
        wait_until(lambda: bool(replica.myself().slots), PATIENCE_SECONDS, f"{replica.address} does not take over")
        cluster.wait_until_well()
        return replica
    return old


def run(cluster: Cluster, old: Node, kind: str, fault: Fault, number: str) -> Story:
    """Does it under calls, undoes it, waits until the cluster is well, and uses up what is left of the small limits."""
    keys = keys_of(cluster, old, f"{kind}:{number}", KEYS)
    limits = {key: SMALL if place % 2 else FAR for place, key in enumerate(keys)}
    askers = [Asker(node, limits) for node in [old, *cluster.nodes]]
    led_group = cluster.leader() is old
    for asker in askers:
        asker.start()
    try:
        enough = lambda: all(len(asker.calls) >= CALLS_BEFORE for asker in askers)  # noqa: E731
        wait_until(enough, PATIENCE_SECONDS, "the calls do not come under way")
        fault.begin()
        # What was asked before this may have been granted; nothing that is asked later is heard.
        began = time.monotonic()
        time.sleep(fault.seconds)
        ended = time.monotonic()
        fault.end()
        cluster.wait_until_well()
        wait_until(lambda: is_known(askers[0], ended), PATIENCE_SECONDS, f"{old.address} does not answer")
    finally:
        calls = [call for asker in askers for call in asker.end()]
    with Follower(cluster) as follower:
        for key, limit in limits.items():
            calls += used_up(follower, key, limit) if limit == SMALL else []
    return Story(kind, old.address, led_group, fault.seconds, began, ended, calls)


def is_known(asker: Asker, since: float) -> bool:
    """Whether a caller of the old primary has been told where it stands, well after the fault."""
    return any(call.invoked > since + 2 * judge.LEASE_SECONDS for call in asker.calls[-CALLS_BEFORE:])


def used_up(follower: Follower, key: str, limit: int) -> list[Call]:
    """Calls until one is denied."""
    calls: list[Call] = []
    for _ in range(2 * limit + 1):
        calls.append(follower.call(key, limit))
        if not calls[-1].allowed:
            return calls
    raise Failure(f"{key} is admitted again and again")
