"""Fixtures: a cluster that the tests of a module share, and nodes of a test's own."""

import pytest

from cluster.nodes import Cluster, Node, free_ports, running, shape
from server.conftest import PANIC, many_open_files  # noqa: F401


def has_ended_well(cluster: Cluster, codes: list[int]) -> None:
    for node, code in zip(cluster.nodes, codes):
        assert code == 0, node.log()
        assert PANIC not in node.log()


@pytest.fixture(scope="module")
def six():
    """Three primaries with a replica each. A test that harms it heals it."""
    with running(6) as cluster:
        yield cluster
        has_ended_well(cluster, cluster.stop())


@pytest.fixture
def strangers(tmp_path):
    """Starts nodes that know nobody: `strangers(count, flags_of)`."""
    clusters = []

    def starter(count: int, flags_of=lambda _place: ()) -> Cluster:
        ports = enumerate(free_ports(count))
        nodes = [Node(tmp_path / str(place), port, *flags_of(place)) for place, port in ports]
        clusters.append(Cluster(nodes, shape(count, None)))
        return clusters[-1].start()

    yield starter
    try:
        for cluster in clusters:
            has_ended_well(cluster, cluster.stop())
    finally:
        for cluster in clusters:
            cluster.kill()
