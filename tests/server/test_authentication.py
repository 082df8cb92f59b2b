"""Who may say what before a password was given, and how little the server holds for them."""

import select
import socket
import time

import pytest

from reply import Error
from server.process import Server
from server.wire import Closed, encode, flat_map

PASSWORD = "correct horse"
UNAUTHENTICATED_SECONDS = 10
PARTIAL_SECONDS = 30


@pytest.fixture
def locked(start, cores) -> Server:
    return start(cores, "--requirepass", PASSWORD)


def code(reply) -> str:
    assert isinstance(reply, Error), reply
    return reply.code


@pytest.mark.smoke
def test_nothing_runs_before_auth(locked):
    with locked.connect() as wire:
        for command in ["PING", "RL.SLIDE k 5 1", "FLUSHALL", "INFO", "COMMAND", "CLIENT LIST", "SHUTDOWN", "RL.CLOCK"]:
            assert code(wire(command)) == "NOAUTH", command
        assert code(wire("HELLO 3")) == "NOAUTH"
        assert wire(["AUTH", PASSWORD]) == "OK"
        assert wire("EXISTS k") == 0
        assert wire("RL.SLIDE k 5 1")[0] == 1


def test_wrong_passwords(locked):
    with locked.connect() as wire:
        for words in (["AUTH", "wrong"], ["AUTH", "default", "wrong"], ["AUTH", "nobody", PASSWORD], ["AUTH", ""]):
            assert code(wire(words)) == "WRONGPASS", words
        assert code(wire("PING")) == "NOAUTH"
        assert wire(["AUTH", "default", PASSWORD]) == "OK"
        assert code(wire(["AUTH", "wrong"])) == "WRONGPASS"
        assert wire("PING") == "PONG"


def test_hello_with_a_password(locked):
    with locked.connect() as wire:
        assert code(wire(["HELLO", "3", "AUTH", "default", "wrong"])) == "WRONGPASS"
        assert code(wire("PING")) == "NOAUTH"
        hello = wire(["HELLO", "3", "AUTH", "default", PASSWORD, "SETNAME", "door"])
        assert isinstance(hello, dict) and hello[b"proto"] == 3
        assert wire("CLIENT GETNAME") == b"door"


def test_auth_without_a_password_set(start, cores):
    with start(cores).connect() as wire:
        assert code(wire("AUTH secret")) == "ERR"
        assert wire("PING") == "PONG"


def test_reset_forgets_the_authentication(locked):
    with locked.connect() as wire:
        assert wire(["AUTH", PASSWORD]) == "OK"
        assert wire("RESET") == "RESET"
        assert code(wire("PING")) == "NOAUTH"


TOO_MUCH = {
    "eleven_arguments": b"*11\r\n" + b"$4\r\nECHO\r\n" * 11,
    "an_argument_above_4_kib": b"*2\r\n$4\r\nECHO\r\n$4097\r\n" + b"x" * 4097 + b"\r\n",
    "more_than_16_kib_in_one_command": b"*10\r\n$4\r\nECHO\r\n" + (b"$4096\r\n" + b"x" * 4096 + b"\r\n") * 9,
}


@pytest.mark.parametrize("name", TOO_MUCH)
def test_too_much_before_auth_is_refused(locked, name):
    with locked.connect() as wire:
        try:
            wire.send_bytes(TOO_MUCH[name])
        except Closed:
            pass
        assert code(wire.read()) in ("ERR", "NOAUTH")
    with locked.connect() as wire:
        assert wire(["AUTH", PASSWORD]) == "OK"


def test_the_bounds_are_wide_as_soon_as_auth_has_run(locked):
    with locked.connect() as wire:
        long_echo = ["ECHO", "x" * 60_000]
        replies = wire.pipeline([["AUTH", PASSWORD], ["EXISTS", *["k"] * 100], long_echo])
        assert replies == ["OK", 0, b"x" * 60_000]


def test_unread_replies_before_auth_are_bounded(locked):
    before = locked.memory_bytes()
    with locked.connect() as wire:
        wire.socket.settimeout(0.5)
        try:
            for _ in range(200):
                wire.socket.send(b"PING\r\n" * 10_000)
        except OSError:
            pass
        assert locked.memory_bytes() - before < 4 << 20
    assert locked.ask(["AUTH", PASSWORD]) == "OK"


def test_the_password_is_never_shown(locked):
    with locked.connect() as wire:
        assert wire(["AUTH", PASSWORD]) == "OK"
        wire(["AUTH", "almost " + PASSWORD])
        shown = [wire("CONFIG GET *"), wire("INFO"), wire("CLIENT LIST"), wire("CLIENT INFO")]
    assert PASSWORD not in repr(shown)
    assert PASSWORD not in locked.log()


