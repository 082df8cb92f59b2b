"""A redis-cell client: CL.THROTTLE by a client library's raw call, against redis-cell's arithmetic.

redis-server has no such module, so the expectation is a model of it. The clock is the server's test clock.
"""

import random

import pytest
import redis

from limiters.cell import NANOS, Cell

# max_burst, count, period: rates whose interval is a whole number of nanoseconds, so that both are exact.
QUOTAS = [(15, 30, 60), (0, 1, 1), (4, 5, 5), (99, 1000, 1), (2, 1, 3600), (20, 120, 60)]


def seconds_up(nanos: int) -> int:
    return nanos if nanos < 0 else -(-nanos // NANOS)


@pytest.mark.parametrize("protocol", [2, 3])
def test_against_the_model(clocked, protocol):
    rng = random.Random(protocol)
    cell = Cell()
    limited_seen = set()
    with redis.Redis(port=clocked.port, protocol=protocol) as client:
        client.flushall()
        now_millis = client.execute_command("RL.CLOCK") // 1000
        for _ in range(600):
            now_millis += rng.choice([0, 0, 0, 1, 20, 333, 1000, 2500, 60_000])
            client.execute_command("RL.CLOCK", "SET", f"{now_millis}ms")
            max_burst, count, period = quota = rng.choice(QUOTAS)
            key, quantity = f"cell:{quota}:{rng.randrange(2)}", rng.choice([1, 1, 1, 1, 0, 2, 5, 40])
            reply = client.execute_command("CL.THROTTLE", key, max_burst, count, period, quantity)
            limited, *counts, retry, reset = cell.throttle(key, *quota, quantity, now_millis * 10**6)
            assert reply == [int(limited), *counts, seconds_up(retry), seconds_up(reset)], (key, quantity)
            limited_seen.add(limited)
    assert limited_seen == {True, False}


def test_the_last_argument_may_be_left_out(clocked):
    with redis.Redis(port=clocked.port) as client:
        client.flushall()
        replies = [client.execute_command("CL.THROTTLE", "user123", 15, 30, 60) for _ in range(17)]
    assert replies[0] == [0, 16, 15, -1, 2]
    assert replies[15] == [0, 16, 0, -1, 32]
    assert replies[16] == [1, 16, 0, 2, 32]
