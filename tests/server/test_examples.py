"""The contract's example table, through the wire, each on fresh keys."""

from collections.abc import Iterator

import pytest

from model.examples import EXAMPLES, T
from server.process import Server

pytestmark = pytest.mark.smoke

DAY_SECONDS = 86_400


@pytest.fixture(scope="module")
def days(server: Server) -> Iterator[int]:
    """Start times for the examples: the clock never runs backwards, so each example has a day of its own.

    A day is a whole number of every window in the table, so the replies are the same as at `T`.
    """
    first_day = T - T % DAY_SECONDS + DAY_SECONDS
    return iter(range(first_day, first_day + 1000 * DAY_SECONDS, DAY_SECONDS))


@pytest.mark.parametrize("name", EXAMPLES)
def test_example(wire, days, name):
    start = next(days)
    for seconds_after, line, expected in EXAMPLES[name]:
        millis = start * 1000 + round(float(seconds_after) * 1000)
        assert wire(f"RL.CLOCK SET {millis}ms") == "OK"
        reply = wire(line)
        assert expected is None or reply == expected, line