def own_address() -> str | None:
    """An address of this machine that is not loopback, if it has one; nothing is sent."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))
        except OSError:
            return None
        return probe.getsockname()[0]


def test_without_a_password_only_loopback_is_served(start, cores):
    address = own_address()
    if address is None or address.startswith("127."):
        pytest.skip("this machine has only loopback addresses")
    server = start(cores, bind="0.0.0.0")
    with socket.create_connection((address, server.port), 10.0) as stranger:
        try:
            stranger.sendall(b"PING\r\n")
            answer = b"".join(iter(lambda: stranger.recv(4096), b""))
        except ConnectionError:
            answer = b"-DENIED"
    assert answer.startswith(b"-DENIED") and b"PONG" not in answer
    assert server.ask("PING") == "PONG"


def test_with_a_password_others_are_served(start, cores):
    address = own_address()
    if address is None or address.startswith("127."):
        pytest.skip("this machine has only loopback addresses")
    server = start(cores, "--requirepass", "secret", bind="0.0.0.0")
    with socket.create_connection((address, server.port), 10.0) as stranger:
        stranger.sendall(b"AUTH secret\r\n")
        assert stranger.recv(100) == b"+OK\r\n"


def test_hello_shape(wire):
    for protocol in (2, 3):
        hello = flat_map(wire(f"HELLO {protocol}"))
        assert list(hello) == [b"server", b"version", b"proto", b"id", b"mode", b"role", b"modules"]
        assert hello[b"server"] == b"redis" and hello[b"version"] == b"7.2.4" and hello[b"proto"] == protocol
        assert hello[b"mode"] == b"standalone" and hello[b"role"] == b"master" and hello[b"modules"] == []
        assert hello[b"id"] == wire("CLIENT ID")
    assert code(wire("HELLO 4")) == "NOPROTO"
    assert code(wire("HELLO 1")) == "NOPROTO"
    assert code(wire("HELLO x")) == "ERR"
    assert wire("PING") == "PONG"


@pytest.mark.slow
def test_the_slow_are_ended(start):
    """10 s for those who do not authenticate, 30 s for those who do not finish a command; the idle may stay."""
    server = start(2, "--requirepass", PASSWORD)
    idle, silent, partial = server.connect(), server.connect(), server.connect()
    for wire in (idle, partial):
        assert wire(["AUTH", PASSWORD]) == "OK"
    silent.send_bytes(b"*2\r\n$4\r\nAU")
    partial.send_bytes(b"*2\r\n$4\r\nECHO\r\n$10\r\nabc")
    started = time.monotonic()
    for wire, seconds in ((silent, UNAUTHENTICATED_SECONDS), (partial, PARTIAL_SECONDS)):
        wire.socket.settimeout(PARTIAL_SECONDS + 10)
        wire.rest()
        assert seconds - 1 < time.monotonic() - started < seconds + 8
    assert idle("PING") == "PONG"


@pytest.mark.slow
def test_time_counts_from_when_it_should(start):
    """Three clocks that once ran from the wrong moment, side by side: RESET gives ten new seconds to authenticate, a
    client that reads nothing has no more than ten, and a partial command's time is its own, not its forerunners'."""
    server = start(2, "--requirepass", "secret")
    begun = time.monotonic()
    with server.connect() as pooled, server.connect() as busy:
        assert pooled("AUTH secret") == "OK" and busy("AUTH secret") == "OK"
        deaf = socket.create_connection(server.address)
        deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        deaf.setblocking(False)
        busy.send_bytes(b"*1\r\n$4\r\nPI")
        # Longer than a partial command has; the last client is never between two commands.
        while time.monotonic() - begun < 31:
            try:
                deaf.send(encode("PING") * 1000)
            except OSError:
                pass
            busy.send_bytes(b"NG\r\n*1\r\n$4\r\nPI")
            assert busy.read() == "PONG"
            select.select([], [], [], 0.05)
        assert pooled("RESET") == "RESET"
        assert pooled("AUTH secret") == "OK"
        assert pooled("PING") == "PONG"
        clients = bytes(pooled("CLIENT LIST")).splitlines()
        assert len(clients) == 2, clients
    deaf.close()


def test_bounds_follow_the_session_inside_a_pipeline(start):
    """What comes behind RESET in one write is read under the bounds of a client that is not authenticated."""
    server = start(1, "--requirepass", "secret")
    with server.connect() as wire:
        wire.send_bytes(encode("AUTH secret") + encode("RESET") + encode("ECHO" + " x" * 10))
        assert wire.read() == "OK" and wire.read() == "RESET"
        reply = wire.read()
        assert isinstance(reply, Error) and "unauthenticated" in reply, reply
