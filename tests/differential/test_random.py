"""Fifty thousand random commands to redis-server and to Tollgate: every reply is the same, or known to differ.

TESTS_SEED and TESTS_CALLS set the seed and the number of commands. A history is the same for a seed on one day (UTC), as
its instants are counted from the day's beginning.
"""

import os
import time

import pytest

from differential.history import History
from differential.run import Lockstep
from differential.shrink import Shrinker, report

CALLS = int(os.environ.get("TESTS_CALLS", 50_000))
SEED = int(os.environ.get("TESTS_SEED", 20_261_129))
FAULTS_SHOWN = 12
FAULTS_COUNTED = 500
SHRINK_SECONDS = 5.0


def test_every_reply_is_the_same(lockstep, cores, protocol):
    run(lockstep, SEED + 10 * cores + protocol, CALLS, protocol)


@pytest.mark.smoke
def test_a_short_history(lockstep, cores, protocol):
    run(lockstep, SEED + 1000 + 10 * cores + protocol, 4_000, protocol)


def run(lockstep: Lockstep, seed: int, calls: int, protocol: int) -> None:
    """Goes on after a difference, so that one run names them all; each kind once, shrunk to a script."""
    steps = History(seed, time.time(), protocol).steps(calls)
    kinds: dict[tuple, list] = {}
    for counted, fault in enumerate(lockstep.differences(steps), 1):
        kinds.setdefault(fault.signature, []).append(fault)
        if counted == FAULTS_COUNTED:
            break
    if kinds:
        raise AssertionError(explain(lockstep, kinds, seed))


def explain(lockstep: Lockstep, kinds: dict[tuple, list], seed: int) -> str:
    shown = sorted(kinds.values(), key=len, reverse=True)[:FAULTS_SHOWN]
    texts = [f"{len(faults)} x {report(Shrinker(lockstep, faults[0], SHRINK_SECONDS).shrink())}" for faults in shown]
    head = f"seed {seed}: {sum(map(len, kinds.values()))} differences of {len(kinds)} kinds"
    return "\n\n".join([head, *texts])
