"""CLIENT KILL, PAUSE, REPLY and their kin, and DEBUG SLEEP: what clients do to one another and to themselves."""

import contextlib
import select
import socket
import time

import pytest

from reply import OK, Error
from server.slots import keys_over_cores
from server.wire import encode, eventually, flat_map

PASSWORD = "correct horse"
# Longer than any test: what ends sooner was ended.
LONG_MS = 600_000

EXACT = {
    "CLIENT NO-EVICT ON": OK,
    "client no-evict off": OK,
    "CLIENT NO-TOUCH ON": OK,
    "CLIENT NO-TOUCH OFF": OK,
    "CLIENT TRACKING OFF": OK,
    "CLIENT TRACKING off BCAST PREFIX a": OK,
    "CLIENT GETREDIR": -1,
    "CLIENT UNBLOCK 1": 0,
    "CLIENT UNBLOCK 1 TIMEOUT": 0,
    "CLIENT UNBLOCK 1 error": 0,
    "CLIENT UNPAUSE": OK,
    "CLIENT PAUSE 0": OK,
    "CLIENT PAUSE 0 write": OK,
    "CLIENT REPLY ON": OK,
    "CLIENT KILL ID 999999999": 0,
    "CLIENT KILL TYPE master": 0,
    "CLIENT KILL type pubsub SKIPME no": 0,
    "CLIENT KILL ADDR 1.2.3.4:5 USER default": 0,
    "CLIENT KILL MAXAGE 999999999": 0,
    "CLIENT LIST TYPE replica": b"",
    "CLIENT LIST ID 999999999": b"",
    "DEBUG SLEEP 0": OK,
    "DEBUG SLEEP 0.001": OK,
}

REFUSED = {
    "CLIENT KILL": "ERR wrong number of arguments for 'client|kill' command",
    "CLIENT KILL 1.2.3.4:5": "ERR No such client",
    "CLIENT KILL ID": "ERR No such client",
    "CLIENT KILL ID x": "ERR client-id should be greater than 0",
    "CLIENT KILL ID 0": "ERR client-id should be greater than 0",
    "CLIENT KILL ID -5": "ERR client-id should be greater than 0",
    "CLIENT KILL ID 99999999999999999999": "ERR client-id should be greater than 0",
    "CLIENT KILL TYPE foo": "ERR Unknown client type 'foo'",
    "CLIENT KILL USER nobody": "ERR No such user 'nobody'",
    "CLIENT KILL SKIPME perhaps": "ERR syntax error",
    "CLIENT KILL MAXAGE x": "ERR maxage is not an integer or out of range",
    "CLIENT KILL MAXAGE 0": "ERR maxage should be greater than 0",
    "CLIENT KILL ID 1 ADDR": "ERR syntax error",
    "CLIENT KILL ID 1 COLOUR red": "ERR syntax error",
    "CLIENT PAUSE": "ERR wrong number of arguments for 'client|pause' command",
    "CLIENT PAUSE x": "ERR timeout is not an integer or out of range",
    "CLIENT PAUSE 1.5": "ERR timeout is not an integer or out of range",
    "CLIENT PAUSE -1": "ERR timeout is negative",
    "CLIENT PAUSE 1 READ": "ERR CLIENT PAUSE mode must be WRITE or ALL",
    "CLIENT PAUSE 1 WRITE x": "ERR wrong number of arguments for 'client|pause' command",
    "CLIENT UNPAUSE now": "ERR wrong number of arguments for 'client|unpause' command",
    "CLIENT REPLY": "ERR wrong number of arguments for 'client|reply' command",
    "CLIENT REPLY MAYBE": "ERR syntax error",
    "CLIENT NO-EVICT": "ERR wrong number of arguments for 'client|no-evict' command",
    "CLIENT NO-EVICT MAYBE": "ERR syntax error",
    "CLIENT NO-TOUCH MAYBE": "ERR syntax error",
    "CLIENT TRACKING ON": "ERR client side caching is not offered",
    "CLIENT TRACKING ON BCAST REDIRECT 5": "ERR client side caching is not offered",
    "CLIENT TRACKING ON COLOUR": "ERR syntax error",
    "CLIENT TRACKING MAYBE": "ERR syntax error",
    "CLIENT CACHING YES": "ERR CLIENT CACHING can be called only when the client is in tracking mode",
    "CLIENT UNBLOCK x": "ERR value is not an integer or out of range",
    "CLIENT UNBLOCK 1 NOW": "ERR CLIENT UNBLOCK reason should be TIMEOUT or ERROR",
    "CLIENT MAINT_NOTIFICATIONS ON moving-endpoint-type internal-ip": "ERR unknown subcommand",
    "CLIENT LIST TYPE": "ERR syntax error",
    "CLIENT LIST TYPE foo": "ERR Unknown client type 'foo'",
    "CLIENT LIST ID": "ERR syntax error",
    "CLIENT LIST ID x": "ERR Invalid client ID",
    "CLIENT LIST ID 1 0": "ERR Invalid client ID",
    "CLIENT LIST COLOUR": "ERR syntax error",
    "DEBUG SLEEP x": "ERR seconds must be a decimal number from 0 to 60",
    "DEBUG SLEEP -1": "ERR seconds must be a decimal number from 0 to 60",
    "DEBUG SLEEP 60.000001": "ERR seconds must be a decimal number from 0 to 60",
    "DEBUG SLEEP 1e1": "ERR seconds must be a decimal number from 0 to 60",
    "DEBUG SLEEP .5": "ERR seconds must be a decimal number from 0 to 60",
    "DEBUG SEGFAULT": "ERR unknown subcommand",
    "MONITOR now": "ERR wrong number of arguments for 'monitor' command",
}


