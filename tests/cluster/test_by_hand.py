"""The commands that a cluster is made of by hand, in several orders, and what tools read off a node."""

import itertools
import re

import pytest

from cluster.calls import slot_of
from cluster.nodes import SLOTS, Cluster, Node, free_ports, is_error, said, wait_until

PATIENCE_SECONDS = 30.0
LINE = r"[0-9a-f]{40} 127\.0\.0\.1:\d+@\d+\S* \S+ (-|[0-9a-f]{40}) \d+ \d+ \d+ connected( |$)"
# Who meets whom, of four nodes, in this order.
ORDERS = {
    "all-the-first": [(1, 0), (2, 0), (3, 0)],
    "the-first-all": [(0, 1), (0, 2), (0, 3)],
    "a-chain": [(1, 0), (2, 1), (3, 2)],
    "backwards": [(2, 3), (1, 2), (0, 1)],
    "again-and-again": [(1, 0), (0, 1), (2, 0), (2, 1), (0, 2), (3, 2), (3, 0), (1, 3)],
}


def is_joined(cluster: Cluster, places: set[int]) -> bool:
    """Whether these nodes know each other and nobody else."""
    ids = {cluster.nodes[place].myself().id for place in places}
    known = [{line.id for line in cluster.nodes[place].lines() if line.is_healthy} for place in places]
    return all(seen == ids for seen in known)


def wait_until_joined(cluster: Cluster, *places: int) -> None:
    joined = lambda: is_joined(cluster, set(places))  # noqa: E731
    wait_until(joined, PATIENCE_SECONDS, lambda: f"not joined: {[node.lines() for node in cluster.nodes]}")


@pytest.mark.parametrize("are_slots_first", [True, False], ids=["slots-first", "slots-last"])
@pytest.mark.parametrize("order", ORDERS)
def test_meet_in_any_order(strangers, order, are_slots_first):
    """Each node keeps its id and its slots, whoever met whom."""
    cluster = strangers(4)
    ids = [node.ask("CLUSTER MYID").decode() for node in cluster.nodes]
    if are_slots_first:
        add_slots(cluster)
    for one, other in ORDERS[order]:
        cluster.meet(cluster.nodes[one], cluster.nodes[other])
        # Two groups that are joined in the middle would be two larger groups.
        wait_until(lambda: is_joined(cluster, groups(ORDERS[order], one, other)), PATIENCE_SECONDS, "not joined")
    if not are_slots_first:
        add_slots(cluster)
    cluster.wait_until_well()
    assert [node.ask("CLUSTER MYID").decode() for node in cluster.nodes] == ids
    for node in cluster.nodes:
        owned = {line.id: line.slots for line in node.lines()}
        assert owned == {ids[place]: ((place * 4096, place * 4096 + 4095),) for place in range(4)}


def groups(order: list[tuple[int, int]], one: int, other: int) -> set[int]:
    """The nodes that are together once these two have met, all before them having met."""
    group = {one, other}
    before = order[: order.index((one, other))]
    for _ in before:
        for pair in before:
            group |= set(pair) if group & set(pair) else set()
    return group


def add_slots(cluster: Cluster) -> None:
    for place, node in enumerate(cluster.nodes):
        said(node, ["CLUSTER", "ADDSLOTSRANGE", place * 4096, place * 4096 + 4095])


def test_a_node_that_answers_knows_who_it_is(tmp_path):
    """A tool may ask it as soon as it is there."""
    node = Node(tmp_path / "node", free_ports(1)[0]).start()
    try:
        wait_until(lambda: answers(node), PATIENCE_SECONDS, "it does not answer")
        assert set(node.ask("CLUSTER MYID")) != {ord("0")}
        assert [line.flags for line in node.lines()] == [{"myself", "master"}]
        said(node, "CLUSTER ADDSLOTS 1")
        assert node.stop() == 0
    finally:
        node.kill()


def answers(node: Node) -> bool:
    try:
        return node.ask("PING") == "PONG"
    except OSError:
        return False


def test_what_was_answered_by_ok_is_seen_at_once(six):
    """Also where another node leads the group and has decided it."""
    for node in six.owners():
        slot = node.myself().slots[0][0]
        for _ in range(10):
            said(node, f"CLUSTER DELSLOTS {slot}")
            assert node.myself().slots[0][0] == slot + 1
            said(node, f"CLUSTER ADDSLOTS {slot}")
            assert node.myself().slots[0][0] == slot
    six.wait_until_well()


def test_two_larger_groups_stay_what_they_are(strangers):
    cluster = strangers(4)
    add_slots(cluster)
    for one, other in [(1, 0), (3, 2)]:
        cluster.meet(cluster.nodes[one], cluster.nodes[other])
        wait_until_joined(cluster, one, other)
    answer = cluster.nodes[1].ask(["CLUSTER", "MEET", "127.0.0.1", cluster.nodes[2].port, cluster.nodes[2].peer_port])
    assert is_error(answer, "ERR "), answer
    assert is_joined(cluster, {0, 1}) and is_joined(cluster, {2, 3})


