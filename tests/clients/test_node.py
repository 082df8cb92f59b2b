"""ioredis and node-redis, unmodified, as they connect by default (RESP3) and in RESP2.

Each script runs once for a client, a protocol and a number of cores; every case in it is a test here.
"""

import pytest

from clients.node import run_cases

SCRIPTS = ["ioredis", "node_redis"]

# What each case answers, in its own order, as the library hands it to its user.
EXPECTED = {
    "values": [
        *["OK", "one", None, "one", None, "two", 6, 6, 0, "OK"],
        *[["1", None, "3", "2"], "1", [None, "2"]],
    ],
    "bytes": [True, True, "", "größe", 7],
    "counters": [
        *[1, 42, 41, -9, "-9", "1.5", "1.25", "OK"],
        *["ERR value is not an integer or out of range", "ten", "OK", "ERR increment or decrement would overflow"],
    ],
    "expiry": ["OK", 100, 0, 1, 200, 1, -1, -2, 1, 1500, "v", 10, "OK", 1, 30, "v", None, -2],
    "keys": [
        *[3, "string", 1, "OK", "ERR no such key", 0, 1, "1", 1],
        *[["b", "d", "z"], 3, 3, None, ["a", "b", "c"]],
    ],
    "slide": [
        *[[1, 2, 1, 0, 120_000], [1, 2, 0, 0, 120_000], [0, 2, 0, 60_001, 120_000]],
        *[[0, 2, 0, 1, 60_000], [1, 2, 0, 0], "rl.slide", 1],
    ],
    "token": [
        *[[1, 5, 2, 0, 180_000], [0, 5, 2, 60_000, 180_000], [2, 5, 0, 0, 300_000]],
        *[[2, 5, 2, 0, 180_000], [1, 5, 2, 0, 180_000]],
        "WRONGTYPE Operation against a key holding the wrong kind of value",
        "WRONGTYPE Operation against a key holding the wrong kind of value",
        "ERR rate must be at least 1 in 365d",
    ],
    "all": [
        [1, 0, [1, 1, 0, 0, 120_000], [1, 5, 4, 0, 1000]],
        [0, 0, [0, 1, 0, 60_001, 120_000], [1, 5, 4, 0, 1000]],
        [1, 0],
        1,
    ],
    "errors_keep_the_connection": [
        [
            "ERR unknown command",
            "ERR wrong number",
            "ERR unknown command",
            "ERR unknown command",
            "ERR client side",
            "ERR DB index",
        ],
        True,
    ],
    "killed": ["v", False],
    "paused": ["1", False, "OK", 2],
    "restart": [[1, 2, 3, 4, 5, 6], [1, 5, 4, 0, 120_000], True],
    "server": [True, True, "gateway-7", "noeviction", "OK", "64", "master", "PONG", "hello", None, True, "int", True],
}

UNKNOWN = "ERR unknown command 'NO.SUCH', with args beginning with: "
NOT_A_NUMBER = "ERR value is not an integer or out of range"
ABORTED = "EXECABORT Transaction discarded because of previous errors."
NO_MULTI = "ERR EXEC without MULTI"

# Where the two libraries hand the same replies to their users in shapes of their own.
EXPECTED_OF = {
    "ioredis": {
        "pipeline": ["OK", 2, [1, 5, 4, 0, 60_000], UNKNOWN + "'k' ", "2", 500],
        "automatic_pipelining": [500, "500"],
        "transaction": [
            ["OK", 3, [1, 2, 1, 0, 120_000], "3"],
            ["OK", NOT_A_NUMBER, "text"],
            ABORTED,
            ["OK", "QUEUED", "OK"],
            "3",
            NO_MULTI,
        ],
        "watch": [[[None, 2]], None, [[None, 21]]],
        "monitor": ["set k v", "RL.SLIDE s 5 60"],
        "fifty_connections": [100, 50, True],
    },
    "node_redis": {
        "pipeline": ["OK", 2, [1, 5, 4, 0, 60_000], UNKNOWN + "'k' ", "2", 500],
        "transaction": [
            ["OK", 3, [1, 2, 1, 0, 120_000], "3"],
            ["OK", NOT_A_NUMBER, "text"],
            # It throws the first error of the queue, where ioredis throws that of EXEC.
            UNKNOWN,
            "3",
            NO_MULTI,
        ],
        "watch": [[2], True, [21]],
        "monitor": ['"SET" "k" "v"', '"RL.SLIDE" "s" "5" "60"'],
        "fifty_connections": [100, 50, True],
    },
}


@pytest.fixture(scope="module", params=SCRIPTS)
def script(request) -> str:
    return request.param


@pytest.fixture(scope="module")
def answers(script, restarting, cores, protocol) -> dict:
    with restarting(cores) as server:

        def on_ask(what: str) -> None:
            assert what == "restart"
            server.restart()

        return run_cases(script, server.port, protocol, on_ask=on_ask)


@pytest.mark.parametrize("case", sorted(EXPECTED | EXPECTED_OF["ioredis"] | EXPECTED_OF["node_redis"]))
def test_case(answers, script, case):
    answer, expected = answers.get(case), (EXPECTED | EXPECTED_OF[script]).get(case)
    assert answer == expected


def test_every_case_is_looked_at(answers, script):
    assert answers.keys() == (EXPECTED | EXPECTED_OF[script]).keys()


def test_a_password(script, protocol, start):
    """RESP3 sends it with HELLO, RESP2 by AUTH."""
    server = start(1, "--requirepass", "secret")
    answers = run_cases(script, server.port, protocol, "values", "slide", password="secret")
    assert answers == {case: EXPECTED[case] for case in ("values", "slide")}
