"""Replicas: what a primary holds is there, nobody but it changes it, and what comes after it goes on from there."""

import contextlib
import os
import signal
import socket
import threading
import time
from pathlib import Path

import pytest

from reply import Error
from server.process import free_port
from server.test_snapshots import KINDS, fill, shown
from server.wire import encode, eventually

READONLY = Error("READONLY You can't write against a read only replica.")


def of(primary) -> list[str]:
    return ["--replicaof", f"127.0.0.1:{primary.port}"]


def told(server, section: str = "replication") -> dict[str, str]:
    text = server.ask(f"INFO {section}").decode()
    return dict(line.split(":", 1) for line in text.splitlines() if ":" in line)


def is_up(replica) -> bool:
    return told(replica).get("master_link_status") == "up"


def in_step(primary, replica, *keys: str) -> bool:
    """Whether both hold as many keys, and the same under these."""
    if primary.ask("DBSIZE") != replica.ask("DBSIZE"):
        return False
    return all(primary.ask(f"RL.GET {key}") == replica.ask(f"RL.GET {key}") for key in keys)


def halt(server) -> None:
    """Stops all threads of a process, until SIGCONT."""
    os.kill(server.pid, signal.SIGSTOP)
    tasks = Path(f"/proc/{server.pid}/task")
    assert eventually(lambda: all(") T" in (task / "stat").read_text() for task in tasks.iterdir()))


def call_many(wire, count: int, form: str) -> list:
    wire.send(*[form.format(number) for number in range(count)])
    return [wire.read() for _ in range(count)]


@pytest.mark.smoke
@pytest.mark.parametrize("replica_cores", [1, 3])
def test_a_replica_holds_what_its_primary_holds(start, cores, replica_cores):
    """What was there before it came, and what came after."""
    primary = start(cores)
    with primary.connect() as wire:
        wire("RL.CLOCK SET 1751540400.25")
        fill(wire)
        call_many(wire, 3_000, "RL.FIXED before:{} 10 60")
        replica = start(replica_cores, *of(primary))
        assert eventually(lambda: is_up(replica))
        call_many(wire, 3_000, "RL.FIXED after:{} 10 60")
        call_many(wire, 1_000, "RL.FIXED before:{} 10 60 COST 2")
        assert eventually(lambda: in_step(primary, replica, "before:7", "before:2000", "after:7"))
        looks = {name: question for name, (_, question) in KINDS.items() if not question.startswith(("RL.", "CL."))}
        with replica.connect() as other:
            assert {name: other(look) for name, look in looks.items()} == {name: wire(look) for name, look in looks.items()}
            for name in ["slide", "token", "fixed", "log", "leak", "throttle"]:
                assert other(f"RL.GET k:{name}") == wire(f"RL.GET k:{name}"), name
            # Time is the primary's.
            wire("RL.CLOCK ADVANCE 30s")
            assert eventually(lambda: other("RL.CLOCK") == wire("RL.CLOCK"))
            assert other("PTTL k:expiring") == 70_000
            wire("RL.CLOCK ADVANCE 200s")
            assert eventually(lambda: other("KEYS *") == [b"k:bytes"] or sorted(other("KEYS *")) == sorted(wire("KEYS *")))


def test_removals_and_flushes_reach_it(start, cores):
    primary = start(cores)
    replica = start(2, *of(primary))
    assert eventually(lambda: is_up(replica))
    with primary.connect() as wire, replica.connect() as other:
        call_many(wire, 500, "SET key:{} value")
        assert eventually(lambda: other("DBSIZE") == 500)
        call_many(wire, 250, "DEL key:{}")
        assert eventually(lambda: other("DBSIZE") == 250)
        assert other("EXISTS key:249 key:250") == 1
        assert wire("RENAME key:300 renamed") == "OK"
        assert eventually(lambda: other("GET renamed") == b"value" and other("EXISTS key:300") == 0)
        assert wire("FLUSHALL") == "OK"
        wire("SET last 1")
        assert eventually(lambda: other("KEYS *") == [b"last"])


