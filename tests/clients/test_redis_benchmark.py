"""redis-benchmark as Debian has it: its ordinary tests and a limit of ours, pipelined, in every form it reports in."""

import csv
import re
import subprocess

import pytest

SECONDS = 30.0
REQUESTS = 4000


def benchmark(server, *arguments: str) -> str:
    """Runs redis-benchmark and returns what it printed; it must end well, without a warning or an error."""
    command = ["redis-benchmark", "-p", str(server.port), "-n", str(REQUESTS), "-c", "20", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS)
    said = done.stdout + done.stderr
    assert done.returncode == 0, said
    assert "WARN" not in said and "ERR" not in said and "Error" not in said, said
    return done.stdout


@pytest.fixture
def empty(server):
    assert server.ask("FLUSHALL") == "OK"
    return server


@pytest.mark.parametrize("depth", ["1", "16"])
def test_ordinary_commands(empty, depth):
    shown = benchmark(empty, "-t", "ping,set,get,incr,mset", "-P", depth, "-r", "1000", "-q")
    rates = dict(re.findall(r"^(?:.*\r)?([A-Z_ ()0-9keysm]+): ([\d.]+) requests per second", shown, re.MULTILINE))
    assert rates.keys() == {"PING_INLINE", "PING_MBULK", "SET", "GET", "INCR", "MSET (10 keys)"}
    assert all(float(rate) > 0 for rate in rates.values())


def test_counts_are_exact(empty):
    """Every request that it counts as answered was carried out, once."""
    benchmark(empty, "-t", "incr", "-P", "16", "-q")
    assert empty.ask("GET counter:__rand_int__") == b"%d" % REQUESTS


@pytest.mark.parametrize("protocol", [[], ["-3"]], ids=["resp2", "resp3"])
def test_a_limit(empty, protocol):
    """A limit takes nothing but its own name: what was asked is what is used."""
    shown = benchmark(empty, "-P", "16", "--csv", *protocol, "RL.SLIDE", "rl:{one}", str(REQUESTS - 1), "1h")
    heads, row = csv.reader(shown.splitlines())
    assert heads[0] == "test" and row[0].startswith("RL.SLIDE") and float(row[1]) > 0
    allowed, _, remaining, _, _ = empty.ask(f"RL.SLIDE rl:{{one}} {REQUESTS - 1} 1h PEEK")
    assert (allowed, remaining) == (0, 0)
    assert empty.ask(f"RL.SLIDE rl:{{one}} {REQUESTS} 1h PEEK")[2] == 1


def test_limits_of_many_keys(empty):
    benchmark(empty, "-P", "16", "-r", "500", "-q", "RL.TOKEN", "rl:__rand_int__", "1000", "0.001")
    used = 0
    with empty.connect() as wire:
        cursor = b"0"
        while True:
            cursor, keys = wire(["SCAN", cursor, "COUNT", "1000"])
            used += sum(1000 - wire(["RL.TOKEN", key, "1000", "0.001", "PEEK"])[2] for key in keys)
            if cursor == b"0":
                break
    assert used == REQUESTS
