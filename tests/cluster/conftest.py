"""Fixtures: a cluster that the tests of a module share, and clusters of a test's own."""

import contextlib

import pytest

from cluster.nodes import Cluster, running
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
def start():
    """Starts clusters of a test's own: `start(count, *flags, **settings)`. Each must end well, unless it was killed."""
    with contextlib.ExitStack() as stack:
        clusters = []

        def starter(count: int, *flags: str, **settings) -> Cluster:
            clusters.append(stack.enter_context(running(count, *flags, **settings)))
            return clusters[-1]

        yield starter
        for cluster in clusters:
            is_killed = any(not node.is_running for node in cluster.nodes)
            codes = cluster.stop()
            if not is_killed:
                has_ended_well(cluster, codes)
