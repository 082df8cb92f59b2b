"""Failovers by real processes: a primary is killed under load, a replica goes on, and the callers' records are counted."""

import json
import subprocess
import sys

import pytest

from server.process import BINARY, ROOT, clean_environment
from server.test_replication import is_up, of, told
from server.wire import eventually

KEYS = 100
LIMIT = 400
# The next window of this length begins in years.
TERMS = ["--workload", "fixed", "--window", "3650d", "--limit", str(LIMIT), "--keys", str(KEYS)]
SHAPE = ["--connections", "10", "--pipeline", "8", "--warmup", "0"]
SECONDS = 60.0


def started(primary, other, *flags: str) -> subprocess.Popen:
    """A load that goes over to another server when the first dies."""
    targets = ["--target", f"127.0.0.1:{primary.port}", "--failover", f"127.0.0.1:{other.port}"]
    return subprocess.Popen(
        [BINARY, "bench", "--verify", *targets, *TERMS, *SHAPE, "--requests", str(KEYS * LIMIT * 3), "--json", *flags],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=clean_environment(),
    )


def killed_under(load, primary, calls: int) -> dict:
    """Kills the primary once it has run so many commands; the load's report."""
    assert eventually(lambda: int(told(primary, "stats")["total_commands_processed"]) >= calls, SECONDS)
    primary.kill()
    out, said = load.communicate(timeout=SECONDS)
    assert out, said
    return json.loads(out)


@pytest.mark.parametrize("bound", ["0", "1000", "none"])
def test_a_failover_admits_no_more_than_is_stated(tmp_path, bound):
    """Two runs of the script that an operator has too; it fails where one passes its bound."""
    flags = ["--bounds", bound, "--runs", "2", "--limit", "100", "--rows", str(tmp_path), "--json"]
    words = [sys.executable, "-B", str(ROOT / "benches" / "failover"), "--tollgate", str(BINARY), *flags]
    done = subprocess.run(words, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=SECONDS)
    assert done.returncode == 0, done.stdout + done.stderr
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(rows) == 2
    for row in rows:
        failover = row["failover"]
        assert failover["units_above_limits"] <= row["allowed"]
        assert failover["units_by_first"] > 0 and failover["units_by_second"] > 0
        assert failover["keys_denied_by_second"] == row["keys"] == 1_000


def test_all_is_forgotten_by_one_that_heard_nothing(start):
    """The count is exact, and what the primary showed covers it: it was told to follow, and went away before the load."""
    primary = start(2, test_clock=False)
    other = start(2, *of(primary), test_clock=False)
    assert eventually(lambda: is_up(other))
    assert other.ask("REPLICAOF NO ONE") == "OK"
    load = started(primary, other)
    failover = killed_under(load, primary, KEYS * LIMIT // 2)["failover"]
    assert load.returncode == 0
    assert failover["units_by_second"] == KEYS * LIMIT and failover["keys_denied_by_second"] == KEYS
    assert failover["units_above_limits"] == failover["units_by_first"] > KEYS * LIMIT // 4
    assert failover["overshoot_scraped"] + failover["units_since_scrape"] >= failover["units_above_limits"], failover


def test_more_than_was_allowed_makes_the_exit_code_1(start):
    primary, other = start(1, test_clock=False), start(2, test_clock=False)
    load = started(primary, other, "--overshoot-max", "1000")
    report = killed_under(load, primary, KEYS * LIMIT // 2)
    failover, verify = report["failover"], report["verify"]
    assert load.returncode == 1 and failover["overshoot_max"] == verify["overshoot_allowed"] == 1_000
    assert failover["units_above_limits"] == failover["units_by_first"] == verify["violations"] + 1_000
    assert (verify["limits_checked"], verify["dishonest_denials"]) == (True, 0)


def test_the_load_waits_for_a_replica_to_be_promoted(start):
    """A replica says READONLY, and refuses nothing for good; the calls that wait are neither lost nor errors."""
    primary = start(2, test_clock=False)
    replica = start(2, *of(primary), test_clock=False)
    assert eventually(lambda: is_up(replica))
    load = started(primary, replica)
    assert eventually(lambda: int(told(primary, "stats")["total_commands_processed"]) >= KEYS * LIMIT // 2, SECONDS)
    primary.kill()
    asked = int(told(replica, "stats")["total_connections_received"])
    assert eventually(lambda: int(told(replica, "stats")["total_connections_received"]) >= asked + 20)
    assert load.poll() is None
    assert replica.ask("REPLICAOF NO ONE") == "OK"
    out, said = load.communicate(timeout=SECONDS)
    assert load.returncode == 0, out + said
    report = json.loads(out)
    assert report["errors"] == report["failover"]["calls_lost"] == report["verify"]["unknown"] <= 80
    assert report["failover"]["answered_at_seconds"] > report["failover"]["lost_at_seconds"]
