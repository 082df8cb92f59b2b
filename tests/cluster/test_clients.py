"""Cluster clients, unmodified, under calls on 1,000 keys while a replica takes over and while a primary is killed.

No user of a client sees MOVED, or any error as an operator lets a replica take over; errors of a kill are of calls that
began while nobody served the slots; and no limit is passed by more than the servers were told to hold to. The clients
of Rust are in tests/cluster_crates.rs.
"""

import dataclasses
import json
import re
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from cluster.calls import FAR, WINDOW, Follower, keys_of
from cluster.nodes import Cluster, Node, running, said, wait_until
from server.process import ROOT

HERE = Path(__file__).parent
PAGE = ROOT / "docs" / "clients.md"
KEYS, SMALL = 1_000, 5
OVERSHOOT = 50
# Calls that are seen to be made before and after each event.
BETWEEN_CALLS = 1_500
# What is measured of an outage by another client may be so much less than what a client saw of it.
SLACK_SECONDS = 0.2
PATIENCE_SECONDS = 60.0
# How long each script's client may take, once its slots are served again, until it looks where.
NODE_SCRIPTS = {"load_ioredis": 0.0, "load_node_redis": 0.5}


@dataclasses.dataclass
class Outage:
    """From when a primary was killed until its slots were answered for again."""

    began: float
    ended: float


