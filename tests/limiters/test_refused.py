"""Limiters that are a script: Tollgate answers an error that says so, the connection stays, and nothing is counted.

`limits` is the library below Flask-Limiter and SlowAPI; each of its strategies runs a script on Redis.
"""

import limits
import pytest
import redis

STRATEGIES = [
    limits.strategies.FixedWindowRateLimiter,
    limits.strategies.MovingWindowRateLimiter,
    limits.strategies.SlidingWindowCounterRateLimiter,
]


@pytest.mark.parametrize("strategy", STRATEGIES, ids=lambda strategy: strategy.__name__)
def test_limits(pair, strategy):
    """They work on redis-server, and fail here at the first call, before anything is admitted."""
    two_a_minute = limits.parse("2/minute")

    def limiter_on(port: int):
        return strategy(limits.storage.storage_from_string(f"redis://127.0.0.1:{port}"))

    assert [limiter_on(pair.reference).hit(two_a_minute, "caller") for _ in range(3)] == [True, True, False]
    limiter = limiter_on(pair.subject)
    for _ in range(2):
        with pytest.raises(redis.ResponseError, match="unknown command"):
            limiter.hit(two_a_minute, "caller")
    assert limiter.storage.check() is True
    with redis.Redis(port=pair.subject) as client:
        assert client.keys() == []


@pytest.mark.parametrize(
    "line",
    ["EVAL return(1) 0", "EVALSHA abc 0", "EVAL_RO return(1) 0", "SCRIPT LOAD return(1)", "FCALL f 0", "FUNCTION LIST"],
)
def test_the_connection_stays(pair, line):
    with redis.Redis(port=pair.subject, single_connection_client=True) as client:
        before = client.client_id()
        with pytest.raises(redis.ResponseError, match="unknown command"):
            client.execute_command(*line.split())
        assert client.client_id() == before


@pytest.mark.parametrize("line", ["ZADD log 1 a", "HSET bucket tokens 5", "LPUSH queue 1", "SADD s a", "XADD s * a b"])
def test_other_types_are_no_commands_here(pair, line):
    """A log in a sorted set and a bucket in a hash: the limiters that keep them need the limits of their own."""
    with redis.Redis(port=pair.subject) as client:
        with pytest.raises(redis.ResponseError, match="unknown command"):
            client.execute_command(*line.split())