@pytest.mark.smoke
@pytest.mark.parametrize("command", EXACT)
def test_exact(wire, command):
    assert wire(command) == EXACT[command]


@pytest.mark.smoke
@pytest.mark.parametrize("command", REFUSED)
def test_refused_and_the_connection_lives_on(wire, command):
    reply = wire(command)
    assert isinstance(reply, Error) and reply.startswith(REFUSED[command]), reply
    assert wire("PING") == "PONG"


def test_nothing_is_tracked(wire, protocol):
    info = flat_map(wire("CLIENT TRACKINGINFO"))
    flags = {b"off"} if protocol == 3 else [b"off"]
    assert info == {b"flags": flags, b"redirect": -1, b"prefixes": []}


def fields(line: str) -> dict[str, str]:
    return dict(part.split("=", 1) for part in line.split(" "))


def clients(wire, *options) -> list[dict[str, str]]:
    return [fields(line) for line in wire(["CLIENT", "LIST", *options]).decode().splitlines()]


def crowd_of(server, count: int) -> list:
    """So many connections that the server serves, each on some core."""
    crowd = [server.connect() for _ in range(count)]
    assert [other("PING") for other in crowd] == ["PONG"] * count
    return crowd


def ended(wire) -> bool:
    """Whether the server ends the connection by itself, without being asked anything."""
    return wire.rest() == b""


# CLIENT LIST


def test_list_is_in_the_order_of_coming_and_by_id_in_the_order_asked(wire, server):
    crowd = crowd_of(server, 12)
    ids = [str(other("CLIENT ID")) for other in crowd]
    shown = [client["id"] for client in clients(wire)]
    assert shown == sorted(shown, key=int) and set(ids) <= set(shown)
    asked = [ids[7], ids[2], "999999999", ids[7]]
    assert [client["id"] for client in clients(wire, "ID", *asked)] == [ids[7], ids[2], ids[7]]
    assert set(ids) <= {client["id"] for client in clients(wire, "type", "NORMAL")}
    for other in crowd:
        other.close()


