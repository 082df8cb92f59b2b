"""The model against the contract's own examples, and against the two properties that bind every limit."""

import random
from fractions import Fraction

import pytest

from model import text
from model.examples import EXAMPLES, clock_line
from model.keyspace import Keyspace
from reply import Error

pytestmark = pytest.mark.smoke


@pytest.mark.parametrize("name", EXAMPLES)
def test_example(name):
    keyspace = Keyspace()
    for seconds_after, line, expected in EXAMPLES[name]:
        keyspace.execute(clock_line(seconds_after))
        reply = keyspace.execute(line)
        assert expected is None or reply == expected, line


@pytest.mark.parametrize(
    "written, micros",
    [
        ("1", 10**6),
        ("0.5", 500_000),
        ("1ms", 1_000),
        ("1.5s", 1_500_000),
        ("2m", 120 * 10**6),
        ("3650d", 3650 * 86_400 * 10**6),
    ],
)
def test_window(written, micros):
    assert text.window(written) == micros


@pytest.mark.parametrize(
    "written",
    ["", "0", "1us", "0.0005", "3651d", "01", "+1", "-1", "1e3", "0x10", " 5", "1.", ".5", "nan", "0.0000011"],
)
def test_refused_window(written):
    with pytest.raises(text.BadArgument):
        text.window(written)


@pytest.mark.parametrize(
    "written, tokens_a_second",
    [("10", 10), ("0.5", Fraction(1, 2)), ("100/60", Fraction(5, 3)), ("100/1m", Fraction(5, 3))],
)
def test_rate(written, tokens_a_second):
    assert text.rate(written) * 10**6 == tokens_a_second


@pytest.mark.parametrize(
    "written", ["0", "0/1", "1/0", "1/366d", "1000000001", "nan", "inf", "1e400", "-0", "0x10", " 5"]
)
def test_refused_rate(written):
    with pytest.raises(text.BadArgument):
        text.rate(written)


@pytest.mark.parametrize(
    "line",
    [
        "RL.SLIDE k -1 1",
        "RL.SLIDE k 18446744073709551616 1",
        "RL.SLIDE k 1 1 COST",
        "RL.SLIDE k 1 1 PEEK PARTIAL",
        "RL.LEAK k 1 1 PARTIAL",
        "RL.LOG k 100001 1",
        "RL.ALL k SLIDE 1 1",
        "RL.ALL k SLIDE 1 1 1 k SLIDE 1 1 1",
        "CL.THROTTLE k 0 0 60",
    ],
)
def test_refused_call_makes_no_key(line):
    keyspace = Keyspace()
    assert isinstance(keyspace.execute(line), Error)
    assert keyspace.execute("EXISTS k") == 0


POLICIES = {
    "SLIDE": ["1", "10", "7ms", "0.333333"],
    "FIXED": ["1", "10", "7ms", "0.333333"],
    "LOG": ["1", "10", "7ms", "0.333333"],
    "TOKEN": ["1", "100/60", "7/3", "1/7m"],
    "LEAK": ["1", "100/60", "7/3", "1/7m"],
}


@pytest.mark.parametrize("algorithm", POLICIES)
def test_waiting_exactly_retry_admits_and_a_millisecond_less_does_not(algorithm):
    rng = random.Random(algorithm)
    denied = 0
    for _ in range(400):
        keyspace, line = history(rng, algorithm)
        five = keyspace.execute(line + " PEEK")
        if five[0] or five[3] < 1:
            continue
        denied += 1
        keyspace.now += 1000 * (five[3] - 1)
        assert keyspace.execute(line + " PEEK")[0] == 0
        keyspace.now += 1000
        assert keyspace.execute(line)[0] == 1
    assert denied > 20


@pytest.mark.parametrize("algorithm", POLICIES)
def test_remaining_is_admitted_and_one_more_is_not(algorithm):
    rng = random.Random(algorithm)
    for _ in range(400):
        keyspace, line = history(rng, algorithm)
        words = line.split(" COST ")[0]
        left = keyspace.execute(words + " COST 0")[2]
        assert keyspace.execute(f"{words} COST {left + 1} PEEK")[0] == 0
        assert keyspace.execute(f"{words} COST {left}")[0] == 1


@pytest.mark.parametrize("algorithm", POLICIES)
def test_the_key_lives_exactly_until_it_is_as_if_untouched(algorithm):
    rng = random.Random(algorithm)
    for _ in range(400):
        keyspace, _line = history(rng, algorithm)
        left_ms = keyspace.execute("PTTL k")
        if left_ms < 0:
            continue
        keyspace.now += 1000 * (left_ms - 1)
        assert keyspace.execute("EXISTS k") == 1
        keyspace.now += 1000
        assert keyspace.execute("EXISTS k") == 0


def history(rng: random.Random, algorithm: str) -> tuple[Keyspace, str]:
    """A keyspace after a few random calls on one key, and a call that comes next."""
    keyspace = Keyspace()
    line = ""
    for _ in range(rng.randint(2, 9)):
        limit, policy = rng.choice([1, 3, 10, 100]), rng.choice(POLICIES[algorithm])
        line = f"RL.{algorithm} k {limit} {policy} COST {rng.choice([1, 1, 2, limit])}"
        mode = "" if algorithm == "LEAK" else rng.choice(["", "", "", " PARTIAL", " REFUND", " PEEK"])
        keyspace.execute(line + mode)
        keyspace.now += rng.choice([0, 1, 999, 1000, 1001, 123_457, 1_000_000, 5_000_003])
    return keyspace, line
