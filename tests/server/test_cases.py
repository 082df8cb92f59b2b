"""Runs the cases of cases.py, and the two that count over many calls."""

import pytest

from reply import Error
from server.cases import CASES, Align, Clock, Refused, Repeat, Within

MICROS = 10**6


@pytest.mark.smoke
@pytest.mark.parametrize("case", CASES)
def test_case(wire, case):
    for step in flatten(CASES[case]):
        if isinstance(step, Clock):
            assert wire(f"RL.CLOCK ADVANCE {step.duration}") == "OK"
        elif isinstance(step, Align):
            align(wire, step.seconds)
        else:
            command, expected = step
            reply = wire(command)
            assert matches(reply, expected), f"{command}: {reply!r} is not {expected!r}"


def flatten(steps: list):
    """The steps one by one, repeats written out."""
    for step in steps:
        if isinstance(step, Repeat):
            for _ in range(step.times):
                yield from step.steps
        else:
            yield step


def matches(reply, expected) -> bool:
    if isinstance(expected, Refused):
        return isinstance(reply, Error) and reply.code == expected.code and expected.word in reply.lower()
    if isinstance(expected, Within):
        return isinstance(reply, int) and expected.low <= reply <= expected.high
    if isinstance(expected, list):
        return isinstance(reply, list) and len(reply) == len(expected) and all(map(matches, reply, expected))
    return reply == expected


def align(wire, seconds: int) -> None:
    period = seconds * MICROS
    now = wire("RL.CLOCK")
    assert wire(f"RL.CLOCK SET {now - now % period + period}us") == "OK"


def test_high_rate(wire):
    """6,000 a second with a burst of 6, a call each 10 us for 0.1 s: 6 + 6000 t are admitted and no more."""
    commands = []
    for _ in range(10_000):
        commands += ["CL.THROTTLE k 5 6000 1", "PTTL k", "RL.CLOCK ADVANCE 10us"]
    replies = wire.pipeline(commands)
    throttles, lives = replies[0::3], replies[1::3]
    assert sum(reply[0] == 0 for reply in throttles) == 605
    assert all(reply[2] <= 6 for reply in throttles)
    assert all(life >= 1 for life in lives)


def test_window_phrase(wire):
    """17 per 30 s with a call each 250 ms for 30 s: a bucket admits almost twice 17, a window at most 17."""
    align(wire, 30)
    replies = every_250_ms(wire, "RL.TOKEN t 17 17/30")
    assert sum(reply[0] for reply in replies) == 33
    align(wire, 30)
    for _window in range(3):
        replies = every_250_ms(wire, "RL.SLIDE k 17 30")
        assert sum(reply[0] for reply in replies) <= 17


def every_250_ms(wire, command: str) -> list:
    return wire.pipeline([command, "RL.CLOCK ADVANCE 250ms"] * 120)[::2]
