"""One call on one limit: what is answered and what is charged, from the reply's definition in the contract."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

from model.counters import Counter, Leak

NEVER = -1
REPLY_MAX_MS = 2**53 - 1


@dataclass
class Ask:
    """A parsed call: `policy` is a window in microseconds or a rate in tokens a microsecond."""

    algorithm: type
    limit: int
    policy: int | Fraction
    cost: int = 1
    mode: str = ""


def decide(counter: Counter | None, ask: Ask, now: int) -> tuple[list[int], Counter | None]:
    """The five integers, and the counter as it stands afterwards (`None`: no key). `counter` may be changed."""
    if ask.mode == "REFUND":
        return give_back(counter, ask, now)
    start = counter or ask.algorithm(ask.policy)
    free = max(0, ask.limit - start.taken(now))
    if ask.mode == "PARTIAL":
        allowed, wanted = min(ask.cost, free), 1
        admitted = ask.cost == 0 or allowed > 0
        units = allowed
    else:
        admitted = ask.cost == 0 or ask.cost <= free
        allowed, wanted = int(admitted), ask.cost
        units = ask.cost if admitted else 0
    retry = 0
    if not admitted:
        retry = wait_ms(start, ask.limit, wanted, now)
    elif isinstance(start, Leak) and ask.cost > 0:
        retry = whole_ms(start.hold_micros(ask.policy, now))
    if units > 0 and ask.mode != "PEEK":
        start.charge(ask.policy, units, now)
        counter = start
    return [allowed, ask.limit, remaining(counter, ask.limit, now), retry, reset_ms(counter, now)], counter


def give_back(counter: Counter | None, ask: Ask, now: int) -> tuple[list[int], Counter | None]:
    """REFUND: a missing key is not made, a record that has become like untouched is removed."""
    back = counter.refund(ask.cost, now) if counter else 0
    if counter and counter.untouched_at() <= now:
        counter = None
    return [back, ask.limit, remaining(counter, ask.limit, now), 0, reset_ms(counter, now)], counter


def remaining(counter: Counter | None, limit: int, now: int) -> int:
    return max(0, limit - counter.taken(now)) if counter else limit


def reset_ms(counter: Counter | None, now: int) -> int:
    return whole_ms(counter.untouched_at() - now) if counter else 0


def wait_ms(counter: Counter, limit: int, cost: int, now: int) -> int:
    """The fewest whole milliseconds after which `cost` is admitted if nobody else comes, by trying."""
    if cost > limit:
        return NEVER
    return fewest(lambda wait: counter.taken(now + 1000 * wait) + cost <= limit)


def fewest(holds: Callable[[int], bool]) -> int:
    """The smallest whole number for which a condition holds that stays true once it is, at most `REPLY_MAX_MS`."""
    high = 1
    while high < REPLY_MAX_MS and not holds(high):
        high *= 2
    low, high = high // 2, min(high, REPLY_MAX_MS)
    while low < high:
        middle = (low + high) // 2
        if holds(middle):
            high = middle
        else:
            low = middle + 1
    return low


def whole_ms(micros: Fraction | int) -> int:
    """Microseconds as whole milliseconds, rounded up."""
    return min(REPLY_MAX_MS, max(0, math.ceil(Fraction(micros) / 1000)))
