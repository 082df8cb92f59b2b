"""Limits that went wrong elsewhere, as data: each case by its id is a list of steps on fresh keys.

A step is a command and what it must answer: a value, `Refused(code, word)` for an error that names `word`, or
`Within(low, high)` for an integer. `Clock` moves the time, `Repeat` runs steps several times.

Parts that join with the commands they need: `half_done_update` keeps what one running server shows; kill, restart,
promotion and slot moves join with snapshots, replication and the cluster, and `replica_clock` joins with replication.
`high_rate` and `window_phrase` count over many calls: see test_cases.py.
"""

from dataclasses import dataclass

from reply import PONG


@dataclass(frozen=True)
class Refused:
    """An error with this code whose text names this word."""

    code: str
    word: str = ""


@dataclass(frozen=True)
class Within:
    """An integer between two, both included."""

    low: int
    high: int


@dataclass(frozen=True)
class Clock:
    """Moves the time on by a duration."""

    duration: str


@dataclass(frozen=True)
class Align:
    """Moves the time to the start of the next window of so many seconds."""

    seconds: int


@dataclass(frozen=True)
class Repeat:
    """Runs steps several times."""

    times: int
    steps: list


def five_of_five(key: str) -> list:
    """A full bucket of five: five admitted, the sixth denied for 200 ms."""
    admitted = [(f"RL.TOKEN {key} 5 5", [1, 5, left, 0, 1000 - 200 * left]) for left in (4, 3, 2, 1, 0)]
    return [*admitted, (f"RL.TOKEN {key} 5 5", [0, 5, 0, 200, 1000])]


BAD_RATES = ["nan", "inf", "1e400", "-0", "0x10", " 5", "0", "00.5", "+1", "1/0", "1000000001", "1.", ".5", "1 ", ""]
BAD_COSTS = ["-1", "-9223372036854775808", "18446744073709551616", "1000000000001", "1.5", "", " 1", "+1", "01", "0x1"]
BAD_LIMITS = ["18446744073709551616", "9223372036854775808", "1000000000001", "-1", "1.0", "01", "", "1e3", "nan"]
BAD_WINDOWS = ["0", "-1", "0.0001", "999us", "3650.000001d", "nan", "inf", "1e3", "1.0000001", "1 s", "1S", "01", ""]

