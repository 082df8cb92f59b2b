"""CONFIG SET, RESETSTAT and REWRITE: all named values change on all cores or none does, and a restart keeps them."""

import os
import stat
import threading

import pytest

from reply import Error
from server.slots import keys_over_cores
from server.wire import eventually, flat_map

FAILED = "ERR CONFIG SET failed (possibly related to argument '{}') - {}"
REFUSED = {
    "maxmemory lots": FAILED.format("maxmemory", "argument must be a memory value"),
    "maxmemory -1": FAILED.format("maxmemory", "argument must be a memory value"),
    "maxmemory-policy allkeys-lru": FAILED.format(
        "maxmemory-policy", "argument(s) must be one of the following: noeviction, evict-least"
    ),
    "timeout soon": FAILED.format("timeout", "argument couldn't be parsed into an integer"),
    "timeout -1": FAILED.format("timeout", "argument must be between 0 and 31536000 inclusive"),
    "slowlog-max-len 10001": FAILED.format("slowlog-max-len", "argument must be between 0 and 10000 inclusive"),
    "port 1": FAILED.format("port", "can't set immutable config"),
    "databases 16": FAILED.format("databases", "can't set immutable config"),
    "tcp-keepalive 7 TCP-KEEPALIVE 8": FAILED.format("TCP-KEEPALIVE", "duplicate parameter"),
    "no-such 1": "ERR Unknown option or number of arguments for CONFIG SET - 'no-such'",
    "timeout 1 maxmemory": "ERR syntax error",
}
# What is set, and what CONFIG GET then shows.
TAKEN = {
    "maxmemory": ("1gb", "1073741824"),
    "maxmemory-policy": ("EVICT-LEAST", "evict-least"),
    "timeout": ("3600", "3600"),
    "tcp-keepalive": ("60", "60"),
    "slowlog-log-slower-than": ("-1", "-1"),
    "slowlog-max-len": ("1000", "1000"),
    "latency-monitor-threshold": ("250", "250"),
}


def shown(wire, pattern: str = "*") -> dict[str, str]:
    return {name.decode(): value.decode() for name, value in flat_map(wire(["CONFIG", "GET", pattern])).items()}


@pytest.fixture
def settings(wire):
    """Puts back what a test changes."""
    before = {name: value for name, value in shown(wire).items() if name in TAKEN}
    yield before
    assert wire(["CONFIG", "SET", *(word for pair in before.items() for word in pair)]) == "OK"


@pytest.mark.smoke
@pytest.mark.parametrize("name", TAKEN)
def test_what_is_set_is_shown(wire, settings, name):
    value, after = TAKEN[name]
    assert wire(["config", "set", name.upper(), value]) == "OK"
    assert shown(wire, name) == {name: after}


@pytest.mark.parametrize("words", REFUSED)
def test_what_is_refused_changes_nothing(wire, settings, words):
    before = shown(wire)
    assert wire(f"CONFIG SET {words}") == REFUSED[words]
    last = words.split()[-2:]
    assert isinstance(wire(["CONFIG", "SET", "slowlog-max-len", "5", "latency-monitor-threshold", "x", *last]), Error)
    assert shown(wire) == before


def test_a_bound_on_memory_holds_at_once_on_every_core(wire, settings, cores):
    keys = keys_over_cores("bound", 2 * cores, cores)
    assert wire("CONFIG SET maxmemory 1b") == "OK"
    replies = wire.pipeline([f"RL.SLIDE {key} 5 1h" for key in keys])
    assert all(reply.code == "OOM" for reply in replies)
    assert b"maxmemory:1\r\n" in wire("INFO memory")
    assert wire("CONFIG SET maxmemory 0") == "OK"
    assert all(reply[0] == 1 for reply in wire.pipeline([f"RL.SLIDE {key} 5 1h" for key in keys]))


def test_a_changed_policy_drops_keys(wire, settings, cores):
    limit = 4 * 1024 * 1024 * cores
    assert wire(f"CONFIG SET maxmemory {limit} maxmemory-policy evict-least") == "OK"
    before = int(info(wire, "stats")["evicted_keys"])
    for step in range(40):
        replies = wire.pipeline([f"RL.SLIDE flood:{step}:{number} 5 1h" for number in range(3000 * cores)])
        assert not any(isinstance(reply, Error) for reply in replies)
        if int(info(wire, "stats")["evicted_keys"]) > before:
            return
    raise AssertionError("no key was dropped at the bound")


def test_changes_at_once_leave_all_cores_alike(server, wire, settings, cores):
    """Two administrators set different bounds again and again; afterwards one of them holds, on every core."""

    def set_bound(value: str) -> None:
        with server.connect() as other:
            for _ in range(50):
                assert other(f"CONFIG SET maxmemory {value}") == "OK"

    threads = [threading.Thread(target=set_bound, args=[value]) for value in ("1b", "0")]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    holds = shown(wire, "maxmemory")["maxmemory"]
    keys = keys_over_cores("alike", 4 * cores, cores)

    def agree() -> bool:
        # A key that was admitted where the bound was not followed yet is not refused any more.
        wire("FLUSHALL")
        refused = [isinstance(reply, Error) for reply in wire.pipeline([f"RL.SLIDE {key} 5 1h" for key in keys])]
        return refused == [holds == "1"] * len(keys)

    assert eventually(agree), holds


