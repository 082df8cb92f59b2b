"""What a failover may forget: at most what the operator allowed, whatever becomes of the replicas."""

import contextlib
import os
import signal
import socket
import time

import pytest

from reply import Error
from server.proxy import Proxy
from server.test_replication import call_many, halt, in_step, is_up, of, told
from server.wire import eventually

NOREPLICAS = Error("NOREPLICAS Not enough good replicas to write.")
LONG = ["--replica-timeout", "60s"]


@contextlib.contextmanager
def halted(server):
    halt(server)
    try:
        yield
    finally:
        os.kill(server.pid, signal.SIGCONT)


def stands_in_step(primary, replicas: int = 1) -> bool:
    return told(primary)["replicas_in_step"] == str(replicas)


def pair(start, cores: int, *flags: str, replica_cores: int = 2):
    primary = start(cores, *flags)
    replica = start(replica_cores, *of(primary))
    assert eventually(lambda: stands_in_step(primary) and is_up(replica))
    return primary, replica


def is_silent(wire, seconds: float = 0.3) -> bool:
    """Whether nothing comes for a while: a reply that waits for a replica which is halted."""
    assert wire.position == len(wire.buffer)
    wire.socket.settimeout(seconds)
    try:
        return not wire.socket.recv(1, socket.MSG_PEEK)
    except TimeoutError:
        return True
    finally:
        wire.socket.settimeout(10.0)


def overshoot(primary) -> tuple[int, int]:
    fields = told(primary)
    return int(fields["failover_overshoot"]), int(fields["failover_overshoot_peak"])


@pytest.mark.smoke
def test_with_a_bound_of_zero_every_answer_waits(start, cores):
    """Of limits and of plain values, of one key and of several, on whatever core; and none when all is known."""
    primary, replica = pair(start, cores, "--failover-overshoot-max", "0", *LONG)
    calls = ["RL.SLIDE slide 5 3600", "RL.ALL a FIXED 9 3600 2 b TOKEN 9 1 3", "SET plain 1", "DEL other", "MSET x 1 y 2 z 3"]
    with primary.connect() as wire:
        for call in calls:
            assert wire(call) is not None
        assert wire("SET other 1") == "OK"
        assert eventually(lambda: in_step(primary, replica, "slide", "a", "b"))
    with halted(replica):
        with contextlib.ExitStack() as stack:
            wires = [stack.enter_context(primary.connect()) for _ in range(len(calls) + 3)]
            for wire, call in zip(wires, calls):
                wire.send(call)
            # In a pipeline, and in a transaction.
            wires[-3].send(*[f"RL.FIXED many:{number} 5 3600" for number in range(200)])
            assert [wires[-2](word) for word in ["MULTI", "RL.FIXED queued 5 3600", "INCR number"]] == ["OK"] + ["QUEUED"] * 2
            wires[-2].send("EXEC")
            assert all(map(is_silent, wires[:-3])) and is_silent(wires[-3])
            assert eventually(lambda: int(told(primary, "replication")["failover_overshoot"]) == 0)
            # What only looks may see what is not known yet, and waits too.
            wires[-1].send("GET plain")
            os.kill(replica.pid, signal.SIGCONT)
            answers = [wire.read() for wire in wires[: len(calls)]]
            assert answers[0][:3] == [1, 5, 3] and answers[1][0] == 1 and answers[2:] == ["OK", 1, "OK"]
            assert [wires[-3].read()[:1] for _ in range(200)] == [[1]] * 200
            assert wires[-2].read()[1] == 1
            assert wires[-1].read() == b"1"
    assert overshoot(primary) == (0, 0)
    assert eventually(lambda: in_step(primary, replica, "slide", "many:199", "queued"))


