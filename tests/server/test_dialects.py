"""The commands of other limiters: redis-cell's by another name, throttlecrab's, and INCREX of Redis 8.8."""

import pytest

from reply import OK, Error

SYNTAX = Error("ERR syntax error")
WRONGTYPE = Error("WRONGTYPE Operation against a key holding the wrong kind of value")
MAX, MIN = 2**63 - 1, -(2**63)


def argument(name: str) -> Error:
    return Error(f"ERR {name}")


THROTTLES = {
    "rl_throttle": [
        ("RL.THROTTLE k 4 5 5", [0, 5, 4, -1, 1]),
        ("CL.THROTTLE k 4 5 5 4", [0, 5, 0, -1, 5]),
        ("RL.THROTTLE k 4 5 5", [1, 5, 0, 1, 5]),
        ("RL.THROTTLE k 4 5 5 0", [0, 5, 0, -1, 5]),
        ("RL.THROTTLE k 4 5 5 6", [1, 5, 0, -1, 5]),
        ("RL.TOKEN k 5 1 PEEK", [0, 5, 0, 1000, 5000]),
        ("RL.THROTTLE k 4 5", Error("ERR wrong number of arguments for 'rl.throttle' command")),
        ("RL.THROTTLE k 4 5 5 1 1", Error("ERR wrong number of arguments for 'rl.throttle' command")),
    ],
    "throttle": [
        ("THROTTLE k 3 10 60", [1, 3, 2, 6, 0]),
        ("THROTTLE k 3 10 60 2", [1, 3, 0, 18, 0]),
        ("THROTTLE k 3 10 60", [0, 3, 0, 18, 6]),
        ("THROTTLE k 3 10 60 3", [0, 3, 0, 18, 18]),
        ("THROTTLE k 3 10 60 4", [0, 3, 0, 18, -1]),
        ("THROTTLE k 3 10 60 0", [1, 3, 0, 18, 0]),
        ("RL.CLOCK ADVANCE 5999ms", OK),
        ("THROTTLE k 3 10 60", [0, 3, 0, 13, 1]),
        ("RL.CLOCK ADVANCE 1ms", OK),
        ("THROTTLE k 3 10 60", [1, 3, 0, 18, 0]),
        ("RL.TOKEN k 3 10/60 PEEK", [0, 3, 0, 6000, 18_000]),
        ("CL.THROTTLE k 2 10 60 0", [0, 3, 0, -1, 18]),
        ("TYPE k", "rl.token"),
        ("THROTTLE none 0 10 60", [0, 0, 0, 0, -1]),
        ("EXISTS none", 0),
    ],
    "throttle_refused": [
        ("THROTTLE k 3 0 60", Error("ERR count must be at least 1: a rate of 0 never lets anything through")),
        *[(f"THROTTLE {line}", argument(name)) for line, name in (
            ("k x 10 60", "max_burst"), ("k -1 10 60", "max_burst"), ("k 3 x 60", "count"), ("k 3 10 x", "period"),
            ("k 3 10 0", "period"), ("k 3 10 60 x", "quantity"), ("k 3 10 60 -1", "quantity"),
            ("k 1000000000001 10 60", "max_burst"))],
        ("THROTTLE k 1000000000000 1 1 0", [1, 10**12, 10**12, 0, 0]),
        ("THROTTLE k 3 10", Error("ERR wrong number of arguments for 'throttle' command")),
        ("THROTTLE k 3 10 60 1 1", Error("ERR wrong number of arguments for 'throttle' command")),
        ("EXISTS k", 0),
        ("RL.SLIDE s 5 60", None),
        ("THROTTLE s 3 10 60", WRONGTYPE),
        ("SET v 1", OK),
        ("THROTTLE v 3 10 60", WRONGTYPE),
    ],
}

