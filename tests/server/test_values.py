"""Plain values, each case a list of commands and what Redis answers to them."""

import random

import pytest

from reply import OK, Error
from server.slots import keys_over_cores

SYNTAX = Error("ERR syntax error")
NOT_INTEGER = Error("ERR value is not an integer or out of range")
NOT_FLOAT = Error("ERR value is not a valid float")
OVERFLOW = Error("ERR increment or decrement would overflow")
NAN = Error("ERR increment would produce NaN or Infinity")
TOO_LONG = Error("ERR string exceeds maximum allowed size (proto-max-bulk-len)")
MAX, MIN = 2**63 - 1, -(2**63)
VALUE_BYTES_MAX = 64 * 1024

CASES = {
    "set_and_get": [
        ("GET k", None),
        ("SET k hello", OK),
        ("GET k", b"hello"),
        ("SET k 10", OK),
        ("GET k", b"10"),
        ("STRLEN k", 2),
        ("TYPE k", "string"),
        ("TTL k", -1),
        (["SET", "k", ""], OK),
        ("GET k", b""),
        ("STRLEN k", 0),
        ("EXISTS k", 1),
        ("STRLEN none", 0),
    ],
    "any_bytes": [
        ([b"SET", b"k", bytes(range(256))], OK),
        ("GET k", bytes(range(256))),
        ([b"SET", b"k", b"\r\n$-1\r\n"], OK),
        ("GET k", b"\r\n$-1\r\n"),
        # Numbers in another spelling than Redis's own come back as they were.
        *[step for text in ("007", "-0", "+1", " 1", "1.0", "1e3", str(MAX + 1)) for step in
          ((["SET", "k", text], OK), ("GET k", text.encode()), ("STRLEN k", len(text)), ("INCR k", NOT_INTEGER))],
    ],
    "set_conditions": [
        ("SET k a XX", None),
        ("SET k a NX", OK),
        ("SET k b NX", None),
        ("SET k b XX", OK),
        ("GET k", b"b"),
        ("SET k c GET", b"b"),
        ("SET none c GET", None),
        ("GET none", b"c"),
        ("SET k d NX GET", b"c"),
        ("GET k", b"c"),
        ("SET fresh d NX GET", None),
        ("GET fresh", b"d"),
        ("SET absent d XX GET", None),
        ("EXISTS absent", 0),
        ("SETNX k e", 0),
        ("SETNX other e", 1),
        ("GETSET k f", b"c"),
        ("GETSET none2 f", None),
        ("GETDEL k", b"f"),
        ("GETDEL k", None),
        ("GET k", None),
    ],
    "set_lifetimes": [
        ("SET k v EX 100", OK),
        ("PTTL k", 100_000),
        ("SET k w KEEPTTL", OK),
        ("PTTL k", 100_000),
        ("SET k w", OK),
        ("PTTL k", -1),
        ("SET k v px 1500", OK),
        ("PTTL k", 1500),
        ("RL.CLOCK ADVANCE 1499ms", OK),
        ("GET k", b"v"),
        ("RL.CLOCK ADVANCE 1ms", OK),
        ("GET k", None),
        ("SET none v KEEPTTL", OK),
        ("TTL none", -1),
        ("SETEX k 7 v", OK),
        ("PTTL k", 7000),
        ("PSETEX k 7 v", OK),
        ("PTTL k", 7),
        ("GETSET k w", b"v"),
        ("PTTL k", -1),
        ("SET k v EX 100", OK),
        ("SETNX k w", 0),
        ("SET k w NX EX 5", None),
        ("PTTL k", 100_000),
        ("INCR n", 1),
        ("EXPIRE n 100", 1),
        ("INCR n", 2),
        ("INCRBYFLOAT n 0.5", b"2.5"),
        ("APPEND n 1", 4),
        ("PTTL n", 100_000),
        # A time that has passed takes the key away.
        ("SET k v EXAT 1", OK),
        ("EXISTS k", 0),
        ("SET n v PXAT 1 GET", b"2.51"),
        ("EXISTS n", 0),
    ],
    "set_refused": [
        ("SET k old EX 100", OK),
        *[(f"SET k v {options}", SYNTAX) for options in (
            "NX XX", "XX NX", "EX", "PX", "EX 1 PX 1", "EX 1 EXAT 1", "KEEPTTL EX 1", "EX 1 KEEPTTL", "PERSIST", "NOPE",
            "NX nope", "EX 1 nope")],
        *[(f"SET k v {unit} {time}", Error("ERR invalid expire time in 'set' command"))
          for unit in ("EX", "PX", "EXAT", "PXAT") for time in (0, -1, MIN)],
        *[(["SET", "k", "v", unit, time], NOT_INTEGER)
          for unit in ("EX", "PX", "EXAT", "PXAT") for time in ("a", "1.5", "", "1 ", "01", MAX + 1)],
        (f"SET k v EX {MAX // 1000 + 1}", Error("ERR invalid expire time in 'set' command")),
        (f"SET k v PX {MAX}", Error("ERR invalid expire time in 'set' command")),
        ("SETEX k 0 v", Error("ERR invalid expire time in 'setex' command")),
        ("PSETEX k -1 v", Error("ERR invalid expire time in 'psetex' command")),
        ("SETEX k x v", NOT_INTEGER),
        ("GET k", b"old"),
        ("PTTL k", 100_000),
        ("SET k v EX 1 EX 2", OK),
        ("PTTL k", 2000),
        ("SET k", Error("ERR wrong number of arguments for 'set' command")),
        ("SETEX k 1", Error("ERR wrong number of arguments for 'setex' command")),
        ("GET", Error("ERR wrong number of arguments for 'get' command")),
    ],
    "append": [
        ("APPEND k 12", 2),
        ("INCR k", 13),
        ("APPEND k 4", 3),
        ("INCR k", 135),
        ("APPEND k .5", 5),
        ("GET k", b"135.5"),
        (["APPEND", "k", ""], 5),
        (["APPEND", "empty", ""], 0),
        ("EXISTS empty", 1),
        (["SET", "long", "x" * (VALUE_BYTES_MAX - 1)], OK),
        ("APPEND long y", VALUE_BYTES_MAX),
        ("APPEND long y", TOO_LONG),
        (["APPEND", "long", ""], VALUE_BYTES_MAX),
        ("STRLEN long", VALUE_BYTES_MAX),
    ],
    "count": [
        ("INCR k", 1),
        ("INCR k", 2),
        ("DECR k", 1),
        ("INCRBY k 41", 42),
        ("DECRBY k 50", -8),
        ("INCRBY k -2", -10),
        ("DECRBY k -3", -7),
        ("GET k", b"-7"),
        ("DECR new", -1),
        ("INCRBY new2 5", 5),
        ("DECRBY new3 5", -5),
        (f"SET k {MAX - 1}", OK),
        ("INCR k", MAX),
        ("INCR k", OVERFLOW),
        ("GET k", str(MAX).encode()),
        (f"INCRBY k {MIN}", -1),
        (f"SET k {MIN}", OK),
        ("DECR k", OVERFLOW),
        (f"DECRBY k {MAX}", OVERFLOW),
        (f"DECRBY k {MIN}", Error("ERR decrement would overflow")),
        *[(["INCRBY", "k", text], NOT_INTEGER) for text in ("a", "1.5", "", "+1", "01", "1 ", " 1", str(MAX + 1))],
        ("SET k text", OK),
        ("INCR k", NOT_INTEGER),
        ("DECRBY k 1", NOT_INTEGER),
        ("GET k", b"text"),
        ("EXISTS none", 0),
        ("INCRBY none x", NOT_INTEGER),
        ("EXISTS none", 0),
    ],
    "count_fractions": [
        ("INCRBYFLOAT k 0.1", b"0.1"),
        ("INCRBYFLOAT k 0.2", b"0.3"),
        ("INCRBYFLOAT k -0.3", b"0"),
        ("INCRBYFLOAT k 3", b"3"),
        ("INCR k", 4),
        ("INCRBYFLOAT k 1e3", b"1004"),
        ("INCRBYFLOAT k 0x10", b"1020"),
        ("SET k 3.0e3", OK),
        ("INCRBYFLOAT k 200", b"3200"),
        ("SET k 10.50", OK),
        ("INCRBYFLOAT k 0.1", b"10.6"),
        (f"SET k {MAX}", OK),
        ("INCRBYFLOAT k 1", b"9223372036854775808"),
        ("INCR k", NOT_INTEGER),
        *[(["INCRBYFLOAT", "k", text], NOT_FLOAT) for text in ("a", "", "1 ", " 1", "1e", "nan", "1e99999", "1,5")],
        ("INCRBYFLOAT k inf", NAN),
        ("INCRBYFLOAT k -INFINITY", NAN),
        ("GET k", b"9223372036854775808"),
        ("SET k text", OK),
        ("INCRBYFLOAT k 1", NOT_FLOAT),
        ("SET k 1e4932", OK),
        ("INCRBYFLOAT k 1e4932", NAN),
        ("GET k", b"1e4932"),
    ],
    "getex": [
        ("GETEX k", None),
        ("GETEX k EX nope", None),
        ("SET k v", OK),
        ("GETEX k", b"v"),
        ("PTTL k", -1),
        ("GETEX k EX 10", b"v"),
        ("PTTL k", 10_000),
        ("GETEX k", b"v"),
        ("PTTL k", 10_000),
        ("GETEX k px 20", b"v"),
        ("PTTL k", 20),
        ("GETEX k PERSIST", b"v"),
        ("PTTL k", -1),
        ("GETEX k EX 0", Error("ERR invalid expire time in 'getex' command")),
        ("GETEX k EX x", NOT_INTEGER),
        *[(f"GETEX k {options}", SYNTAX)
          for options in ("EX", "EX 1 PX 1", "PERSIST EX 1", "EX 1 PERSIST", "KEEPTTL", "NX", "nope")],
        ("PTTL k", -1),
        ("GETEX k EXAT 1", b"v"),
        ("EXISTS k", 0),
    ],
    "keys": [
        ("SET a 1", OK),
        ("SET b text", OK),
        ("RL.TOKEN c 5 1", [1, 5, 4, 0, 1000]),
        ("TOUCH a b c none a", 4),
        ("EXISTS a b c none a", 4),
        ("SCAN 0 COUNT 100 TYPE rl.token", [b"0", [b"c"]]),
        ("SCAN 0 COUNT 100 TYPE STRING MATCH a", [b"0", [b"a"]]),
        ("SCAN 0 COUNT 100 TYPE hash", [b"0", []]),
        ("DEL a c", 2),
        ("RANDOMKEY", b"b"),
        ("UNLINK b", 1),
        ("RANDOMKEY", None),
    ],
}