@pytest.mark.parametrize("protocol", [2, 3])
def test_a_replica_is_read_only(start, protocol):
    primary = start(1)
    replica = start(2, *of(primary))
    assert eventually(lambda: is_up(replica))
    primary.ask("RL.SLIDE k 5 60 COST 2")
    with replica.connect(protocol) as wire:
        assert eventually(lambda: wire("EXISTS k") == 1)
        for command in ["RL.SLIDE k 5 60", "RL.SLIDE k 5 60 PEEK", "RL.ALL k SLIDE 5 60 1", "CL.THROTTLE t 5 10 60", "INCR n",
                        "SET a b", "DEL k", "FLUSHALL", "EXPIRE a 5", "INCREX n", "RENAME k l"]:
            assert wire(command) == READONLY, command
        # In a pipeline of many, where calls become rows, too.
        assert set(call_many(wire, 100, "RL.SLIDE k:{} 5 60")) == {READONLY}
        assert wire("MULTI") == "OK" and wire("RL.SLIDE k 5 60") == READONLY
        assert wire("EXEC").startswith("EXECABORT")
        assert wire("TYPE k") == "rl.slide" and wire("PTTL k") > 0 and wire("DBSIZE") == 1
        assert wire("PING") == "PONG"
    assert primary.ask("RL.SLIDE k 5 60 PEEK")[2] == 3


def test_what_both_sides_say(start):
    primary = start(2)
    assert told(primary)["role"] == "master" and told(primary)["connected_slaves"] == "0"
    replica = start(1, *of(primary))
    assert eventually(lambda: is_up(replica))
    mine = told(replica)
    assert (mine["role"], mine["master_host"], mine["master_port"]) == ("slave", "127.0.0.1", str(primary.port))
    assert mine["master_sync_in_progress"] == "0" and int(mine["master_last_io_seconds_ago"]) <= 1
    assert replica.ask("ROLE") == [b"slave", b"127.0.0.1", primary.port, b"connected", 0]
    assert eventually(lambda: "state=online" in told(primary).get("slave0", ""))
    assert told(primary)["slave0"].startswith(f"ip=127.0.0.1,port={replica.port},")
    assert primary.ask("ROLE") == [b"master", 0, [[b"127.0.0.1", str(replica.port).encode(), b"0"]]]
    with replica.connect(3) as wire:
        assert wire("HELLO 3")[b"role"] == b"replica"
    assert replica.stop() == 0
    assert eventually(lambda: told(primary)["connected_slaves"] == "0")


@pytest.mark.parametrize("bound", ["0", "100"])
def test_what_is_admitted_with_no_replica_left_is_counted_where_it_is_bounded_too(start, bound):
    primary = start(2, "--failover-overshoot-max", bound)
    replica = start(1, *of(primary))
    assert eventually(lambda: is_up(replica))
    with primary.connect() as wire:
        call_many(wire, 50, "RL.SLIDE before:{} 5 3600")
        assert eventually(lambda: told(primary)["failover_overshoot"] == "0")
        replica.kill()
        assert eventually(lambda: told(primary)["connected_slaves"] == "0")
        call_many(wire, 300, "RL.SLIDE alone:{} 5 3600")
        assert eventually(lambda: int(told(primary)["failover_overshoot"]) == 300)


def test_what_a_failover_would_forget_is_counted(start, cores):
    """Units, not calls: of all algorithms, of parts, and whatever CONFIG RESETSTAT does."""
    primary = start(cores)
    replica = start(2, *of(primary))
    assert eventually(lambda: "state=online" in told(primary).get("slave0", ""))
    assert eventually(lambda: told(primary)["failover_overshoot"] == "0")
    with primary.connect() as wire:
        # The replica hears nothing any more, and is not missed for some seconds.
        halt(replica)
        try:
            call_many(wire, 200, "RL.SLIDE slide:{} 5 3600")
            call_many(wire, 20, "RL.TOKEN token:{} 100 1 COST 7")
            assert wire("RL.FIXED part 10 3600 COST 30 PARTIAL")[0] == 10
            assert wire("RL.ALL a SLIDE 9 60 2 b TOKEN 9 1 3")[0] == 1
            assert wire("RL.FIXED part 10 3600")[0] == 0 and wire("RL.FIXED part 10 3600 PEEK")[0] == 0
            assert wire("CONFIG RESETSTAT") == "OK"
            call_many(wire, 100, "CL.THROTTLE throttle:{} 5 10 60 2")
            expected = 200 + 20 * 7 + 10 + 5 + 100 * 2
            assert eventually(lambda: int(told(primary)["failover_overshoot"]) == expected)
        finally:
            os.kill(replica.pid, signal.SIGCONT)
        assert eventually(lambda: told(primary)["failover_overshoot"] == "0")
        assert int(told(primary)["failover_overshoot_peak"]) >= expected
        # With nobody left who knows, it grows on.
        assert replica.stop() == 0
        call_many(wire, 50, "RL.SLIDE alone:{} 5 3600")
        assert eventually(lambda: int(told(primary)["failover_overshoot"]) == 50)


