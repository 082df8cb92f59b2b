"""Fixtures: redis-server and the server under test side by side, at each number of cores, both with no keys."""

import pytest

from limiters.pair import Pair
from limiters.reference import Reference
from server.process import Server


@pytest.fixture(scope="session")
def reference():
    running = Reference()
    try:
        yield running.wait_until_ready()
    finally:
        running.stop()


@pytest.fixture(scope="session", params=[1, 2, 4], ids="{}core".format)
def subject(request):
    """A server whose time is the machine's, as redis-server's is; it must end well after all tests."""
    running = Server(request.param, test_clock=False)
    try:
        yield running.wait_until_ready()
        assert running.stop() == 0, running.log()
        assert "panicked" not in running.log()
    finally:
        running.kill()


@pytest.fixture
def pair(subject, reference) -> Pair:
    servers = Pair(subject.port, reference.port)
    servers.flush()
    return servers


@pytest.fixture(scope="module", params=[1, 2, 4], ids="{}core".format)
def clocked(request):
    """A server whose clock stands still until it is moved, for the tests of a module."""
    running = Server(request.param)
    try:
        yield running.wait_until_ready()
        assert running.stop() == 0, running.log()
        assert "panicked" not in running.log()
    finally:
        running.kill()