def test_list_shows_what_a_client_is(wire, server):
    with server.connect() as other:
        number = str(other("CLIENT ID"))
        other("CLIENT NO-EVICT ON")
        other("CLIENT NO-TOUCH ON")
        other.send_bytes(b"*2\r\n$4\r\nECHO\r\n$5\r\nab")

        def shown() -> dict[str, str]:
            [client] = clients(wire, "ID", number)
            return client

        assert shown()["flags"] == "eT"
        assert eventually(lambda: shown()["qbuf"] != "0")
        before = int(shown()["tot-mem"])
        assert before > int(shown()["qbuf"]) > 0
        other.send_bytes(b"cde\r\n")
        assert other.read() == b"abcde"
        assert shown()["qbuf"] == "0" and int(shown()["tot-mem"]) < before
        assert other("RESET") == "RESET"
        assert shown()["flags"] == "N"


def deaf(server) -> socket.socket:
    """A client that asks for much and reads nothing, so that the server waits to write."""
    with server.connect() as maker:
        maker.pipeline([f"RL.SLIDE much:{number}:{'x' * 200} 5 1h" for number in range(2000)])
    connection = socket.create_connection(server.address)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    connection.sendall(encode("KEYS much:*") * 16)
    return connection


def address_of(connection: socket.socket) -> str:
    return "%s:%d" % connection.getsockname()


def test_list_shows_what_was_not_read_and_kill_ends_who_does_not_read(wire, server):
    with deaf(server) as connection:

        def unsent() -> int:
            found = [client for client in clients(wire) if client["addr"] == address_of(connection)]
            return int(found[0]["omem"]) if found else -1

        assert eventually(lambda: unsent() > 0)
        assert wire(f"CLIENT KILL {address_of(connection)}") == "OK"
        assert eventually(lambda: unsent() == -1)


# CLIENT KILL


@pytest.mark.smoke
def test_kill_reaches_every_core(wire, server, cores):
    crowd = crowd_of(server, 8 * cores)
    numbers = [other("CLIENT ID") for other in crowd]
    served = {client["core"] for client in clients(wire, "ID", *map(str, numbers))}
    assert len(served) == cores
    for other, number in zip(crowd, numbers):
        assert wire(f"CLIENT KILL ID {number}") == 1
        assert wire(f"CLIENT KILL ID {number}") == 0
        assert ended(other)
    left = {client["id"] for client in clients(wire)}
    assert not left & {str(number) for number in numbers}


def test_kill_by_addresses(wire, server):
    one, two = crowd_of(server, 2)
    assert wire(f"CLIENT KILL {address_of(one.socket)}") == "OK"
    assert ended(one)
    assert wire(f"CLIENT KILL ADDR {address_of(two.socket)} LADDR 127.0.0.1:1") == 0
    assert two("PING") == "PONG"
    assert wire(f"CLIENT KILL LADDR 127.0.0.1:{server.port} ADDR {address_of(two.socket)} TYPE normal") == 1
    assert ended(two)
    assert isinstance(wire(f"CLIENT KILL {address_of(two.socket)}"), Error)


def test_kill_all_others_and_kill_by_age(wire, server):
    old = crowd_of(server, 6)
    wire("RL.CLOCK ADVANCE 100s")
    young = crowd_of(server, 6)
    assert wire("CLIENT KILL MAXAGE 50") >= 6
    assert all(map(ended, old))
    assert all(other("PING") == "PONG" for other in young)
    assert wire("CLIENT KILL USER default") >= 6
    assert all(map(ended, young))
    assert wire("PING") == "PONG"


OWN_DEATHS = {
    "CLIENT KILL {address}": b"+OK\r\n",
    "CLIENT KILL ID {id} SKIPME no": b":1\r\n",
    "client kill addr {address} skipme NO": b":1\r\n",
}


