"""RL.TOP: the busiest keys over all cores, against what was really called."""

import itertools
import random
from collections import Counter

import pytest

from reply import Error
from server.slots import core_of, keys_over_cores
from server.wire import flat_map

FIELDS = [b"seconds", b"calls", b"missed_at_most", b"keys"]


@pytest.fixture
def quiet(wire):
    """A connection to a server that has counted nothing for two minutes."""
    wire("RL.CLOCK ADVANCE 3m")
    return wire


def top(wire, which: str) -> dict:
    answer = flat_map(wire(f"RL.TOP {which}"))
    assert list(answer) == FIELDS
    return answer


def keys(wire, which: str) -> list:
    return top(wire, which)[b"keys"]


def call_singly(wire, calls: dict[str, int]) -> None:
    """Each call by itself, in a mixed order: what does not come in pipelines is counted exactly."""
    order = [call for call, times in calls.items() for _ in range(times)]
    random.Random(1).shuffle(order)
    for call in order:
        wire(call)


@pytest.mark.smoke
def test_single_calls_are_counted_exactly(quiet, protocol, cores):
    names = keys_over_cores("top", 12, cores)
    times = {name: 3 * (index + 1) for index, name in enumerate(names)}
    call_singly(quiet, {f"RL.SLIDE {name} 10 1h": count for name, count in times.items()})
    answer = quiet("RL.TOP checked")
    assert isinstance(answer, dict if protocol == 3 else list)
    answer = flat_map(answer)
    assert answer[b"calls"] == sum(times.values()) and answer[b"missed_at_most"] == 0
    assert 0 <= answer[b"seconds"] <= 120
    busiest = Counter(times).most_common(10)
    assert answer[b"keys"] == [[name.encode(), count, 0] for name, count in busiest]
    assert keys(quiet, "CHECKED 2") == answer[b"keys"][:2]
    assert len(keys(quiet, "checked 1000")) == len(names)
    denied = [[name.encode(), count - 10, 0] for name, count in busiest if count > 10]
    assert keys(quiet, "denied") == denied
    assert top(quiet, "denied")[b"calls"] == sum(count for _, count, _ in denied)


def test_all_limits_and_groups_of_all_cores_are_counted(quiet, cores):
    one, other = keys_over_cores("pair", 2, cores)
    calls = {
        "RL.TOKEN bucket 2 1/1h": 3,
        "RL.FIXED fixed 2 1h": 4,
        "RL.LOG log 2 1h": 5,
        "RL.LEAK queue 2 1/1h": 6,
        "CL.THROTTLE cell 1 1 3600": 7,
        f"RL.ALL {one} SLIDE 2 1h 1 {other} SLIDE 100 1h 1": 8,
        "RL.SLIDE looked 2 1h PEEK": 9,
        "RL.GET log": 9,
    }
    call_singly(quiet, calls)
    denied = {key: count for key, count, _ in keys(quiet, "denied")}
    assert denied == {b"bucket": 1, b"fixed": 2, b"log": 3, b"queue": 4, b"cell": 5, one.encode(): 6}
    checked = {key: count for key, count, _ in keys(quiet, "checked")}
    assert checked[one.encode()] == 8 and checked[b"log"] == 5 and b"looked" not in checked


def test_near_is_the_share_that_is_used_now(quiet, cores):
    half, full, little, gone = keys_over_cores("near", 4, cores)
    calls = {
        f"RL.FIXED {half} 10 1h": 5,
        f"RL.TOKEN {full} 3 3/1h": 9,
        f"RL.SLIDE {little} 1000 1h": 20,
        f"RL.LOG {gone} 5 1h": 5,
    }
    # The begin of an hour, so that no window ends in between.
    now = quiet("RL.CLOCK")
    quiet(f"RL.CLOCK SET {now - now % 3_600_000_000 + 3_600_000_000}us")
    call_singly(quiet, calls)
    quiet(f"DEL {gone}")
    rows = [[full, 3, 3, 9, 0], [half, 5, 10, 5, 0], [little, 20, 1000, 20, 0]]
    rows = [[row[0].encode(), *row[1:]] for row in rows]
    assert keys(quiet, "near") == rows
    assert keys(quiet, "near 1") == rows[:1]
    quiet(f"RL.TOKEN {full} 3 3/1h COST 3 REFUND")
    assert keys(quiet, "near") == rows[1:]


