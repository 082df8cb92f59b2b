"""redis-cell's arithmetic in whole nanoseconds: the generic cell rate algorithm, as its documentation describes it.

A key holds one instant, the theoretical arrival time: when the calls so far, sent evenly at the rate, would have ended.
A call is admitted if that instant, moved on by the call's units, lies no further ahead than the burst allows.
"""

from dataclasses import dataclass, field

NANOS = 10**9


@dataclass
class Cell:
    """All keys of one redis-cell."""

    arrivals: dict[str, int] = field(default_factory=dict)

    def throttle(self, key: str, max_burst: int, count: int, period_seconds: int, quantity: int, now_nanos: int):
        """limited, limit, remaining, then the waits until a retry and until untouched in nanoseconds (-1: none)."""
        interval = period_seconds * NANOS // count
        tolerance = interval * (max_burst + 1)
        arrival = max(self.arrivals.get(key, now_nanos), now_nanos)
        moved = arrival + interval * quantity
        wait = moved - tolerance - now_nanos
        limited = wait > 0
        retry = wait if limited and interval * quantity <= tolerance else -1
        if not limited:
            arrival = self.arrivals[key] = moved
        remaining = max((tolerance - (arrival - now_nanos)) // interval, 0)
        return limited, max_burst + 1, remaining, retry, arrival - now_nanos
