"""COMMAND and its forms: what clients learn about our commands must parse in the strictest of them."""

import pytest

from reply import Status
from server.wire import flat_map

EXPECTED = {
    "rl.slide": (-4, {"write", "denyoom", "fast"}, (1, 1, 1)),
    "rl.token": (-4, {"write", "denyoom", "fast"}, (1, 1, 1)),
    "rl.fixed": (-4, {"write", "denyoom", "fast"}, (1, 1, 1)),
    "rl.log": (-4, {"write", "denyoom", "fast"}, (1, 1, 1)),
    "rl.leak": (-4, {"write", "denyoom", "fast"}, (1, 1, 1)),
    "rl.all": (-6, {"write", "denyoom"}, (1, -1, 5)),
    "rl.get": (2, {"readonly"}, (1, 1, 1)),
    "cl.throttle": (-5, {"write", "denyoom", "fast"}, (1, 1, 1)),
    "del": (-2, {"write"}, (1, -1, 1)),
    "exists": (-2, {"readonly", "fast"}, (1, -1, 1)),
    "pttl": (2, {"readonly", "fast"}, (1, 1, 1)),
    "ping": (-1, {"fast"}, (0, 0, 0)),
}

GETKEYS = {
    "RL.SLIDE k 5 1": [b"k"],
    "RL.ALL a SLIDE 5 1 1 b TOKEN 5 1 1": [b"a", b"b"],
    "DEL a b c": [b"a", b"b", b"c"],
    "CL.THROTTLE k 1 1 1": [b"k"],
    "TTL k": [b"k"],
}


def name_of(row) -> str:
    return row[0].decode()


@pytest.mark.smoke
def test_every_row_has_ten_elements_of_the_right_types(wire, protocol):
    rows = wire("COMMAND")
    assert len(rows) == wire("COMMAND COUNT") > 30
    words = list if protocol == 2 else set
    for row in rows:
        check_row(row, words)
        for sub in row[9]:
            check_row(sub, words)
            assert name_of(sub).startswith(name_of(row) + "|")


def check_row(row, words: type) -> None:
    assert len(row) == 10, row
    assert isinstance(row[0], bytes) and name_of(row) == name_of(row).lower()
    assert isinstance(row[1], int) and row[1] != 0
    assert all(isinstance(number, int) and -128 <= number < 128 for number in row[3:6])
    assert row[3] == 0 or row[5] > 0, row
    assert isinstance(row[2], words) and all(isinstance(flag, Status) for flag in row[2])
    assert isinstance(row[6], words) and all(category.startswith("@") for category in row[6])
    assert "movablekeys" not in row[2]
    assert all(isinstance(part, list | set) for part in row[7:10])
    assert not any("policy" in text(tip) for tip in row[7])


def text(word) -> str:
    return word.decode() if isinstance(word, bytes) else word


@pytest.mark.parametrize("name", EXPECTED)
def test_row(wire, name):
    (row,) = wire(f"COMMAND INFO {name.upper()}")
    arity, flags, positions = EXPECTED[name]
    assert name_of(row) == name and row[1] == arity
    assert flags <= set(row[2]) and tuple(row[3:6]) == positions
    assert ("write" in row[2]) != ("readonly" in row[2]) or name == "ping"


def test_key_specs_of_a_limit(wire):
    (row,) = wire("COMMAND INFO rl.slide")
    spec = flat_map(list(row[8])[0])
    assert {"RW", "access", "update"} <= {text(flag) for flag in spec[b"flags"]}
    search, find = flat_map(spec[b"begin_search"]), flat_map(spec[b"find_keys"])
    assert text(search[b"type"]) == "index" and flat_map(search[b"spec"]) == {b"index": 1}
    assert text(find[b"type"]) == "range"
    assert flat_map(find[b"spec"]) == {b"lastkey": 0, b"keystep": 1, b"limit": 0}


def test_info_of_several_keeps_the_order(wire):
    rows = wire("COMMAND INFO ttl no.such rl.slide client|id")
    assert [row and name_of(row) for row in rows] == ["ttl", None, "rl.slide", "client|id"]


def test_list(wire):
    names = wire("COMMAND LIST")
    assert {b"rl.slide", b"rl.all", b"ping", b"client"} <= set(names)
    limits = wire("COMMAND LIST FILTERBY PATTERN rl.*")
    assert b"rl.slide" in limits and all(name.startswith(b"rl.") for name in limits)


@pytest.mark.parametrize("call", GETKEYS)
def test_getkeys(wire, call):
    assert wire(f"COMMAND GETKEYS {call}") == GETKEYS[call]


def test_docs(wire):
    docs = flat_map(wire("COMMAND DOCS"))
    assert len(docs) == wire("COMMAND COUNT")
    for name, doc in docs.items():
        fields = flat_map(doc)
        assert isinstance(name, bytes) and {b"summary", b"since", b"group"} <= set(fields), name
        assert all(isinstance(fields[field], bytes) for field in (b"summary", b"since", b"group"))
        check_arguments(fields.get(b"arguments", []))
    one = flat_map(wire("COMMAND DOCS RL.SLIDE"))
    assert list(one) == [b"rl.slide"]
    assert flat_map(wire("COMMAND DOCS no.such")) == {}


def check_arguments(arguments: list) -> None:
    """Names, types and texts are bulk strings, flags are simple strings: redis-cli asserts on it."""
    for argument in map(flat_map, arguments):
        assert isinstance(argument[b"name"], bytes) and isinstance(argument[b"type"], bytes)
        assert all(isinstance(flag, Status) for flag in argument.get(b"flags", []))
        check_arguments(argument.get(b"arguments", []))