def test_two_minutes_are_covered(quiet):
    minute = 60_000_000
    now = quiet("RL.CLOCK")
    quiet(f"RL.CLOCK SET {now - now % minute + minute}us")
    quiet("RL.SLIDE first 10 1h")
    quiet("RL.CLOCK ADVANCE 90s")
    quiet("RL.SLIDE second 10 1h")
    quiet("RL.SLIDE first 10 1h")
    answer = top(quiet, "checked")
    assert answer[b"seconds"] == 90 and answer[b"calls"] == 3
    assert answer[b"keys"] == [[b"first", 2, 0], [b"second", 1, 0]]
    quiet("RL.CLOCK ADVANCE 30s")
    assert keys(quiet, "checked") == [[b"first", 1, 0], [b"second", 1, 0]]
    quiet("RL.CLOCK ADVANCE 1m")
    assert keys(quiet, "checked") == []


def test_pipelines_are_counted_within_the_stated_error(quiet, cores):
    rng = random.Random(cores)
    names = keys_over_cores("zipf", 500, cores)
    weights = [1 / (rank + 1) for rank in range(len(names))]
    calls = rng.choices(names, weights, k=20_000)
    for start in range(0, len(calls), 100):
        quiet.pipeline([f"RL.SLIDE {name} 100 1h" for name in calls[start : start + 100]])
    truth = Counter(calls)
    answer = top(quiet, "checked 50")
    assert abs(answer[b"calls"] - len(calls)) <= 8 * 200
    found = {key.decode(): (count, error) for key, count, error in answer[b"keys"]}
    outside = [name for name, (count, error) in found.items() if abs(count - truth[name]) > error]
    assert len(outside) <= 2, {name: (found[name], truth[name]) for name in outside}
    assert {name for name, _ in truth.most_common(3)} <= set(list(found)[:8])
    assert {core_of(name, cores) for name in found} == set(range(cores))


@pytest.mark.parametrize("words", ["busy", "checked 0", "checked 1001", "checked x", "near 1 2", "denied -1"])
def test_what_is_wrong_is_said(wire, words):
    answer = wire(f"RL.TOP {words}")
    assert isinstance(answer, Error) and str(answer).startswith("ERR "), answer


def test_it_can_be_turned_off(start, cores, protocol):
    server = start(cores, "--top-keys", "no")
    with server.connect(protocol) as wire:
        wire.pipeline(["RL.SLIDE k 5 1h"] * 100)
        for which in ("checked", "denied", "near"):
            assert "top-keys no" in str(wire(f"RL.TOP {which}"))
        assert flat_map(wire("CONFIG GET top-keys")) == {b"top-keys": b"no"}


def test_it_is_for_administrators(wire):
    (row,) = wire("COMMAND INFO rl.top")
    assert {"admin", "loading", "stale"} == set(row[2])
    assert {"@admin", "@dangerous"} <= set(row[6])


def test_the_busiest_of_a_million_keys(start):
    """A million calls on a million keys, by Zipf's law: at least 18 of the true top 20 are named, within the error."""
    calls, batch = 1_000_000, 250
    rng = random.Random(20)
    weights = itertools.accumulate(1 / rank for rank in range(1, 1_000_001))
    picks = rng.choices(range(1_000_000), cum_weights=list(weights), k=calls)
    true = Counter(picks)
    with start(2).connect() as wire:
        for first in range(0, calls, batch):
            wire.send_bytes(b"".join(b"RL.SLIDE key:%d 1000000 1h\r\n" % key for key in picks[first : first + batch]))
            replies = 0
            while replies < 6 * batch:
                replies += wire.line()[:1] in b"*:"
        reply = wire("RL.TOP checked 20")
    rows = dict(zip(reply[::2], reply[1::2], strict=True))[b"keys"]
    named = {int(key.removeprefix(b"key:")): (count, error) for key, count, error in rows}
    assert len(set(named) & {key for key, _ in true.most_common(20)}) >= 18
    assert sum(abs(count - true[key]) <= error for key, (count, error) in named.items()) >= 19