@pytest.mark.smoke
@pytest.mark.parametrize("case", CASES)
def test_case(wire, case):
    for command, expected in CASES[case]:
        reply = wire(command)
        assert reply == expected, command
        assert isinstance(reply, Error) == isinstance(expected, Error), command


def test_a_value_is_as_long_as_the_longest_argument_and_no_longer(start):
    """The bound is the operator's; what cannot come in one argument can still be put together."""
    bytes_max = 128 * 1024
    with start(1, "--proto-max-bulk-len", "128kb").connect() as wire:
        assert wire(["SET", "k", "x" * bytes_max]) == "OK"
        assert wire("APPEND k y") == TOO_LONG
        assert wire("STRLEN k") == bytes_max


def test_keys_of_all_cores_are_drawn(wire, cores):
    keys = keys_over_cores("draw", 8 * cores, cores)
    wire.pipeline([["SET", key, "v"] for key in keys])
    drawn = {key.decode() for key in wire.pipeline(["RANDOMKEY"] * 1000)}
    assert drawn == set(keys)


def test_random_counting_is_exact(wire, cores):
    """Counters on all cores, counted by commands of all kinds in deep pipelines."""
    rng = random.Random(cores)
    counts = dict.fromkeys(keys_over_cores("count", 20, cores), 0)
    lines, expected = [], []
    for _ in range(2_000):
        key, amount = rng.choice(list(counts)), rng.randint(-(10**12), 10**12)
        name, change = rng.choice(
            [("INCR", 1), ("DECR", -1), (f"INCRBY {key} {amount}", amount), (f"DECRBY {key} {amount}", -amount)])
        counts[key] += change
        lines.append(name if " " in name else f"{name} {key}")
        expected.append(counts[key])
    assert wire.pipeline(lines) == expected
