"""Many connections on the same limits at once: never more than the limit, and never less than was answered.

The test clock stands still, so no window moves and no bucket drains while they race.
"""

import random
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest

from reply import Error
from server.process import Server
from server.slots import keys_over_cores
from server.wire import Wire, eventually

CONNECTIONS = 50
CALLS_EACH = 40
LIMIT = 1000

LIMITS = {
    "SLIDE": "RL.SLIDE {key} {limit} 1h",
    "TOKEN": "RL.TOKEN {key} {limit} 1/1d",
    "FIXED": "RL.FIXED {key} {limit} 1h",
    "LOG": "RL.LOG {key} {limit} 1h",
    "LEAK": "RL.LEAK {key} {limit} 1/1d",
}
POLICY = {"SLIDE": "1h", "TOKEN": "1/1d", "FIXED": "1h", "LOG": "1h", "LEAK": "1/1d"}
ALGORITHM_OF_EIGHT = ["SLIDE", "TOKEN", "FIXED", "LOG", "LEAK", "SLIDE", "TOKEN", "SLIDE"]
LIMITS_OF_EIGHT = [200, 1000, 300, 150, 1000, 90, 400, 250]


def race(server: Server, pipelines: list[list[str]], leave_after: list[int] | None = None) -> list[list]:
    """Sends one pipeline on each of as many connections, all at once, and returns the replies that were read.

    A connection with a number in `leave_after` reads that many replies and vanishes; -1 stays to the end.
    """
    barrier = Barrier(len(pipelines))

    def run(pipeline: list[str], leave: int) -> list:
        with server.connect() as wire:
            barrier.wait()
            wire.send(*pipeline)
            replies = [wire.read() for _ in range(len(pipeline) if leave < 0 else leave)]
            if leave >= 0:
                wire.vanish()
            return replies

    leaves = leave_after or [-1] * len(pipelines)
    with ThreadPoolExecutor(len(pipelines)) as pool:
        return list(pool.map(run, pipelines, leaves))


def admitted(results: list[list]) -> int:
    """Units granted in all replies; a call that was turned away as busy was not admitted."""
    fives = [reply for replies in results for reply in replies if not is_busy(reply)]
    return sum(five[0] for five in fives)


def is_busy(reply) -> bool:
    assert not isinstance(reply, Error) or reply.code == "BUSY", reply
    return isinstance(reply, Error)


def all_line(keys: list[str], limits: list[int], costs: list[int], algorithms: list[str]) -> str:
    groups = zip(keys, algorithms, limits, costs)
    return "RL.ALL " + " ".join(f"{key} {name} {limit} {POLICY[name]} {cost}" for key, name, limit, cost in groups)


def used(wire: Wire, keys: list[str], limits: list[int]) -> list[int]:
    """Units that stand on each of the eight keys, by PEEK."""
    fives = wire.pipeline(
        [
            LIMITS[name].format(key=key, limit=limit) + " PEEK"
            for key, name, limit in zip(keys, ALGORITHM_OF_EIGHT, limits)
        ]
    )
    return [limit - five[2] for five, limit in zip(fives, limits)]


@pytest.mark.smoke
@pytest.mark.parametrize("algorithm", LIMITS)
def test_one_key(server, algorithm):
    line = LIMITS[algorithm].format(key=f"one:{algorithm}", limit=LIMIT)
    assert admitted(race(server, [[line] * CALLS_EACH] * CONNECTIONS)) == LIMIT
    assert server.ask(line + " PEEK")[:3] == [0, LIMIT, 0]


@pytest.mark.parametrize("algorithm", ["SLIDE", "TOKEN", "FIXED", "LOG"])
def test_one_key_in_parts(server, algorithm):
    line = LIMITS[algorithm].format(key=f"parts:{algorithm}", limit=LIMIT) + " COST 7 PARTIAL"
    assert admitted(race(server, [[line] * CALLS_EACH] * CONNECTIONS)) == LIMIT


def test_one_key_of_the_redis_cell_dialect(server):
    results = race(server, [["CL.THROTTLE cell 999 1 86400"] * CALLS_EACH] * CONNECTIONS)
    assert sum(reply[0] == 0 for replies in results for reply in replies) == LIMIT