class Load:
    """A client's program, and what it has said so far."""

    def __init__(self, command: list, plan: dict) -> None:
        self.process = subprocess.Popen(
            [*map(str, command), json.dumps(plan)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.said: dict = {"calls": 0}
        self.complaints = ""
        self.readers = [threading.Thread(target=read, daemon=True) for read in (self.read, self.read_complaints)]
        for reader in self.readers:
            reader.start()

    def __enter__(self) -> "Load":
        return self

    def __exit__(self, *_error) -> None:
        self.process.kill()
        self.process.wait()
        for reader in self.readers:
            reader.join()
        for pipe in (self.process.stdin, self.process.stdout, self.process.stderr):
            pipe.close()

    def read(self) -> None:
        for line in self.process.stdout:
            self.said = json.loads(line)

    def read_complaints(self) -> None:
        self.complaints = self.process.stderr.read()

    def wait_for_calls(self, count: int = BETWEEN_CALLS) -> None:
        wanted = self.said["calls"] + count
        failure = lambda: f"no more than {self.said['calls']} of {wanted} calls: {self.complaints}"  # noqa: E731
        wait_until(lambda: self.said["calls"] >= wanted, PATIENCE_SECONDS, failure)

    def end(self) -> dict:
        self.process.stdin.close()
        failure = lambda: f"it does not end: {self.complaints}"  # noqa: E731
        wait_until(lambda: "ended" in self.said, PATIENCE_SECONDS, failure)
        return self.said


@pytest.fixture(scope="module")
def bounded():
    """Three primaries with a replica each, that admit at most OVERSHOOT units twice."""
    with running(6, "--failover-overshoot-max", str(OVERSHOOT)) as cluster:
        yield cluster


@pytest.fixture(params=[2, 3], ids="resp{}".format)
def protocol(request) -> int:
    return request.param


def plan_of(cluster: Cluster, prefix: str, protocol: int, **more) -> dict:
    nodes = [{"host": node.host, "port": node.port} for node in cluster.nodes]
    keys = [(f"{prefix}:{number}", SMALL if number % 2 else FAR) for number in range(KEYS)]
    return {"nodes": nodes, "keys": keys, "far": FAR, "window": WINDOW, "protocol": protocol} | more


def node_folder(folder: Path) -> Path:
    """A folder with the scripts, the packages that are installed for tests/clients, and the helper of the page."""
    for script in HERE.glob("*.js"):
        (folder / script.name).write_text(script.read_text())
    helper = re.findall(r"^```js\n(.*?)^```$", PAGE.read_text(), re.DOTALL | re.MULTILINE)[0]
    (folder / "limits.js").write_text(helper)
    (folder / "node_modules").symlink_to(ROOT / "tests" / "clients" / "node_modules")
    return folder


def fail_over(cluster: Cluster, primary: Node) -> None:
    replica = cluster.replicas_of(primary)[0]
    said(replica, "CLUSTER FAILOVER")
    wait_until(lambda: bool(replica.myself().slots), PATIENCE_SECONDS, "the replica does not take over")


def kill(cluster: Cluster, primary: Node, prefix: str) -> Outage:
    key = keys_of(cluster, primary, f"{prefix}:probe", 1)[0]
    with Follower(cluster, primary) as follower:
        before = follower.call(key)
        primary.kill()
        while (call := follower.call(key)).address == primary.address:
            before = call
    return Outage(before.answered, call.answered)


def story(cluster: Cluster, command: list, plan: dict) -> tuple[dict, Outage]:
    """A client's load through both events; the cluster is as it was at the end."""
    first, second, _ = cluster.wait_until_well().owners()
    with Load(command, plan) as load:
        load.wait_for_calls()
        fail_over(cluster, first)
        load.wait_for_calls()
        outage = kill(cluster, second, plan["keys"][0][0])
        load.wait_for_calls()
        second.start().wait_until_ready()
        cluster.wait_until_well()
        load.wait_for_calls()
        return load.end(), outage


def check(report: dict, outage: Outage, plan: dict, notices_seconds: float = 0.0) -> None:
    until = outage.ended + SLACK_SECONDS + notices_seconds
    in_outage = lambda began: outage.began - SLACK_SECONDS <= began <= until  # noqa: E731
    about = f"outage of {outage.ended - outage.began:.3f} s, {len(report['errors'])} errors, {report['longest']}"
    for began, ended, text in report["errors"]:
        assert in_outage(began), f"{text}: {began - outage.began:+.3f} to {ended - outage.began:+.3f} s; {about}"
        assert not text.startswith(("MOVED", "MovedError", "CROSSSLOT")), text
    above = {}
    for key, limit in plan["keys"]:
        admitted = report["admitted"].get(key, 0)
        assert admitted > 0, f"{key} was never admitted"
        if limit == FAR:
            assert key not in report["denied"], f"{key} was denied"
        else:
            assert key in report["denied"], f"{key} was never denied"
            above[key] = max(0, admitted - limit)
    assert sum(above.values()) <= OVERSHOOT, {key: count for key, count in above.items() if count}


@pytest.mark.parametrize("script", NODE_SCRIPTS)
def test_a_client_of_node(bounded, tmp_path, script, protocol):
    plan = plan_of(bounded, f"{script}:{protocol}", protocol, workers=16, pause_ms=4)
    report, outage = story(bounded, ["node", node_folder(tmp_path) / f"{script}.js"], plan)
    check(report, outage, plan, NODE_SCRIPTS[script])


def test_redis_py(bounded, protocol):
    plan = plan_of(bounded, f"redis-py:{protocol}", protocol, workers=8, pause_ms=2)
    report, outage = story(bounded, [sys.executable, "-B", HERE / "load_redis_py.py"], plan)
    check(report, outage, plan)


def test_the_helper_finds_the_node_of_a_key(bounded, tmp_path, protocol):
    """It never asks for the map again; without it ioredis does again and again."""
    bounded.wait_until_well()
    plan = plan_of(bounded, f"route:{protocol}", protocol)
    plan["keys"] = plan["keys"][:100]
    command = ["node", node_folder(tmp_path) / "route_ioredis.js", json.dumps(plan)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_SECONDS)
    assert done.returncode == 0, done.stdout + done.stderr
    answer = json.loads(done.stdout)
    assert answer["helper"] == 0 and answer["plain"] > 5, answer
    assert answer["wrong"].startswith("ERR ")


def test_the_page_is_linked():
    for target in re.findall(r"\]\(([^)#:]+)\)", PAGE.read_text()):
        assert (PAGE.parent / target).exists(), target
