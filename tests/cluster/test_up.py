"""tests/cluster/up starts a cluster that serves, says what is in its way, and leaves nothing behind."""

import os
import re
import select
import signal
import subprocess
import time
from pathlib import Path

import pytest

from cluster.nodes import Node, free_ports, is_free

UP = Path(__file__).parent / "up"
SECONDS = 60.0


def neighbours(count: int) -> int:
    """The first of so many free ports in a row."""
    while True:
        first = free_ports(1)[0]
        if all(is_free(port) and is_free(port + 10_000) for port in range(first, first + count)):
            return first


class Up:
    def __init__(self, target: Path, *words: str) -> None:
        self.environment = os.environ | {"CARGO_TARGET_DIR": str(target)}
        self.process = subprocess.Popen(
            [UP, *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=self.environment
        )
        self.shown = ""

    def __enter__(self) -> "Up":
        return self

    def __exit__(self, *_error) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
        self.process.wait(SECONDS)
        self.process.stdout.close()

    def wait_for(self, text: str) -> None:
        deadline = time.monotonic() + SECONDS
        while text not in self.shown:
            ready, _, _ = select.select([self.process.stdout], [], [], max(0, deadline - time.monotonic()))
            more = os.read(self.process.stdout.fileno(), 1 << 16).decode() if ready else ""
            assert more, self.shown
            self.shown += more

    def run(self, *words: str) -> tuple[int, str]:
        """Another call of it, at the same target folder."""
        done = subprocess.run([UP, *words], capture_output=True, text=True, timeout=SECONDS, env=self.environment)
        return done.returncode, done.stdout + done.stderr


@pytest.mark.parametrize("is_interrupted", [True, False], ids=["ctrl-c", "stop"])
def test_a_cluster_comes_and_goes(tmp_path, is_interrupted):
    port = neighbours(3)
    with Up(tmp_path, "3", "--replicas", "2", "--port", str(port)) as up:
        up.wait_for("Ctrl-C")
        assert re.search(rf"127\.0\.0\.1:{port} +primary +0-16383", up.shown)
        assert up.shown.count(f"replica of 127.0.0.1:{port}") == 2
        node = Node(tmp_path, port)
        assert node.ask("RL.SLIDE k 100 1")[:2] == [1, 100]
        code, said = up.run("3", "--port", str(port + 1))
        assert code == 1 and f"port {port + 1} is taken" in said
        pid = int(re.search(r"kill -9 (\d+)", up.shown)[1])
        os.kill(pid, signal.SIGKILL)
        up.wait_for(f"127.0.0.1:{port} has ended")
        if is_interrupted:
            up.process.send_signal(signal.SIGINT)
        else:
            assert up.run("--stop", "--port", str(port)) == (0, "stopped\n")
        assert up.process.wait(SECONDS) == 0
    assert all(is_free(one) for one in range(port, port + 3))
    assert not (tmp_path / "cluster" / str(port)).exists()


def test_a_folder_is_gone_on_with(tmp_path):
    port, folder = neighbours(2), tmp_path / "kept"
    ids = []
    for _ in range(2):
        with Up(tmp_path, "2", "--port", str(port), "--dir", str(folder)) as up:
            up.wait_for("Ctrl-C")
            ids.append([Node(folder, one).ask("CLUSTER MYID") for one in (port, port + 1)])
    assert ids[0] == ids[1]


def test_nodes_of_one_that_was_killed_are_found(tmp_path):
    port = neighbours(2)
    with Up(tmp_path, "2", "--port", str(port)) as up:
        up.wait_for("Ctrl-C")
        up.process.kill()
        up.process.wait()
        assert not is_free(port)
        assert up.run("--stop", "--port", str(port)) == (0, "stopped\n")
    assert is_free(port) and is_free(port + 1)


@pytest.mark.parametrize(
    "words, expected",
    [
        (["0"], "N is a number from 1 to 100"),
        (["2", "--replicas", "2"], "2 nodes are too few for a primary with 2 replicas"),
        (["3", "--port", "60000"], "the last would be 70002"),
        (["--stop", "--port", "9"], "no cluster was started with --port 9"),
        (["1", "--no-such-flag"], "ended"),
    ],
)
def test_what_is_wrong_is_said(tmp_path, words, expected):
    words = [*words, "--port", str(free_ports(1)[0])] if "--port" not in words else words
    with Up(tmp_path, *words) as up:
        up.wait_for(expected)
        assert up.process.wait(SECONDS) != 0
