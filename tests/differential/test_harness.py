"""The comparison itself, with redis-server on both sides: it finds nothing where nothing is, and each planted fault."""

import random
import time

import pytest

from differential import run
from differential.compare import same_time
from differential.faults import FAULTS, FaultyTarget
from differential.frames import Frames, parse, show
from differential.history import History, Step
from differential.run import Both, Lockstep, stretches
from differential.script import line_of, script_of, steps_of, words_of
from differential.shrink import Shrinker
from differential.target import Target

CALLS = 20_000
SEED = 7
SHRUNK_STEPS_MAX = 12


@pytest.fixture(autouse=True)
def no_lag(monkeypatch):
    """The servers here forget at once what has expired, or are at fault."""
    monkeypatch.setattr(run, "LAG_SECONDS", 0.2)


@pytest.fixture
def steps(protocol) -> list[Step]:
    return History(SEED, time.time(), protocol).steps(CALLS)


def test_two_of_the_same_do_not_differ(reference, second, protocol, steps):
    lockstep = Lockstep(Target(reference.address, protocol), Target(second.address, protocol))
    assert [str(fault) for fault in lockstep.differences(steps)] == []


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_a_planted_fault_is_found_and_shrunk(reference, second, protocol, steps, fault):
    lockstep = Lockstep(Target(reference.address, protocol), FaultyTarget(second.address, protocol, fault))
    found = next(lockstep.differences(steps), None)
    assert found is not None
    shrunk = Shrinker(lockstep, found, 5.0).shrink()
    assert len(shrunk.steps) <= SHRUNK_STEPS_MAX, script_of(shrunk.steps)
    assert shrunk.signature == found.signature


WIRE = [
    (b"+OK\r\n", "+OK"),
    (b"-ERR no\r\n", "-ERR no"),
    (b":-5\r\n", ":-5"),
    (b"$-1\r\n", "$nil"),
    (b"_\r\n", "_"),
    (b"*-1\r\n", "*nil"),
    (b"$4\r\n\r\n\x00\"\r\n", '$"\\x0d\\x0a\\x00\\""'),
    (b"*2\r\n:1\r\n*1\r\n+a\r\n", "*[:1, *[+a]]"),
    (b"%1\r\n$1\r\nk\r\n#t\r\n", '%[$"k", #t]'),
    (b"~1\r\n,1.5\r\n", "~[,1.5]"),
    (b"=7\r\ntxt:abc\r\n", '="txt:abc"'),
]


@pytest.mark.parametrize("frame, text", WIRE)
def test_replies_are_cut_out_of_any_pieces(frame, text):
    frames = Frames()
    for byte in frame:
        assert frames.take() is None
        frames.feed(bytes([byte]))
    assert frames.take() == frame and frames.take() is None
    assert show(parse(frame)) == text


def test_lines_are_read_as_they_are_written():
    rng = random.Random(SEED)
    for _ in range(500):
        words = [rng.randbytes(rng.randint(0, 12)) for _ in range(rng.randint(1, 5))]
        assert words_of(line_of(words)) == words
    assert words_of(line_of([b"SET", b"k", b"x" * 70_000])) == [b"SET", b"k", b"x" * 70_000]


def test_a_script_names_connections_only_where_there_are_two():
    assert script_of([(2, (b"GET", b"k"))]) == ["GET k"]
    lines = ["1> GET k", "2> SET k v"]
    assert script_of([Step(0, (b"GET", b"k")), Step(2, (b"SET", b"k", b"v"))]) == lines
    assert steps_of(lines) == [(0, [b"GET", b"k"]), (1, [b"SET", b"k", b"v"])]


def test_times_differ_by_what_passed_and_the_rounding():
    assert same_time(100_000, 100_011, 1, 10) and not same_time(100_000, 100_012, 1, 10)
    assert same_time(100, 101, 1000, 10) and not same_time(100, 102, 1000, 10)
    assert not same_time(-1, 0, 1, 10)


def test_replies_that_are_not_due_are_not_awaited():
    both = Both(None, None)
    script = ["PING", "client reply skip", "PING", "PING", "CLIENT REPLY OFF", "PING", "CLIENT REPLY SKIP", "PING"]
    script += ["CLIENT REPLY ON", "PING", "CLIENT REPLY x", "CLIENT REPLY SKIP", "CLIENT REPLY ON", "PING"]
    answered = [both.is_answered(words) for _, words in steps_of(script)]
    expected = "1 0 0 1 0 0 0 0 1 1 1 0 1 1".split()
    assert answered == [word == "1" for word in expected]


def test_stretches_are_the_history_in_order(steps):
    cut = list(stretches(steps))
    assert [step for _, stretch in cut for step in stretch] == steps
    assert all(len({step.connection for step in stretch}) == 1 for _, stretch in cut)
    assert all(steps[first] is stretch[0] for first, stretch in cut)
