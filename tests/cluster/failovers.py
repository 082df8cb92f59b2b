"""How long a slot goes unanswered when its primary is killed, or its replica is told to take over: what
`benches/cluster-failover` and the tests measure."""

import random
import time

from cluster.calls import Follower, keys_of
from cluster.nodes import Cluster, Failure, Node, said, wait_until

# Between two calls of the client that waits for the new owner.
CALL_SECONDS = 0.003
# Calls that are answered before the kill.
CALLS_BEFORE = 20
PATIENCE_SECONDS = 30.0


def victim_of(cluster: Cluster, kind: str, chance: random.Random) -> Node:
    """The primary that it is about: the group's leader (`leader`), made a primary if it is none, or else any."""
    if kind != "leader":
        return chance.choice(sorted(cluster.owners(), key=lambda node: node.port))
    leader = cluster.leader()
    if leader is None:
        raise Failure("no node says that it leads the group")
    if not leader.myself().slots:
        said(leader, "CLUSTER FAILOVER")
        wait_until(lambda: bool(leader.myself().slots), PATIENCE_SECONDS, f"{leader.address} does not take over")
        cluster.wait_until_well()
    return leader


def kill(cluster: Cluster, victim: Node, number: int) -> float:
    """Kills a primary; seconds from then to the first answer of its slots' new owner. The node is started again, and
    the cluster is well when this returns."""
    key = keys_of(cluster, victim, f"failover:{number}", 1)[0]
    with Follower(cluster, victim) as follower:
        for _ in range(CALLS_BEFORE):
            follower.call(key)
            time.sleep(CALL_SECONDS)
        if follower.node is not victim:
            raise Failure(f"{victim.address} does not serve {key}")
        began = time.monotonic()
        victim.process.kill()
        while True:
            call = follower.attempt(key)
            if call.allowed is not None and call.address != victim.address:
                break
            if call.answered > began + PATIENCE_SECONDS:
                raise Failure(f"nobody took over from {victim.address}: {call.error}")
            time.sleep(CALL_SECONDS)
    victim.process.wait()
    victim.start().wait_until_ready()
    cluster.wait_until_well()
    return call.answered - began


def ask(cluster: Cluster, primary: Node, number: str) -> tuple[float, list[str]]:
    """Tells a primary's replica to take over; the longest that a call took meanwhile, and the errors but MOVED that
    callers saw. The cluster is well when this returns."""
    key = keys_of(cluster, primary, f"asked:{number}", 1)[0]
    replica = cluster.replicas_of(primary)[0]
    errors, longest, last = [], 0.0, None
    with Follower(cluster, primary) as follower:
        for _ in range(CALLS_BEFORE):
            last = follower.call(key)
            time.sleep(CALL_SECONDS)
        said(replica, "CLUSTER FAILOVER")
        left, deadline = CALLS_BEFORE, time.monotonic() + PATIENCE_SECONDS
        while left:
            call = follower.attempt(key)
            if call.allowed is not None:
                longest, last = max(longest, call.answered - last.answered), call
                left -= call.address == replica.address
            elif not call.error.startswith("MOVED "):
                errors.append(call.error)
            if call.answered > deadline:
                raise Failure(f"{replica.address} does not take over: {call.error}")
            time.sleep(CALL_SECONDS)
    cluster.wait_until_well()
    return longest, errors
