"""What a connection can ask about itself and the server, in the shapes that clients expect."""

import pytest

from reply import OK, PONG, Error, Status
from server.wire import flat_map

EXACT = {
    "PING": PONG,
    "ping": PONG,
    "PING hello": b"hello",
    "ECHO hello": b"hello",
    "SELECT 0": OK,
    "CLIENT SETNAME me": OK,
    "CLIENT SETINFO LIB-NAME a-client": OK,
    "CLIENT SETINFO lib-ver 1.2": OK,
    "client setinfo Lib-Name b": OK,
    "CLUSTER KEYSLOT foo": 12182,
    "CLUSTER KEYSLOT {foo}.bar": 12182,
    "CLUSTER KEYSLOT 123456789": 12739,
    "DBSIZE": 0,
    "EXISTS nothing": 0,
    "TYPE nothing": Status("none"),
    "TTL nothing": -2,
    "PTTL nothing": -2,
    "DEL nothing": 0,
    "UNLINK nothing nothing": 0,
    "FLUSHALL": OK,
    "FLUSHALL ASYNC": OK,
    "FLUSHDB SYNC": OK,
    "KEYS *": [],
    "SCAN 0": [b"0", []],
    "COMMAND INFO no.such": [None],
}

REFUSED = {
    "NOSUCH a b": "ERR unknown command 'NOSUCH', with args beginning with: 'a' 'b'",
    "GETX": "ERR unknown command 'GETX'",
    "ECHO": "ERR wrong number of arguments for 'echo' command",
    "ECHO a b": "ERR wrong number of arguments for 'echo' command",
    "RL.SLIDE k": "ERR wrong number of arguments for 'rl.slide' command",
    "RL.ALL k": "ERR wrong number of arguments for 'rl.all' command",
    "CL.THROTTLE k 1": "ERR wrong number of arguments for 'cl.throttle' command",
    "TTL": "ERR wrong number of arguments for 'ttl' command",
    "SELECT 1": "ERR DB index is out of range",
    "SELECT x": "ERR",
    "CLIENT NOSUCH": "ERR unknown subcommand",
    "CLIENT TRACKING ON": "ERR",
    "CLIENT MAINT_NOTIFICATIONS ON": "ERR",
    "CLIENT SETINFO LIB-COLOUR red": "ERR",
    "CONFIG NOSUCH": "ERR unknown subcommand",
    "CLUSTER NOSUCH": "ERR",
    "COMMAND GETKEYS PING": "ERR The command has no key arguments",
    "COMMAND GETKEYS NOSUCH k": "ERR Invalid command specified",
    "COMMAND GETKEYS RL.SLIDE k": "ERR Invalid number of arguments specified for command",
    "EVAL x 0": "ERR unknown command",
    "SCAN x": "ERR invalid cursor",
    "SCAN 0 COUNT 0": "ERR syntax error",
    "SCAN 0 NOSUCH 1": "ERR syntax error",
    "RL.CLOCK SET 1": "ERR",
    "RL.CLOCK ADVANCE -1s": "ERR",
    "RL.CLOCK ADVANCE 0.1us": "ERR",
    "FLUSHALL NOW": "ERR syntax error",
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


def test_quit(server, protocol):
    with server.connect(protocol) as wire:
        wire.send("PING", "QUIT", "PING")
        assert wire.read() == "PONG"
        assert wire.read() == "OK"
        assert wire.rest() == b""


def test_reset_goes_back_to_the_start(wire):
    wire("HELLO 3")
    wire("CLIENT SETNAME me")
    assert wire("RESET") == Status("RESET")
    assert wire("CLIENT GETNAME") in (None, b"")
    assert isinstance(wire("CONFIG GET port"), list)


def test_inline_commands(wire):
    wire.send_bytes(b'PING\r\nECHO "a \\x41 b"\nrl.slide inline 5 1\r\n')
    assert wire.read() == "PONG"
    assert wire.read() == b"a A b"
    assert wire.read()[:3] == [1, 5, 4]


def test_client_names(wire):
    assert wire("CLIENT GETNAME") in (None, b"")
    assert wire("CLIENT SETNAME me") == "OK"
    assert wire("CLIENT GETNAME") == b"me"
    assert isinstance(wire(["CLIENT", "SETNAME", "two words"]), Error)
    assert wire("CLIENT GETNAME") == b"me"


def fields(line: str) -> dict[str, str]:
    return dict(part.split("=", 1) for part in line.split(" "))


def test_client_info(wire, server, cores, protocol):
    wire("CLIENT SETNAME me")
    wire("CLIENT SETINFO LIB-NAME a-client")
    wire("CLIENT SETINFO LIB-VER 1.2")
    text = wire("CLIENT INFO").decode()
    assert text.endswith("\n") and "\r" not in text
    shown = fields(text.rstrip("\n"))
    expected = {"name": "me", "db": "0", "lib-name": "a-client", "lib-ver": "1.2", "resp": str(protocol)}
    assert shown | expected == shown
    assert shown["id"] == str(wire("CLIENT ID")) and shown["laddr"] == f"127.0.0.1:{server.port}"
    host, port = wire.socket.getsockname()
    assert shown["addr"] == f"{host}:{port}"
    assert {"fd", "age", "idle", "flags", "cmd", "user"} <= set(shown)
    assert shown["cmd"] == "client|info" and int(shown["core"]) in range(cores)


def test_client_list_shows_every_core(wire, server, cores):
    crowd = [server.connect() for _ in range(40)]
    for number, other in enumerate(crowd):
        assert other(f"CLIENT SETNAME crowd-{number}") == "OK"
    shown = [fields(line) for line in wire("CLIENT LIST").decode().splitlines()]
    names = {client["name"] for client in shown}
    assert {f"crowd-{number}" for number in range(40)} <= names
    assert len({client["id"] for client in shown}) == len(shown)
    assert {int(client["core"]) for client in shown} == set(range(cores))
    for other in crowd:
        other.close()


def test_info(wire, cores):
    text = wire("INFO").decode()
    lines = text.split("\r\n")
    assert all("\n" not in line for line in lines) and text.endswith("\r\n")
    info = dict(line.split(":", 1) for line in lines if line and not line.startswith("#"))
    expected = {"redis_version": "7.2.4", "tollgate_cores": str(cores), "cluster_enabled": "0", "loading": "0"}
    assert info | expected == info
    names = ["tollgate_version", "used_memory", "connected_clients", "total_commands_processed", "blocked_clients"]
    for name in [*names, "total_connections_received", "store_longest_step_us", "role", "tcp_port", "run_id"]:
        assert name in info, name
    assert int(info["connected_clients"]) >= 1 and int(info["total_commands_processed"]) > 0


def test_info_first_hits_are_the_fields_that_redis_cli_looks_for(wire):
    text = wire("INFO").decode()
    for name in ["cluster_enabled:", "used_memory:", "connected_clients:", "blocked_clients:", "loading:"]:
        value = text.split(name, 1)[1].split("\r", 1)[0]
        assert value.isdigit(), name
    assert "db0:" not in text


def test_info_sections(wire):
    assert wire("INFO server").startswith(b"# Server\r\n")
    assert b"# Memory" not in wire("INFO server")
    both = wire("INFO server memory")
    assert b"# Server" in both and b"# Memory" in both and b"# Clients" not in both
    assert wire("INFO EVERYTHING").count(b"# Server") == 1
    assert b"redis_version" not in wire("INFO nosuch")


def test_info_counts_keys(wire):
    wire.pipeline([f"RL.SLIDE k:{number} 5 1h" for number in range(30)])
    assert b"db0:keys=30,expires=30,avg_ttl=" in wire("INFO keyspace")
    assert wire("DBSIZE") == 30


def test_config_get(wire, server):
    port = flat_map(wire("CONFIG GET port"))
    assert port == {b"port": str(server.port).encode()}
    assert flat_map(wire("CONFIG GET databases")) == {b"databases": b"1"}
    several = flat_map(wire("CONFIG GET maxmem* MAX*ents timeout"))
    assert {b"maxmemory", b"maxmemory-policy", b"maxclients", b"timeout"} <= set(several)
    assert flat_map(wire("CONFIG GET no-such-parameter")) == {}
    everything = flat_map(wire("CONFIG GET *"))
    assert {b"save", b"appendonly", b"bind", b"requirepass"} <= set(everything)
    assert everything[b"requirepass"] == b""


def test_time_is_the_clock_that_limits_use(wire):
    now = wire("RL.CLOCK")
    seconds, micros = wire("TIME")
    assert (int(seconds), int(micros)) == divmod(now, 10**6)
    wire("RL.CLOCK ADVANCE 1500001us")
    seconds, micros = wire("TIME")
    assert int(seconds) * 10**6 + int(micros) == now + 1_500_001


@pytest.mark.parametrize(
    "written, micros",
    [("137us", 137), ("1us", 1), ("2ms", 2_000), ("0.5", 500_000), ("1.000001s", 1_000_001), ("1m", 60_000_000)],
)
def test_the_clock_moves_by_any_duration(wire, server, written, micros):
    before = wire("RL.CLOCK")
    assert not isinstance(wire(f"RL.CLOCK ADVANCE {written}"), Error)
    assert wire("RL.CLOCK") == before + micros
    assert [server.ask("RL.CLOCK") for _ in range(8)] == [before + micros] * 8


def test_the_clock_is_set_forwards_only(wire):
    now = wire("RL.CLOCK")
    seconds = now // 10**6 + 10
    assert not isinstance(wire(f"RL.CLOCK SET {seconds}"), Error)
    assert wire("RL.CLOCK") == seconds * 10**6
    assert not isinstance(wire(f"RL.CLOCK SET {seconds}.5s"), Error)
    assert wire("RL.CLOCK") == seconds * 10**6 + 500_000
    assert isinstance(wire(f"RL.CLOCK SET {seconds}"), Error)
    assert wire("RL.CLOCK") == seconds * 10**6 + 500_000


def text_of(reply) -> str:
    """All words of a reply for people, whatever its nesting."""
    if isinstance(reply, dict):
        reply = [part for pair in reply.items() for part in pair]
    if isinstance(reply, list | tuple):
        return "\n".join(map(text_of, reply))
    return reply.decode() if isinstance(reply, bytes) else str(reply)


def test_help_names_every_limit(wire):
    shown = text_of(wire("RL.HELP")).upper()
    for name in ("RL.SLIDE", "RL.TOKEN", "RL.FIXED", "RL.LOG", "RL.LEAK", "RL.ALL", "RL.GET", "RL.CLOCK", "REFUND"):
        assert name in shown, name


GET_SHOWS = {
    "RL.SLIDE k 100 1h COST 37": ["slide", "100", "37"],
    "RL.TOKEN k 100 10/1h COST 37": ["token", "100", "37"],
    "RL.FIXED k 100 1h COST 37": ["fixed", "100", "37"],
    "RL.LOG k 100 1h COST 37": ["log", "100", "37"],
    "RL.LEAK k 100 10/1h COST 37": ["leak", "100", "37"],
    "CL.THROTTLE k 99 10 3600 37": ["token", "100", "37"],
}


@pytest.mark.parametrize("command", GET_SHOWS)
def test_get_explains_and_changes_nothing(wire, command):
    wire(command)
    life = wire("PTTL k")
    shown = text_of(wire("RL.GET k")).lower()
    for word in GET_SHOWS[command]:
        assert word in shown, shown
    assert wire("PTTL k") == life
    assert not isinstance(wire("RL.GET nothing"), Error)
    assert wire("EXISTS nothing") == 0
