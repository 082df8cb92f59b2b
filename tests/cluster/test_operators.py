"""What an operator does after a failure, with real processes: back again, in order, and settings that hold."""

import time

import pytest

from cluster.nodes import said, wait_until


def fails_over(replica) -> None:
    said(replica, ["CLUSTER", "FAILOVER"])
    wait_until(lambda: replica.myself().slots, 5.0, f"{replica.address} does not lead")


def test_a_primary_that_was_killed_leads_again_and_hands_over_again(six):
    """A process that restarts counts what it asks anew: what the one before it was granted does not stand in its way."""
    for old in list(six.owners()):
        new = next(iter(six.replicas_of(old)))
        old.kill()
        wait_until(lambda new=new: new.myself().slots, 5.0, "nobody takes over")
        old.start()
        six.wait_until_well()
        for replica in (old, new, old):
            fails_over(replica)
            six.wait_until_well()


@pytest.mark.parametrize("how", ["FORCE", "TAKEOVER"])
def test_a_replica_takes_over_from_a_primary_that_is_up(six, how):
    old = six.owners()[0]
    new = next(iter(six.replicas_of(old)))
    for replica in (new, old):
        said(replica, ["CLUSTER", "FAILOVER", how])
        six.wait_until_well()
    assert old.myself().slots


def key_of(node) -> str:
    """A key of a slot that this node owns."""
    ranges = node.myself().slots
    keys = (f"k{number}" for number in range(100_000))
    slots = ((key, node.ask(["CLUSTER", "KEYSLOT", key])) for key in keys)
    return next(key for key, slot in slots if any(first <= slot <= last for first, last in ranges))


@pytest.mark.parametrize("milliseconds", [0, 3, 10, 40])
def test_who_is_killed_right_after_it_took_over_forgets_nothing(six, milliseconds):
    """Nobody is in step with it yet, and its new process knows less than the node that it took over from."""
    old = six.owners()[0]
    new = next(iter(six.replicas_of(old)))
    call = ["RL.FIXED", key_of(old), 50, "1d"]
    assert [old.ask(call)[0] for _ in range(50)] == [1] * 50
    said(new, ["CLUSTER", "FAILOVER"])
    time.sleep(milliseconds / 1000)
    new.kill()
    new.start()
    six.wait_until_well()
    owner = next(node for node in (old, new) if node.myself().slots)
    assert owner.ask(call)[0] == 0
    assert owner.ask(["DEL", call[1]]) == 1


def test_a_node_that_is_told_to_end_hands_its_slots_over_first(six):
    old = six.owners()[0]
    new = next(iter(six.replicas_of(old)))
    begun = time.monotonic()
    assert old.stop() == 0
    wait_until(lambda: new.myself().slots, 5.0, "nobody takes over")
    taken = time.monotonic() - begun
    assert "its slots were handed over to a replica" in old.log(), taken
    old.start()
    six.wait_until_well()


def test_the_last_lease_that_was_set_holds_everywhere(six):
    """Two settings right after one another, the second while the first is being agreed upon."""
    node, name = six.nodes[0], "cluster-node-timeout"
    for wanted in (900, 500) * 10:
        said(node, ["CONFIG", "SET", name, wanted])

    def shown() -> set[bytes]:
        return {other.ask(["CONFIG", "GET", name])[1] for other in six.nodes}

    wait_until(lambda: shown() == {b"500"}, 10.0, lambda: f"they show {shown()}")
    assert not any(node.ask(["CONFIG", "SET", name, wrong]) == "OK" for wrong in (99, 60_001, "1s"))
    six.wait_until_well()


def test_who_leads_the_group_and_who_is_not_heard_is_seen(six):
    fields = six.nodes[0].info("cluster")
    assert fields["cluster_leader_is_heard"] == "1" and fields["cluster_voters"] == "5"
    assert fields["cluster_leader"] in {line.id for line in six.nodes[0].lines()}
    replica = next(iter(six.replicas_of(six.owners()[0])))
    others = [node for node in six.nodes if node is not replica]
    replica.kill()
    wait_until(lambda: all("a node is not heard" in node.log() for node in others), 10.0, "nobody says so")
    replica.start()
    six.wait_until_well()