def test_answers_leave_up_to_the_bound(start, cores):
    bound = 40
    primary, replica = pair(start, cores, "--failover-overshoot-max", str(bound), *LONG)
    with primary.connect() as wire, halted(replica):
        for admitted in range(1, bound + 2):
            wire.send(f"RL.FIXED {{one}}:{admitted} 5 3600")
            if is_silent(wire, 0.1):
                break
            assert wire.read()[0] == 1
        # One core has its share; the one that waits is not counted, as nobody was told of it.
        assert admitted == bound // cores + 1
        assert eventually(lambda: overshoot(primary) == (bound // cores, bound // cores))
        # A reply of another kind goes behind it, a small charge does not pass a large one.
        with primary.connect() as other:
            other.send("RL.FIXED {one}:other 5 3600")
            assert is_silent(other)
            os.kill(replica.pid, signal.SIGCONT)
            assert wire.read()[0] == 1 and other.read()[0] == 1
    assert eventually(lambda: overshoot(primary) == (0, bound // cores))


def test_a_charge_above_the_bound_waits_by_itself(start, cores):
    primary, replica = pair(start, cores, "--failover-overshoot-max", "100")
    with primary.connect() as wire:
        assert wire("RL.TOKEN large 100000 1 COST 5000")[0] == 1
        assert wire("INCREX counter BYINT 7000") == [7000, 7000]
        call_many(wire, 3_000, "RL.FIXED key:{} 100 3600 COST 7")
        call_many(wire, 300, "RL.ALL a:{} FIXED 10 3600 1 b:{} FIXED 10 3600 1".replace("b:{}", "b"))
    peak = overshoot(primary)[1]
    assert 0 < peak <= 100
    assert eventually(lambda: in_step(primary, replica, "large", "key:7", "b"))


def test_a_replica_that_hangs_is_waited_for_until_the_timeout(start, cores):
    """Then it is out of step, its primary goes on and counts; it comes back when it knows all again."""
    primary, replica = pair(start, cores, "--failover-overshoot-max", "0", "--replica-timeout", "400ms")
    with primary.connect() as wire:
        with halted(replica):
            begin = time.monotonic()
            assert wire("RL.FIXED key 500 3600 COST 3")[0] == 1
            assert 0.35 < time.monotonic() - begin < 3
            assert stands_in_step(primary, 0) and told(primary)["connected_slaves"] == "1"
            assert overshoot(primary)[0] == 3
            begin = time.monotonic()
            assert {answer[0] for answer in call_many(wire, 200, "RL.FIXED key:{} 5 3600")} == {1}
            assert time.monotonic() - begin < 2
            assert eventually(lambda: overshoot(primary)[0] == 203)
        assert eventually(lambda: stands_in_step(primary) and is_up(replica))
        assert eventually(lambda: overshoot(primary)[0] == 0)
        assert wire("RL.FIXED key 500 3600")[0] == 1 and overshoot(primary)[0] == 0


@pytest.mark.parametrize("replica_cores", [1, 3])
def test_a_replica_that_is_given_up_does_not_call_itself_in_step(start, replica_cores):
    """Its acknowledgements are lost on the way, and it hears all: it is down before an answer leaves without it."""
    primary = start(2, "--failover-overshoot-max", "0", "--replica-timeout", "1s")
    with Proxy(primary.port) as proxy:
        replica = start(replica_cores, "--replicaof", f"127.0.0.1:{proxy.port}")
        assert eventually(lambda: stands_in_step(primary) and is_up(replica))
        proxy.to_target.clear()
        with primary.connect() as wire, replica.connect() as other:
            wire.send("RL.FIXED key 5 3600")
            ups = []
            while is_silent(wire, 0.01):
                ups.append("master_link_status:up" in other("INFO replication").decode())
            assert ups[0] and not ups[-1] and ups == sorted(ups, reverse=True)
            assert wire.read()[0] == 1 and not is_up(replica)
            proxy.release()
            assert eventually(lambda: stands_in_step(primary) and is_up(replica))


def test_without_replicas_calls_are_refused_if_so_it_is_said(start, cores):
    flags = ["--replicas-required", "1", "--replica-lost", "deny", "--replica-timeout", "400ms", "--failover-overshoot-max", "0"]
    primary = start(cores, *flags)
    calls = ["RL.SLIDE k 5 60", "RL.ALL a FIXED 5 60 1 b FIXED 5 60 1", "SET plain b", "INCREX n", "CL.THROTTLE t 5 10 60"]
    with primary.connect() as wire:
        assert eventually(lambda: told(primary)["replicas_missing"] == "1")
        assert [wire(call) for call in calls] == [NOREPLICAS] * len(calls)
        assert set(call_many(wire, 100, "RL.FIXED k:{} 5 60")) == {NOREPLICAS}
        assert wire("DBSIZE") == 0 and wire("PING") == "PONG" and wire("EXISTS k") == 0
        assert [wire(word) for word in ["MULTI", "INCR n"]] == ["OK", NOREPLICAS] and wire("EXEC").startswith("EXECABORT")
        replica = start(2, *of(primary))
        assert eventually(lambda: stands_in_step(primary) and is_up(replica))
        assert [answer for answer in map(wire, calls) if isinstance(answer, Error)] == []
        assert eventually(lambda: in_step(primary, replica, "k", "a"))
        with halted(replica), primary.connect() as other:
            # What was charged and may not be told any more stays charged; nobody is told that it was admitted.
            other.send(*[f"RL.FIXED late:{number} 5 3600" for number in range(50)], "RL.ALL a FIXED 5 60 1 b FIXED 5 60 1")
            assert {other.read() for _ in range(51)} == {NOREPLICAS}
            assert wire("EXISTS late:1") == 1 and wire("RL.FIXED late:1 5 3600") == NOREPLICAS
            assert wire("RL.GET late:1") is not None
        assert eventually(lambda: stands_in_step(primary) and told(primary)["replicas_missing"] == "0")
        assert wire("RL.FIXED late:1 5 3600")[:3] == [1, 5, 3]
        # An operator may say otherwise, and the calls go on.
        assert replica.stop() == 0
        assert eventually(lambda: wire("SET plain c") == NOREPLICAS)
        assert wire("CONFIG SET replica-lost open") == "OK" and wire("CONFIG GET replicas-required")[1] == b"1"
        assert eventually(lambda: wire("SET plain c") == "OK")
    assert int(told(primary, "stats")["total_error_replies"]) > 100


def test_without_replicas_calls_go_on_if_nothing_else_is_said(start):
    primary = start(2, "--replicas-required", "2", "--failover-overshoot-max", "5")
    with primary.connect() as wire:
        assert {answer[0] for answer in call_many(wire, 500, "RL.FIXED key:{} 5 3600")} == {1}
        assert told(primary)["replicas_missing"] == "0"


def test_the_slower_of_two_is_waited_for(start):
    primary = start(1, "--failover-overshoot-max", "0", *LONG)
    replicas = [start(1, *of(primary)) for _ in range(2)]
    assert eventually(lambda: stands_in_step(primary, 2))
    with primary.connect() as wire, halted(replicas[1]):
        wire.send("RL.FIXED key 5 3600")
        assert is_silent(wire)
        assert eventually(lambda: replicas[0].ask("EXISTS key") == 1)
        assert is_silent(wire)
        os.kill(replicas[1].pid, signal.SIGCONT)
        assert wire.read()[0] == 1


def test_who_leaves_while_answers_wait_holds_up_nothing(start):
    """Clients that go, are killed or see the server end."""
    primary, replica = pair(start, 2, "--failover-overshoot-max", "0", "--replica-timeout", "2s")
    with halted(replica):
        with primary.connect() as wire:
            wire.send(*[f"RL.FIXED gone:{number} 5 3600" for number in range(100)])
        with primary.connect() as wire, primary.connect() as other:
            ident = wire("CLIENT ID")
            wire.send("RL.FIXED killed 5 3600")
            assert other(f"CLIENT KILL ID {ident}") == 1
        with primary.connect() as wire:
            wire.send("RL.FIXED last 5 3600")
            assert is_silent(wire)
            assert primary.stop() == 0


@pytest.mark.parametrize("ends_first", [True, False])
def test_a_replica_whose_old_link_is_still_there_is_in_step(start, ends_first):
    """Its end of a link is gone and the primary hears nothing of that; it comes again; then the old link ends."""
    primary = start(2, "--replicas-required", "1", "--replica-lost", "deny", "--replica-timeout", "500ms")
    with Proxy(primary.port) as proxy, primary.connect() as wire:
        replica = start(1, "--replicaof", f"127.0.0.1:{proxy.port}")
        assert eventually(lambda: stands_in_step(primary) and is_up(replica))
        old = proxy.forget()
        if ends_first:
            [end.close() for end in old]
        assert eventually(lambda: not is_up(replica)) and eventually(lambda: is_up(replica))
        wire("RL.FIXED key 1000 3600")
        [end.close() for end in old]
        for _ in range(20):
            assert eventually(lambda: stands_in_step(primary) and is_up(replica))
            assert wire("RL.FIXED key 1000 3600")[0] == 1
        assert told(primary)["replicas_missing"] == "0"


def test_a_link_that_was_cut_is_told_only_what_it_missed(start, cores):
    """Whole slots, but only those that changed; also what changed while nobody was told."""
    primary = start(cores)
    with primary.connect() as wire, Proxy(primary.port) as proxy:
        for first in range(0, 50_000, 10_000):
            call_many(wire, 10_000, f"RL.FIXED key:{first}:{{}} 5 3600")
        replica = start(3, "--replicaof", f"127.0.0.1:{proxy.port}")
        assert eventually(lambda: is_up(replica) and in_step(primary, replica), seconds=20)
        whole = proxy.passed
        assert whole > 2_000_000
        for round in range(4):
            proxy.is_down = True
            proxy.cut()
            assert eventually(lambda: told(primary)["connected_slaves"] == "0")
            call_many(wire, 50, f"RL.FIXED key:0:{{}} {5 + round} 3600")
            call_many(wire, 20, f"DEL key:10000:{round}{{}}")
            wire(f"SET new:{round} 1")
            before, proxy.is_down = proxy.passed, False
            assert eventually(lambda: is_up(replica) and in_step(primary, replica, "key:0:1", f"new:{round}"), seconds=20)
            assert proxy.passed - before < whole / 20
            assert replica.ask(f"EXISTS key:10000:{round}7 new:{round}") == 1
        # What changes while it comes back is not missed either, nor a flush.
        for _ in range(10):
            proxy.cut()
            call_many(wire, 2_000, "RL.FIXED busy:{} 5 3600")
        assert wire("FLUSHALL") == "OK"
        proxy.cut()
        wire("SET last 1")
        assert eventually(lambda: is_up(replica) and replica.ask("KEYS *") == [b"last"], seconds=20)


def test_a_hot_key_costs_few_records(start):
    """Not more often than twice in a flush, however often it is charged."""
    primary = start(1)
    with Proxy(primary.port) as proxy, primary.connect() as wire:
        replica = start(1, "--replicaof", f"127.0.0.1:{proxy.port}")
        assert eventually(lambda: is_up(replica))
        begin, before = time.monotonic(), proxy.passed
        for _ in range(40):
            call_many(wire, 5_000, "RL.FIXED hot 1000000000 3600 {}".replace("{}", "").strip())
        seconds, passed = time.monotonic() - begin, proxy.passed - before
        # A record of it in its part is less than 120 bytes, and there are signs of life.
        assert passed < (seconds * 400 + 20) * 120


def test_figures_of_the_bound_are_metrics(start):
    primary = start(1, "--failover-overshoot-max", "0", admin=True)
    with socket.create_connection(("127.0.0.1", primary.admin_port)) as http:
        http.sendall(b"GET /metrics HTTP/1.0\r\n\r\n")
        text = b"".join(iter(lambda: http.recv(65_536), b"")).decode()
    for name in ["failover_overshoot", "failover_overshoot_peak", "failover_overshoot_writes", "answers_waiting"]:
        assert f"\ntollgate_{name} 0" in text, name
    assert "\ntollgate_answers_kept_back_total 0" in text


@pytest.mark.parametrize("flags", [
    ["--failover-overshoot-max=-1"], ["--failover-overshoot-max", "x"], ["--replica-timeout", "10ms"],
    ["--replica-timeout", "61s"], ["--replicas-required", "17"], ["--replica-lost", "maybe"],
])
def test_bad_settings_are_named(flags):
    import subprocess

    from server.process import BINARY

    done = subprocess.run([BINARY, "serve", *flags], capture_output=True, timeout=20, check=False)
    assert done.returncode != 0 and flags[0].lstrip("-").split("=")[0].encode() in done.stderr + done.stdout
