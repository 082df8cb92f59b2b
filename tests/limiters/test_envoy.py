"""Envoy's rate limit service on its Redis backend: the pipelines it sends, decided alike."""

import random

import pytest
import redis

from limiters.envoy import OK, OVER, UNIT_SECONDS, Limit, Service
from limiters.pair import until_empty

T = 1_751_540_400
LIMITS = [
    Limit((("generic_key", "all"),), 60, "minute"),
    Limit((("api_key", "ak_42"),), 5, "second"),
    Limit((("api_key", "ak_42"), ("path", "/orders")), 20, "minute"),
    Limit((("api_key", "ak_43"),), 30, "hour"),
    Limit((("remote_address", "10.0.0.1"),), 50, "day"),
    Limit((("remote_address", "10.0.0.2"),), 0, "day"),
]


def history(port: int, seed: int, protocol: int, **options) -> list:
    """Some minutes of requests with one to four descriptors each, by a moved clock, and what was left of each key."""
    rng = random.Random(seed)
    now, decided = T, []
    with redis.Redis(port=port, protocol=protocol) as client:
        service = Service(client, **options)
        for _ in range(150):
            now += rng.choice([0, 0, 0, 1, 13])
            limits = rng.sample(LIMITS, rng.randint(1, 4))
            decided.append(service.should_rate_limit("edge", limits, rng.choice([1, 1, 1, 3]), now))
        keys = sorted(client.scan_iter(match="edge_*_[0-9]*"))
        decided.append([(key, client.get(key)) for key in keys if not key.endswith(str(now).encode())])
    return decided


@pytest.mark.smoke
@pytest.mark.parametrize("stop_when_over", [False, True])
@pytest.mark.parametrize("protocol", [2, 3])
def test_histories(pair, protocol, stop_when_over):
    # A long jitter, so that no counter of a moment ago expires while the history is run.
    options = {"stop_when_over": stop_when_over, "jitter_seconds": 300}
    decided = pair.same(lambda port: history(port, protocol, protocol, **options))
    codes = {code for reply in decided[:-1] for code, _ in reply}
    assert codes == {OK, OVER}


def test_expiries_are_the_unit_and_the_jitter(pair):
    def run(port: int) -> list:
        with redis.Redis(port=port) as client:
            Service(client, jitter_seconds=300).should_rate_limit("edge", LIMITS, 1, T)
            times = client.pipeline(transaction=False)
            for limit in LIMITS:
                times.pttl(limit.key("edge", T))
            # To ten seconds: both servers' clocks run on.
            return [round(millis, -4) for millis in times.execute()]

    left = pair.same(run)
    for limit, millis in zip(LIMITS, left):
        assert -10 <= millis / 1000 - UNIT_SECONDS[limit.unit] <= 310


def test_a_window_of_a_second_is_forgotten(pair):
    """EXPIRE of one second is sent with every hit, and renews what is left of the counter."""

    def run(port: int) -> list:
        with redis.Redis(port=port) as client:
            service = Service(client)
            first = [service.should_rate_limit("edge", LIMITS[1:2], 1, T) for _ in range(7)]
            until_empty(port)
            return [*first, service.should_rate_limit("edge", LIMITS[1:2], 1, T)]

    decided = pair.same_at_once(run)
    assert [reply[0][0] for reply in decided] == [OK] * 5 + [OVER] * 2 + [OK]
