"""Fixtures: one server a module for each number of cores, clean connections, and servers of a test's own."""

import resource

import pytest

from server.process import Server
from server.wire import eventually

PANIC = "panicked"
# A thousand sockets at both ends, for the tests that open a crowd.
OPEN_FILES = 8192


@pytest.fixture(scope="session", autouse=True)
def many_open_files() -> None:
    """Raises the soft limit on open files, which the servers inherit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = OPEN_FILES if hard == resource.RLIM_INFINITY else min(OPEN_FILES, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


@pytest.fixture(scope="module", params=[1, 2, 4], ids="{}core".format)
def cores(request) -> int:
    return request.param


@pytest.fixture(params=[2, 3], ids="resp{}".format)
def protocol(request) -> int:
    return request.param


@pytest.fixture(scope="module")
def server(cores):
    """A server that the tests of a module share; it must end well after all of them."""
    running = Server(cores)
    try:
        yield running.wait_until_ready()
        code = running.stop()
        assert code == 0, running.log()
        assert PANIC not in running.log()
    finally:
        running.kill()


@pytest.fixture
def wire(server, protocol):
    """A connection to the shared server with no keys; afterwards the server must still answer others."""
    with server.connect(protocol) as connection:
        assert connection("FLUSHALL") == "OK"
        yield connection
    assert server.ask("PING") == "PONG"


@pytest.fixture
def start():
    """Starts servers of a test's own: `start(cores, *flags)`. Each must end well, unless the test ended it."""
    running = []

    def starter(cores: int = 1, *arguments: str, **settings) -> Server:
        server = Server(cores, *arguments, **settings)
        running.append(server)
        return server.wait_until_ready()

    yield starter
    try:
        for server in running:
            ended_by_test = server.process.poll() is not None
            code = server.stop()
            assert ended_by_test or code == 0, server.log()
            assert PANIC not in server.log()
    finally:
        for server in running:
            server.kill()


@pytest.fixture
def gone():
    """Waits until a server no longer counts a connection: `gone(server, count)`."""

    def waiter(server: Server, clients_left: int) -> None:
        def counted() -> bool:
            info = server.ask("INFO clients").decode()
            return int(info.split("connected_clients:")[1].split()[0]) <= clients_left + 1

        assert eventually(counted)

    return waiter