CASES = {
    "zero_rate": [
        Repeat(1000, [("CL.THROTTLE k 0 0 60", Refused("ERR", "count"))]),
        Repeat(11, [("RL.TOKEN k2 10 0", Refused("ERR", "rate"))]),
        Repeat(2, [("RL.SLIDE k3 0 60", [0, 0, 0, -1, 0])]),
        ("RL.LEAK k4 10 0", Refused("ERR", "rate")),
        ("CL.THROTTLE k5 0 1 0", Refused("ERR", "period")),
        ("RL.FIXED k6 0 60", [0, 0, 0, -1, 0]),
        ("RL.LOG k7 0 60", [0, 0, 0, -1, 0]),
        ("RL.TOKEN k8 0 1", [0, 0, 0, -1, 0]),
        ("RL.LEAK k9 0 1", [0, 0, 0, -1, 0]),
        ("EXISTS k k2 k3 k4 k5 k6 k7 k8 k9", 0),
        ("PING", PONG),
    ],
    "wrong_type": [
        ("RL.SLIDE s 5 10", [1, 5, 4, 0, Within(1, 20_000)]),
        ("RL.TOKEN s 5 1", Refused("WRONGTYPE")),
        ("RL.LEAK s 5 1", Refused("WRONGTYPE")),
        ("RL.FIXED s 5 10 REFUND", Refused("WRONGTYPE")),
        ("RL.LOG s 5 10 PEEK", Refused("WRONGTYPE")),
        ("CL.THROTTLE s 15 30 60", Refused("WRONGTYPE")),
        ("RL.ALL other SLIDE 5 10 1 s TOKEN 5 1 1", Refused("WRONGTYPE")),
        ("EXISTS other", 0),
        ("RL.SLIDE s 5 10 PEEK", [1, 5, 4, 0, Within(1, 20_000)]),
        *[(f"{words} s", Refused("WRONGTYPE")) for words in ("GET", "INCR", "STRLEN", "GETDEL", "PERSIST")],
        *[(f"{words} s 0", Refused("WRONGTYPE")) for words in ("SET", "SETNX", "APPEND", "INCRBY", "EXPIRE")],
        ("RL.SLIDE s 5 10 PEEK", [1, 5, 4, 0, Within(1, 20_000)]),
        ("TYPE s", "rl.slide"),
        ("SET k hello EX 100", "OK"),
        (["SET", "e", ""], "OK"),
        ("CL.THROTTLE k 15 30 60", Refused("WRONGTYPE")),
        ("RL.GET k", Refused("WRONGTYPE")),
        ("RL.TOKEN e 5 1", Refused("WRONGTYPE")),
        ("RL.ALL other SLIDE 5 10 1 k TOKEN 5 1 1", Refused("WRONGTYPE")),
        ("EXISTS other", 0),
        ("GET e", b""),
        ("GET k", b"hello"),
        ("PTTL k", 100_000),
        ("PING", PONG),
    ],
    "cost_above_capacity": [
        ("CL.THROTTLE k 4 5 5 1", [0, 5, 4, -1, 1]),
        Clock("5s"),
        ("CL.THROTTLE k 4 5 5 6", [1, 5, 5, -1, 0]),
        ("EXISTS k", 0),
        ("CL.THROTTLE k 4 5 5 5", [0, 5, 0, -1, 5]),
        ("RL.TOKEN t 5 1 COST 6", [0, 5, 5, -1, 0]),
        ("RL.SLIDE s 5 10 COST 6", [0, 5, 5, -1, 0]),
        ("RL.FIXED f 5 10 COST 6", [0, 5, 5, -1, 0]),
        ("RL.LOG l 5 10 COST 6", [0, 5, 5, -1, 0]),
        ("RL.LEAK q 5 1 COST 6", [0, 5, 5, -1, 0]),
        ("EXISTS t s f l q", 0),
        ("RL.TOKEN t 5 1 COST 5", [1, 5, 0, 0, 5000]),
        ("RL.LEAK q 5 1 COST 5", [1, 5, 0, 0, 5000]),
    ],
    "denied_consumes": [
        ("RL.TOKEN k 10 1 COST 8", [1, 10, 2, 0, 8000]),
        ("RL.TOKEN k 10 1 COST 5", [0, 10, 2, 3000, 8000]),
        ("RL.TOKEN k 10 1 COST 1000000", [0, 10, 2, -1, 8000]),
        ("PTTL k", 8000),
        Clock("1s"),
        ("RL.TOKEN k 10 1 COST 3", [1, 10, 0, 0, 10_000]),
        Align(60),
        ("RL.SLIDE s 10 60 COST 8", [1, 10, 2, 0, 120_000]),
        ("RL.SLIDE s 10 60 COST 5", [0, 10, 2, Within(1, 120_000), 120_000]),
        ("RL.SLIDE s 10 60 COST 2", [1, 10, 0, 0, 120_000]),
        ("RL.LEAK q 10 1 COST 8", [1, 10, 2, 0, 8000]),
        ("RL.LEAK q 10 1 COST 5", [0, 10, 2, 3000, 8000]),
        ("RL.LEAK q 10 1 COST 1000000", [0, 10, 2, -1, 8000]),
        ("PTTL q", 8000),
    ],
    "expiry_instant": [
        Repeat(200, [("RL.SLIDE k 5 1", [1, 5, Within(0, 4), 0, Within(1, 2000)]), Clock("1s")]),
        Repeat(200, [("RL.SLIDE k 5 1", [1, 5, Within(0, 4), 0, Within(1, 2000)]), Clock("1001ms")]),
        Repeat(200, [("RL.SLIDE k 5 1", [1, 5, Within(0, 4), 0, Within(1, 2000)]), Clock("999ms")]),
        ("DEL k", Within(0, 1)),
        Align(1),
        ("RL.FIXED f 1 1", [1, 1, 0, 0, 1000]),
        Clock("999999us"),
        ("RL.FIXED f 1 1", [0, 1, 0, 1, 1]),
        Clock("1us"),
        ("EXISTS f", 0),
        ("RL.FIXED f 1 1", [1, 1, 0, 0, 1000]),
        ("RL.LOG l 1 1", [1, 1, 0, 0, 1000]),
        Clock("999999us"),
        ("RL.LOG l 1 1", [0, 1, 0, 1, 1]),
        Clock("1us"),
        ("PTTL l", -2),
        ("RL.LOG l 1 1", [1, 1, 0, 0, 1000]),
        ("INCRBY n 7", 7),
        ("PEXPIRE n 1000", 1),
        Clock("999999us"),
        ("INCR n", 8),
        ("PTTL n", 1),
        Clock("1us"),
        ("INCR n", 1),
        ("PTTL n", -1),
    ],
    "long_idle": [
        ("RL.TOKEN k 1000000 1000000", [1, 1_000_000, 999_999, 0, 1]),
        Clock("12h"),
        ("RL.TOKEN k 1000000 1000000", [1, 1_000_000, 999_999, 0, 1]),
        Clock("3285d"),
        ("RL.TOKEN k 1000000 1000000", [1, 1_000_000, 999_999, 0, 1]),
        ("RL.LEAK q 1000000000000 1000000000", [1, 10**12, 10**12 - 1, 0, 1]),
        Clock("3285d"),
        ("RL.LEAK q 1000000000000 1000000000", [1, 10**12, 10**12 - 1, 0, 1]),
    ],
    "huge_arguments": [
        ("CL.THROTTLE k 0 1 86400 200000000", [1, 1, 1, -1, 0]),
        ("CL.THROTTLE k 9223372036854775807 1 9223372036854775807", Refused("ERR")),
        ("RL.SLIDE b 18446744073709551616 1", Refused("ERR", "limit")),
        *[(["RL.TOKEN", "c", "1", rate], Refused("ERR", "rate")) for rate in BAD_RATES],
        *[(["RL.LEAK", "c", "1", rate], Refused("ERR", "rate")) for rate in BAD_RATES],
        *[(["RL.SLIDE", "d", limit, "1"], Refused("ERR", "limit")) for limit in BAD_LIMITS],
        *[(["RL.FIXED", "d", limit, "1"], Refused("ERR", "limit")) for limit in BAD_LIMITS],
        *[(["RL.LOG", "d", limit, "1"], Refused("ERR", "limit")) for limit in BAD_LIMITS],
        *[(["RL.TOKEN", "d", limit, "1"], Refused("ERR", "capacity")) for limit in BAD_LIMITS],
        *[(["RL.SLIDE", "e", "1", window], Refused("ERR", "window")) for window in BAD_WINDOWS],
        *[(["RL.FIXED", "e", "1", window], Refused("ERR", "window")) for window in BAD_WINDOWS],
        *[(["RL.LOG", "e", "1", window], Refused("ERR", "window")) for window in BAD_WINDOWS],
        *[(["RL.TOKEN", "f", "1", "1", "COST", cost], Refused("ERR", "cost")) for cost in BAD_COSTS],
        *[(["RL.SLIDE", "f", "1", "1", "COST", cost, "REFUND"], Refused("ERR", "cost")) for cost in BAD_COSTS],
        *[(["RL.ALL", "f", "SLIDE", "1", "1", cost], Refused("ERR", "cost")) for cost in BAD_COSTS],
        *[(["CL.THROTTLE", "f", "1", "1", "1", cost], Refused("ERR", "quantity")) for cost in BAD_COSTS],
        ("EXISTS k b c d e f", 0),
        ("RL.SLIDE g 1000000000000 3650d COST 1000000000000", [1, 10**12, 0, 0, Within(1, 2 * 3650 * 86_400_000)]),
        ("RL.SLIDE g 1000000000000 3650d", [0, 10**12, 0, Within(1, 2 * 3650 * 86_400_000), Within(1, 2**53)]),
        ("RL.TOKEN h 1000000000000 1/365d COST 1000000000000", [1, 10**12, 0, 0, 2**53 - 1]),
        ("RL.TOKEN h 1000000000000 1/365d COST 1000000000000", [0, 10**12, 0, 2**53 - 1, 2**53 - 1]),
        ("RL.LEAK i 1000000000000 1/365d COST 999999999999", [1, 10**12, 1, 0, 2**53 - 1]),
        ("RL.LEAK i 1000000000000 1/365d", [1, 10**12, 0, 2**53 - 1, 2**53 - 1]),
        ("PTTL h", 2**53 - 1),
    ],
    "small_capacity": [
        *five_of_five("k"),
        Clock("2s"),
        *five_of_five("k"),
        ("RL.TOKEN m 1 10", [1, 1, 0, 0, 100]),
        Repeat(99, [Clock("500us"), ("RL.TOKEN m 1 10", [0, 1, 0, Within(50, 100), Within(50, 100)])]),
        ("RL.TOKEN n 1 0.1", [1, 1, 0, 0, 10_000]),
        ("RL.TOKEN n 1 0.1", [0, 1, 0, 10_000, 10_000]),
        Clock("10s"),
        ("RL.TOKEN n 1 0.1", [1, 1, 0, 0, 10_000]),
    ],
    "half_done_update": [
        ("RL.SLIDE k 3 2", [1, 3, 2, 0, Within(1, 4000)]),
        ("PTTL k", Within(1, 4000)),
        Clock("4s"),
        ("EXISTS k", 0),
        ("RL.TOKEN t 3 2", [1, 3, 2, 0, 500]),
        ("PTTL t", 500),
        Clock("500ms"),
        ("EXISTS t", 0),
    ],
    "small_limits": [
        Align(60),
        Clock("30s"),
        ("RL.SLIDE k 1 60", [1, 1, 0, 0, 90_000]),
        ("RL.LOG j 1 60", [1, 1, 0, 0, 60_000]),
        Clock("15s"),
        ("RL.SLIDE k 1 60", [0, 1, 0, 15_001, 75_000]),
        ("RL.LOG j 1 60", [0, 1, 0, 45_000, 45_000]),
        Clock("15s"),
        ("RL.SLIDE k 1 60", [0, 1, 0, 1, 60_000]),
        ("RL.LOG j 1 60", [0, 1, 0, 30_000, 30_000]),
        Clock("1s"),
        ("RL.SLIDE k 1 60", [1, 1, 0, 0, 119_000]),
        ("RL.LOG j 1 60", [0, 1, 0, 29_000, 29_000]),
        Clock("29s"),
        ("RL.LOG j 1 60", [1, 1, 0, 0, 60_000]),
    ],
    "two_owners_of_a_key": [
        Align(60),
        ("RL.SLIDE k 1 60", [1, 1, 0, 0, 120_000]),
        ("RL.TOKEN k 1 60", Refused("WRONGTYPE")),
        *[(f"{words} k", Refused("WRONGTYPE")) for words in ("PERSIST", "INCR", "GET", "GETEX")],
        *[(f"{words} k 1", Refused("WRONGTYPE")) for words in ("EXPIRE", "SET", "GETSET", "EXPIREAT")],
        ("RL.SLIDE k 1 60", [0, 1, 0, 60_001, 120_000]),
        ("TTL k", 120),
        ("TYPE k", "rl.slide"),
        ("DEL k", 1),
        ("RL.SLIDE k 1 60", [1, 1, 0, 0, 120_000]),
    ],
}