INTEGERS = {
    "increx": [
        ("INCREX k", [1, 1]),
        ("INCREX k", [2, 1]),
        ("INCREX k BYINT 5", [7, 5]),
        ("increx k byint -10", [-3, -10]),
        ("INCREX k BYINT 0", [-3, 0]),
        ("GET k", b"-3"),
        ("TTL k", -1),
    ],
    "increx_bounds": [
        ("SET k 10", OK),
        ("INCREX k BYINT 10 UBOUND 15", [10, 0]),
        ("INCREX k BYINT 10 UBOUND 15 SATURATE", [15, 5]),
        ("INCREX k BYINT -10 LBOUND 10", [15, 0]),
        ("INCREX k SATURATE LBOUND 10 BYINT -10", [10, -5]),
        ("INCREX k BYINT 5 UBOUND 15", [15, 5]),
        ("INCREX k BYINT -15 LBOUND 0", [0, -15]),
        ("INCREX k BYINT 3 LBOUND 0 UBOUND 10", [3, 3]),
        ("GET k", b"3"),
        # A value that is out of its bounds already.
        ("SET k 50", OK),
        ("INCREX k BYINT 5 UBOUND 30", [50, 0]),
        ("INCREX k BYINT -25 UBOUND 30", [25, -25]),
        ("SET k 50", OK),
        ("INCREX k BYINT 5 UBOUND 30 SATURATE", [30, -20]),
        ("INCREX k BYINT -5 LBOUND 40 SATURATE", [40, 10]),
    ],
    "increx_type_limits": [
        (f"SET k {MAX - 7}", OK),
        ("INCREX k BYINT 8", [MAX - 7, 0]),
        (f"INCREX k BYINT {MAX}", [MAX - 7, 0]),
        (f"INCREX k BYINT {MAX} SATURATE", [MAX, 7]),
        ("INCREX k SATURATE", [MAX, 0]),
        (f"SET k {MIN + 8}", OK),
        (f"INCREX k BYINT {MIN} SATURATE", [MIN, -8]),
        (f"INCREX k BYINT 1 LBOUND {MAX} SATURATE", Error("ERR applied increment would overflow")),
        ("GET k", str(MIN).encode()),
    ],
    "increx_missing_key": [
        ("INCREX k BYINT 15 UBOUND 10", [0, 0]),
        ("INCREX k BYINT 5 LBOUND 10 EX 100", [0, 0]),
        ("EXISTS k", 0),
        ("INCREX k UBOUND 0 SATURATE", [0, 0]),
        ("GET k", b"0"),
        ("INCREX j LBOUND 5 SATURATE EX 100", [5, 5]),
        ("PTTL j", 100_000),
    ],
    "increx_lifetime": [
        ("INCREX k EX 100", [1, 1]),
        ("PTTL k", 100_000),
        ("INCREX k", [2, 1]),
        ("PTTL k", 100_000),
        ("INCREX k PX 50", [3, 1]),
        ("PTTL k", 50),
        ("INCREX k EX 100 ENX", [4, 1]),
        ("PTTL k", 50),
        ("INCREX k PERSIST", [5, 1]),
        ("PTTL k", -1),
        ("INCREX k ENX EX 100", [6, 1]),
        ("PTTL k", 100_000),
        # Refused: the lifetime stays as it is.
        ("INCREX k UBOUND 6 EX 5", [6, 0]),
        ("INCREX k UBOUND 6 PERSIST", [6, 0]),
        ("PTTL k", 100_000),
        ("INCREX k UBOUND 6 EX 5 SATURATE", [6, 0]),
        ("PTTL k", 5_000),
        # A time that has passed takes the key away, unless ENX keeps the time that is there.
        ("INCREX k EXAT 1 ENX", [7, 1]),
        ("PTTL k", 5_000),
        ("INCREX k EXAT 1", [8, 1]),
        ("EXISTS k", 0),
        ("INCREX k PXAT 1", [1, 1]),
        ("EXISTS k", 0),
    ],
    "increx_window": [
        *[(f"INCREX hits UBOUND 3 EX 60 ENX", [count, 1]) for count in (1, 2, 3)],
        ("INCREX hits UBOUND 3 EX 60 ENX", [3, 0]),
        ("RL.CLOCK ADVANCE 59999ms", OK),
        ("INCREX hits UBOUND 3 EX 60 ENX", [3, 0]),
        ("RL.CLOCK ADVANCE 1ms", OK),
        ("INCREX hits UBOUND 3 EX 60 ENX", [1, 1]),
    ],
    "increx_refused": [
        ("SET k 5 EX 100", OK),
        *[(f"INCREX k {options}", SYNTAX) for options in (
            "nope", "BYINT", "BYINT 1 nope", "BYINT 1 BYFLOAT 1", "BYFLOAT 1 BYINT 1", "BYINT 1 BYINT 1", "LBOUND",
            "UBOUND 1 UBOUND 1", "SATURATE SATURATE", "EX 1 PX 1", "EX 1 EX 1", "EX", "EX 1 PERSIST", "PERSIST EX 1",
            "PERSIST PERSIST", "PERSIST ENX", "ENX PERSIST", "ENX ENX EX 1", "NX", "KEEPTTL")],
        ("INCREX k ENX", Error("ERR ENX flag requires an expiration")),
        *[(f"INCREX k BYINT {text}", Error("ERR Increment is not an integer or out of range"))
          for text in ("x", "1.5", "01", MAX + 1)],
        ("INCREX k BYFLOAT x", Error("ERR Increment is not a valid float")),
        ("INCREX k BYFLOAT nan", Error("ERR Increment is not a valid float")),
        ("INCREX k BYFLOAT inf", Error("ERR BYFLOAT increment cannot be Infinity")),
        ("INCREX k LBOUND 1.5", Error("ERR LBOUND is not an integer or out of range")),
        ("INCREX k UBOUND inf", Error("ERR UBOUND is not an integer or out of range")),
        ("INCREX k BYFLOAT 1 UBOUND x", Error("ERR UBOUND is not a valid float")),
        ("INCREX k LBOUND 2 UBOUND 1", Error("ERR LBOUND can't be greater than UBOUND")),
        ("INCREX k BYFLOAT 1 LBOUND 2 UBOUND 1.5", Error("ERR LBOUND can't be greater than UBOUND")),
        ("INCREX k BYFLOAT 1 UBOUND -inf", Error("ERR LBOUND can't be greater than UBOUND")),
        *[(f"INCREX k {time}", Error("ERR invalid expire time in 'increx' command"))
          for time in ("EX 0", "PX -1", "EXAT 0", f"EX {MAX}")],
        ("INCREX k EX x", Error("ERR value is not an integer or out of range")),
        ("INCREX", Error("ERR wrong number of arguments for 'increx' command")),
        ("GET k", b"5"),
        ("PTTL k", 100_000),
        ("SET k text", OK),
        ("INCREX k", Error("ERR value is not an integer or out of range")),
        ("INCREX k BYFLOAT 1", Error("ERR value is not a valid float")),
        ("SET k inf", OK),
        ("INCREX k BYFLOAT 1", Error("ERR value cannot be Infinity")),
        ("SET k 1.5", OK),
        ("INCREX k", Error("ERR value is not an integer or out of range")),
        ("RL.TOKEN limit 5 1", [1, 5, 4, 0, 1000]),
        ("INCREX limit", WRONGTYPE),
    ],
}