@pytest.mark.smoke
def test_eight_keys_of_different_cores(server, cores):
    keys, limits = keys_over_cores("eight", 8, cores), [LIMIT] * 8
    line = all_line(keys, limits, [1] * 8, ALGORITHM_OF_EIGHT)
    units = admitted(race(server, [[line] * CALLS_EACH] * CONNECTIONS))
    assert units <= LIMIT
    with server.connect() as wire:
        assert used(wire, keys, limits) == [units] * 8
        while wire(line)[0]:
            units += 1
        assert units == LIMIT
        assert used(wire, keys, limits) == [LIMIT] * 8


def test_eight_keys_when_clients_vanish(server, cores, gone):
    keys, limits = keys_over_cores("vanish", 8, cores), [LIMIT] * 8
    line = all_line(keys, limits, [1] * 8, ALGORITHM_OF_EIGHT)
    rng = random.Random(cores)
    leaves = [rng.randrange(CALLS_EACH) if number % 2 else -1 for number in range(CONNECTIONS)]
    acknowledged = admitted(race(server, [[line] * CALLS_EACH] * CONNECTIONS, leaves))
    gone(server, 0)
    with server.connect() as wire:
        assert eventually(lambda: len(set(used(wire, keys, limits))) == 1)
        units = used(wire, keys, limits)
    assert units == [units[0]] * 8
    assert acknowledged <= units[0] <= LIMIT


def test_overlapping_groups_with_different_limits(server, cores):
    keys = keys_over_cores("overlap", 8, cores)
    rng = random.Random(cores)
    plans = [[overlapping_call(rng) for _ in range(CALLS_EACH)] for _ in range(CONNECTIONS)]
    results = race(server, [[line_of(plan, keys) for plan in pipeline] for pipeline in plans])
    expected = [0] * 8
    refused = 0
    for plan, reply in ((plan, reply) for both in zip(plans, results) for plan, reply in zip(*both)):
        if is_busy(reply) or not reply[0]:
            refused += 1
            continue
        for index, cost in plan:
            expected[index] += cost
    with server.connect() as wire:
        assert used(wire, keys, LIMITS_OF_EIGHT) == expected
    assert refused > 0
    assert all(use <= limit for use, limit in zip(expected, LIMITS_OF_EIGHT))


def overlapping_call(rng: random.Random) -> list[tuple[int, int]]:
    """Some of the eight keys, each with a cost."""
    return [(index, rng.randint(1, 3)) for index in rng.sample(range(8), rng.randint(2, 4))]


def line_of(plan: list[tuple[int, int]], keys: list[str]) -> str:
    picked, costs = [index for index, _ in plan], [cost for _, cost in plan]
    algorithms = [ALGORITHM_OF_EIGHT[index] for index in picked]
    return all_line([keys[index] for index in picked], [LIMITS_OF_EIGHT[index] for index in picked], costs, algorithms)


def test_a_key_of_another_type_leaves_the_others_alone(server, cores):
    keys, limits = keys_over_cores("typed", 8, cores), [LIMIT] * 8
    server.ask(f"RL.FIXED {keys[-1]} 5 1h")
    line = all_line(keys, limits, [1] * 8, ALGORITHM_OF_EIGHT)
    with ThreadPoolExecutor(CONNECTIONS) as pool:
        replies = list(pool.map(server.ask, [line] * CONNECTIONS))
    assert {reply.code for reply in replies} == {"WRONGTYPE"}
    assert server.ask(["EXISTS", *keys]) == 1


@pytest.mark.parametrize("refusing", range(8))
def test_a_refusal_on_any_core_undoes_the_others_exactly(server, cores, refusing):
    keys = keys_over_cores(f"refused:{refusing}", 8, cores)
    limits = [0 if index == refusing else LIMIT for index in range(8)]
    first = all_line(keys, [LIMIT] * 8, [5] * 8, ALGORITHM_OF_EIGHT)
    refused = all_line(keys, limits, [1] * 8, ALGORITHM_OF_EIGHT)
    with server.connect() as wire:
        assert wire(first)[0] == 1
        before = wire.pipeline([f"PTTL {key}" for key in keys])
        replies = wire.pipeline([refused] * 100)
        assert {(reply[0], reply[1]) for reply in replies} == {(0, refusing)}
        assert used(wire, keys, [LIMIT] * 8) == [5] * 8
        assert wire.pipeline([f"PTTL {key}" for key in keys]) == before