def test_a_slot_that_both_have_keeps_them_apart(strangers):
    one, other = strangers(2).nodes
    for node, slots in [(one, "1 2 3"), (other, "3 4 5")]:
        said(node, f"CLUSTER ADDSLOTS {slots}")
    answer = other.ask(["CLUSTER", "MEET", "127.0.0.1", one.port, one.peer_port])
    assert is_error(answer, "ERR "), answer
    assert [len(node.lines()) for node in (one, other)] == [1, 1]
    # Both go on as they were.
    for node, slot in [(one, 1), (other, 4)]:
        key = next(f"k{number}" for number in itertools.count() if slot_of(f"k{number}") == slot)
        served = lambda: isinstance(node.ask(["RL.SLIDE", key, 5, 60]), list)  # noqa: E731
        wait_until(served, PATIENCE_SECONDS, f"{node.address} serves no more")
    said(other, "CLUSTER DELSLOTS 3")
    said(other, ["CLUSTER", "MEET", "127.0.0.1", one.port, one.peer_port])
    wait_until_joined(Cluster([one, other], 2), 0, 1)


def test_slots_come_and_go(strangers):
    one, other = strangers(2).nodes
    said(one, "CLUSTER ADDSLOTS 0 1 2 3 4")
    said(one, "CLUSTER ADDSLOTSRANGE 100 199 300 300")
    assert one.myself().slots == ((0, 4), (100, 199), (300, 300))
    # As many as a tool ever sends in one command, and those that it has again.
    said(other, ["CLUSTER", "ADDSLOTS", *range(400, SLOTS)])
    said(one, "CLUSTER ADDSLOTS 0 1")
    said(one, ["CLUSTER", "MEET", "127.0.0.1", other.port, other.peer_port])
    wait_until_joined(Cluster([one, other], 2), 0, 1)
    wait_until(lambda: len(one.ask("CLUSTER SLOTS")) == 4, PATIENCE_SECONDS, "the slots do not arrive")
    assert one.ask("CLUSTER ADDSLOTS 500") == "ERR Slot 500 is already busy"
    assert is_error(one.ask("CLUSTER DELSLOTS 500"), "ERR "), "its owner serves it"
    said(one, "CLUSTER DELSLOTS 1 3")
    # It is so already.
    said(one, "CLUSTER DELSLOTS 1 3")
    said(one, "CLUSTER DELSLOTSRANGE 150 199 300 300")
    assert one.myself().slots == ((0, 0), (2, 2), (4, 4), (100, 149))
    key = next(f"k{number}" for number in itertools.count() if slot_of(f"k{number}") == 300)
    for node in (one, other):
        not_served = lambda: node.ask(["RL.SLIDE", key, 5, 60]) == "CLUSTERDOWN Hash slot not served"  # noqa: E731
        wait_until(not_served, PATIENCE_SECONDS, "a slot of nobody")
    said(other, "CLUSTER ADDSLOTS 300")
    wait_until(lambda: one.ask(["RL.SLIDE", key, 5, 60]) == f"MOVED 300 {other.address}", PATIENCE_SECONDS, "MOVED")


@pytest.mark.parametrize(
    "words, expected",
    [
        ("ADDSLOTS 16384", "ERR Invalid or out of range slot"),
        ("ADDSLOTS -1", "ERR Invalid or out of range slot"),
        ("ADDSLOTS x", "ERR Invalid or out of range slot"),
        ("ADDSLOTS 5 5", "ERR Slot 5 specified multiple times"),
        ("DELSLOTSRANGE 5 3", "ERR start slot number 5 is greater than end slot number 3"),
        ("ADDSLOTSRANGE 5 3", "ERR start slot number 5 is greater than end slot number 3"),
        ("ADDSLOTSRANGE 1 5 5 9", "ERR Slot 5 specified multiple times"),
        ("REPLICATE 0123", "ERR Unknown node 0123"),
        ("COUNT-FAILURE-REPORTS 0123", "ERR Unknown node 0123"),
        ("MEET 127.0.0.1 99999", "ERR Invalid node address specified: 127.0.0.1:99999"),
        ("SET-CONFIG-EPOCH -1", "ERR Invalid config epoch specified: -1"),
    ],
)
def test_what_is_wrong_is_said_as_redis_says_it(alone, words, expected):
    before = alone.lines()
    assert alone.ask(f"CLUSTER {words}") == expected
    assert alone.lines() == before


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    """A node that knows nobody and has no slots."""
    node = Node(tmp_path_factory.mktemp("alone") / "node", free_ports(1)[0])
    try:
        yield node.start().wait_until_ready()
        assert node.stop() == 0
    finally:
        node.kill()


