"""What Envoy's rate limit service sends for fixed windows, and how it reads the replies.

For each descriptor that has a limit there is one counter, named by the domain, the descriptor's entries and the unix
time at which its window began. A request goes out as one pipeline, INCRBY and then EXPIRE for each counter; the expiry
is the unit in seconds and a random jitter, so that counters of one window do not all end at once. With
`stop_when_over`, a pipeline of GET goes first, and if one counter would pass its limit, the others are raised by 0.
"""

import random
from dataclasses import dataclass

import redis

UNIT_SECONDS = {"second": 1, "minute": 60, "hour": 3600, "day": 86_400}
OVER = "OVER_LIMIT"
OK = "OK"


@dataclass(frozen=True)
class Limit:
    """A descriptor with its limit, as the service's configuration pairs them."""

    entries: tuple[tuple[str, str], ...]
    requests: int
    unit: str

    def key(self, domain: str, now: int) -> str:
        seconds = UNIT_SECONDS[self.unit]
        words = [word for entry in self.entries for word in entry]
        return "_".join([domain, *words, str(now // seconds * seconds)])


class Service:
    """The service in front of one server. `jitter_seconds` is the largest jitter; the random numbers are seeded."""

    def __init__(self, client: redis.Redis, jitter_seconds: int = 0, stop_when_over: bool = False) -> None:
        self.client = client
        self.jitter_seconds = jitter_seconds
        self.stop_when_over = stop_when_over
        self.random = random.Random(1)

    def should_rate_limit(self, domain: str, limits: list[Limit], hits: int, now: int) -> list[tuple[str, int]]:
        """For each limit the code and what remains of it."""
        keys = [limit.key(domain, now) for limit in limits]
        counts = self.raise_by(keys, limits, self.shares(keys, limits, hits))
        return [self.status(limit, count) for limit, count in zip(limits, counts)]

    def shares(self, keys: list[str], limits: list[Limit], hits: int) -> list[int]:
        """By how much each counter is raised."""
        if not self.stop_when_over or len(limits) < 2:
            return [hits] * len(limits)
        pipeline = self.client.pipeline(transaction=False)
        for key in keys:
            pipeline.get(key)
        counts = [int(count or 0) for count in pipeline.execute()]
        over = [count + hits > limit.requests for count, limit in zip(counts, limits)]
        if True not in over:
            return [hits] * len(limits)
        return [hits if index == over.index(True) else 0 for index in range(len(limits))]

    def raise_by(self, keys: list[str], limits: list[Limit], shares: list[int]) -> list[int]:
        pipeline = self.client.pipeline(transaction=False)
        for key, limit, share in zip(keys, limits, shares):
            jitter = self.random.randrange(self.jitter_seconds) if self.jitter_seconds else 0
            pipeline.incrby(key, share)
            pipeline.expire(key, UNIT_SECONDS[limit.unit] + jitter)
        return pipeline.execute()[::2]

    @staticmethod
    def status(limit: Limit, count: int) -> tuple[str, int]:
        return (OVER, 0) if count > limit.requests else (OK, limit.requests - count)
