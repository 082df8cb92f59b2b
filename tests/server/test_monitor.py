"""MONITOR: what others do is shown as Redis shows it, and whoever watches slows nobody."""

import re
import time

import pytest

from reply import Error, Status
from server.slots import keys_over_cores
from server.wire import eventually

PASSWORD = "correct horse"
LINE = re.compile(r'^(\d+)\.(\d{6}) \[0 ([0-9.]+:\d+)\] ("(?:[^"\\]|\\.)*"(?: "(?:[^"\\]|\\.)*")*)$')


@pytest.fixture
def monitor(server, protocol):
    with server.connect(protocol) as watcher:
        assert watcher("MONITOR") == Status("OK")
        yield watcher


def read_line(watcher) -> tuple[str, str]:
    """Address and words of the next line."""
    line = watcher.read()
    assert isinstance(line, Status), line
    match = LINE.match(line)
    assert match, line
    return match[3], match[4]


def address_of(wire) -> str:
    return "%s:%d" % wire.socket.getsockname()


SHOWN = {
    "SeT-less": (["rl.SLIDE", "k", "5", "1h"], '"rl.SLIDE" "k" "5" "1h"'),
    "quotes": (["ECHO", b'a"\\\n\r\t\x07\x08\x00\xff ~'], '"ECHO" "a\\"\\\\\\n\\r\\t\\a\\b\\x00\\xff ~"'),
    "empty": (["ECHO", ""], '"ECHO" ""'),
    "several cores": (["DEL", "a", "b", "c", "d"], '"DEL" "a" "b" "c" "d"'),
    "auth": (["AUTH", "default", "secret"], '"AUTH" "(redacted)" "(redacted)"'),
    "hello": (["HELLO", "2", "AUTH", "default", "pw"], '"HELLO" "2" "AUTH" "(redacted)" "(redacted)"'),
    "refused hello": (["HELLO", "2", "auth", "default", "two", "pw"], '"HELLO" "2" "auth"' + 3 * ' "(redacted)"'),
    "keys of auth": (["COMMAND", "GETKEYS", "AUTH", "pw"], '"COMMAND" "GETKEYS" "AUTH" "(redacted)"'),
    "subcommand": (["Client", "id"], '"Client" "id"'),
    "long": (["ECHO", "x" * 2000], f'"ECHO" "{"x" * 1020}... (980 more bytes)"'),
}


@pytest.mark.smoke
@pytest.mark.parametrize("name", SHOWN)
def test_a_command_is_shown(monitor, server, name):
    words, shown = SHOWN[name]
    with server.connect() as wire:
        wire(words)
        assert read_line(monitor) == (address_of(wire), shown)


def test_time_is_the_servers(monitor, server):
    with server.connect() as wire:
        now = wire("RL.CLOCK")
        line = monitor.read()
    assert line.startswith(f"{now // 10**6}.{now % 10**6:06} [0 ")


def test_what_is_not_shown(monitor, server):
    """Refused commands, those of administrators, and, before AUTH, all."""
    with server.connect() as wire:
        for command in ["NOSUCH a", "ECHO", "CONFIG GET port", "CLIENT LIST", "DEBUG SLEEP 0", "CLIENT KILL ID 999999"]:
            wire(command)
        wire("PING")
        assert read_line(monitor) == (address_of(wire), '"PING"')


def test_a_transaction_is_shown_when_it_runs(monitor, server):
    with server.connect() as wire:
        other = server.connect()
        for command in ["MULTI", "SET {t}a 1", "CLIENT LIST", "GET {t}a"]:
            wire(command)
        assert other("PING") == "PONG"
        assert len(wire("EXEC")) == 3
        wire.pipeline(["MULTI", "GET {t}b", "DISCARD", "WATCH {t}a"])
        assert other("INCR {t}a") == 2
        wire.pipeline(["MULTI", "GET {t}c"])
        assert wire("EXEC") is None
        own, others = address_of(wire), address_of(other)
        expected = [(own, "MULTI"), (others, "PING"), (own, "SET {t}a 1"), (own, "GET {t}a"), (own, "EXEC")]
        expected += [(own, "MULTI"), (own, "DISCARD"), (own, "WATCH {t}a"), (others, "INCR {t}a")]
        expected += [(own, "MULTI"), (own, "EXEC")]
        shown = [(address, '"' + words.replace(" ", '" "') + '"') for address, words in expected]
        assert [read_line(monitor) for _ in shown] == shown
        other.close()