def info(wire, section: str) -> dict[str, str]:
    lines = wire(f"INFO {section}").decode().split("\r\n")
    return dict(line.split(":", 1) for line in lines if ":" in line)


def test_resetstat(wire, cores):
    for key in keys_over_cores("reset", 4 * cores, cores):
        wire(f"RL.SLIDE {key} 5 1h")
        wire(f"RL.SLIDE {key} 5")
    keys = wire("DBSIZE")
    assert wire("CONFIG RESETSTAT") == "OK"
    after = info(wire, "all")
    for name in ["slide_allowed", "slide_denied", "keyspace_misses", "total_error_replies", "expired_keys"]:
        assert after[name] == "0", name
    assert int(after["total_commands_processed"]) < 5 and int(after["total_connections_received"]) == 0
    assert not any(name.startswith("errorstat_") for name in after)
    assert int(after["connected_clients"]) >= 1 and after["db0"].startswith(f"keys={keys},")
    assert wire("DBSIZE") == keys


@pytest.mark.slow
def test_a_timeout_that_is_set_while_running_cuts_silent_clients_off(start, cores):
    server = start(cores)
    with server.connect() as before:
        assert before("CONFIG SET timeout 1") == "OK"
        with server.connect() as silent:
            assert silent("PING") == "PONG"
            assert silent.rest() == b""
    assert server.ask("CONFIG SET timeout 0") == "OK"


CONFIG_FILE = """# Kept by people.
maxmemory = "64mb"  # enough for us
port = 1

# The log.
slowlog-max-len = 77
"""


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "tollgate.toml"
    path.write_text(CONFIG_FILE)
    path.chmod(0o640)
    return path


@pytest.mark.smoke
def test_rewrite_keeps_what_people_wrote_and_a_restart_gives_the_same(start, file, cores):
    server = start(cores, "--config", str(file))
    assert server.ask("CONFIG REWRITE") == "OK" and file.read_text() == CONFIG_FILE, "nothing differs yet"
    changes = {name: after for name, (_, after) in TAKEN.items() if name != "slowlog-max-len"}
    assert server.ask(["CONFIG", "SET", *(word for pair in changes.items() for word in pair)]) == "OK"
    assert server.ask("CONFIG REWRITE") == "OK"
    text = file.read_text()
    for line in ["# Kept by people.", "maxmemory = 1073741824  # enough for us", "port = 1", "slowlog-max-len = 77"]:
        assert line in text.splitlines(), text
    assert stat.S_IMODE(file.stat().st_mode) == 0o640 and os.listdir(file.parent) == [file.name]
    with server.connect() as wire:
        before = shown(wire)
        assert info(wire, "server")["config_file"] == str(file.resolve())
    server.stop()
    with start(cores, "--config", str(file)).connect() as wire:
        again = shown(wire)
    assert again | {"port": before["port"]} == before
    assert again["slowlog-max-len"] == "77" and changes.items() <= again.items()


def test_rewrite_without_a_file_says_so(wire):
    assert wire("CONFIG REWRITE") == "ERR The server is running without a config file"


def test_a_file_that_is_gone_or_broken_is_an_error_that_names_it(start, file):
    server = start(1, "--config", str(file))
    assert server.ask("CONFIG SET timeout 60") == "OK"
    file.write_text("requirepass = 's3cret'\n= broken\n")
    reply = server.ask("CONFIG REWRITE")
    assert reply.code == "ERR" and str(file.resolve()) in reply and "s3cret" not in reply
    assert file.read_text().endswith("= broken\n")
    file.unlink()
    assert server.ask("CONFIG REWRITE").code == "ERR"
    assert os.listdir(file.parent) == []


def test_changes_by_operators_are_logged_without_passwords(start, cores):
    server = start(cores)
    with server.connect() as wire, server.connect() as other:
        wire("CLIENT SETNAME night-shift")
        victim = "%s:%d" % other.socket.getsockname()
        done = ["FLUSHALL", "CONFIG SET timeout 7", f"CLIENT KILL {victim}", "CLIENT PAUSE 1 WRITE", "CLIENT UNPAUSE"]
        assert wire.pipeline(done) == ["OK"] * len(done)
        refused = ["FLUSHALL NOW", "CONFIG SET timeout x", "CONFIG SET requirepass s3cret", "CLIENT KILL 1.2.3.4:5"]
        assert all(isinstance(wire(command), Error) for command in refused)
        assert "4 MiB" not in server.log()
        assert wire("CONFIG SET maxmemory 1mb") == "OK"
    for command in [*done, "CONFIG SET maxmemory 1mb"]:
        assert eventually(lambda: f"ran {command}" in server.log())
    assert eventually(lambda: "maxmemory is below 4 MiB a core" in server.log())
    log = server.log()
    assert "night-shift" in log and "ran FLUSHALL NOW" not in log and "timeout x" not in log and "s3cret" not in log