def test_wait_answers_when_replicas_know(start, cores):
    primary = start(cores)
    with primary.connect() as wire:
        assert wire("WAIT 0 0") == 0 and wire("WAIT 1 50") == 0
        assert [wire(word) for word in ["MULTI", "SET m 1", "WAIT 1 0", "PING"]] == ["OK"] + ["QUEUED"] * 3
        assert wire("EXEC") == ["OK", 0, "PONG"]
        replicas = [start(count, *of(primary)) for count in (1, 3)]
        assert eventually(lambda: told(primary)["connected_slaves"] == "2")
        assert eventually(lambda: all(map(is_up, replicas)))
        for number in range(20):
            assert wire(f"RL.FIXED key:{number} 5 3600")[0] == 1
            assert wire("WAIT 2 5000") == 2
            assert [replica.ask(f"EXISTS key:{number}") for replica in replicas] == [1, 1]
        assert replicas[0].ask("WAIT 0 0").startswith("ERR WAIT cannot be used with replica")
        halt(replicas[0])
        try:
            wire("SET a 1")
            assert wire("WAIT 1 5000") == 1 and wire("WAIT 2 100") == 1
            # Who waits for ever and leaves, or is there when the server ends, is no burden.
            with primary.connect() as other:
                other.send("SET b 1", "WAIT 2 0")
                assert other.read() == "OK"
            with primary.connect() as other:
                other.send("WAIT 2 0")
                assert primary.stop() == 0
        finally:
            os.kill(replicas[0].pid, signal.SIGCONT)


def test_after_its_primary_died_it_goes_on_from_there(start, cores):
    """kill -9 after all was told: not one unit comes back."""
    primary = start(cores)
    replica = start(2, *of(primary))
    assert eventually(lambda: is_up(replica))
    with primary.connect() as wire:
        call_many(wire, 1_000, "RL.FIXED key:{} 5 3600 COST 3")
        assert eventually(lambda: in_step(primary, replica, "key:0", "key:999"))
    primary.kill()
    assert eventually(lambda: told(replica)["master_link_status"] == "down")
    assert replica.ask("RL.FIXED key:1 5 3600") == READONLY
    assert replica.ask("REPLICAOF NO ONE") == "OK"
    assert told(replica)["role"] == "master"
    with replica.connect() as wire:
        answers = call_many(wire, 1_000, "RL.FIXED key:{} 5 3600 COST 3")
        assert {tuple(answer[:3]) for answer in answers} == {(0, 5, 2)}
        assert wire("RL.FIXED key:1 5 3600 COST 2")[0] == 1


def test_a_primary_that_restarted_does_not_replace_what_its_replica_knows(start):
    port = free_port()
    primary = start(2, port=port)
    replica = start(2, *of(primary))
    assert eventually(lambda: is_up(replica))
    primary.ask("RL.FIXED key 5 3600 COST 5")
    assert eventually(lambda: in_step(primary, replica, "key"))
    primary.kill()
    assert eventually(lambda: not is_up(replica))
    empty = start(2, port=port)
    assert eventually(lambda: "another process" in told(replica)["master_link_down_reason"])
    assert replica.ask("DBSIZE") == 1 and told(empty)["connected_slaves"] == "0"
    # An operator may say that it is to.
    assert replica.ask(f"REPLICAOF 127.0.0.1 {port}") == "OK"
    assert eventually(lambda: is_up(replica))
    assert eventually(lambda: replica.ask("DBSIZE") == 0)