def test_all_cores_in_order_of_each_client(monitor, server, cores):
    crowd = [server.connect() for _ in range(4 * cores)]
    keys = keys_over_cores("seen", 20, cores)
    sent = {}
    for number, wire in enumerate(crowd):
        commands = [f"RL.SLIDE {key} 1000 {number + 1}h" for key in keys]
        sent[address_of(wire)] = ['"' + command.replace(" ", '" "') + '"' for command in commands]
        wire.pipeline(commands)
    shown = {}
    for _ in range(len(crowd) * len(keys)):
        address, words = read_line(monitor)
        shown.setdefault(address, []).append(words)
    assert shown == sent
    for wire in crowd:
        wire.close()


def test_the_watcher_goes_on_as_a_client(monitor, server):
    assert monitor("PING") == "PONG"
    assert read_line(monitor) == (address_of(monitor), '"PING"')
    monitor.send("MONITOR", "ECHO a")
    # A second MONITOR is not answered.
    assert monitor.read() == b"a"
    assert read_line(monitor)[1] == '"ECHO" "a"'
    with server.connect() as wire:
        [line] = [line for line in wire("CLIENT LIST TYPE normal").decode().splitlines() if "cmd=echo" in line]
        assert " flags=O " in line


@pytest.mark.parametrize("end", ["RESET", "QUIT", "close", "vanish", "kill"])
def test_the_mode_ends(server, end):
    def monitors() -> int:
        lines = server.ask("CLIENT LIST").decode().splitlines()
        return sum(" flags=O " in line for line in lines)

    with server.connect() as watcher:
        number = watcher("CLIENT ID")
        assert watcher("MONITOR") == "OK"
        assert monitors() == 1
        if end == "RESET":
            assert watcher("RESET") == "RESET"
            assert server.ask("PING") == "PONG"
            assert watcher("ECHO a") == b"a"
        elif end == "QUIT":
            watcher.send("QUIT")
            assert watcher.rest() == b"+OK\r\n"
        elif end == "close":
            watcher.close()
        elif end == "vanish":
            watcher.vanish()
        else:
            assert server.ask(f"CLIENT KILL ID {number}") == 1
            assert watcher.rest() == b""
        assert eventually(lambda: monitors() == 0)


def test_a_client_that_must_authenticate_watches_nothing(start, cores):
    server = start(cores, "--requirepass", PASSWORD)
    with server.connect() as stranger, server.connect() as watcher:
        assert stranger("MONITOR").code == "NOAUTH"
        assert watcher(["AUTH", PASSWORD]) == "OK"
        assert watcher("MONITOR") == "OK"
        assert stranger("PING").code == "NOAUTH"
        assert stranger(["AUTH", "almost " + PASSWORD]).code == "WRONGPASS"
        assert stranger(["AUTH", PASSWORD]) == "OK"
        assert stranger("PING") == "PONG"
        shown = [read_line(watcher)[1] for _ in range(3)]
    assert shown == ['"AUTH" "(redacted)"', '"AUTH" "(redacted)"', '"PING"']


def test_so_many_and_no_more_watch(start):
    server = start(2)
    crowd = [server.connect() for _ in range(65)]
    replies = [wire("MONITOR") for wire in crowd]
    assert replies[:64] == ["OK"] * 64 and isinstance(replies[64], Error)
    assert crowd[64]("PING") == "PONG"
    crowd[0].close()
    assert eventually(lambda: crowd[64]("MONITOR") == "OK")


def load(wire, thousands: int) -> None:
    """So many thousand commands, each of which makes a long line."""
    for _ in range(thousands):
        assert wire.pipeline([["EXISTS", "x" * 900]] * 1000) == [0] * 1000


def test_who_reads_slowly_loses_lines_and_is_told(start, cores):
    """A watcher that reads nothing costs a bounded memory; once it reads, it is told how much it has missed."""
    server = start(cores)
    with server.connect() as wire, server.connect() as watcher:
        assert watcher("MONITOR") == "OK"
        # More than the kernel holds.
        load(wire, 12)
        before = server.memory_bytes()
        load(wire, 12)
        assert server.memory_bytes() - before < 8 << 20
        lost = int(re.search(rb"monitor_lines_lost:(\d+)", wire("INFO stats"))[1])
        seen, told = 0, 0
        while seen + told < 24_001:
            author, words = read_line(watcher)
            notice = re.fullmatch(r'"monitor" "lost" "(\d+)"', words)
            told += int(notice[1]) if notice else 0
            seen += 0 if notice else 1
            assert author == address_of(watcher if notice else wire)
        assert seen > 1000 and told == lost > 1000
        wire("PING")
        assert read_line(watcher) == (address_of(wire), '"PING"')


def test_a_stop_does_not_wait_for_who_does_not_read(start, cores):
    server = start(cores)
    with server.connect() as wire, server.connect() as watcher:
        assert watcher("MONITOR") == "OK"
        load(wire, 16)
        begun = time.monotonic()
        assert server.stop() == 0
        assert time.monotonic() - begun < 2