@pytest.mark.parametrize("command", OWN_DEATHS)
def test_who_kills_itself_is_answered_first(server, protocol, command):
    with server.connect(protocol) as wire:
        line = command.format(address=address_of(wire.socket), id=wire("CLIENT ID"))
        wire.send("PING", line, "RL.SLIDE never 5 1h")
        assert wire.read() == "PONG"
        assert wire.rest() == OWN_DEATHS[command]
    assert server.ask("EXISTS never") == 0


def test_kill_inside_a_transaction(server, cores):
    others = crowd_of(server, 3 * cores)
    with server.connect() as wire:
        kills = [f"CLIENT KILL ID {other('CLIENT ID')}" for other in others]
        own = [f"CLIENT KILL ID {wire('CLIENT ID')}", f"CLIENT KILL ID {wire('CLIENT ID')} SKIPME no"]
        wire.pipeline(["MULTI", *kills, own[0], own[1]])
        assert wire("EXEC") == [1] * len(kills) + [0, 1]
        assert ended(wire) and all(map(ended, others))


def test_kill_spares_the_asker_unless_told_otherwise(server):
    with server.connect() as wire:
        assert wire(f"CLIENT KILL ID {wire('CLIENT ID')}") == 0
        assert wire(f"CLIENT KILL ADDR {address_of(wire.socket)} SKIPME yes") == 0
        assert wire("PING") == "PONG"


# CLIENT REPLY


def test_reply_off_and_on(wire, cores):
    keys = keys_over_cores("off", 40, cores)
    limits = [f"RL.SLIDE {key} 5 1h" for key in keys]
    wire.send("ECHO before", "CLIENT REPLY OFF", *limits, "PING", "NOSUCH", "DBSIZE", *limits, "CLIENT REPLY ON", "PING")
    assert wire.read() == b"before"
    assert wire.read() == "OK"
    assert wire.read() == "PONG"
    assert [reply[2] for reply in wire.pipeline(limits)] == [2] * 40


def test_reply_skip(wire, cores):
    [key] = keys_over_cores("skip", 2, cores)[-1:]
    wire.send("CLIENT REPLY SKIP", f"RL.SLIDE {key} 5 1h", f"RL.SLIDE {key} 5 1h")
    assert wire.read()[2] == 3
    wire.send("PING", "CLIENT REPLY SKIP", "CLIENT REPLY SKIP", "KEYS *", "ECHO a")
    assert (wire.read(), wire.read()) == ("PONG", b"a")
    wire.send("CLIENT REPLY SKIP", "CLIENT REPLY ON", "ECHO b")
    assert (wire.read(), wire.read()) == ("OK", b"b")
    wire.send("CLIENT REPLY SKIP", "CLIENT REPLY MAYBE", "ECHO c", "CLIENT REPLY SKIP", "NOSUCH", "ECHO d")
    assert (wire.read(), wire.read()) == (b"c", b"d")
    wire.send("CLIENT REPLY OFF", "CLIENT REPLY SKIP", "PING", "PING", "RESET", "ECHO e")
    assert (wire.read(), wire.read()) == ("RESET", b"e")


def test_reply_off_around_a_transaction(wire, cores):
    keys = keys_over_cores("multi", 8, cores)
    sets = [f"SET {key} 1" for key in keys]
    wire.send("CLIENT REPLY OFF", "MULTI", *sets, "EXEC", "CLIENT REPLY ON", "PING")
    assert (wire.read(), wire.read()) == ("OK", "PONG")
    assert wire(["MGET", *keys]) == [b"1"] * 8


@pytest.mark.parametrize("command", ["MONITOR", "SHUTDOWN", "SHUTDOWN NOSAVE", "DEBUG SLEEP 0"])
def test_what_no_transaction_may_hold(wire, command):
    wire.send("MULTI", command, "EXEC", "PING")
    assert wire.read() == "OK"
    assert wire.read() == "ERR Command not allowed inside a transaction"
    assert wire.read().code == "EXECABORT"
    assert wire.read() == "PONG"