def test_who_goes_on_from_what_a_replica_knows_is_followed_without_a_word(start, tmp_path):
    """A primary that was ended in order and comes again, and a replica that was promoted; not one that was killed."""
    port, kept = free_port(), ["--dir", str(tmp_path / "primary")]
    primary = start(2, *kept, port=port)
    replica = start(1, *of(primary))
    assert eventually(lambda: is_up(replica))
    with primary.connect() as wire:
        call_many(wire, 100, "RL.FIXED key:{} 5 3600 COST 2")
    assert primary.stop() == 0
    primary = start(1, *kept, port=port)
    assert eventually(lambda: is_up(replica), seconds=20) and in_step(primary, replica, "key:7")
    primary.ask("RL.FIXED key:7 5 3600 COST 3")
    assert eventually(lambda: in_step(primary, replica, "key:7"))
    # It is killed before it has written a snapshot of its own: what it has kept is from before.
    primary.kill()
    primary = start(2, *kept, port=port)
    assert eventually(lambda: "another process" in told(replica)["master_link_down_reason"])
    assert primary.ask("RL.FIXED key:7 5 3600 PEEK")[2] == 3 and replica.ask("DBSIZE") == 100
    # The replica is promoted; what was its primary follows it by an operator's word.
    assert replica.ask("REPLICAOF NO ONE") == "OK"
    assert replica.ask("RL.FIXED key:7 5 3600")[0] == 0
    assert primary.ask(f"REPLICAOF 127.0.0.1 {replica.port}") == "OK"
    assert eventually(lambda: is_up(primary) and in_step(replica, primary, "key:7"))


def test_two_that_restart_together_lose_nothing(start, tmp_path):
    """A replica that kept its state does not take an empty primary's for it, and does take that of a known one."""
    port, kept = free_port(), ["--dir", str(tmp_path)]
    primary = start(1, port=port)
    replica = start(2, *of(primary), *kept)
    assert eventually(lambda: is_up(replica))
    with primary.connect() as wire:
        call_many(wire, 100, "SET key:{} 1")
    assert eventually(lambda: replica.ask("DBSIZE") == 100)
    assert replica.stop() == 0
    replica = start(1, *of(primary), *kept)
    assert eventually(lambda: is_up(replica)), told(replica)
    assert replica.stop() == 0
    primary.kill()
    empty = start(1, port=port)
    replica = start(2, *of(empty), *kept)
    assert eventually(lambda: "another process" in told(replica)["master_link_down_reason"])
    assert replica.ask("DBSIZE") == 100 and empty.ask("DBSIZE") == 0


def test_other_replicas_follow_the_one_that_was_promoted(start):
    primary = start(2)
    first, second = start(1, *of(primary)), start(2, *of(primary))
    assert eventually(lambda: is_up(first) and is_up(second))
    with primary.connect() as wire:
        call_many(wire, 100, "SET key:{} 1")
    assert eventually(lambda: in_step(primary, first) and in_step(primary, second))
    primary.kill()
    assert first.ask("REPLICAOF NO ONE") == "OK"
    assert second.ask(f"REPLICAOF 127.0.0.1 {first.port}") == "OK"
    assert eventually(lambda: is_up(second) and second.ask("DBSIZE") == 100)
    assert first.ask("SET last 1") == "OK"
    assert eventually(lambda: second.ask("EXISTS last") == 1)


def test_a_primary_that_dies_in_the_middle_of_a_copy_takes_nothing_with_it(start, cores):
    """What was here stays until it is known what replaces it."""
    primary = start(cores)
    replica = start(2, *of(primary))
    with primary.connect() as wire:
        for first in range(0, 60_000, 20_000):
            wire.send(*[f"RL.FIXED key:{number} 5 3600 COST 5" for number in range(first, first + 20_000)])
            assert all(wire.read()[0] == 1 for _ in range(20_000))
    assert eventually(lambda: is_up(replica) and replica.ask("DBSIZE") == 60_000)
    with replica.connect() as wire:
        assert wire(f"REPLICAOF 127.0.0.1 {primary.port}") == "OK"
        sizes = [wire("DBSIZE") for _ in range(200)]
        primary.kill()
        assert wire("REPLICAOF NO ONE") == "OK"
        assert set(sizes) == {60_000} and wire("DBSIZE") == 60_000
        assert all(answer[0] == 0 for answer in call_many(wire, 20_000, "RL.FIXED key:{} 5 3600"))


