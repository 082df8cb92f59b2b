"""When plain keys expire, each case a list of commands and what Redis answers to them."""

import time

import pytest

from reply import OK, Error

NOT_INTEGER = Error("ERR value is not an integer or out of range")
NX_WITH_OTHERS = Error("ERR NX and XX, GT or LT options at the same time are not compatible")
GT_WITH_LT = Error("ERR GT and LT options at the same time are not compatible")
MAX, MIN = 2**63 - 1, -(2**63)
# Where the clock is set at the start of each case, in seconds: far from where other modules' tests leave it.
NOW = 2_000_000_000


def invalid(command: str) -> Error:
    return Error(f"ERR invalid expire time in '{command}' command")


CASES = {
    "expire": [
        ("EXPIRE none 10", 0),
        ("SET k v", OK),
        ("EXPIRE k 10", 1),
        ("TTL k", 10),
        ("PTTL k", 10_000),
        ("PEXPIRE k 1500", 1),
        ("PTTL k", 1500),
        ("TTL k", 2),
        ("PEXPIRE k 1499", 1),
        ("TTL k", 1),
        ("RL.CLOCK ADVANCE 1498999us", OK),
        ("PTTL k", 1),
        ("TTL k", 0),
        ("GET k", b"v"),
        ("RL.CLOCK ADVANCE 1us", OK),
        ("GET k", None),
        ("PTTL k", -2),
        ("TTL k", -2),
        ("EXPIRETIME k", -2),
        ("PEXPIRETIME k", -2),
    ],
    "absolute": [
        ("SET k v", OK),
        ("EXPIRETIME k", -1),
        ("PEXPIRETIME k", -1),
        (f"EXPIREAT k {NOW + 100}", 1),
        ("TTL k", 100),
        ("EXPIRETIME k", NOW + 100),
        ("PEXPIRETIME k", (NOW + 100) * 1000),
        (f"PEXPIREAT k {NOW * 1000 + 1500}", 1),
        ("PTTL k", 1500),
        ("EXPIRETIME k", NOW + 2),
        ("PEXPIRETIME k", NOW * 1000 + 1500),
        (f"SET k v EXAT {NOW + 5}", OK),
        ("PTTL k", 5000),
        (f"SET k v PXAT {NOW * 1000 + 5}", OK),
        ("PTTL k", 5),
        ("SET k v EX 7", OK),
        ("EXPIRETIME k", NOW + 7),
    ],
    "the_past_deletes": [
        *[step for line in ("EXPIRE k 0", "EXPIRE k -1", "PEXPIRE k 0", f"EXPIREAT k {NOW}", f"PEXPIREAT k {NOW}000",
                            "EXPIREAT k 1", "EXPIREAT k -1", f"PEXPIREAT k {MIN}", f"PEXPIRE k {-NOW}000",
                            "EXPIRE k 0 NX")
          for step in (("SET k v", OK), (line, 1), ("EXISTS k", 0), (line, 0))],
        ("SET k v EX 10", OK),
        ("EXPIRE k 0 GT", 0),
        ("EXPIRE k 0 NX", 0),
        ("PTTL k", 10_000),
        ("EXPIRE k 0 LT", 1),
        ("EXISTS k", 0),
    ],
    "conditions": [
        ("SET k v", OK),
        ("EXPIRE k 10 XX", 0),
        ("EXPIRE k 10 GT", 0),
        ("PTTL k", -1),
        ("EXPIRE k 10 LT", 1),
        ("EXPIRE k 20 NX", 0),
        ("EXPIRE k 20 XX", 1),
        ("EXPIRE k 20 GT", 0),
        ("EXPIRE k 20 LT", 0),
        ("EXPIRE k 30 gt", 1),
        ("EXPIRE k 20 gt", 0),
        ("EXPIRE k 40 lt", 0),
        ("EXPIRE k 25 XX LT", 1),
        ("EXPIRE k 35 XX GT", 1),
        ("PTTL k", 35_000),
        (f"PEXPIREAT k {NOW * 1000 + 35_000} GT", 0),
        (f"PEXPIREAT k {NOW * 1000 + 35_001} GT", 1),
        ("PERSIST k", 1),
        ("PTTL k", -1),
        ("EXPIRE k 10 NX NX", 1),
        ("EXPIRE none 10 NX", 0),
    ],
    "refused": [
        ("SET k v EX 100", OK),
        *[(f"EXPIRE k 10 {words}", NX_WITH_OTHERS) for words in ("NX XX", "NX GT", "LT NX", "NX XX GT LT")],
        ("EXPIRE k 10 GT LT", GT_WITH_LT),
        ("EXPIRE k 10 XX LT GT", GT_WITH_LT),
        ("EXPIRE k 10 nope", Error("ERR Unsupported option nope")),
        ("EXPIRE k x nope", Error("ERR Unsupported option nope")),
        *[(["EXPIRE", "k", text], NOT_INTEGER) for text in ("x", "1.5", "", "01", "1 ", MAX + 1)],
        (f"EXPIRE k {MAX // 1000 + 1}", invalid("expire")),
        (f"EXPIRE k {MIN // 1000 - 1}", invalid("expire")),
        (f"EXPIRE k {MAX // 1000}", invalid("expire")),
        (f"PEXPIRE k {MAX}", invalid("pexpire")),
        (f"EXPIREAT k {MAX // 1000 + 1}", invalid("expireat")),
        (f"EXPIRE none {MAX}", invalid("expire")),
        ("EXPIRE k", Error("ERR wrong number of arguments for 'expire' command")),
        ("PTTL k", 100_000),
    ],
    "persist": [
        ("PERSIST none", 0),
        ("SET k v", OK),
        ("PERSIST k", 0),
        ("EXPIRE k 10", 1),
        ("PERSIST k", 1),
        ("PERSIST k", 0),
        ("RL.CLOCK ADVANCE 1h", OK),
        ("GET k", b"v"),
    ],
    "the_instant_of_expiry": [
        ("INCR k", 1),
        ("PEXPIRE k 5", 1),
        ("RL.CLOCK ADVANCE 4999us", OK),
        ("INCR k", 2),
        ("PTTL k", 1),
        ("RL.CLOCK ADVANCE 1us", OK),
        ("INCR k", 1),
        ("PTTL k", -1),
    ],
    "limits_say_when": [
        ("RL.TOKEN t 10 1 COST 7", [1, 10, 3, 0, 7000]),
        ("PEXPIRETIME t", (NOW + 7) * 1000),
        ("EXPIRETIME t", NOW + 7),
        ("RL.TOKEN far 1000000000000 1/365d COST 1000000000000", [1, 10**12, 0, 0, 2**53 - 1]),
        ("PEXPIRETIME far", 2**53 - 1),
    ],
}


