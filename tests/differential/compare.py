"""When two replies are the same: to the letter, but for what no server promises.

The order of KEYS is nobody's business. Times that are left differ by what passed between the two servers: `skew_ms`
milliseconds at most, measured by the one who asks, and by the rounding of their unit.
"""

from collections.abc import Iterator
from typing import NamedTuple

from differential.frames import Reply, parse

UNORDERED = {b"KEYS"}
MILLISECONDS_A_UNIT = {b"PTTL": 1, b"PEXPIRETIME": 1, b"TTL": 1000, b"EXPIRETIME": 1000}


class Pair(NamedTuple):
    """A command and its two replies."""

    words: tuple[bytes, ...]
    left: Reply
    right: Reply


def differing(words, queued: list, left: bytes, right: bytes, skew_ms: float) -> Iterator[Pair]:
    """The pairs that differ: the command's own, or those of the commands that an EXEC ran, each by itself."""
    if left == right:
        return
    yield from differing_replies(Pair(words, parse(left), parse(right)), queued, skew_ms)


def differing_replies(pair: Pair, queued: list, skew_ms: float) -> Iterator[Pair]:
    name = pair.words[0].upper() if pair.words else b""
    both_ran = name == b"EXEC" and isinstance(pair.left.value, list) and isinstance(pair.right.value, list)
    if both_ran and len(pair.left.value) == len(pair.right.value) == len(queued):
        for words, left, right in zip(queued, pair.left.value, pair.right.value):
            yield from differing_replies(Pair(words, left, right), [], skew_ms)
    elif not same(name, pair.left, pair.right, skew_ms):
        yield pair


def same(name: bytes, left: Reply, right: Reply, skew_ms: float) -> bool:
    if left == right:
        return True
    if left.kind != right.kind:
        return False
    if name in UNORDERED and isinstance(left.value, list) and isinstance(right.value, list):
        return sorted(left.value) == sorted(right.value)
    if name in MILLISECONDS_A_UNIT and left.kind == ":":
        return same_time(int(left.value), int(right.value), MILLISECONDS_A_UNIT[name], skew_ms)
    return False


def same_time(left: int, right: int, unit_ms: int, skew_ms: float) -> bool:
    """Negative numbers say that there is no time."""
    return left >= 0 and right >= 0 and abs(left - right) <= skew_ms / unit_ms + 1