# Value and what was added, as text: RESP2 sends it so, RESP3 as doubles.
FLOATS = [
    ("SET k 1.5", None),
    ("INCREX k BYFLOAT 0.25", ["1.75", "0.25"]),
    ("INCREX k BYFLOAT 1", ["2.75", "1"]),
    ("INCREX k BYFLOAT 100 UBOUND 42.5", ["2.75", "0"]),
    ("INCREX k BYFLOAT 100 UBOUND 42.5 SATURATE", ["42.5", "39.75"]),
    ("INCREX k BYFLOAT -100 LBOUND -5.5 SATURATE", ["-5.5", "-48"]),
    ("INCREX k BYFLOAT 1 UBOUND inf", ["-4.5", "1"]),
    ("INCREX k BYFLOAT 5.5 LBOUND -inf UBOUND 1", ["1", "5.5"]),
    ("INCREX none BYFLOAT 15.5 UBOUND 10", ["0", "0"]),
    ("INCREX new BYFLOAT 0.1 EX 100", ["0.1", "0.1"]),
    ("INCREX new BYFLOAT 0.2", ["0.3", "0.2"]),
    ("SET k 1e4932", None),
    ("INCREX small BYFLOAT 1e4932 UBOUND 100 SATURATE", ["100", "100"]),
    ("INCREX small BYFLOAT -1e4932 LBOUND -100 SATURATE", ["-100", "-200"]),
]


@pytest.mark.smoke
@pytest.mark.parametrize("case", THROTTLES)
def test_throttle(wire, case):
    for command, expected in THROTTLES[case]:
        reply = wire(command)
        if isinstance(expected, Error):
            assert isinstance(reply, Error) and reply.startswith(expected), command
        else:
            assert expected is None or reply == expected, command


@pytest.mark.smoke
@pytest.mark.parametrize("case", INTEGERS)
def test_increx(wire, case):
    for command, expected in INTEGERS[case]:
        reply = wire(command)
        assert reply == expected, command
        assert isinstance(reply, Error) == isinstance(expected, Error), command


def test_increx_of_fractions(wire, protocol):
    for command, expected in FLOATS:
        reply = wire(command)
        if expected is not None:
            number = float if protocol == 3 else str.encode
            assert reply == [number(text) for text in expected], command
    assert wire("EXISTS none") == 0 and wire("PTTL new") == 100_000
    # What would pass the largest number, and bounds that are no numbers.
    value, added = wire("INCREX k BYFLOAT 1e4932")
    assert float(value) == float("inf") and float(added) == 0
    too_far = Error("ERR applied increment would be Infinity")
    assert wire("INCREX k BYFLOAT 1 LBOUND inf UBOUND inf SATURATE") == too_far
    assert wire("INCREX k BYFLOAT 1 LBOUND -inf UBOUND -inf SATURATE") == too_far
    assert wire("GET k") == b"1e4932"
