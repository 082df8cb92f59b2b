"""Limiters of a few commands, as people write them: each decides alike on both servers, and forgets alike."""

from concurrent.futures import ThreadPoolExecutor

import pytest
import redis

from limiters import patterns
from limiters.pair import until_empty
from limiters.patterns import ALL, LIMIT, Bucket, Transaction

CALLERS = ["{ak_42}:orders", "10.0.0.7", "user:é"]


@pytest.mark.parametrize("protocol", [2, 3])
def test_every_pattern(pair, protocol):
    """All patterns fill their windows, the windows pass once for all of them, and they admit again."""

    def run(port: int) -> dict:
        with redis.Redis(port=port, protocol=protocol) as client:

            def round_of_calls() -> dict:
                return {
                    pattern.__name__: [
                        [pattern().check(client, f"{pattern.__name__}:{caller}") for caller in CALLERS]
                        for _ in range(LIMIT + 2)
                    ]
                    for pattern in ALL
                }

            first = round_of_calls()
            until_empty(port)
            return {name: (calls, again) for (name, calls), again in zip(first.items(), round_of_calls().values())}

    decided = pair.same_at_once(run)
    expected = [[True] * len(CALLERS)] * LIMIT + [[False] * len(CALLERS)] * 2
    assert decided == {pattern.__name__: (expected, expected) for pattern in ALL}


@pytest.mark.parametrize("pattern", [Transaction, Bucket])
def test_callers_at_once_are_never_admitted_too_often(pair, pattern, monkeypatch):
    """Eight clients race for the same three; MULTI and WATCH keep the count."""
    monkeypatch.setattr(patterns, "WINDOW_SECONDS", 60)

    def run(port: int) -> int:
        def call(_: int) -> bool:
            with redis.Redis(port=port) as client:
                return pattern().check(client, "raced")

        with ThreadPoolExecutor(8) as pool:
            return sum(pool.map(call, range(40)))

    assert pair.same(run) == LIMIT


def test_a_watched_bucket_that_somebody_took_from_is_not_written(pair):
    def run(port: int) -> tuple:
        with redis.Redis(port=port) as client, redis.Redis(port=port) as other, client.pipeline() as pipeline:
            client.set("bucket", 3)
            pipeline.watch("bucket")
            left = int(pipeline.get("bucket"))
            other.set("bucket", 2)
            pipeline.multi()
            pipeline.set("bucket", left - 1, ex=60)
            with pytest.raises(redis.WatchError):
                pipeline.execute()
            return client.get("bucket"), client.ttl("bucket")

    assert pair.same(run) == (b"2", -1)


def test_two_windows_without_a_script(pair):
    """A sliding window from two aligned counters, by a clock of the caller: one GET, INCR and EXPIRE in a pipeline."""

    def run(port: int) -> list[bool]:
        decided = []
        with redis.Redis(port=port) as client:
            for tenths in [*range(0, 40, 2), *range(70, 110)]:
                window, into = divmod(tenths, 10)
                pipeline = client.pipeline(transaction=False)
                pipeline.get(f"{{k}}:{window - 1}").get(f"{{k}}:{window}")
                before, now = (int(count or 0) for count in pipeline.execute())
                if before * (10 - into) + 10 * (now + 1) <= 10 * LIMIT:
                    pipeline.incr(f"{{k}}:{window}").expire(f"{{k}}:{window}", 60).execute()
                    decided.append(True)
                else:
                    decided.append(False)
        return decided

    assert {*pair.same(run)} == {True, False}
