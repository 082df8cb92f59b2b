"""redis-cli 7.0 and a newer valkey-cli make a cluster, look at it and make a replica take over: all of it clean."""

import re
import time
from pathlib import Path

import pytest

from cluster import tools
from cluster.calls import FAR, WINDOW, keys_of, slot_of
from cluster.nodes import SLOTS, wait_until

COVERED = "[OK] All 16384 slots covered."
CREATE_SECONDS = 5.0
PATIENCE_SECONDS = 30.0


@pytest.fixture(params=tools.programs(), ids=lambda program: Path(program).name)
def program(request) -> str:
    return request.param


def test_create(program, strangers):
    """Three primaries and three replicas within five seconds, of which the tool itself waits at least one."""
    cluster = strangers(6)
    addresses = [node.address for node in cluster.nodes]
    began = time.monotonic()
    shown = tools.of_cluster(program, "create", *addresses, "--cluster-replicas", "1", "--cluster-yes")
    took = time.monotonic() - began
    assert COVERED in shown and "[OK] All nodes agree about slots configuration." in shown, shown
    assert took < CREATE_SECONDS, shown
    cluster.wait_until_well()
    for node in cluster.nodes:
        assert COVERED in tools.of_cluster(program, "check", node.address)
    lines = cluster.nodes[0].lines()
    assert len([line for line in lines if line.is_primary and line.slots]) == 3
    assert len({line.primary for line in lines if not line.is_primary}) == 3


@pytest.mark.smoke
def test_create_of_primaries_only(program, strangers):
    cluster = strangers(3)
    shown = tools.of_cluster(program, "create", *[node.address for node in cluster.nodes], "--cluster-yes")
    assert COVERED in shown, shown
    assert sum(line.slot_count for line in cluster.wait_until_well().nodes[2].lines()) == SLOTS


def test_what_is_in_use_is_not_made_a_cluster_of(program, six):
    addresses = [node.address for node in six.nodes]
    with pytest.raises(AssertionError, match="is not empty"):
        tools.run(program, "--cluster", "create", *addresses, "--cluster-yes")
    assert six.is_well()


def test_check_info_and_call(program, six):
    node = six.nodes[0]
    for number in range(30):
        tools.on(program, node, "-c", "RL.SLIDE", f"cli:{number}", str(FAR), WINDOW)
    size = sum(node.ask("DBSIZE") for node in six.owners())
    assert size >= 30
    for shown in [tools.of_cluster(program, "info", node.address), tools.of_cluster(program, "check", node.address)]:
        assert re.search(rf"\[OK\] {size} keys in 3 (masters|primaries)\.", shown), shown
    assert COVERED in tools.of_cluster(program, "check", node.address, "--cluster-search-multiple-owners")
    called = tools.of_cluster(program, "call", node.address, "PING")
    assert sorted(re.findall(r"^(\S+): PONG$", called, re.MULTILINE)) == sorted(node.address for node in six.nodes)
    only = tools.of_cluster(program, "call", node.address, "CLUSTER", "MYID", "--cluster-only-replicas")
    assert len(re.findall(r": [0-9a-f]{40}$", only, re.MULTILINE)) == 3, only


def test_it_follows_moved(program, six):
    for node in six.nodes:
        for number in range(5):
            shown = tools.on(program, node, "-c", "RL.SLIDE", f"follow:{number}", str(FAR), WINDOW)
            assert shown.startswith("1) (integer) 1"), shown
    refused = tools.on(program, six.owner(slot_of("follow:0")), "RL.SLIDE", "follow:1", "5")
    assert "wrong number of arguments" in refused


def test_set_timeout(program, strangers, tmp_path):
    """It is written to each node's file too, so each needs one."""
    paths = [tmp_path / f"{place}.toml" for place in range(3)]
    for path in paths:
        path.write_text("")
    cluster = strangers(3, lambda place: ("--config", str(paths[place])))
    cluster.create().wait_until_well()
    shown = tools.of_cluster(program, "set-timeout", cluster.nodes[0].address, "1500")
    assert "New node timeout set. 3 OK, 0 ERR." in shown, shown
    for node, path in zip(cluster.nodes, paths):
        assert node.ask("CONFIG GET cluster-node-timeout") == [b"cluster-node-timeout", b"1500"]
        assert re.search(r"cluster.node.timeout", path.read_text())
    assert cluster.is_well()


@pytest.mark.parametrize("how", ["", "FORCE", "TAKEOVER"])
def test_failover(program, six, how):
    """A replica takes over what its primary has counted, and the primary follows it."""
    primary = six.owners()[0]
    replica = six.replicas_of(primary)[0]
    slots = primary.myself().slots
    key = keys_of(six, primary, f"{Path(program).name}:{how}", 1)[0]
    for node in (replica, primary):
        tools.on(program, node, "-c", "RL.SLIDE", key, "2", WINDOW)
    assert tools.on(program, replica, "CLUSTER", "FAILOVER", *how.split()) == "OK"
    wait_until(lambda: replica.myself().slots == slots, PATIENCE_SECONDS, "the replica does not take over")
    wait_until(lambda: six.replicas_of(replica) == [primary], PATIENCE_SECONDS, "the primary does not follow")
    six.wait_until_well()
    assert tools.on(program, replica, "RL.SLIDE", key, "2", WINDOW).startswith("1) (integer) 0")
    moved = tools.on(program, primary, "RL.SLIDE", key, "2", WINDOW)
    assert moved == f"(error) MOVED {slot_of(key)} {replica.address}"
    assert COVERED in tools.of_cluster(program, "check", six.nodes[0].address)


def test_failover_is_asked_of_a_replica(program, six):
    for how in [[], ["FORCE"], ["TAKEOVER"]]:
        shown = tools.on(program, six.owners()[0], "CLUSTER", "FAILOVER", *how)
        assert shown == "(error) ERR You should send CLUSTER FAILOVER to a replica"
    assert tools.on(program, six.nodes[0], "CLUSTER", "FAILOVER", "SOON").startswith("(error) ERR syntax error")
