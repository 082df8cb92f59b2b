"""RENAME, COPY, MSET, MGET: whole keys, limits with their use or values, over all cores."""

import threading

import pytest

from reply import Error
from server.slots import keys_over_cores

WRONGTYPE = Error("WRONGTYPE Operation against a key holding the wrong kind of value")
LIMITS = {
    "rl.slide": "RL.SLIDE {key} 5 1h",
    "rl.fixed": "RL.FIXED {key} 5 1h",
    "rl.log": "RL.LOG {key} 5 1h",
    "rl.token": "RL.TOKEN {key} 5 5/1h",
    "rl.leak": "RL.LEAK {key} 5 5/1h",
}


def pairs(cores):
    """Two keys of one core, and two of different cores."""
    names = keys_over_cores("move", 2 * cores, cores)
    return [(names[0], names[cores]), (names[0], names[1])]


@pytest.mark.parametrize("kind", LIMITS)
def test_a_limit_keeps_its_use(wire, cores, kind):
    for source, target in pairs(cores):
        wire("FLUSHALL")
        wire(LIMITS[kind].format(key=source))
        wire(f"MSET {target} overwritten")
        stored, lasts = wire(f"RL.GET {source}"), wire(f"PTTL {source}")
        assert wire(f"COPY {source} {target}") == 0
        assert wire(f"MGET {target}") == [b"overwritten"]
        assert wire(f"COPY {source} {target} REPLACE") == 1
        assert wire(f"DEL {target}") == 1
        assert wire(f"RENAME {source} {target}") == "OK"
        assert (wire(f"EXISTS {source}"), wire(f"TYPE {target}"), wire(f"PTTL {target}")) == (0, kind, lasts)
        assert stored == wire(f"RL.GET {target}")
        assert wire(LIMITS[kind].format(key=target))[:3] == [1, 5, 3]
        assert wire("DBSIZE") == 1


@pytest.mark.parametrize("value", [b"", b"0", b"-17", b"007", b"1.5", b"\x00\xff\r\n", b"9223372036854775808", b"x" * 65_536])
def test_values_of_any_bytes(wire, cores, value):
    for source, target in pairs(cores):
        wire("FLUSHALL")
        assert wire(["MSET", source, value, target, b"other"]) == "OK"
        assert wire(["MGET", target, source, "none", source]) == [b"other", value, None, value]
        assert wire(f"RENAME {source} {target}") == "OK"
        assert wire(f"COPY {target} {source}") == 1
        assert wire(["MGET", source, target]) == [value, value]


@pytest.mark.parametrize(
    ("command", "reply"),
    [
        ("RENAME none a", Error("ERR no such key")),
        ("RENAME none none", Error("ERR no such key")),
        ("RENAME a a", "OK"),
        ("COPY a a", Error("ERR source and destination objects are the same")),
        ("COPY none b", 0),
        ("COPY a b DB 0", 1),
        ("COPY a b DB 1", Error("ERR DB index is out of range")),
        ("COPY a b DB x", Error("ERR value is not an integer or out of range")),
        ("COPY a b DB", Error("ERR syntax error")),
        ("COPY a b REPLACED", Error("ERR syntax error")),
        ("COPY a b REPLACE REPLACE DB 0", 1),
        ("MSET a", Error("ERR wrong number of arguments for 'mset' command")),
        ("MSET a 1 b", Error("ERR wrong number of arguments for 'mset' command")),
        ("MSET a 1 a 2", "OK"),
        ("MGET", Error("ERR wrong number of arguments for 'mget' command")),
    ],
)
def test_to_the_letter(wire, command, reply):
    wire("MSET a 1")
    assert wire(command) == reply


def test_mset_writes_nothing_over_a_limit(wire, cores):
    keys = keys_over_cores("set", 2 * cores, cores)
    wire(LIMITS["rl.slide"].format(key=keys[-1]))
    words = [word for key in keys for word in (key, "1")]
    assert wire(["MSET", *words]) == WRONGTYPE
    assert wire(["MGET", *keys]) == [None] * len(keys)
    assert wire(LIMITS["rl.slide"].format(key=keys[-1]))[:3] == [1, 5, 3]


def test_a_refusal_for_memory_changes_nothing(start):
    server = start(2, "--maxmemory", "8mb")
    with server.connect() as wire:
        value = "v" * 60_000
        numbers = iter(range(10_000))
        while wire(f"MSET big:{next(numbers)} {value}") == "OK":
            pass
        count = wire("DBSIZE")
        one, two = keys_over_cores("new", 2, 2)
        refused = Error("OOM command not allowed when used memory > 'maxmemory'.")
        words = [word for number in range(40) for word in (f"more:{number}", value)][:16]
        assert wire(["MSET", *words, one, "1", two, "1"]) == refused
        assert wire(f"COPY big:0 {one}") in (refused, 1)
        # What is renamed takes no more than it did.
        assert wire(f"RENAME big:0 {two}") == "OK"
        assert count <= wire("DBSIZE") <= count + 1


def test_renamed_to_and_fro_a_key_is_never_twice(server, cores):
    """Two clients rename one key against each other: it is always at one place, whole."""
    server.ask("FLUSHALL")
    names = keys_over_cores("ball", 2, cores)
    server.ask(LIMITS["rl.log"].format(key=names[0]))

    def play(source, target):
        with server.connect() as wire:
            for _ in range(400):
                assert wire(f"RENAME {source} {target}") in ("OK", Error("ERR no such key"))

    threads = [threading.Thread(target=play, args=pair) for pair in (names, names[::-1])]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with server.connect() as wire:
        assert wire("DBSIZE") == 1
        [there] = [name for name in names if wire(f"EXISTS {name}")]
        assert wire(LIMITS["rl.log"].format(key=there))[:3] == [1, 5, 3]