def test_epochs_and_reports(strangers):
    one, other = strangers(2).nodes
    said(one, "CLUSTER SET-CONFIG-EPOCH 7")
    assert is_error(one.ask("CLUSTER SET-CONFIG-EPOCH 9"), "ERR Node config epoch is already non-zero")
    assert one.cluster_info()["cluster_my_epoch"] == "7"
    said(other, ["CLUSTER", "MEET", "127.0.0.1", one.port, one.peer_port])
    wait_until_joined(Cluster([one, other], 2), 0, 1)
    refused = other.ask("CLUSTER SET-CONFIG-EPOCH 9")
    assert is_error(refused, "ERR The user can assign a config epoch only when the node does not know any other node")
    assert re.fullmatch(r"(BUMPED|STILL) \d+", other.ask("CLUSTER BUMPEPOCH"))
    assert one.ask(["CLUSTER", "COUNT-FAILURE-REPORTS", other.myself().id]) == 0
    said(one, "CLUSTER SAVECONFIG")


def test_nodes_is_what_tools_read(six):
    for node in six.nodes:
        text = node.ask("CLUSTER NODES").decode()
        assert text.endswith("\n") and "\r" not in text
        for line in text.splitlines():
            assert re.match(LINE, line)
        assert [line.address for line in node.lines() if "myself" in line.flags] == [node.address]
        assert node.ask("CLUSTER MYID").decode() == node.myself().id
        with node.connect(3) as link:
            assert link("CLUSTER NODES").decode().count("\n") == len(six.nodes)


def test_an_endpoint_is_the_same_bytes_everywhere(six):
    asked = six.owners()[0]
    key = next(f"k{number}" for number in itertools.count() if six.owner(slot_of(f"k{number}")) is not asked)
    slot = slot_of(key)
    first, last, primary, *replicas = next(
        row for row in asked.ask("CLUSTER SLOTS") if row[0] <= slot <= row[1]
    )
    endpoint = f"{primary[0].decode()}:{primary[1]}"
    assert asked.ask(["RL.SLIDE", key, 5, 60]) == f"MOVED {slot} {endpoint}"
    owner = six.by_address(endpoint)
    assert primary[2].decode() == owner.myself().id and owner.myself().address == endpoint
    assert len(replicas) == 1 and asked.ask("CLUSTER SLOTS") == owner.ask("CLUSTER SLOTS")


def test_slots_cover_all_in_order(six):
    for node in six.nodes:
        rows = node.ask("CLUSTER SLOTS")
        assert [row[0] for row in rows] == [0, *[row[1] + 1 for row in rows[:-1]]] and rows[-1][1] == SLOTS - 1
        # Neighbouring ranges of one node would be one range.
        assert all(one[2][2] != other[2][2] for one, other in itertools.pairwise(rows))


def test_info_is_read_by_its_first_match(six):
    """redis-cli takes the first place where a name stands in INFO, and reads on to the end of the line."""
    for node in six.nodes:
        text = node.ask("INFO").decode()
        for name, pattern in [
            ("cluster_enabled:", "1"),
            ("used_memory:", r"\d+"),
            ("connected_clients:", r"\d+"),
            ("blocked_clients:", r"\d+"),
            ("total_commands_processed:", r"\d+"),
            ("total_connections_received:", r"\d+"),
            ("loading:", "0"),
        ]:
            found = text.index(name)
            assert text[found - 1] == "\n", name
            assert re.fullmatch(pattern, text[found + len(name) : text.index("\r", found)]), name
        assert ("db0:" in text) == (node.ask("DBSIZE") > 0)


def test_a_replica_says_moved_to_everything_with_a_key_unless_it_may_be_read(six):
    primary = six.owners()[0]
    replica = six.replicas_of(primary)[0]
    key = next(f"k{number}" for number in itertools.count() if six.owner(slot_of(f"k{number}")) is primary)
    moved = f"MOVED {slot_of(key)} {primary.address}"
    with replica.connect() as link:
        assert link(["RL.SLIDE", key, 5, 60]) == link(["GET", key]) == moved
        assert link("READONLY") == "OK"
        assert link(["EXISTS", key]) in (0, 1)
        assert link(["RL.SLIDE", key, 5, 60]) == moved
        assert link("READWRITE") == "OK"
        assert link(["EXISTS", key]) == moved
    crossing = primary.ask(["MGET", key, "another-slot-surely-1", "another-slot-surely-2"])
    assert crossing == "CROSSSLOT Keys in request don't hash to the same slot"


def test_counts_of_a_slot_are_of_keys_that_are_there(six):
    owner = six.owners()[0]
    key = next(f"{{c{number}}}" for number in itertools.count() if six.owner(slot_of(f"c{number}")) is owner)
    slot = slot_of(key.strip("{}"))
    for number in range(3):
        owner.ask(["RL.SLIDE", f"{key}:{number}", 5, "1h"])
    assert owner.ask(["CLUSTER", "KEYSLOT", f"{key}:1"]) == slot
    assert owner.ask(["CLUSTER", "COUNTKEYSINSLOT", slot]) == 3
    names = [f"{key}:{number}".encode() for number in range(3)]
    assert sorted(owner.ask(["CLUSTER", "GETKEYSINSLOT", slot, 10])) == names
    assert len(owner.ask(["CLUSTER", "GETKEYSINSLOT", slot, 2])) == 2
    for name in names:
        owner.ask([b"DEL", name])
    assert owner.ask(["CLUSTER", "GETKEYSINSLOT", slot, 10]) == []

