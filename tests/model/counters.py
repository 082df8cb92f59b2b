"""The five limits as the contract words them, one small class each: slow, plain, in exact numbers.

A counter knows the policy it was last admitted under (its window or its rate) and answers, for any instant:

- `taken(t)`: the whole units that stand against a limit at `t`; a call is admitted iff `taken + cost <= limit`;
- `untouched_at()`: the first instant at which nothing of it is left;
- `charge(policy, units, now)` and `refund(units, now)`: the only two ways to change it.

Time is in whole microseconds, a rate in tokens a microsecond.
"""

import math
from fractions import Fraction

MILLIONTH = 10**6


class Slide:
    """Two-window sliding counter: `cur` and `prev` belong to window number `index`."""

    kind = "rl.slide"

    def __init__(self, window: int) -> None:
        self.window, self.index, self.cur, self.prev = window, 0, 0, 0

    def at(self, now: int) -> tuple[int, int]:
        """`cur` and `prev` as they are in the window of `now`."""
        passed = now // self.window - self.index
        if passed == 0:
            return self.cur, self.prev
        return (0, self.cur) if passed == 1 else (0, 0)

    def estimate(self, now: int) -> Fraction:
        cur, prev = self.at(now)
        elapsed = now % self.window
        return Fraction(prev * (self.window - elapsed), self.window) + cur

    def taken(self, now: int) -> int:
        return math.floor(self.estimate(now))

    def untouched_at(self) -> int:
        if self.cur:
            return (self.index + 2) * self.window
        return (self.index + 1) * self.window if self.prev else 0

    def charge(self, window: int, units: int, now: int) -> None:
        if window == self.window:
            cur, prev = self.at(now)
        else:
            cur, prev = math.ceil(self.estimate(now)), 0
        self.window, self.index, self.cur, self.prev = window, now // window, cur + units, prev

    def refund(self, units: int, now: int) -> int:
        cur, prev = self.at(now)
        from_cur = min(units, cur)
        from_prev = min(units - from_cur, prev)
        self.index, self.cur, self.prev = now // self.window, cur - from_cur, prev - from_prev
        return from_cur + from_prev


class Fixed:
    """Units counted in window number `index`."""

    kind = "rl.fixed"

    def __init__(self, window: int) -> None:
        self.window, self.index, self.count = window, 0, 0

    def taken(self, now: int) -> int:
        return self.count if now // self.window == self.index else 0

    def untouched_at(self) -> int:
        return (self.index + 1) * self.window if self.count else 0

    def charge(self, window: int, units: int, now: int) -> None:
        count = self.taken(now) + units
        self.window, self.index, self.count = window, now // window, count

    def refund(self, units: int, now: int) -> int:
        back = min(units, self.taken(now))
        self.count -= back
        return back


class Log:
    """Every admission with its time; those in (now - window, now] count."""

    kind = "rl.log"

    def __init__(self, window: int) -> None:
        self.window = window
        self.entries: list[list[int]] = []

    def taken(self, now: int) -> int:
        return sum(units for time, units in self.entries if time > now - self.window)

    def untouched_at(self) -> int:
        return self.entries[-1][0] + self.window if self.entries else 0

    def charge(self, window: int, units: int, now: int) -> None:
        oldest = now - min(self.window, window)
        self.entries = [entry for entry in self.entries if entry[0] > oldest]
        self.window = window
        self.entries.append([now, units])

    def refund(self, units: int, now: int) -> int:
        back = 0
        while self.entries and self.entries[-1][0] > now - self.window and back < units:
            taken = min(self.entries[-1][1], units - back)
            self.entries[-1][1] -= taken
            back += taken
            if self.entries[-1][1] == 0:
                self.entries.pop()
        return back


class Token:
    """A bucket by its use, which drains at the stored rate and is exact at the instant `time`."""

    kind = "rl.token"

    def __init__(self, rate: Fraction) -> None:
        self.rate, self.use, self.time = rate, Fraction(0), 0

    def level(self, now: int) -> Fraction:
        return max(Fraction(0), self.use - self.rate * (now - self.time))

    def taken(self, now: int) -> int:
        return math.ceil(self.level(now))

    def untouched_at(self) -> Fraction:
        return self.time + self.use / self.rate if self.use else Fraction(0)

    def charge(self, rate: Fraction, units: int, now: int) -> None:
        level = self.level(now)
        if rate != self.rate:
            level = Fraction(math.ceil(level * MILLIONTH), MILLIONTH)
        self.rate, self.use, self.time = rate, level + units, now

    def refund(self, units: int, now: int) -> int:
        level = self.level(now)
        off = min(level, Fraction(units))
        self.use, self.time = level - off, now
        return math.ceil(off)


class Leak(Token):
    """The same bucket as a queue; what differs is that an admitted call is told how long to hold."""

    kind = "rl.leak"

    def hold_micros(self, rate: Fraction, now: int) -> Fraction:
        return self.level(now) / rate


Counter = Slide | Fixed | Log | Token | Leak

BY_NAME = {"SLIDE": Slide, "FIXED": Fixed, "LOG": Log, "TOKEN": Token, "LEAK": Leak}