def test_a_copy_that_comes_again_takes_away_what_is_gone(start, cores):
    primary = start(cores)
    replica = start(3, *of(primary))
    with primary.connect() as wire, replica.connect() as other:
        call_many(wire, 3_000, "SET key:{} 1")
        assert eventually(lambda: is_up(replica) and other("DBSIZE") == 3_000)
        assert other("REPLICAOF NO ONE") == "OK"
        call_many(other, 500, "SET stray:{} 1")
        call_many(wire, 1_000, "DEL key:{}")
        assert other(f"REPLICAOF 127.0.0.1 {primary.port}") == "OK"
        assert eventually(lambda: is_up(replica))
        assert other("DBSIZE") == 2_000 and other("EXISTS key:1 key:2999 stray:1") == 1


def test_what_was_queued_before_it_became_a_replica_is_not_run(start):
    primary, other = start(1), start(2)
    with other.connect() as wire:
        assert [wire(word) for word in ["MULTI", "SET stray 1", "RL.SLIDE limit 10 3600"]] == ["OK", "QUEUED", "QUEUED"]
        assert other.ask(f"REPLICAOF 127.0.0.1 {primary.port}") == "OK"
        answer = wire("EXEC")
        assert answer.startswith("EXECABORT") and "READONLY" in answer
        assert wire("EXISTS stray limit") == 0


def test_a_replica_that_hangs_costs_the_primary_no_more_than_is_said(start):
    primary = start(2)
    replica = start(1, *of(primary))
    assert eventually(lambda: is_up(replica))
    halt(replica)
    try:
        with primary.connect() as wire:
            for _ in range(30):
                call_many(wire, 200, "SET key:{} " + "x" * 30_000)
        assert eventually(lambda: told(primary)["connected_slaves"] == "0")
        assert primary.memory_bytes() < 400_000_000
    finally:
        os.kill(replica.pid, signal.SIGCONT)
    assert eventually(lambda: is_up(replica) and in_step(primary, replica), seconds=20)


def test_values_that_are_large_are_copied_too(start):
    """More than waits for a link at once, of keys that lie together."""
    primary = start(1)
    with primary.connect() as wire:
        call_many(wire, 1_600, "SET key:{} " + "x" * 60_000)
        for number in range(20):
            call_many(wire, 20, f"RL.LOG log:{number} 100000 3600 COST 900")
    replica = start(2, *of(primary))
    assert eventually(lambda: is_up(replica), seconds=30)
    assert in_step(primary, replica, "log:3")
    assert replica.ask("STRLEN key:1599") == 60_000


def test_a_replica_that_comes_does_not_starve_another(start):
    """On a primary where nothing happens, while a copy takes longer than a silence may."""
    primary = start(1)
    with primary.connect() as wire:
        for first in range(0, 400_000, 20_000):
            call_many_from(wire, first, 20_000)
    first = start(1, *of(primary))
    assert eventually(lambda: is_up(first), seconds=30)
    second = start(1, *of(primary))
    assert eventually(lambda: is_up(second), seconds=30)
    assert is_up(first) and "a replica's link ended" not in primary.log()


def call_many_from(wire, first: int, count: int) -> None:
    wire.send(*[f"SET key:{number} 1" for number in range(first, first + count)])
    assert all(wire.read() == "OK" for _ in range(count))


def test_what_comes_before_a_flow_is_answered(start):
    server = start(2)
    with server.connect() as wire:
        wire.send("PING", "RL.FIXED k 5 60", "RL.FLOW 1 1 7")
        assert wire.read() == "PONG" and wire.read()[0] == 1
        while len(wire.buffer) == wire.position:
            wire.fill()
        # What follows is no reply any more.
        assert wire.buffer[wire.position] == 16