@pytest.fixture(scope="module")
def clocks(server):
    """The times that cases start at, in order: the clock never runs backwards."""
    return iter(range(NOW, NOW + 10_000_000, 100_000))


def moved(command, seconds: int):
    """The command or the reply with its times moved from `NOW` on."""
    if isinstance(command, str) and not isinstance(command, Error):
        return " ".join(moved_number(word, seconds) for word in command.split(" "))
    if isinstance(command, int) and command != 2**53 - 1:
        return int(moved_number(str(command), seconds))
    return command


def moved_number(word: str, seconds: int) -> str:
    if not word.isdigit():
        return word
    number = int(word)
    if NOW <= number < NOW + 1000:
        return str(number + seconds)
    if NOW * 1000 <= number < (NOW + 1000) * 1000:
        return str(number + seconds * 1000)
    return word


@pytest.mark.smoke
@pytest.mark.parametrize("case", CASES)
def test_case(wire, clocks, case):
    start = next(clocks)
    assert wire(f"RL.CLOCK SET {start}") == OK
    for command, expected in CASES[case]:
        line = moved(command, start - NOW)
        reply = wire(line)
        assert reply == moved(expected, start - NOW), line
        assert isinstance(reply, Error) == isinstance(expected, Error), line


def test_a_counter_is_renewed_each_period(wire):
    """INCR, and EXPIRE where it answers 1: what limiters in many languages do."""
    for _ in range(50):
        for expected in (1, 2, 3):
            assert wire("INCR hits") == expected
            if expected == 1:
                assert wire("EXPIRE hits 1") == 1
            assert wire("RL.CLOCK ADVANCE 300ms") == OK
        assert wire("RL.CLOCK ADVANCE 100ms") == OK


def test_wall_times_are_the_wall_clocks(start):
    """Without a test clock, a Unix time is what the machine's clock says."""
    with start(2, test_clock=False).connect() as wire:
        soon = int(time.time()) + 1000
        for line in (f"SET k v EXAT {soon}", f"EXPIREAT k {soon}", f"PEXPIREAT k {soon}000", f"GETEX k PXAT {soon}000"):
            wire("SET k v")
            assert not isinstance(wire(line), Error)
            assert abs(wire("PEXPIRETIME k") - soon * 1000) <= 1, line
            assert 990_000 < wire("PTTL k") <= 1_000_000, line
        assert wire(f"EXPIREAT k {soon - 2000}") == 1
        assert wire("EXISTS k") == 0
