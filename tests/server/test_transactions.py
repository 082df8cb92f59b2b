"""MULTI, EXEC, DISCARD, WATCH, UNWATCH over all cores, to the letter of Redis where it says one."""

import re
import threading
from pathlib import Path

import pytest

from reply import Error
from server.slots import core_of, keys_over_cores
from server.wire import Closed

ABORTED = "EXECABORT Transaction discarded because of previous errors."
WRONGTYPE = "WRONGTYPE Operation against a key holding the wrong kind of value"


def transaction(wire, commands):
    """The replies of a transaction, each of whose commands must be queued."""
    assert wire("MULTI") == "OK"
    assert wire.pipeline(commands) == ["QUEUED"] * len(commands)
    return wire("EXEC")


@pytest.mark.smoke
def test_a_transaction_runs_in_order_over_all_cores(wire, cores):
    keys = keys_over_cores("k", 2 * cores, cores)
    commands = [["MSET", key, f"value of {key}"] for key in keys]
    commands += [["MGET", *keys], "PING", "ECHO hello", ["EXISTS", *keys], ["DEL", keys[0]], ["MGET", *keys], "DBSIZE"]
    commands += [f"RL.FIXED {keys[0]} 5 1h", f"RL.FIXED {keys[1]} 5 1h", "NO.SUCH"][:2]
    values = [f"value of {key}".encode() for key in keys]
    replies = transaction(wire, commands)
    assert replies[: len(keys)] == ["OK"] * len(keys)
    assert replies[len(keys) : -2] == [
        values, "PONG", b"hello", len(keys), 1, [None, *values[1:]], len(keys) - 1,
    ]  # fmt: skip
    assert replies[-2][:3] == [1, 5, 4]
    assert replies[-1] == Error(WRONGTYPE)
    assert wire("EXEC") == Error("ERR EXEC without MULTI")


def test_pipelined_in_one_write(wire, cores):
    keys = keys_over_cores("k", 4, cores)
    commands = ["PING", "MULTI", *(f"MSET {key} 1" for key in keys), ["MGET", *keys], "EXEC", "PING", ["MGET", *keys]]
    replies = wire.pipeline(commands)
    assert replies[:2] == ["PONG", "OK"] and replies[-2:] == ["PONG", [b"1"] * 4]
    assert replies[-3] == ["OK"] * 4 + [[b"1"] * 4]


@pytest.mark.parametrize(
    ("commands", "replies"),
    [
        (["EXEC"], [Error("ERR EXEC without MULTI")]),
        (["DISCARD"], [Error("ERR DISCARD without MULTI")]),
        (["MULTI", "EXEC"], ["OK", []]),
        (["MULTI", "MULTI", "EXEC"], ["OK", Error("ERR MULTI calls can not be nested"), []]),
        (["MULTI", "WATCH a", "EXEC"], ["OK", Error("ERR WATCH inside MULTI is not allowed"), []]),
        (["MULTI", "MSET a 1", "DISCARD", "MGET a"], ["OK", "QUEUED", "OK", [None]]),
        (["MULTI", "UNWATCH", "EXEC"], ["OK", "QUEUED", ["OK"]]),
        (["UNWATCH"], ["OK"]),
        (["MULTI", "MSET a 1", "NO.SUCH", "EXEC", "MGET a"],
         ["OK", "QUEUED", Error("ERR unknown command 'NO.SUCH', with args beginning with: "), Error(ABORTED), [None]]),
        (["MULTI", "MGET", "EXEC", "EXEC"],
         ["OK", Error("ERR wrong number of arguments for 'mget' command"), Error(ABORTED),
          Error("ERR EXEC without MULTI")]),
        (["MULTI", "CLIENT NOPE", "PING", "EXEC"],
         ["OK", Error("ERR unknown subcommand 'NOPE'. Try CLIENT HELP."), "QUEUED", Error(ABORTED)]),
        (["MULTI x"], [Error("ERR wrong number of arguments for 'multi' command")]),
        (["MULTI", "EXEC x", "EXEC"],
         ["OK", Error("EXECABORT Transaction discarded because of: wrong number of arguments for 'exec' command"),
          Error("ERR EXEC without MULTI")]),
        (["MULTI", "MGET a", "KEYS *", "MGET a", "KEYS *", "EXEC"],
         ["OK", "QUEUED", "QUEUED", "QUEUED", "QUEUED", [[None], [], [None], []]]),
        (["WATCH"], [Error("ERR wrong number of arguments for 'watch' command")]),
    ],
)  # fmt: skip
def test_to_the_letter(wire, commands, replies):
    assert wire.pipeline(commands) == replies


