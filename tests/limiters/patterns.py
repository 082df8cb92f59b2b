"""Limiters of a few commands and no script, as people write them with redis-py.

Each is a class with `check(client, key) -> decision`, for a limit of LIMIT in WINDOW_SECONDS, and counts by the
server's own expiry, except where its text says otherwise.
"""

import json

import redis

LIMIT = 3
WINDOW_SECONDS = 1


class IncrThenExpire:
    """INCR, and EXPIRE by whoever made the key."""

    def check(self, client: redis.Redis, key: str) -> bool:
        count = client.incr(key)
        if count == 1:
            client.expire(key, WINDOW_SECONDS)
        return count <= LIMIT


class IncrByAndExpireNx:
    """INCRBY and EXPIRE NX in one pipeline, as Rails' cache and rack-attack's Redis store do: the first one counts."""

    def check(self, client: redis.Redis, key: str) -> bool:
        pipeline = client.pipeline(transaction=False)
        pipeline.incrby(key, 1).expire(key, WINDOW_SECONDS, nx=True)
        return pipeline.execute()[0] <= LIMIT


class Transaction:
    """INCR, EXPIRE NX and PTTL between MULTI and EXEC."""

    def check(self, client: redis.Redis, key: str) -> bool:
        pipeline = client.pipeline(transaction=True)
        count, _, left_ms = pipeline.incr(key).expire(key, WINDOW_SECONDS, nx=True).pttl(key).execute()
        assert 0 < left_ms <= WINDOW_SECONDS * 1000
        return count <= LIMIT


class SetThenIncr:
    """SET with NX and EX makes the counter, INCR counts."""

    def check(self, client: redis.Redis, key: str) -> bool:
        client.set(key, 0, nx=True, ex=WINDOW_SECONDS)
        return client.incr(key) <= LIMIT


class TtlMends:
    """INCR and TTL, and an expiry for a key that has none: the older cure for a process that died in between."""

    def check(self, client: redis.Redis, key: str) -> bool:
        count, left = client.pipeline(transaction=False).incr(key).ttl(key).execute()
        if left == -1:
            client.expire(key, WINDOW_SECONDS)
        return count <= LIMIT


class CountDown:
    """A stock that is set and drawn from: SET NX EX, DECR, and back by INCR what was not there."""

    def check(self, client: redis.Redis, key: str) -> bool:
        client.set(key, LIMIT, nx=True, px=WINDOW_SECONDS * 1000)
        if client.decr(key) >= 0:
            return True
        client.incr(key)
        return False


class LookThenCount:
    """GET first, and a transaction only if there is room."""

    def check(self, client: redis.Redis, key: str) -> bool:
        if int(client.get(key) or 0) >= LIMIT:
            return False
        client.pipeline().incr(key).expire(key, WINDOW_SECONDS, nx=True).execute()
        return True


class Bucket:
    """A token bucket in one JSON value, guarded by WATCH; its tokens do not refill before the key has expired."""

    def check(self, client: redis.Redis, key: str) -> bool:
        def take(pipeline: redis.client.Pipeline) -> bool:
            state = json.loads(pipeline.get(key) or json.dumps({"tokens": LIMIT}))
            pipeline.multi()
            if state["tokens"] < 1:
                return False
            state["tokens"] -= 1
            pipeline.set(key, json.dumps(state), px=WINDOW_SECONDS * 1000)
            return True

        return client.transaction(take, key, value_from_callable=True)


class Lockout:
    """Failures counted by INCR, and a ban of its own key by SETEX: a login's lock."""

    def check(self, client: redis.Redis, key: str) -> bool:
        if client.exists(f"ban:{key}"):
            return False
        pipeline = client.pipeline(transaction=False)
        if pipeline.incr(key).expire(key, WINDOW_SECONDS).execute()[0] >= LIMIT:
            client.execute_command("SETEX", f"ban:{key}", WINDOW_SECONDS, 1)
            client.delete(key)
        return True


class InFlight:
    """Requests at one time: INCR when one begins, DECR when one ends; here none ends before the key expires."""

    def check(self, client: redis.Redis, key: str) -> bool:
        count, _ = client.pipeline().incr(key).expire(key, WINDOW_SECONDS).execute()
        if count <= LIMIT:
            return True
        client.decr(key)
        return False


ALL = [
    IncrThenExpire,
    IncrByAndExpireNx,
    Transaction,
    SetThenIncr,
    TtlMends,
    CountDown,
    LookThenCount,
    Bucket,
    Lockout,
    InFlight,
]
