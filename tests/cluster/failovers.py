"""How long a slot goes unanswered when its primary is killed: what `benches/cluster-failover` and the tests measure."""

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
    """The primary to be killed: any (`random`), or the one that leads the group (`leader`), made a primary if it is none."""
    if kind == "random":
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
    """Kills a primary; seconds from then to the first answer of its slots' new owner. The node is started again, and the
    cluster is well when this returns."""
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
