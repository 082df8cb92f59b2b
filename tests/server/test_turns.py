"""Replies leave at the end of a turn, for all connections that were ready together: whole, once, in order, to the end.

To have many requests in one turn the server is stopped while they are sent, and goes on when all lie there.
"""

import contextlib
import os
import select
import signal
import socket

import pytest

from reply import Error
from server.wire import Wire, encode, eventually

CROWD = 2000
LARGE = b"x" * 60_000


@contextlib.contextmanager
def standing_still(server):
    """What is sent meanwhile is there all at once when the server goes on."""
    os.kill(server.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(server.pid, signal.SIGCONT)


def crowd_of(server, size: int) -> list[Wire]:
    crowd = [server.connect() for _ in range(size)]
    for other in crowd:
        other.send("PING")
    for other in crowd:
        assert other.read() == "PONG"
    return crowd


def info(server, section: str) -> dict[str, str]:
    lines = server.ask(f"INFO {section}").decode().splitlines()
    return dict(line.split(":", 1) for line in lines if ":" in line)


def calls(server, command: str) -> int:
    shown = info(server, "commandstats").get(f"cmdstat_{command}", "calls=0")
    return int(shown.split("calls=")[1].split(",")[0])


def narrow(address) -> Wire:
    """A connection that takes little before it is read from."""
    wire = Wire.__new__(Wire)
    family = socket.AF_UNIX if isinstance(address, str) else socket.AF_INET
    wire.socket = socket.socket(family, socket.SOCK_STREAM)
    wire.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    wire.socket.settimeout(10.0)
    wire.socket.connect(address)
    wire.buffer, wire.position = b"", 0
    return wire


def shown_of(other: Wire, number: int) -> dict[str, str]:
    """What CLIENT LIST shows of a client; nothing if it is gone."""
    line = other(f"CLIENT LIST ID {number}").decode().strip()
    return dict(part.split("=", 1) for part in line.split(" ")) if line else {}


def ready(wire: Wire, events: int, seconds: float) -> int:
    """Which of these events the socket has within this time."""
    poll = select.poll()
    poll.register(wire.socket, events)
    return sum(happened for _, happened in poll.poll(seconds * 1000))


def fill(wire: Wire, size_max: int, command) -> int:
    """Sends a command again and again until the server takes no more; answers how many were sent whole. The rest of the
    one that was not is kept to be sent later, as `wire.unsent`."""
    data = encode(command)
    wire.socket.setblocking(False)
    sent = 0
    wire.unsent = b""
    try:
        while sent < size_max:
            if not ready(wire, select.POLLOUT, 0.3):
                break
            count = wire.socket.send(data)
            sent += 1
            if count < len(data):
                wire.unsent = data[count:]
                break
    finally:
        wire.socket.settimeout(10.0)
    return sent


def drain(wire: Wire, size: int) -> bytes:
    """Reads so many bytes, and completes meanwhile the command that was cut off."""
    unsent, data = wire.unsent, bytearray()
    wire.socket.setblocking(False)
    while len(data) < size:
        events = ready(wire, select.POLLIN | (select.POLLOUT if unsent else 0), 10.0)
        assert events
        if events & select.POLLOUT:
            unsent = unsent[wire.socket.send(unsent) :]
        if events & select.POLLIN:
            data += wire.socket.recv(1 << 20)
    wire.socket.settimeout(10.0)
    return bytes(data)


def test_thousands_of_connections_in_one_turn(server, cores):
    before = int(info(server, "stats")["total_net_output_bytes"])
    crowd = crowd_of(server, CROWD)
    with standing_still(server):
        for number, other in enumerate(crowd):
            other.send(f"RL.SLIDE one:turn:{cores} {CROWD} 1h", f"ECHO {number}")
    replies = [(other.read(), other.read()) for other in crowd]
    assert [echo for _, echo in replies] == [b"%d" % number for number in range(CROWD)]
    # Where a lane between two cores is full for 10 ms, the call is refused and takes nothing.
    refused = [five for five, _ in replies if isinstance(five, Error)]
    assert all(error.startswith("BUSY") for error in refused) and (cores > 1 or not refused)
    left = sorted(five[2] for five, _ in replies if not isinstance(five, Error))
    assert left == list(range(len(refused), CROWD))
    received = sum(len(b"+PONG\r\n") + sum(len(encoded(part)) for part in pair) for pair in replies)
    assert eventually(lambda: int(info(server, "stats")["total_net_output_bytes"]) - before >= received)
    for other in crowd:
        assert other("PING") == "PONG"
        other.close()


def encoded(reply) -> bytes:
    if isinstance(reply, Error):
        return b"-" + reply.encode() + b"\r\n"
    if isinstance(reply, bytes):
        return b"$%d\r\n%s\r\n" % (len(reply), reply)
    return b"*%d\r\n" % len(reply) + b"".join(b":%d\r\n" % number for number in reply)


@pytest.mark.parametrize("count", [1, 2, 63, 64, 65, 200])
def test_who_ends_its_side_gets_all_replies(wire, server, count):
    crowd = crowd_of(server, 20)
    with standing_still(server):
        for other in crowd:
            other.send(*[f"ECHO {number}" for number in range(count)])
            other.socket.shutdown(socket.SHUT_WR)
    expected = b"".join(encoded(b"%d" % number) for number in range(count))
    for other in crowd:
        assert other.rest() == expected
        other.close()


@pytest.mark.parametrize("last", ["QUIT", "*x"], ids=["quit", "broken"])
def test_the_last_replies_leave_before_the_end(wire, server, last):
    crowd = crowd_of(server, 20)
    with standing_still(server):
        for number, other in enumerate(crowd):
            end = encode(last) if last == "QUIT" else b"*x\r\n"
            other.send_bytes(encode(f"ECHO {number}") + end + encode("ECHO never"))
    for number, other in enumerate(crowd):
        echoed, end = other.read(), other.read()
        assert echoed == b"%d" % number
        assert end == "OK" if last == "QUIT" else end.startswith("ERR Protocol error")
        assert other.rest() == b""
        other.close()


def test_who_does_not_read_is_not_read_and_gets_everything_in_order(wire, server):
    with narrow(server.address) as deaf:
        number = deaf("CLIENT ID")
        sent = fill(deaf, 4000, ["ECHO", LARGE])
        assert 10 < sent < 4000, "a client that does not read must be held back"
        shown = shown_of(wire, number)
        assert int(shown["omem"]) > 0 and shown["events"] == "rw"
        ran = int(shown["tot-cmds"])
        assert ran < sent
        assert not eventually(lambda: int(shown_of(wire, number)["tot-cmds"]) > ran, 0.2)
        assert drain(deaf, sent * len(encoded(LARGE))) == encoded(LARGE) * sent
        assert deaf("PING") == "PONG"
        shown = shown_of(wire, number)
        assert (shown["omem"], shown["events"], shown["tot-cmds"]) == ("0", "r", str(sent + 2))


def test_who_does_not_read_over_a_unix_socket(start, tmp_path):
    path = str(tmp_path / "socket")
    server = start(2, "--unixsocket", path)
    with narrow(path) as deaf, server.connect() as other:
        number = deaf("CLIENT ID")
        sent = fill(deaf, 4000, ["ECHO", LARGE])
        assert int(shown_of(other, number)["omem"]) > 0
        assert drain(deaf, sent * len(encoded(LARGE))) == encoded(LARGE) * sent
        assert deaf("PING") == "PONG"


def test_who_does_not_read_is_ended_in_time(start):
    server = start(1)
    with narrow(server.address) as deaf, server.connect() as other:
        number = deaf("CLIENT ID")
        assert other("CONFIG SET timeout 1") == "OK"
        fill(deaf, 4000, ["ECHO", LARGE])
        assert int(shown_of(other, number)["omem"]) > 0
        assert eventually(lambda: other("PING") and not shown_of(other, number))
        assert info(server, "all")["slow_disconnections"] == "1"


def test_silence_is_counted_from_when_the_replies_have_left(start):
    server = start(1)
    assert server.ask("CONFIG SET timeout 1") == "OK"
    first, second = crowd_of(server, 2)
    with standing_still(server):
        first.send("PING")
        second.send("DEBUG SLEEP 1.3")
    assert first.read() == "PONG"
    assert first("PING") == "PONG"
    assert second.read() == "OK"
    assert first.rest() == b""


def test_a_kill_within_a_turn(server):
    """Who was answered gets the whole answer, who was not gets nothing."""
    crowd = crowd_of(server, 300)
    before = calls(server, "echo")
    with server.connect() as killer:
        with standing_still(server):
            for number, other in enumerate(crowd):
                other.send(f"ECHO {number}")
                if number == 150:
                    killer.send("CLIENT KILL TYPE normal SKIPME yes")
        assert killer.read() >= 300
    received = [other.rest() for other in crowd]
    for number, data in enumerate(received):
        assert data in (b"", encoded(b"%d" % number))
    assert sum(data != b"" for data in received) == calls(server, "echo") - before


def test_a_kill_of_who_does_not_read(wire, server):
    with narrow(server.address) as deaf:
        number = deaf("CLIENT ID")
        fill(deaf, 4000, ["ECHO", LARGE])
        assert wire(f"CLIENT KILL ID {number}") == 1
        assert eventually(lambda: not shown_of(wire, number))


def test_silence_and_words_in_one_turn(wire, server):
    crowd = crowd_of(server, 30)
    with standing_still(server):
        for number, other in enumerate(crowd):
            mode = ["ON", "OFF", "SKIP"][number % 3]
            other.send("ECHO before", f"CLIENT REPLY {mode}", "ECHO next", "ECHO last")
    for number, other in enumerate(crowd):
        expected = [[b"before", "OK", b"next", b"last"], [b"before"], [b"before", b"last"]][number % 3]
        assert [other.read() for _ in expected] == expected
        if number % 3 == 1:
            assert other("CLIENT REPLY ON") == "OK"
        assert other("PING") == "PONG"
        other.close()


def test_monitor_within_a_turn(wire, server):
    with server.connect() as watcher, server.connect() as other:
        with standing_still(server):
            watcher.send("ECHO before", "MONITOR")
            other.send("PING")
        assert watcher.read() == b"before"
        assert watcher.read() == "OK"
        assert other.read() == "PONG"
        other("ECHO shown")
        while b'"shown"' not in (line := watcher.line()):
            assert line.startswith(b"+")
        watcher.send("RESET")
        while watcher.line() != b"+RESET":
            pass
        assert watcher("PING") == "PONG"


@pytest.mark.parametrize("depth", [1, 20, 64])
def test_a_stop_within_a_turn_lets_all_replies_leave(start, cores, depth):
    """One key counts what ran; each unit that it counted must have been answered, whole."""
    server = start(cores)
    crowd = crowd_of(server, 400)
    with standing_still(server):
        for other in crowd:
            other.send(*["RL.SLIDE one 1000000 1h"] * depth)
        server.process.send_signal(signal.SIGTERM)
    received = [other.rest() for other in crowd]
    assert server.process.wait(10) == 0
    remaining = []
    for data in received:
        words = data.split(b"\r\n")
        assert words.pop() == b"" and len(words) % 6 == 0
        fives = [words[place : place + 6] for place in range(0, len(words), 6)]
        assert all(five[:3] == [b"*5", b":1", b":1000000"] for five in fives)
        remaining += [int(five[3][1:]) for five in fives]
    assert sorted(remaining, reverse=True) == list(range(999_999, 999_999 - len(remaining), -1))


def test_an_error_is_an_error_among_others(wire, server):
    crowd = crowd_of(server, 20)
    with standing_still(server):
        for other in crowd:
            other.send("ECHO a", "NO.SUCH", "ECHO b")
    for other in crowd:
        first, error, last = other.read(), other.read(), other.read()
        assert (first, isinstance(error, Error), last) == (b"a", True, b"b")
        other.close()