def test_reply_off_holds_no_memory(wire, server, cores):
    """Millions of bytes of answers that nobody wants are not kept, and not sent."""
    wire.pipeline([f"RL.SLIDE kept:{number}:{'x' * 200} 5 1h" for number in range(1000)])
    wire.send("CLIENT REPLY OFF", *["KEYS *"] * 50, "CLIENT REPLY ON")
    assert wire.read() == "OK"
    sent = int(fields(wire("CLIENT INFO").decode().rstrip("\n"))["tot-net-out"])
    assert sent < 200_000


def test_reply_off_to_the_end(server):
    with server.connect() as wire:
        wire.send("CLIENT REPLY OFF", "PING", "QUIT")
        assert wire.rest() == b""
    with server.connect() as wire:
        wire.send_bytes(encode("CLIENT REPLY OFF") + b"*1\r\nx\r\n")
        assert wire.rest() == b""


# CLIENT PAUSE


@contextlib.contextmanager
def paused(server, *mode: str):
    """A pause that only UNPAUSE ends; whatever the test does, it is ended."""
    with server.connect() as operator:
        assert operator(["CLIENT", "PAUSE", str(LONG_MS), *mode]) == "OK"
        try:
            yield operator
        finally:
            assert operator("CLIENT UNPAUSE") == "OK"


def is_held(*wires) -> bool:
    """Whether nothing comes, for as long as an answer takes many times over."""
    return select.select([wire.socket for wire in wires], [], [], 0.05)[0] == []


@pytest.mark.smoke
def test_pause_holds_all(wire, server, cores):
    others = [wire, *crowd_of(server, 4 * cores)]
    with paused(server):
        for other in others:
            other.send("PING", "ECHO a")
        assert is_held(*others)
    for other in others:
        assert (other.read(), other.read()) == ("PONG", b"a")


def test_pause_holds_writes(wire, server, cores):
    keys = keys_over_cores("held", 8, cores)
    writers = crowd_of(server, 2 * cores)
    with paused(server, "WRITE"):
        for writer in writers:
            writer.send(*[f"RL.SLIDE {key} 1000 1h" for key in keys], "PING")
        assert eventually(lambda: sum(client["flags"] == "b" for client in clients(wire)) == len(writers))
        assert f"blocked_clients:{len(writers)}\r\n".encode() in wire("INFO clients")
        assert {client["cmd"] for client in clients(wire) if client["flags"] == "b"} == {"rl.slide"}
        assert wire(["EXISTS", *keys]) == 0
        assert wire("INFO server").startswith(b"# Server") and wire("GETX").startswith("ERR unknown command")
        assert is_held(*writers)
    for writer in writers:
        assert [writer.read()[0] for _ in keys] == [1] * len(keys)
        assert writer.read() == "PONG"
    assert wire(["EXISTS", *keys]) == len(keys)
    assert all(client["flags"] == "N" for client in clients(wire))
    assert b"blocked_clients:0\r\n" in wire("INFO clients")


def test_pause_holds_what_writes_of_a_transaction(wire, server):
    with server.connect() as writer:
        writer.pipeline(["MULTI", "SET held 1"])
        with paused(server, "WRITE"):
            assert wire.pipeline(["MULTI", "GET held", "EXEC"]) == [OK, "QUEUED", [None]]
            writer.send("EXEC")
            assert is_held(writer)
            assert wire("EXISTS held") == 0
        assert writer.read() == [OK]
    assert wire("EXISTS held") == 1


def test_pause_ends_by_itself_on_a_real_clock(wire):
    begun = time.monotonic()
    wire.send("CLIENT PAUSE 150", "PING", "PING")
    assert wire.read() == "OK"
    assert (wire.read(), wire.read()) == ("PONG", "PONG")
    assert 0.14 < time.monotonic() - begun < 5


