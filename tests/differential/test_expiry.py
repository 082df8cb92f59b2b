"""Expiry close to the present, which random histories stay away from: what an expired key is to each command, how times
are rounded, and that an instant is kept to the millisecond."""

import time

import pytest

from differential.frames import parse, show
from differential.run import PROBES
from differential.script import line_of, steps_of

LIFE_MS = 60
WAIT_SECONDS = 0.12

MAKERS = [
    f"SET k v PX {LIFE_MS}",
    f"SET k 5 PX {LIFE_MS}",
    f"PSETEX k {LIFE_MS} v",
    "{pexpireat}",
    f"SET k v|PEXPIRE k {LIFE_MS}",
    f"SET k v EX 100|PEXPIRE k {LIFE_MS} LT",
    f"SET k v|GETEX k PX {LIFE_MS}",
    f"SET j v PX {LIFE_MS}|RENAME j k",
    f"SET j v PX {LIFE_MS}|COPY j k",
    f"SET j 7 PX {LIFE_MS}|SET k v EX 100|COPY j k REPLACE",
    f"INCR k|PEXPIRE k {LIFE_MS}",
    f"INCR k|PEXPIRE k {LIFE_MS}|INCRBY k 5|APPEND k 5",
    f"SET k v PX {LIFE_MS}|SET k w KEEPTTL",
]
LATER = [
    "GET k", "STRLEN k", "GETDEL k", "GETEX k", "GETEX k PERSIST", "EXISTS k k", "TOUCH k", "TYPE k", "DEL k", "UNLINK k",
    "TTL k|PTTL k|EXPIRETIME k|PEXPIRETIME k", "PERSIST k", "EXPIRE k 100", "EXPIRE k 100 XX", "RENAME k other", "COPY k other",
    "RENAME k k", "SET there 1|COPY there k|GET k|TTL k", "SET there 1|RENAME there k|TTL k", "MGET k k", "KEYS *", "SCAN 0",
    "RANDOMKEY", "DBSIZE", "INCR k|TTL k", "INCRBYFLOAT k 1.5|TTL k", "APPEND k w|TTL k", "SETNX k w|TTL k|GET k",
    "SET k w XX", "SET k w NX GET|GET k", "SET k w GET|TTL k", "SET k w KEEPTTL|TTL k", "GETSET k w|TTL k", "MSET k w|TTL k",
    "OBJECT ENCODING k", "MULTI|GET k|INCR k|EXEC", "MEMORY USAGE k", "SET k w PX 100000000 NX|GET k",
]  # fmt: skip
# A key that goes between WATCH and EXEC was changed; one that was gone already was not.
WATCHED = [
    ("WATCH {t}k|MULTI|PING", "EXEC"),
    ("WATCH {t}k", "MULTI|SET {t}k 1|EXEC|GET {t}k"),
    ("", "WATCH {t}k|MULTI|SET {t}k 1|EXEC|GET {t}k"),
]
# Half seconds are where the two units part.
INSTANTS_MS = [4_000_000_000_000 + rest for rest in (0, 1, 499, 500, 501, 999)]


def ask_both(lockstep, text: str) -> list[tuple[str, str, str]]:
    """Each command of a script with its two replies; what is not the same each time is asked as in a history."""
    answered = []
    for _, words in steps_of([line for line in text.split("|") if line]):
        probe = PROBES.get(words[0])
        replies = [probe(side, words) if probe else side.ask(*words) for side in lockstep.connections[0].sides]
        answered.append((line_of(words), *(show(parse(reply)) for reply in replies)))
    return answered


def assert_same(answered: list[tuple[str, str, str]]) -> None:
    for position, (_, left, right) in enumerate(answered):
        assert left == right, "\n".join(f"{line}\n    redis    {a}\n    tollgate {b}" for line, a, b in answered[: position + 1])


@pytest.fixture
def empty(lockstep):
    lockstep.begin()
    yield lockstep
    lockstep.end()


@pytest.mark.parametrize("maker", MAKERS)
def test_every_way_to_expire(empty, maker):
    instant = int(time.time() * 1000) + LIFE_MS
    ask_both(empty, maker.replace("{pexpireat}", f"SET k v|PEXPIREAT k {instant}"))
    time.sleep(WAIT_SECONDS)
    assert_same(ask_both(empty, "EXISTS k|GET k|TTL k|SETNX k again|TTL k"))


def test_an_expired_key_is_no_key_to_any_command(empty):
    """All cases wait together, each with a key of its own in the place of `k`, but those that look at all keys."""
    alone = [text for text in LATER if text.split()[0] in ("KEYS", "SCAN", "RANDOMKEY", "DBSIZE")]
    for number in range(len(LATER)):
        ask_both(empty, f"SET {{{number}}}k v PX {LIFE_MS}")
    time.sleep(WAIT_SECONDS)
    for text in alone:
        assert_same(ask_both(empty, text))
    for number, text in enumerate(LATER):
        if text not in alone:
            named = text.replace(" there", f" {{{number}}}there").replace(" other", f" {{{number}}}other")
            assert_same(ask_both(empty, named.replace(" k", f" {{{number}}}k")))


@pytest.mark.parametrize("before, after", WATCHED)
def test_watch_sees_a_key_expire(empty, before, after):
    assert_same(ask_both(empty, f"SET {{t}}k v PX {LIFE_MS}"))
    assert_same(ask_both(empty, before))
    time.sleep(WAIT_SECONDS)
    assert_same(ask_both(empty, after))


@pytest.mark.parametrize("instant_ms", INSTANTS_MS)
def test_an_instant_is_kept_to_the_millisecond(empty, instant_ms):
    reads = "PEXPIRETIME k|EXPIRETIME k"
    ways = [f"SET k 1|PEXPIREAT k {instant_ms}", f"SET k v PXAT {instant_ms}", f"GETEX k PXAT {instant_ms}"]
    ways += [f"EXPIREAT k {instant_ms // 1000}", f"SET k v EXAT {instant_ms // 1000}", f"COPY k j|RENAME j k"]
    for way in ways:
        assert_same(ask_both(empty, f"{way}|{reads}"))


def test_ttl_is_pttl_rounded(empty):
    """On each server by itself, as what is left goes on shrinking between two of them."""
    for connection in (side for side in empty.connections[0].sides):
        for number in range(50):
            span = 100_000 + number * 37
            connection.ask(b"SET", b"k", b"v", b"PX", b"%d" % span)
            words = [(b"PTTL", b"k"), (b"TTL", b"k"), (b"PTTL", b"k")]
            most, seconds, least = (int(frame[1:]) for frame in connection.exchange(words, 3))
            assert least <= most <= span
            assert (least + 500) // 1000 <= seconds <= (most + 500) // 1000
