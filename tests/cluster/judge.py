"""What callers' own intervals say about two nodes that may have served one key: pure functions of calls.

A call that a node admitted was decided somewhere between its invocation and its answer. So a node that admits a call
that was invoked when its lease must have ended has served without one, whatever its own clock and log say.
"""

from cluster.calls import Call

# The lease that a group has if it was told no other.
LEASE_SECONDS = 0.5


def admitted_by(calls: list[Call], address: str) -> list[Call]:
    return [call for call in calls if call.address == address and call.allowed]


def after_lease(calls: list[Call], old: str, unheard_since: float) -> list[Call]:
    """Calls that the old primary admitted though they were invoked after its lease had ended: it could not be granted
    any for what it asked after `unheard_since`, and another node has answered since, so it got none back."""
    others = [call for call in calls if call.address != old and call.allowed is not None]
    if not others:
        return []
    ended = unheard_since + LEASE_SECONDS
    return [call for call in admitted_by(calls, old) if call.invoked > ended]


def after_successor(calls: list[Call], old: str) -> list[Call]:
    """Calls that the old primary admitted though they were invoked after another had answered for their key."""
    first: dict[str, float] = {}
    for call in calls:
        if call.address != old and call.allowed is not None:
            first[call.key] = min(call.answered, first.get(call.key, call.answered))
    return [call for call in admitted_by(calls, old) if call.key in first and call.invoked > first[call.key]]


def interleaved(calls: list[Call]) -> list[tuple[Call, Call, Call]]:
    """Calls on one key that one node, another, and the first again admitted, one after the other, in less than a lease:
    a node that loses a key gets it back only when the other's lease has ended, which it was granted meanwhile."""
    found = []
    by_key: dict[str, list[Call]] = {}
    for call in calls:
        if call.allowed:
            by_key.setdefault(call.key, []).append(call)
    for same_key in by_key.values():
        same_key.sort(key=lambda call: call.invoked)
        for middle in same_key:
            near = [call for call in same_key if call.address != middle.address]
            before = [call for call in near if middle.invoked - LEASE_SECONDS < call.answered < middle.invoked]
            after = [call for call in near if middle.answered < call.invoked < middle.answered + LEASE_SECONDS]
            for first in before:
                found += [
                    (first, middle, last)
                    for last in after
                    if last.address == first.address and last.answered - first.invoked < LEASE_SECONDS
                ]
    return found


def above_limits(calls: list[Call]) -> dict[str, int]:
    """Units that were admitted above the limits, by key."""
    admitted: dict[str, int] = {}
    limits: dict[str, int] = {}
    for call in calls:
        admitted[call.key] = admitted.get(call.key, 0) + bool(call.allowed)
        limits[call.key] = call.limit
    return {key: count - limits[key] for key, count in admitted.items() if count > limits[key]}