def test_a_replica_that_restarts_begins_anew(start, tmp_path):
    primary = start(2)
    replica = start(1, *of(primary), "--dir", str(tmp_path))
    assert eventually(lambda: is_up(replica))
    with primary.connect() as wire:
        call_many(wire, 200, "SET key:{} 1")
        assert eventually(lambda: replica.ask("DBSIZE") == 200)
        assert replica.stop() == 0
        call_many(wire, 100, "DEL key:{}")
        again = start(3, *of(primary), "--dir", str(tmp_path))
        assert eventually(lambda: again.ask("DBSIZE") == 100)
        assert again.ask("EXISTS key:0 key:150") == 1


def test_the_primary_asks_for_its_password(start):
    primary = start(2, "--requirepass", "s3cret")
    refused = start(1, *of(primary))
    assert eventually(lambda: "NOAUTH" in told(refused)["master_link_down_reason"])
    wrong = start(1, *of(primary), "--masterauth", "other")
    assert eventually(lambda: "WRONGPASS" in told(wrong)["master_link_down_reason"])
    for flags in [["--masterauth", "s3cret"], ["--masteruser", "default", "--masterauth", "s3cret"]]:
        replica = start(1, *of(primary), *flags)
        assert eventually(lambda: is_up(replica))
        assert b"s3cret" not in b"".join(part or b"" for part in replica.ask("CONFIG GET master*"))
        assert "s3cret" not in replica.log()


def test_bad_words_change_nothing(start):
    server = start(2)
    with server.connect() as wire:
        for command in ["REPLICAOF 127.0.0.1 0", "REPLICAOF 127.0.0.1 x", "REPLICAOF 127.0.0.1 65536", "RL.FLOW 2 0 7",
                        "RL.FLOW 1 2 7", "RL.FLOW x 0 7", "RL.FLOW 1 0 70000"]:
            assert isinstance(wire(command), Error), command
        assert wire("RL.FIXED k 5 60")[0] == 1
        assert wire("ROLE") == [b"master", 0, []]
        assert wire("REPLICAOF NO ONE") == "OK"
        assert wire("WAIT 0 0") == 0 and wire("WAIT 0 x").code == "ERR"


def test_who_asks_for_a_flow_and_says_nothing_costs_nothing(start):
    """A link that is never read, and one that sends rubbish, are ended or wait; the server goes on."""
    server = start(2)
    with server.connect() as wire, server.connect() as mute, server.connect() as rude:
        mute.send("RL.FLOW 1 0 7")
        rude.send("RL.FLOW 1 1 7")
        rude.send_bytes(b"\xff" * 64)
        call_many(wire, 5_000, "SET key:{} " + "x" * 100)
        assert wire("DBSIZE") == 5_000
        assert eventually(lambda: told(server)["connected_slaves"] == "1")
    assert eventually(lambda: told(server)["connected_slaves"] == "0")


LOGS = 20
LOG_CHARGES = 50_000
# Holds that many charges a microsecond apart: each that comes then makes the oldest leave.
LOG_WINDOW = f"{LOG_CHARGES}us"
LOG_ENTRY_BYTES = 16
# What a piece of a log takes beside its charges, and more than there are flushes in a second.
PIECE_BYTES = 80
FLUSHES_A_SECOND_MAX = 400


class Relay:
    """Stands between a replica and its primary, and counts what the replica is told."""

    def __init__(self, primary) -> None:
        self.primary = primary.address
        self.told_bytes = 0
        self.links = 0
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def __enter__(self) -> "Relay":
        return self

    def __exit__(self, *_error) -> None:
        self.listener.close()

    def accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                near, _ = self.listener.accept()
                far = socket.create_connection(self.primary)
                self.links += 1
                threading.Thread(target=self.carry, args=(near, far), daemon=True).start()
                threading.Thread(target=self.carry, args=(far, near, True), daemon=True).start()

    def carry(self, source: socket.socket, target: socket.socket, tells: bool = False) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(1 << 16):
                target.sendall(data)
                self.told_bytes += len(data) * tells
        for end in (source, target):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)


