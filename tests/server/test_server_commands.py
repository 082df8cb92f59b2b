"""ACL, ROLE, OBJECT, MEMORY, INFO's figures, and the commands of what this version does not have."""

import pytest

from reply import Error, Status
from server.slots import keys_over_cores
from server.wire import eventually, flat_map

NO_CLUSTER = "ERR This instance has cluster support disabled"
LATER = {
    "READONLY": NO_CLUSTER,
    "READWRITE": NO_CLUSTER,
    "ASKING": NO_CLUSTER,
    "CLUSTER NODES": NO_CLUSTER,
    "CLUSTER SLOTS": NO_CLUSTER,
    "cluster meet 127.0.0.1 7000": NO_CLUSTER,
    "ACL SETUSER me on": "ERR ACL SETUSER is not there yet: the only user is 'default', with --requirepass",
    "ACL LOG": "ERR ACL LOG is not there yet: the only user is 'default', with --requirepass",
}
# Redis's own first hits, each to be found by the place where the name first stands.
FIRST_HITS = [
    "cluster_enabled:",
    "used_memory:",
    "connected_clients:",
    "blocked_clients:",
    "total_commands_processed:",
    "total_connections_received:",
    "bgsave_in_progress:",
    "aof_rewrite_in_progress:",
    "loading:",
]
SECTIONS = "Server Clients Memory Persistence Stats Replication CPU Modules Errorstats Cluster Keyspace Ratelimit"


@pytest.mark.smoke
@pytest.mark.parametrize("command", LATER)
def test_what_comes_later_says_so(wire, command):
    assert wire(command) == LATER[command]
    assert isinstance(wire(command), Error)


def test_role(wire):
    assert wire("ROLE") == [b"master", 0, []]


def test_the_default_user(wire, protocol):
    assert wire("ACL WHOAMI") == b"default" and wire("ACL USERS") == [b"default"]
    assert wire("ACL LIST") == [b"user default on nopass ~* &* +@all"]
    user = flat_map(wire("ACL GETUSER default"))
    assert list(user) == [b"flags", b"passwords", b"commands", b"keys", b"channels", b"selectors"]
    assert user[b"flags"] == ([b"on", b"nopass"] if protocol == 2 else {b"on", b"nopass"})
    assert user[b"passwords"] == [] and user[b"commands"] == b"+@all"
    assert wire("ACL GETUSER nobody") is None


def test_a_password_is_never_shown(start):
    server = start(1, "--requirepass", "s3cret")
    with server.connect() as wire:
        wire("AUTH s3cret")
        shown = repr([wire("ACL LIST"), wire("ACL GETUSER default"), wire("CONFIG GET *")])
    assert "nopass" not in shown and "s3cret" not in shown and "(hidden)" in shown


def test_categories_are_those_of_the_table(wire):
    categories = wire("ACL CAT")
    assert {b"admin", b"dangerous", b"fast", b"keyspace", b"ratelimit", b"read", b"slow", b"write"} <= set(categories)
    for category in categories:
        assert wire([b"ACL", b"CAT", category.upper()]), category
    assert b"rl.slide" in wire("ACL CAT ratelimit") and b"config|set" in wire("ACL CAT admin")
    assert wire("ACL CAT nope") == "ERR Unknown category 'nope'"