def test_an_error_of_one_command_leaves_the_others(wire):
    wire("RL.FIXED limit 5 1h")
    commands = ["MSET a 1", "MSET limit 1", "RL.SLIDE a 5 60", "RL.FIXED limit five 60", "MGET a limit"]
    replies = transaction(wire, commands)
    assert [replies[0], replies[1], replies[2], replies[4]] == ["OK", Error(WRONGTYPE), Error(WRONGTYPE), [b"1", None]]
    assert replies[3].startswith("ERR limit")


# What happens between WATCH and EXEC, and whether the transaction then runs.
BETWEEN = {
    "nothing": ([], True),
    "a read": (["MGET {w}", "EXISTS {w}", "RL.GET {w}"], True),
    "an expiry taken away where there was none": (["GETEX {w} PERSIST", "PERSIST {w}"], True),
    "another key of the slot": (["MSET {w}other 1", "DEL {w}other"], True),
    "another value": (["MSET {w} 2"], False),
    "the same value": (["MSET {w} 1"], False),
    "deleted": (["DEL {w}"], False),
    "deleted and made again": (["DEL {w}", "MSET {w} 1"], False),
    "renamed away": (["RENAME {w} {w}away"], False),
    "renamed over": (["MSET {w}other 5", "RENAME {w}other {w}"], False),
    "flushed": (["FLUSHALL"], False),
}


@pytest.mark.parametrize("between", BETWEEN)
@pytest.mark.parametrize("by_itself", [False, True], ids=["by another", "by itself"])
def test_watch(wire, server, cores, between, by_itself):
    commands, runs = BETWEEN[between]
    # A tag of its own for each core, so that the watched key lies here and elsewhere.
    for key in (f"{{{name}}}" for name in keys_over_cores("w", cores, cores)):
        wire("FLUSHALL")
        wire(f"MSET {key} 1")
        assert wire(f"WATCH {key}") == "OK"
        with server.connect() as other:
            for command in commands:
                (wire if by_itself else other)(command.replace("{w}", key))
        others = keys_over_cores("out", cores, cores)
        replies = transaction(wire, [f"MSET {other} done" for other in others])
        assert replies == (["OK"] * cores if runs else None)
        assert wire(["MGET", *others]) == [b"done" if runs else None] * cores
        # Only the next transaction is guarded.
        assert transaction(wire, ["PING"]) == ["PONG"]


@pytest.mark.parametrize(
    ("make", "between", "runs"),
    [
        (None, [], True),
        (None, ["MSET w 1"], False),
        (None, ["RL.SLIDE w 5 60"], False),
        (None, ["RL.SLIDE w 5 60 PEEK"], True),
        ("RL.SLIDE w 2 10", [], True),
        ("RL.SLIDE w 2 10", ["RL.SLIDE w 2 10"], False),
        ("RL.SLIDE w 1 10", ["RL.SLIDE w 1 10"], True),
        ("RL.SLIDE w 2 10", ["RL.SLIDE w 2 10 REFUND"], False),
        ("RL.LOG w 2 10", ["RL.LOG w 2 10"], False),
        ("RL.TOKEN w 2 1", ["RL.TOKEN w 2 1 PEEK", "TTL w"], True),
    ],
)
def test_watch_of_limits_and_of_nothing(wire, server, make, between, runs):
    if make:
        wire(make)
    wire("WATCH w")
    with server.connect() as other:
        other.pipeline(between) if between else None
    assert transaction(wire, ["PING"]) == (["PONG"] if runs else None)