def charge_logs(wire, rounds: int) -> int:
    """Charges each log once a round, a microsecond after the round before, as fast as it goes. Answers how many charges
    that were."""
    at_once = 50
    calls = ["RL.CLOCK ADVANCE 1us", *[f"RL.LOG log:{number} 100000 {LOG_WINDOW}" for number in range(LOGS)]]
    some_rounds = b"".join(map(encode, calls)) * at_once
    for _ in range(0, rounds, at_once):
        wire.socket.sendall(some_rounds)
        lines = at_once * (1 + LOGS * len(["*5", "allowed", "limit", "remaining", "retry", "reset"]))
        while lines > 0:
            lines -= wire.socket.recv(1 << 18).count(b"\n")
        assert lines == 0
    return rounds * LOGS


def test_logs_that_are_long_and_hot_are_told_by_what_comes_to_them(start):
    primary = start(2)
    with primary.connect() as wire, Relay(primary) as relay:
        charge_logs(wire, LOG_CHARGES)
        assert wire(f"RL.LOG log:7 100000 {LOG_WINDOW} PEEK")[2] == 100_000 - LOG_CHARGES
        replica = start(1, "--replicaof", f"127.0.0.1:{relay.port}")
        assert eventually(lambda: is_up(replica), seconds=30)
        assert relay.told_bytes > LOGS * LOG_CHARGES * LOG_ENTRY_BYTES
        keys = [f"log:{number}" for number in range(LOGS)]
        assert eventually(lambda: in_step(primary, replica, *keys))
        begun, before, charges = time.monotonic(), relay.told_bytes, 0
        while time.monotonic() < begun + 3:
            charges += charge_logs(wire, 100)
        assert eventually(lambda: in_step(primary, replica, *keys))
        told_bytes, seconds = relay.told_bytes - before, time.monotonic() - begun
        pieces_max = seconds * FLUSHES_A_SECOND_MAX * LOGS
        assert charges * LOG_ENTRY_BYTES < told_bytes < charges * LOG_ENTRY_BYTES + pieces_max * PIECE_BYTES
        # The link of each core is the one that it began with.
        assert relay.links == 2 and "a replica's link ended" not in primary.log()
        # Units that were given back are, there too, and the oldest leave there as they do here.
        assert wire(f"RL.LOG log:7 100000 {LOG_WINDOW} COST 1234 REFUND")[0] == 1_234
        charge_logs(wire, 50)
        assert eventually(lambda: in_step(primary, replica, *keys))
        expected = [wire(f"RL.LOG {key} 100000 {LOG_WINDOW} PEEK") for key in keys]
        assert eventually(lambda: primary.ask("RL.CLOCK") == replica.ask("RL.CLOCK"))
        assert replica.ask("REPLICAOF NO ONE") == "OK"
        assert [replica.ask(f"RL.LOG {key} 100000 {LOG_WINDOW} PEEK") for key in keys] == expected


def test_links_are_clients_that_can_be_seen_and_killed(start):
    primary = start(2)
    replica = start(1, *of(primary))
    assert eventually(lambda: is_up(replica))
    with primary.connect() as wire:
        lines = wire("CLIENT LIST TYPE replica").decode().splitlines()
        assert [("flags=S" in line, "cmd=rl.flow" in line) for line in lines] == [(True, True)] * 2
        assert {line.rsplit("core=", 1)[1] for line in lines} == {"0", "1"}
        assert len(wire("CLIENT LIST").splitlines()) == 3 and len(wire("CLIENT LIST TYPE normal").splitlines()) == 1
        ids = {line.split()[0] for line in lines}
        # One that ends ends the others too, some of them before they are met.
        assert wire("CLIENT KILL TYPE pubsub") == 0 and wire("CLIENT KILL TYPE replica") >= 1
        assert eventually(lambda: is_up(replica) and told(primary)["replicas_in_step"] == "1")
        assert ids.isdisjoint(line.split()[0] for line in wire("CLIENT LIST TYPE replica").decode().splitlines())
        one = wire("CLIENT LIST TYPE slave").decode().split()[0].removeprefix("id=")
        assert wire(f"CLIENT KILL ID {one}") == 1
        wire("SET key 1")
        assert eventually(lambda: is_up(replica) and replica.ask("EXISTS key") == 1)