def test_pauses_add_up(wire, server):
    with paused(server, "ALL") as operator:
        # This one is no longer held once the longer pause is ended.
        wire.send("PING")
        assert is_held(wire)
        assert operator("CLIENT UNPAUSE") == "OK"
        assert wire.read() == "PONG"
        assert wire(f"CLIENT PAUSE {LONG_MS} WRITE") == "OK"
        assert wire("CLIENT PAUSE 1 WRITE") == "OK"
        wire.send("FLUSHALL")
        assert is_held(wire)
    assert wire.read() == "OK"


def test_a_held_client_can_be_killed_or_leave(wire, server):
    victim, leaver, half = crowd_of(server, 3)
    numbers = [str(other("CLIENT ID")) for other in (victim, leaver, half)]
    with paused(server, "WRITE"):
        for other in (victim, leaver, half):
            other.send("RL.SLIDE never 5 1h", "RL.SLIDE never 5 1h")
        assert eventually(lambda: sum(client["flags"] == "b" for client in clients(wire)) == 3)
        assert wire(f"CLIENT KILL ID {numbers[0]}") == 1
        assert ended(victim)
        leaver.vanish()
        half.socket.shutdown(socket.SHUT_WR)
        assert eventually(lambda: clients(wire, "ID", *numbers) == [])
    assert wire("EXISTS never") == 0


def test_a_held_client_does_not_keep_the_server_from_ending(start, cores):
    server = start(cores)
    with server.connect() as operator, server.connect() as held:
        assert operator(f"CLIENT PAUSE {LONG_MS}") == "OK"
        held.send("RL.SLIDE k 5 1h")
        assert is_held(held)
        begun = time.monotonic()
        assert server.stop() == 0
        assert time.monotonic() - begun < 5
        assert held.rest() == b""


def test_who_must_give_a_password_can_end_a_pause(start, cores):
    server = start(cores, "--requirepass", PASSWORD)
    with server.connect() as operator:
        assert operator(["AUTH", PASSWORD]) == "OK"
        assert operator(f"CLIENT PAUSE {LONG_MS}") == "OK"
    with server.connect() as rescuer:
        assert rescuer("PING").code == "NOAUTH"
        assert flat_map(rescuer(["HELLO", "3", "AUTH", "default", PASSWORD]))[b"proto"] == 3
        rescuer.send("PING")
        assert is_held(rescuer)
        with server.connect() as other:
            assert other(["AUTH", PASSWORD]) == "OK"
            assert other("CLIENT UNPAUSE") == "OK"
        assert rescuer.read() == "PONG"


def test_the_held_do_not_spin(wire, server, cores):
    others = crowd_of(server, 20)
    with paused(server, "WRITE"):
        for other in others:
            other.send("FLUSHALL")
        assert eventually(lambda: sum(client["flags"] == "b" for client in clients(wire)) == 20)

        def cpu_seconds() -> float:
            with open(f"/proc/{server.pid}/stat") as stat:
                return sum(map(int, stat.read().rsplit(")", 1)[1].split()[11:13])) / 100

        before = cpu_seconds()
        select.select([other.socket for other in others], [], [], 0.3)
        assert cpu_seconds() - before < 0.1
    assert [other.read() for other in others] == [OK] * 20


# DEBUG SLEEP


def test_debug_sleep_stops_every_core(wire, server, cores):
    others = crowd_of(server, 3 * cores)
    begun = time.monotonic()
    wire.send("DEBUG SLEEP 0.3")
    time_of = {}
    select.select([wire.socket], [], [], 0.1)
    for other in others:
        other.send("PING")
    for other in others:
        assert other.read() == "PONG"
        time_of[other] = time.monotonic() - begun
    assert wire.read() == "OK"
    taken = time.monotonic() - begun
    assert 0.3 <= taken < 0.6 and min(time_of.values()) >= 0.25