def test_a_watched_key_that_expires_counts_as_changed(wire):
    wire("RL.FIXED w 5 1")
    wire("WATCH w")
    wire("RL.CLOCK ADVANCE 2s")
    assert transaction(wire, ["PING"]) is None
    wire("WATCH w")
    wire("RL.CLOCK ADVANCE 2s")
    assert transaction(wire, ["PING"]) == ["PONG"]


def test_unwatch_discard_and_reset_forget(wire, server):
    for forget in (["UNWATCH"], ["MULTI", "DISCARD"], ["RESET"]):
        wire("MSET w 1")
        wire("WATCH w")
        wire.pipeline(forget)
        with server.connect() as other:
            other("MSET w 2")
        assert transaction(wire, ["PING"]) == ["PONG"], forget


def test_watched_keys_share_a_slot(wire):
    text = Error("ERR WATCHed keys must share a slot, give them a common {tag}")
    assert wire("WATCH a b") == text
    assert wire("WATCH {t}a {t}b") == "OK"
    assert wire("WATCH {t}c") == "OK"
    assert wire("WATCH a") == text
    assert wire(["WATCH", *(f"{{t}}{number}" for number in range(2000))]) == Error("ERR more than 1024 watched keys")
    assert wire("UNWATCH") == "OK"
    assert wire("WATCH a") == "OK"


def test_each_cores_part_is_one_step(server, cores):
    """Others never see a transaction's part of a core half done, though a command in it goes over all cores."""
    keys = keys_over_cores("step", 2 * cores, cores)
    rounds, seen = 300, []
    done = threading.Event()

    def look():
        with server.connect() as other:
            while not done.is_set():
                peeks = other.pipeline([f"RL.FIXED {key} 1000000 365d PEEK" for key in keys])
                seen.extend(1_000_000 - peek[2] for peek in peeks)

    looking = threading.Thread(target=look)
    looking.start()
    try:
        with server.connect() as wire:
            wire("FLUSHALL")
            for _ in range(rounds):
                charges = [f"RL.FIXED {key} 1000000 365d" for key in keys]
                transaction(wire, [*charges, ["MGET", *keys], "DBSIZE", ["EXISTS", *keys], *charges])
    finally:
        done.set()
        looking.join()
    assert len(seen) > 10 * len(keys)
    assert all(used % 2 == 0 for used in seen)
    assert max(seen) <= 2 * rounds


