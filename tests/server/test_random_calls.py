"""A hundred thousand random calls through the wire, each reply equal to the exact model's."""

import os
from itertools import islice

import pytest

from model.keyspace import START_MICROS
from reply import Error
from server.histories import History
from server.process import Server
from server.wire import Wire

CALLS = int(os.environ.get("TESTS_CALLS", 100_000))
SEED = int(os.environ.get("TESTS_SEED", 20_250_703))
BATCH = 250
CALLS_SHOWN = 12


@pytest.mark.parametrize("protocol", [2], ids="resp{}".format)
def test_every_reply_equals_the_model(start, cores, protocol):
    run(start(cores), protocol, CALLS, SEED + cores)


@pytest.mark.smoke
def test_a_short_history(start, cores, protocol):
    run(start(cores), protocol, 4_000, SEED + 10 * cores + protocol)


def run(server: Server, protocol: int, count: int, seed: int) -> None:
    """Compares in pipelined batches; the clock moves inside them."""
    history = History(seed, START_MICROS)
    calls = history.calls(count)
    seen: list[str] = []
    with server.connect(protocol) as wire:
        assert wire("RL.CLOCK") == START_MICROS
        while batch := list(islice(calls, BATCH)):
            compare(wire, batch, seen, seed)


def compare(wire: Wire, batch: list[tuple[str, object]], seen: list[str], seed: int) -> None:
    replies = wire.pipeline([line for line, _ in batch])
    for (line, expected), reply in zip(batch, replies):
        seen.append(f"{line}  ->  {reply}")
        if not same(reply, expected):
            raise AssertionError(explain(seen, line, expected, reply, seed))


def same(reply, expected) -> bool:
    """Errors are compared by their code, as their wording is the server's own."""
    if isinstance(expected, Error):
        return isinstance(reply, Error) and reply.code == expected.code
    return type(reply) is type(expected) and reply == expected


def explain(seen: list[str], line: str, expected, reply, seed: int) -> str:
    """The seed, the step and the last calls on the keys of the call that differs, with all moves of the clock."""
    keys = [word for word in line.split() if word.startswith(("k:", "{tag}"))]
    related = [
        (step, call)
        for step, call in enumerate(seen)
        if call.startswith("RL.CLOCK") or any(f"{key} " in call.split("  ->")[0] + " " for key in keys)
    ]
    clock_moves = [call for _, call in related if call.startswith("RL.CLOCK")]
    others = [f"  {step}: {call}" for step, call in related if not call.startswith("RL.CLOCK")][-CALLS_SHOWN:]
    first = int(others[0].split(":")[0]) if others else 0
    moves = [f"  {step}: {call}" for step, call in related if call.startswith("RL.CLOCK") and step > first]
    shown = sorted(others + moves[-40:], key=lambda text: int(text.split(":")[0]))
    head = f"seed {seed}, step {len(seen) - 1}, {len(clock_moves)} clock moves\n{line}\n"
    return f"{head}expected {expected}\ngot      {reply}\n" + "\n".join(shown)
