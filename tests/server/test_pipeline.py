"""Replies leave in the order of their requests, whichever core answers and however the bytes arrive."""

import random
import socket

import pytest

from reply import Error
from server.slots import keys_over_cores
from server.wire import encode


def mixed_commands(seed: int, count: int, cores: int) -> list[str]:
    """Commands for this core, other cores, every core and no core, each with a reply that tells it from others."""
    rng = random.Random(seed)
    keys = keys_over_cores("mixed", 24, cores)
    commands = []
    for number in range(count):
        key, other = rng.sample(keys, 2)
        commands.append(
            rng.choice(
                [
                    f"ECHO {number}",
                    f"RL.SLIDE {key} 100 1h COST {rng.randint(0, 9)}",
                    f"RL.SLIDE {key} 100 1h COST {rng.randint(0, 9)} REFUND",
                    f"RL.TOKEN bucket:{key} 100 1/1h PARTIAL COST {rng.randint(0, 9)}",
                    f"RL.ALL {key} SLIDE 100 1h 1 {other} SLIDE 100 1h 2 bucket:{key} TOKEN 100 1/1h 1",
                    f"RL.ALL {key} SLIDE 100 1h 1 {other} SLIDE 10 1h 2",
                    f"RL.TOKEN {key} 5 1",
                    f"EXISTS {key} {other} bucket:{key}",
                    f"DEL {key}" if rng.random() < 0.1 else f"PTTL {key}",
                    f"TYPE bucket:{other}",
                    "DBSIZE" if rng.random() < 0.2 else f"PING {number}",
                    f"CLUSTER KEYSLOT {key}",
                    f"NOSUCH {number}",
                    f"RL.SLIDE {key} {number}",
                    "FLUSHALL" if rng.random() < 0.02 else f"EXISTS {key}",
                    f"RL.CLOCK ADVANCE {number}ms" if rng.random() < 0.3 else "TIME",
                ]
            )
        )
    return commands


@pytest.mark.smoke
def test_a_pipeline_answers_as_one_by_one(wire, server, cores):
    commands = mixed_commands(cores, 1000, cores)
    day = 86_400 * 10**6
    tomorrow = (wire("RL.CLOCK") // day + 1) * day
    wire(f"RL.CLOCK SET {tomorrow}us")
    piped = wire.pipeline(commands)
    wire("FLUSHALL")
    wire(f"RL.CLOCK SET {tomorrow + day}us")
    one_by_one = [wire(command) for command in commands]
    for command, left, right in zip(commands, piped, one_by_one):
        if command == "TIME":
            assert int(right[0]) - int(left[0]) == 86_400
        elif command != "DBSIZE":
            assert left == right, command


def test_many_connections_each_get_their_own(server, cores, protocol):
    keys = keys_over_cores("own", 40, cores)
    crowd = [server.connect(protocol) for _ in range(40)]
    for number, wire in enumerate(crowd):
        wire.send(*[part for step in range(100) for part in (f"ECHO {number}:{step}", f"EXISTS {keys[step % 40]}")])
    for number, wire in enumerate(crowd):
        replies = [wire.read() for _ in range(200)]
        assert replies[::2] == [b"%d:%d" % (number, step) for step in range(100)]
        assert set(replies[1::2]) == {0}
        wire.close()


def test_split_at_every_byte(wire, server, cores):
    near, far = keys_over_cores("split", 2, cores)
    commands = ["PING", f"RL.SLIDE {near} 1000 1h COST 0", f"RL.ALL {near} SLIDE 9 1h 0 {far} TOKEN 9 1 0", "ECHO x"]
    data = b"".join(map(encode, commands)) + b"PING inline\r\n"
    wire.send_bytes(data)
    expected = [wire.read() for _ in range(5)]
    assert not any(isinstance(reply, Error) for reply in expected)
    for split in range(1, len(data)):
        wire.send_bytes(data[:split])
        answered = [wire.read()] if split > len(encode("PING")) else []
        wire.send_bytes(data[split:])
        answered += [wire.read() for _ in range(5 - len(answered))]
        assert answered == expected, split


def test_byte_by_byte(wire):
    data = encode("RL.SLIDE bytes 5 1h COST 0") + b"PING\r\n"
    for position in range(len(data)):
        wire.send_bytes(data[position : position + 1])
    assert wire.read() == [1, 5, 5, 0, 0]
    assert wire.read() == "PONG"


def test_a_long_pipeline_does_not_starve_others(server, cores):
    keys = keys_over_cores("long", 64, cores)
    with server.connect() as heavy, server.connect() as light:
        light.socket.settimeout(5.0)
        data = b"".join(encode(f"RL.SLIDE {key} 1000000 1h") for key in keys) * 500
        heavy.socket.setblocking(False)
        sent, answered = 0, 0
        while sent < len(data):
            try:
                sent += heavy.socket.send(data[sent : sent + 65_536])
            except BlockingIOError:
                pass
            try:
                answered += heavy.socket.recv(1 << 20).count(b"*5\r\n")
            except BlockingIOError:
                pass
            assert light("RL.SLIDE light 1000000 1h")[0] == 1
    assert server.ask("PING") == "PONG"


def test_a_connection_that_closes_its_sending_half_gets_its_answers(server, cores):
    keys = keys_over_cores("half", 200, cores)
    with server.connect() as wire:
        wire.send(*[f"RL.SLIDE {key} 5 1h" for key in keys])
        wire.socket.shutdown(socket.SHUT_WR)
        assert [wire.read()[:3] for _ in keys] == [[1, 5, 4]] * 200
        assert wire.rest() == b""