def test_watch_makes_counting_exact(server, cores):
    """The example of every introduction: read, add one, write if nobody wrote."""
    key = next(name for name in keys_over_cores("count", cores, cores) if core_of(name, cores) == cores - 1)
    workers, each = 4, 40

    def count():
        with server.connect() as wire:
            added = 0
            while added < each:
                wire(f"WATCH {key}")
                [value] = wire(f"MGET {key}")
                if transaction(wire, [f"MSET {key} {int(value or 0) + 1}"]) is not None:
                    added += 1

    server.ask("FLUSHALL")
    threads = [threading.Thread(target=count) for _ in range(workers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert server.ask(f"MGET {key}") == [str(workers * each).encode()]


def test_too_large_a_transaction_is_refused_and_runs_nothing(wire):
    wire("MULTI")
    value = "v" * 60_000
    replies = wire.pipeline([f"MSET a {value}"] * 300)
    assert Error("ERR the transaction is too large") in replies
    assert wire("EXEC") == Error(ABORTED)
    assert wire("MGET a") == [None]


def test_commands_of_the_connection_inside(wire, protocol):
    replies = transaction(wire, ["CLIENT SETNAME inside", "CLIENT GETNAME", "SELECT 0", "SELECT 9", "HELLO 3"])
    assert replies[:4] == ["OK", b"inside", "OK", Error("ERR DB index is out of range")]
    assert wire("CLIENT GETNAME") == b"inside"
    wire("MULTI")
    assert wire("RESET") == "RESET"
    assert wire("EXEC") == Error("ERR EXEC without MULTI")
    wire("MULTI")
    assert wire("QUIT") == "OK"
    with pytest.raises(Closed):
        wire("PING")


def test_steps_between_stretches(wire, cores):
    """Commands that need several steps on several cores keep their place in the order."""
    one, two = keys_over_cores("move", 2, cores)
    commands = [f"MSET {one} 1", f"RENAME {one} {two}", f"MGET {one} {two}", f"COPY {two} {one}", f"MGET {one} {two}"]
    commands += [f"RL.ALL {one}x FIXED 5 1h 1 {two}x FIXED 5 1h 1", "SCAN 0 COUNT 1000", f"RENAME none{one} {two}"]
    replies = transaction(wire, commands)
    assert replies[:5] == ["OK", "OK", [None, b"1"], 1, [b"1", b"1"]]
    assert replies[5][0] == 1 and len(replies[6][1]) in (1, 2, 3, 4) and replies[7] == Error("ERR no such key")


def test_a_client_shows_what_it_has_queued(wire, server):
    def multi() -> str:
        [line] = [line for line in server.ask("CLIENT LIST").decode().splitlines() if f"id={number} " in line]
        return dict(word.split("=", 1) for word in line.split(" "))["multi"]

    number = wire("CLIENT ID")
    assert multi() == "-1"
    wire("MULTI")
    assert multi() == "0"
    wire.pipeline(["PING", "PING", "MGET a"])
    assert multi() == "3"
    wire("DISCARD")
    assert multi() == "-1"


def test_replies_switched_off_inside_are_off_from_the_next_command_on(wire):
    assert transaction(wire, ["PING", "CLIENT REPLY OFF", "PING"]) == ["PONG", "OK", "PONG"]
    wire.send("PING", "CLIENT REPLY ON", "ECHO heard")
    assert (wire.read(), wire.read()) == ("OK", b"heard")
    assert transaction(wire, ["CLIENT REPLY SKIP", "PING"]) == ["OK", "PONG"]
    wire.send("ECHO skipped", "ECHO heard")
    assert wire.read() == b"heard"


# Ways to count one up under WATCH: what is run between MULTI and EXEC, `{c}` being the counter and `{v}` its next value.
COUNTING = {
    "SET": ["SET {c} {v}"],
    "MSET over cores": ["MSET {c} {v} {o} x"],
    "MSET behind a read": ["GET {c}", "MSET {o} x {c} {v}"],
    "with parts of every core": ["DBSIZE", "MGET {c} {o}", "SET {c} {v}"],
    "renamed within the tag": ["SET {c}new {v}", "RENAME {c}new {c}"],
}


@pytest.mark.parametrize("body", COUNTING)
def test_what_is_watched_is_guarded_to_the_end(server, cores, body):
    """Many clients count under WATCH: no count is lost, whatever the transaction holds and wherever its keys lie."""
    server.ask("FLUSHALL")
    one, other = keys_over_cores("c", 2, cores)
    counter, workers, each = f"{{{one}}}", 6, 30

    def count():
        with server.connect() as wire:
            added = 0
            while added < each:
                wire(f"WATCH {counter}")
                following = int(wire(f"GET {counter}") or 0) + 1
                commands = [line.format(c=counter, o=other, v=following) for line in COUNTING[body]]
                added += transaction(wire, commands) is not None

    threads = [threading.Thread(target=count) for _ in range(workers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert server.ask(f"GET {counter}") == str(workers * each).encode()


def test_what_takes_steps_cannot_be_guarded(wire, cores):
    one, two = keys_over_cores("guard", 2, cores)
    wire(f"SET {one} 1")
    rl_all = f"RL.ALL {{{one}}}x FIXED 5 1h 1 {{{two}}}x FIXED 5 1h 1"
    for command, name in ((f"RENAME {one} {two}", "RENAME"), (f"COPY {one} {two}", "COPY"), (rl_all, "RL.ALL")):
        wire(f"WATCH {one}")
        replies = transaction(wire, ["SET tried 1", command])
        if cores == 1:
            assert len(replies) == 2 and wire(f"DEL tried {two}") >= 1
            wire(f"SET {one} 1")
        else:
            text = f"ERR EXEC with WATCHed keys cannot run {name} in several steps, give its keys a common {{tag}}"
            assert replies == Error(text)
            assert wire(f"MGET tried {two}") == [None, None]
        assert transaction(wire, ["PING"]) == ["PONG"]


def test_a_second_watch_hides_no_write_from_the_first(wire, server):
    wire("SET k 1")
    wire("WATCH k")
    with server.connect() as other:
        other.pipeline(["SET k 2", "SET k 1", "WATCH k"])
        assert transaction(wire, ["PING"]) is None
        assert transaction(other, ["PING"]) == ["PONG"]


def test_replies_switched_on_inside_are_on_from_the_next_command_on(wire):
    wire("SET k hello")
    wire.send("CLIENT REPLY OFF", "MULTI", "CLIENT REPLY ON", "GET k", "EXEC", "ECHO heard")
    assert wire.read() == b"heard"
    wire.send("CLIENT REPLY SKIP", "RESET", "PING")
    assert wire.read() == "PONG"


def test_hello_inside_changes_what_comes_behind_it(wire, cores):
    key = keys_over_cores("none", cores, cores)[-1]
    wire("HELLO 2")
    wire.pipeline(["MULTI", f"GET {key}", f"MGET {key} a", "HELLO 3", f"GET {key}", f"MGET {key} a"])
    wire.send("EXEC", "PING")
    raw = b""
    while not raw.endswith(b"+PONG\r\n"):
        raw += wire.line() + b"\r\n"
    before, _, after = raw.partition(b"%7\r\n")
    assert before == b"*5\r\n$-1\r\n*2\r\n$-1\r\n$-1\r\n"
    assert after.endswith(b"_\r\n*2\r\n_\r\n_\r\n+PONG\r\n")


def test_the_output_of_a_transaction_is_bounded(server, cores):
    """Who asks for gigabytes is ended; what the transaction was to write is written, and the server stays small."""
    keys = keys_over_cores("big", cores, cores)
    with server.connect() as wire:
        wire.pipeline([["SET", key, "v" * 65_536] for key in keys])
        gets = [f"GET {keys[number % cores]}" for number in range(8_000)]
        wire.send("MULTI", *gets, "SET done 1", "EXEC")
        with pytest.raises(Closed):
            while True:
                wire.read()
    assert server.ask("GET done") == b"1"
    status = Path(f"/proc/{server.pid}/status").read_text()
    peak_kib = int(re.search(r"VmHWM:\s+(\d+)", status)[1])
    assert peak_kib < 400_000


def test_arguments_are_checked_before_any_part_runs(wire, cores):
    one, two = keys_over_cores("odd", 2, cores)
    replies = transaction(wire, [f"MSET {one} 1 {two}", f"MGET {one} {two}", "SCAN x"])
    assert replies[0] == Error("ERR wrong number of arguments for 'mset' command")
    assert replies[1:] == [[None, None], Error("ERR invalid cursor")]
    wire(f"WATCH {one}")
    assert transaction(wire, [f"SET {one} 1", "HELLO 9", "SCAN 0"])[:2] == [
        "OK", Error("NOPROTO unsupported protocol version"),
    ]  # fmt: skip
