"""What docs/from-redis.md says is different, each sentence by the commands that show it."""

import pytest

from reply import Error

WRONG_TYPE = "WRONGTYPE Operation against a key holding the wrong kind of value"
LIMIT = "RL.SLIDE limit 10 60"

# By the page's words: commands and their replies, in their order; an error is given by how it begins.
CLAIMS = {
    "No other types": [("HSET h a 1", Error("ERR unknown command")), ("SUBSCRIBE c", Error("ERR unknown command"))],
    "There is one database": [("SELECT 0", "OK"), ("SELECT 1", Error("ERR DB index is out of range"))],
    "A limit's key is a type of its own": [
        (LIMIT, [1, 10, 9, 0, 120_000]),
        ("TYPE limit", "rl.slide"),
        ("PTTL limit", 120_000),
        ("TTL limit", 120),
        ("EXISTS limit", 1),
        *[
            (line, Error(WRONG_TYPE))
            for line in ("GET limit", "SET limit 1", "INCR limit", "EXPIRE limit 1", "PERSIST limit", "APPEND limit a")
        ],
        ("RL.SLIDE limit 10 60 PEEK", [1, 10, 9, 0, 120_000]),
        ("RL.TOKEN limit 10 1", Error(WRONG_TYPE)),
        ("SET plain 1", "OK"),
        ("RL.SLIDE plain 10 60", Error(WRONG_TYPE)),
        ("GET plain", b"1"),
        ("COPY limit {limit}2", 1),
        ("RENAME {limit}2 {limit}3", "OK"),
        ("RL.SLIDE {limit}3 10 60", [1, 10, 8, 0, 120_000]),
        ("DEL limit", 1),
    ],
    "A changed limit keeps the use": [
        ("RL.SLIDE limit 10 60 COST 10", [1, 10, 0, 0, 120_000]),
        ("RL.SLIDE limit 20 60 PEEK", [1, 20, 10, 0, 120_000]),
        ("RL.SLIDE limit 5 60 PEEK", [0, 5, 0, 90_001, 120_000]),
    ],
    "-1 if waiting does not help": [("RL.SLIDE limit 10 60 COST 11", [0, 10, 10, -1, 0])],
    "Denied calls do not count": [
        ("RL.FIXED limit 1 60", [1, 1, 0, 0, 60_000]),
        *[("RL.FIXED limit 1 60", [0, 1, 0, 60_000, 60_000])] * 3,
        ("RL.FIXED limit 2 60", [1, 2, 0, 0, 60_000]),
        *[("INCR plain", count) for count in (1, 2, 3)],
    ],
    "An expired key does not exist": [
        ("SET plain 1 EX 60", "OK"),
        ("RL.FIXED limit 1 60", [1, 1, 0, 0, 60_000]),
        ("RL.CLOCK ADVANCE 60s", "OK"),
        ("EXISTS plain limit", 0),
        ("KEYS *", []),
        ("GET plain", None),
    ],
    "Values hold up to 64 KiB, keys up to 1 KiB": [
        (["SET", "plain", b"v" * 65_536], "OK"),
        ("APPEND plain v", Error("ERR string exceeds maximum allowed size")),
        ("STRLEN plain", 65_536),
        (["SET", b"k" * 1024, b"v"], "OK"),
        (["SET", b"k" * 1025, b"v"], Error("ERR ")),
    ],
    "Several cores": [
        ("MULTI", "OK"),
        *[(f"INCR {key}", "QUEUED") for key in "abcdefgh"],
        ("EXEC", [1] * 8),
        ("WATCH {ak_42}:a {ak_42}:b", "OK"),
        ("WATCH a b", Error("ERR WATCHed keys must share a slot")),
    ],
}


@pytest.mark.parametrize("claim", CLAIMS)
def test_claim(clocked, claim):
    with clocked.connect() as wire:
        assert wire("FLUSHALL") == "OK"
        day = wire("RL.CLOCK") // 86_400_000_000 + 1
        assert wire(f"RL.CLOCK SET {day}d") == "OK"
        for line, expected in CLAIMS[claim]:
            reply = wire(line)
            if isinstance(expected, Error):
                assert isinstance(reply, Error) and reply.startswith(expected), (line, reply)
            else:
                assert reply == expected, (line, reply)


def test_no_timestamp_frees_or_locks(clocked):
    """A window is the server's: a call takes no time, and an argument too many is an error."""
    with clocked.connect() as wire:
        reply = wire("RL.SLIDE limit 10 60 1751540400")
        assert isinstance(reply, Error) and reply.startswith("ERR ")