@pytest.mark.parametrize("bits", [1, 4, 5, 255, 256, 4096])
def test_generated_passwords(wire, bits):
    made = {wire(f"ACL GENPASS {bits}") for _ in range(8)}
    assert {len(word) for word in made} == {-(-bits // 4)}
    assert bits < 64 or len(made) == 8
    assert all(word.strip(b"0123456789abcdef") == b"" for word in made)


def test_generated_passwords_have_bounds(wire):
    assert len(wire("ACL GENPASS")) == 64
    for bits in (0, -1, 4097):
        assert "positive number up to 4096" in wire(f"ACL GENPASS {bits}")
    assert wire("ACL GENPASS x") == "ERR value is not an integer or out of range"


def test_object(wire, cores):
    for key in keys_over_cores("object", 2 * cores, cores):
        wire(f"RL.TOKEN {key} 5 1")
        assert wire(f"OBJECT ENCODING {key}") == b"record" and wire(f"OBJECT REFCOUNT {key}") == 1
        assert wire(f"OBJECT FREQ {key}").startswith("ERR An LFU maxmemory policy is not selected")
        assert wire(f"OBJECT IDLETIME {key}").code == "ERR"
    for word in ("ENCODING", "REFCOUNT", "FREQ", "IDLETIME"):
        assert wire(f"OBJECT {word} none") is None


def test_memory_stats(wire, cores, protocol):
    for key in keys_over_cores("memory", 10 * cores, cores):
        wire(f"RL.SLIDE {key} 5 1h")
    stats = flat_map(wire("MEMORY STATS"))
    assert stats[b"keys.count"] == 10 * cores
    assert stats[b"total.allocated"] == stats[b"overhead.total"] + stats[b"dataset.bytes"]
    assert stats[b"peak.allocated"] >= stats[b"total.allocated"] > 0
    for name in (b"dataset.percentage", b"peak.percentage", b"fragmentation"):
        assert isinstance(stats[name], bytes if protocol == 2 else float) and float(stats[name]) >= 0
    assert flat_map(stats[b"db.0"])[b"overhead.hashtable.main"] > 0
    assert f"{10 * cores} keys hold".encode() in wire("MEMORY DOCTOR")
    assert wire("MEMORY PURGE") == "OK" and b"not supported" in wire("MEMORY MALLOC-STATS")


def test_info_has_rediss_sections_in_order(wire):
    wire("RL.SLIDE k 5 1h")
    text = wire("INFO").decode()
    assert " ".join(line[2:] for line in text.split("\r\n") if line.startswith("# ")) == SECTIONS
    for name in FIRST_HITS:
        assert text.split(name, 1)[1].split("\r", 1)[0].isdigit(), name
    assert text.split("db0:", 1)[1].split("\r", 1)[0] == "keys=1,expires=1,avg_ttl=0"
    names = [line.split(":")[0] for line in text.split("\r\n") if ":" in line]
    assert len(names) == len(set(names)), "each name stands once"


def test_errors_are_counted_by_code_and_command(wire, cores):
    assert wire("CONFIG RESETSTAT") == "OK"
    key, *others = keys_over_cores("errors", 2 * cores, cores)
    wire(f"RL.SLIDE {key} 5 1h")
    for _ in range(3):
        wire(f"RL.TOKEN {key} 5 1")
    wire(f"RL.SLIDE {key} five 1h")
    wire("NO.SUCH command")
    wire("SLOWLOG GET x")
    wire(["RL.ALL", *(word for other in others for word in (other, "SLIDE", "x", "1", "1"))])
    text = wire("INFO errorstats commandstats").decode()
    assert "errorstat_WRONGTYPE:count=3\r\n" in text and "errorstat_ERR:count=4\r\n" in text
    token = text.split("cmdstat_rl.token:")[1].split("\r")[0]
    assert token.startswith("calls=3,usec=") and token.endswith("rejected_calls=0,failed_calls=3")
    assert "cmdstat_slowlog|get:" in text
    assert b"total_error_replies:7\r\n" in wire("INFO stats")


def test_commands_that_are_not_fast_have_their_time(wire):
    wire("CONFIG RESETSTAT")
    for _ in range(50):
        wire("COMMAND DOCS")
    line = wire("INFO commandstats").decode().split("cmdstat_command|docs:")[1].split("\r")[0]
    stats = dict(part.split("=") for part in line.split(","))
    assert stats["calls"] == "50" and int(stats["usec"]) > 0
    assert abs(float(stats["usec_per_call"]) - int(stats["usec"]) / 50) < 0.01


def test_the_rate_is_that_of_the_last_moments(wire):
    def rate() -> int:
        wire.pipeline(["PING"] * 2000)
        text = wire("INFO stats").decode()
        return int(text.split("instantaneous_ops_per_sec:")[1].split("\r")[0])

    assert eventually(lambda: rate() > 1000)
    text = wire("INFO stats").decode()
    assert float(text.split("instantaneous_input_kbps:")[1].split("\r")[0]) > 0

    def quiet() -> bool:
        text = wire("INFO stats").decode()
        return int(text.split("instantaneous_ops_per_sec:")[1].split("\r")[0]) < 1000

    assert eventually(quiet)


@pytest.mark.parametrize("command", ["READONLY", "SLOWLOG|GET", "CONFIG|SET", "OBJECT|ENCODING", "ROLE"])
def test_rows(wire, command):
    (row,) = wire(f"COMMAND INFO {command}")
    assert row[0].decode() == command.lower() and all(isinstance(flag, Status) for flag in row[2])
