"""Commands for several keys, wherever the keys lie and whoever asks: counted once, and answered in the right protocol."""

import itertools

import pytest

from server.slots import keys_over_cores

# Arguments of commands for several keys that are not just keys: `{0}` and `{1}` are two of them.
ARGUMENTS = {
    "mset": "{0} 1 {1} 2",
    "msetnx": "{0} 1 {1} 2",
    "rl.all": "{0} FIXED 5 1h 1 {1} FIXED 5 1h 1",
}
# Its keys must share a slot, and it is about a connection, not about the keys.
NOT_OVER_CORES = {"watch"}

# Commands whose replies differ between the protocols, on a key that is not there; `{0}` and `{1}` are two such keys.
OF_TWO_FORMS = [
    "GET {0}", "MGET {0}", "MGET {0} {1}", "SET {0} 1 XX", "GETDEL {0}", "RL.GET {0}", "OBJECT ENCODING {0}",
    "CONFIG GET maxmemory", "CLIENT GETNAME", "COMMAND INFO get",
]  # fmt: skip
GREETINGS = ["HELLO 3", "HELLO 3 SETNAME me", "HELLO 3 AUTH default any", "HELLO", "HELLO 9", "HELLO 3 NO"]


def core_of_connection(wire) -> int:
    return int(wire("CLIENT INFO").decode().split("core=")[1].split()[0])


def on_each_core(server, cores: int) -> dict:
    """A connection of each core."""
    found = {}
    while len(found) < cores:
        wire = server.connect()
        core = core_of_connection(wire)
        if core in found:
            wire.close()
        found.setdefault(core, wire)
    return found


def commands_for_several_keys(wire) -> list[str]:
    rows = [(row[0].decode(), row[3], row[4]) for row in wire("COMMAND")]
    return sorted(name for name, first, last in rows if first == 1 and last != first and name not in NOT_OVER_CORES)


def counted(wire, name: str) -> tuple[int, int]:
    """Calls of a command, and calls of all others but INFO, both since the start."""
    text = wire("INFO everything").decode()
    lines = dict(line.split(":", 1) for line in text.splitlines() if ":" in line)
    calls = {key: int(value.split("calls=")[1].split(",")[0]) for key, value in lines.items() if "calls=" in value}
    own = calls.get(f"cmdstat_{name}", 0)
    others = int(lines["total_commands_processed"]) - own - calls.get("cmdstat_info", 0)
    return own, others


@pytest.mark.parametrize("cores", [1, 2, 3, 4])
def test_every_call_for_several_keys_is_counted_once(start, cores):
    server = start(cores)
    connections = on_each_core(server, cores)
    keys = keys_over_cores("k", 2 * cores, cores)
    places = list(itertools.product(range(cores), repeat=2))
    pairs = [(keys[one], keys[cores + two]) for one, two in places]
    names = commands_for_several_keys(connections[0])
    assert {"del", "mget", "mset", "exists", "rename", "rl.all"} <= set(names)
    for name, (home, wire) in itertools.product(names, connections.items()):
        calls = [f"{name} {ARGUMENTS.get(name, '{0} {1}').format(*pair)}" for pair in pairs]
        before = counted(wire, name)
        for call in calls:
            wire(call)
        after = counted(wire, name)
        assert after == (before[0] + len(calls), before[1]), f"{name} from core {home}"
        wire("MULTI")
        wire.pipeline(calls)
        assert len(wire("EXEC")) == len(calls)
        inside = counted(wire, name)
        # MULTI and EXEC are calls too.
        assert inside == (after[0] + len(calls), after[1] + 2), f"{name} from core {home} in a transaction"
    for wire in connections.values():
        wire.close()


@pytest.mark.parametrize("cores", [1, 2, 3, 4])
def test_every_walk_is_counted_once(start, cores):
    server = start(cores)
    for home, wire in on_each_core(server, cores).items():
        before, steps, cursor = counted(wire, "scan"), 0, b"0"
        wire(["MSET", *itertools.chain(*((f"s{number}", "1") for number in range(40)))])
        while True:
            cursor, _ = wire(["SCAN", cursor, "COUNT", "7"])
            steps += 1
            if cursor == b"0":
                break
        assert counted(wire, "scan")[0] == before[0] + steps, home
        wire.close()


def raw(wire, *commands) -> bytes:
    """The bytes of the replies."""
    wire.send(*commands, "PING")
    found = b""
    while not found.endswith(b"+PONG\r\n"):
        found += wire.line() + b"\r\n"
    return found.removesuffix(b"+PONG\r\n")


@pytest.mark.parametrize("is_guarded", [False, True])
@pytest.mark.parametrize("greeting", GREETINGS)
def test_replies_behind_a_hello_are_what_they_are_outside(server, cores, greeting, is_guarded):
    """Also where EXEC is guarded, and what lies behind a HELLO leaves for its core before the HELLO has run."""
    keys = keys_over_cores("none", cores + 1, cores)
    calls = [call.format(one, two) for call in OF_TWO_FORMS for one, two in itertools.pairwise(keys)]
    for watched in keys[:cores]:
        with server.connect() as wire:
            expected = [b"*%d\r\n" % (3 * len(calls) + 2)]
            for hello in ["", greeting, "HELLO 2"]:
                expected += [raw(wire, call) for call in ([hello] if hello else []) + calls]
        with server.connect() as wire:
            # What is the connection's own number in the replies is no part of the comparison.
            if is_guarded:
                wire(f"WATCH {watched}")
            wire("MULTI")
            wire.pipeline([*calls, greeting, *calls, "HELLO 2", *calls])
            assert without_ids(raw(wire, "EXEC")) == without_ids(b"".join(expected))


def without_ids(replies: bytes) -> bytes:
    head, *rest = replies.split(b"$2\r\nid\r\n")
    return b"id".join([head, *(part.split(b"\r\n", 1)[1] for part in rest)])
