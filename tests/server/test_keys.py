"""The commands on keys of any kind, over all cores: what is there is found, what has expired is not."""

import random

import pytest

from server.slots import core_of, keys_over_cores, slot_of

MAKERS = {
    "rl.slide": "RL.SLIDE {key} 5 {seconds}",
    "rl.fixed": "RL.FIXED {key} 5 {seconds}",
    "rl.log": "RL.LOG {key} 5 {seconds}",
    "rl.token": "RL.TOKEN {key} 5 5/{seconds}",
    "rl.leak": "RL.LEAK {key} 5 5/{seconds}",
}


def fill(wire, prefix: str, count: int, cores: int) -> list[str]:
    keys = keys_over_cores(prefix, count, cores)
    wire.pipeline([f"RL.SLIDE {key} 5 1h" for key in keys])
    return keys


def scan(wire, *options: str) -> list[bytes]:
    found, cursor = [], b"0"
    while True:
        cursor, keys = wire(["SCAN", cursor, *options])
        assert int(cursor) < 2**63
        found += keys
        if cursor == b"0":
            return found


@pytest.mark.smoke
def test_scan_finds_every_key(wire, cores):
    keys = fill(wire, "scan", 500, cores)
    assert {key.decode() for key in scan(wire)} == set(keys)
    assert {key.decode() for key in scan(wire, "COUNT", "1000")} == set(keys)
    assert {key.decode() for key in scan(wire, "COUNT", "3")} == set(keys)


def test_scan_options(wire, cores):
    fill(wire, "scan", 100, cores)
    wire("RL.TOKEN bucket:1 5 1/1h")
    assert scan(wire, "MATCH", "bucket:?") == [b"bucket:1"]
    assert scan(wire, "TYPE", "rl.token") == [b"bucket:1"]
    assert scan(wire, "type", "RL.TOKEN", "match", "scan:*") == []
    assert len(scan(wire, "MATCH", "scan:[0-9]*")) == 100
    assert scan(wire, "TYPE", "string") == []


def test_scan_returns_what_is_there_throughout_while_others_come_and_go(wire, cores):
    """Keys come, expire and are deleted between the steps; those that stay are all returned."""
    rng = random.Random(cores)
    staying = fill(wire, "stay", 2000, cores)
    found: set[str] = set()
    cursor, step = b"0", 0
    while True:
        cursor, keys = wire(["SCAN", cursor, "COUNT", "50"])
        found |= {key.decode() for key in keys}
        if cursor == b"0":
            break
        step += 1
        wire.pipeline([f"RL.FIXED new:{step}:{number} 5 50ms" for number in range(rng.randint(0, 200))])
        wire.pipeline([f"RL.SLIDE long:{step}:{number} 5 1h" for number in range(20)])
        wire.pipeline([f"DEL long:{step - 2}:{number}" for number in range(20)])
        wire("RL.CLOCK ADVANCE 20ms")
    assert set(staying) <= found


def test_scan_and_keys_never_show_the_expired(wire, cores):
    keys = fill(wire, "stay", 50, cores)
    wire.pipeline([f"RL.FIXED gone:{number} 5 1" for number in range(500)])
    wire("RL.CLOCK ADVANCE 1s")
    assert sorted(scan(wire)) == sorted(key.encode() for key in keys)
    assert sorted(wire("KEYS *")) == sorted(key.encode() for key in keys)
    assert wire("KEYS gone:*") == []


PATTERNS = {
    "*": {"alpha", "alp", "beta", "b*ta", "b[t]a"},
    "al*": {"alpha", "alp"},
    "al?": {"alp"},
    "b?ta": {"beta", "b*ta"},
    "b\\*ta": {"b*ta"},
    "b[ef]ta": {"beta"},
    "b[^e]ta": {"b*ta"},
    "b[a-f]ta": {"beta"},
    "b\\[t\\]a": {"b[t]a"},
    "*a*a": {"alpha"},
    "none": set(),
}


@pytest.mark.parametrize("pattern", PATTERNS)
def test_patterns(wire, pattern):
    wire.pipeline([f"RL.SLIDE {key} 5 1h" for key in PATTERNS["*"]])
    assert {key.decode() for key in wire(["KEYS", pattern])} == PATTERNS[pattern]
    assert {key.decode() for key in scan(wire, "MATCH", pattern)} == PATTERNS[pattern]


def test_a_hostile_pattern_is_linear(wire):
    wire(["RL.SLIDE", "a" * 1000, "5", "1h"])
    assert wire(["KEYS", "a*" * 400 + "b"]) == []


@pytest.mark.parametrize("kind", MAKERS)
def test_life_of_a_key(wire, kind):
    now = wire("RL.CLOCK")
    wire(f"RL.CLOCK SET {now - now % 10**8 + 10**8}us")
    wire(MAKERS[kind].format(key="k", seconds=100))
    life_ms = wire("PTTL k")
    assert wire("TYPE k") == kind and wire("EXISTS k k") == 2
    assert wire("TTL k") == (life_ms + 500) // 1000
    wire(f"RL.CLOCK ADVANCE {life_ms - 1}ms")
    assert wire("EXISTS k") == 1 and wire("PTTL k") == 1 and wire("KEYS *") == [b"k"]
    wire("RL.CLOCK ADVANCE 1ms")
    assert [wire(f"{name} k") for name in ("EXISTS", "PTTL", "TTL", "DEL", "TYPE")] == [0, -2, -2, 0, "none"]


def test_many_keys_of_all_cores_at_once(wire, cores):
    keys = fill(wire, "many", 300, cores)
    assert {core_of(key, cores) for key in keys} == set(range(cores))
    assert wire(["EXISTS", *keys, *keys[:10], "nothing"]) == 310
    assert wire(["DEL", *keys[:100], "nothing"]) == 100
    assert wire(["UNLINK", *keys]) == 200
    assert wire("DBSIZE") == 0


def test_a_key_given_twice_is_deleted_once(wire):
    wire("RL.SLIDE k 5 1h")
    assert wire("DEL k k") == 1


@pytest.mark.parametrize("command", ["FLUSHALL", "FLUSHDB", "flushall async", "FLUSHDB SYNC"])
def test_flush_takes_every_core(wire, cores, command):
    fill(wire, "flush", 200, cores)
    assert wire("DBSIZE") == 200
    assert wire(command) == "OK"
    assert wire("DBSIZE") == 0 and wire("KEYS *") == []


@pytest.mark.parametrize("key", ["a", "foo", "{foo}bar", "a{}b", "{}", "a{b}{c}", "{{x}}", "no{end", "end}start{", "é"])
def test_keyslot(wire, key):
    assert wire(["CLUSTER", "KEYSLOT", key]) == slot_of(key)


def test_keys_are_any_bytes(wire):
    for key in (b"", b"\x00", b"\r\n", bytes(range(256)), b"sp ace", "ключ".encode()):
        assert wire([b"RL.SLIDE", key, b"5", b"1h"])[:3] == [1, 5, 4], key
        assert wire([b"EXISTS", key]) == 1
    assert len(wire("KEYS *")) == 6
