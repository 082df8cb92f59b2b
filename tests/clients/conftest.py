"""The fixtures of the whole-server tests, and a server that can be restarted under its clients."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from server.conftest import PANIC, cores, many_open_files, server, start  # noqa: F401
from server.process import Server


@pytest.fixture(scope="module", params=[2, 3], ids="resp{}".format)
def protocol(request) -> int:
    """As in the tests of the server, but for a module: a client's script runs once for each."""
    return request.param


class Restarting:
    """A server that comes back on its port, with nothing kept, as often as it is asked to."""

    def __init__(self, cores: int) -> None:
        self.cores = cores
        self.running = Server(cores).wait_until_ready()

    @property
    def port(self) -> int:
        return self.running.port

    def restart(self, kill: bool = False) -> None:
        """Ends the server, in order or by SIGKILL, and starts the next one on the same port."""
        port = self.port
        if kill:
            self.running.kill()
        else:
            self.stop()
        self.running = Server(self.cores, port=port).wait_until_ready()

    def stop(self) -> None:
        code = self.running.stop()
        assert code == 0, self.running.log()
        assert PANIC not in self.running.log()


@pytest.fixture(scope="module")
def restarting():
    """Starts servers that a test may restart: `with restarting(cores) as server`. Each must end well."""

    @contextmanager
    def starter(cores: int) -> Iterator[Restarting]:
        server = Restarting(cores)
        try:
            yield server
            server.stop()
        finally:
            server.running.kill()

    return starter
