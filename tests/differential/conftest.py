"""Fixtures: one redis-server for all, one Tollgate for each number of cores, a comparison of the two."""

import pytest

from differential.known import load
from differential.run import Lockstep
from differential.target import RedisServer, Target
from server.process import Server

PANIC = "panicked"


def redis_server():
    server = RedisServer()
    try:
        yield server.wait_until_ready()
    finally:
        server.stop()


# The reference, and another that stands in for the server under test where the harness itself is tested.
reference = pytest.fixture(scope="session", name="reference")(redis_server)
second = pytest.fixture(scope="session", name="second")(redis_server)


@pytest.fixture(scope="session", params=[1, 2, 4], ids="{}core".format)
def cores(request) -> int:
    return request.param


@pytest.fixture(params=[2, 3], ids="resp{}".format)
def protocol(request) -> int:
    return request.param


@pytest.fixture(scope="session")
def tollgate(cores):
    """A server with the clock of the machine; it must end well after all tests."""
    server = Server(cores, test_clock=False)
    try:
        yield server.wait_until_ready()
        code = server.stop()
        assert code == 0, server.log()
        assert PANIC not in server.log()
    finally:
        server.kill()


@pytest.fixture(scope="session")
def known():
    return load()


@pytest.fixture
def lockstep(reference, tollgate, protocol, known) -> Lockstep:
    """The comparison to the letter but for the known differences."""

    def is_known(pair) -> bool:
        return any(entry.covers(pair) for entry in known)

    return Lockstep(Target(reference.address, protocol), Target(tollgate.address, protocol), is_known)
