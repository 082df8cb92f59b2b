"""Snapshots: what is there after a restart, and what is refused to start from."""

import os
import signal
import time
from pathlib import Path

import pytest

from reply import Error
from server.process import free_port, run_once, tcp_flags
from server.wire import eventually

FILE = "tollgate.snapshot"
# What else a server keeps in its directory.
KNOWN = (FILE, FILE + ".tmp", "tollgate.lock", "tollgate.origin")
# Calls that leave a key of each kind, and one that shows what it holds.
KINDS = {
    "slide": ("RL.SLIDE k:slide 10 60 COST 3", "RL.SLIDE k:slide 10 60 PEEK"),
    "token": ("RL.TOKEN k:token 10 7/3 COST 3", "RL.TOKEN k:token 10 7/3 PEEK"),
    "fixed": ("RL.FIXED k:fixed 10 60 COST 3", "RL.FIXED k:fixed 10 60 PEEK"),
    "log": ("RL.LOG k:log 10 60 COST 3", "RL.LOG k:log 10 60 PEEK"),
    "leak": ("RL.LEAK k:leak 10 2 COST 3", "RL.LEAK k:leak 10 2 PEEK"),
    "throttle": ("CL.THROTTLE k:throttle 5 10 60 3", "CL.THROTTLE k:throttle 5 10 60 0"),
    "integer": ("INCRBY k:integer -42", "GET k:integer"),
    "expiring": ("SET k:expiring 7 EX 100", "PTTL k:expiring"),
    "bytes": ("SET k:bytes some-text", "GET k:bytes"),
    "increx": ("INCREX k:increx BYINT 5 UBOUND 9 EX 60", "PTTL k:increx"),
}


def fill(wire) -> None:
    for call, _ in KINDS.values():
        assert not isinstance(wire(call), Error), call


def shown(wire) -> dict:
    return {name: wire(question) for name, (_, question) in KINDS.items()}


def loaded(wire) -> int:
    """How many keys there are, once all are loaded."""
    assert eventually(lambda: isinstance(wire("DBSIZE"), int))
    return wire("DBSIZE")


def persistence(server) -> dict[str, str]:
    text = server.ask("INFO persistence").decode()
    return dict(line.split(":", 1) for line in text.splitlines() if ":" in line)


@pytest.mark.smoke
@pytest.mark.parametrize("again", [1, 3])
def test_nothing_is_forgotten_over_a_restart(start, cores, again, tmp_path):
    """Whatever the number of cores: SIGTERM, start, and every key holds what it held."""
    server = start(cores, "--dir", str(tmp_path))
    with server.connect() as wire:
        wire("RL.CLOCK SET 1751540400.25")
        fill(wire)
        before, size = shown(wire), wire("DBSIZE")
    assert server.stop() == 0
    restarted = start(again, "--dir", str(tmp_path))
    with restarted.connect() as wire:
        assert loaded(wire) == size
        assert wire("RL.CLOCK") == 1_751_540_400_250_000
        assert shown(wire) == before
        # Time went nowhere, and goes on.
        wire("RL.CLOCK ADVANCE 10s")
        assert wire("PTTL k:expiring") == 90_000


@pytest.mark.parametrize("command", ["SHUTDOWN", "SHUTDOWN SAVE", "SHUTDOWN NOSAVE"])
def test_shutdown_writes_unless_told_not_to(start, cores, command, tmp_path):
    server = start(cores, "--dir", str(tmp_path))
    with server.connect() as wire:
        fill(wire)
        wire.send(command)
        assert wire.rest() == b""
    assert server.process.wait(10) == 0
    assert (tmp_path / FILE).exists() == (command != "SHUTDOWN NOSAVE")
    with start(cores, "--dir", str(tmp_path)).connect() as wire:
        size = loaded(wire)
    assert size == (0 if command == "SHUTDOWN NOSAVE" else len(KINDS))


def test_without_a_directory_nothing_is_written_and_every_command_says_so(start):
    server = start(2)
    with server.connect() as wire:
        for command in ["SAVE", "BGSAVE", "BGSAVE SCHEDULE", "SHUTDOWN SAVE"]:
            assert wire(command) == Error("ERR no snapshot can be written without --dir"), command
        assert abs(wire("LASTSAVE") - time.time()) < 60
        assert wire("PING") == "PONG"


def test_after_kill_9_what_the_last_snapshot_had_is_there(start, cores, tmp_path):
    server = start(cores, "--dir", str(tmp_path), "--save-interval", "0")
    with server.connect() as wire:
        fill(wire)
        before = shown(wire)
        assert wire("SAVE") == "OK"
        assert wire("RL.FIXED later 10 60")[0] == 1
    server.kill()
    with start(cores, "--dir", str(tmp_path)).connect() as wire:
        assert loaded(wire) == len(KINDS)
        assert shown(wire) == before
        assert wire("EXISTS later") == 0


def test_changes_are_written_by_themselves(start, tmp_path):
    server = start(2, "--dir", str(tmp_path), "--save-interval", "1")
    time.sleep(1.5)
    assert not (tmp_path / FILE).exists(), "nothing has changed"
    assert server.ask("RL.SLIDE k 10 60")[0] == 1
    assert eventually(lambda: (tmp_path / FILE).exists())
    assert eventually(lambda: persistence(server)["rdb_changes_since_last_save"] == "0")
    # A call that is counted in place, where nothing is made, is a change too.
    written = (tmp_path / FILE).stat().st_mtime_ns
    assert server.ask("RL.SLIDE k 10 60")[0] == 1
    assert eventually(lambda: (tmp_path / FILE).stat().st_mtime_ns > written)
    assert int(persistence(server)["rdb_saves"]) <= 4


def test_what_the_commands_and_info_say(start, tmp_path):
    server = start(2, "--dir", str(tmp_path), "--save-interval", "0")
    with server.connect() as wire:
        first = wire("LASTSAVE")
        told = persistence(server)
        assert (told["loading"], told["rdb_bgsave_in_progress"], told["rdb_last_bgsave_status"]) == ("0", "0", "ok")
        assert (told["rdb_last_bgsave_time_sec"], told["rdb_current_bgsave_time_sec"]) == ("-1", "-1")
        fill(wire)
        assert eventually(lambda: int(persistence(server)["rdb_changes_since_last_save"]) > 0)
        time.sleep(1.1)
        assert wire("BGSAVE") == "Background saving started"
        assert eventually(lambda: persistence(server)["rdb_bgsave_in_progress"] == "0")
        assert eventually(lambda: (tmp_path / FILE).exists())
        assert wire("LASTSAVE") > first
        told = persistence(server)
        assert int(told["rdb_last_save_time"]) == wire("LASTSAVE")
        assert told["rdb_last_bgsave_time_sec"] == "0"
        assert wire("BGSAVE NOW") == Error("ERR syntax error")
        assert wire("MULTI") == "OK"
        assert isinstance(wire("SAVE"), Error)
        assert isinstance(wire("EXEC"), Error)


def test_one_snapshot_at_a_time_and_another_after_it(start, tmp_path):
    server = start(2, "--dir", str(tmp_path), "--save-interval", "0")
    with server.connect() as wire:
        wire.send(*[f"SET key:{number} {number}" for number in range(20_000)])
        assert all(wire.read() == "OK" for _ in range(20_000))
        assert wire("BGSAVE") == "Background saving started"
        assert wire("BGSAVE") == Error("ERR Background save already in progress")
        assert wire("SAVE") == Error("ERR Background save already in progress")
        assert wire("BGSAVE SCHEDULE") == "Background saving scheduled"
        assert eventually(lambda: persistence(server)["rdb_saves"] == "2", seconds=30)
        assert eventually(lambda: persistence(server)["rdb_bgsave_in_progress"] == "0", seconds=30)


def damaged(data: bytes) -> dict[str, tuple[bytes, str]]:
    flipped = bytearray(data)
    flipped[len(data) // 2] ^= 4
    newer = bytearray(data)
    newer[8] += 1
    return {
        "cut": (data[:-20], "cut off"),
        "half": (data[: len(data) // 2], "cut off"),
        "empty": (b"", "not a snapshot"),
        "flipped": (bytes(flipped), "damaged"),
        "newer": (bytes(newer), "version 2"),
        "foreign": (b"REDIS0011 and so on, for longer than any header", "not a snapshot"),
        "more": (data + b"\0", "cut off"),
    }


@pytest.mark.parametrize("case", ["cut", "half", "empty", "flipped", "newer", "foreign", "more"])
def test_what_is_not_whole_is_refused_and_left_as_it_is(start, cores, case, tmp_path):
    server = start(cores, "--dir", str(tmp_path))
    with server.connect() as wire:
        wire.send(*[f"SET key:{number} {number}" for number in range(500)])
        assert all(wire.read() == "OK" for _ in range(500))
    assert server.stop() == 0
    path = tmp_path / FILE
    data, says = damaged(path.read_bytes())[case]
    path.write_bytes(data)
    ended = run_once("serve", *tcp_flags(free_port()), "--test-clock", "--cores", str(cores), "--dir", str(tmp_path))
    assert ended.returncode == 1
    assert str(path) in ended.stderr and says in ended.stderr and "left as it is" in ended.stderr, ended.stderr
    assert path.read_bytes() == data
    # As the message says: without it the server starts.
    path.rename(tmp_path / "aside")
    assert start(cores, "--dir", str(tmp_path)).ask("DBSIZE") == 0


def test_a_snapshot_from_the_future_is_refused(start, tmp_path):
    server = start(1, "--dir", str(tmp_path))
    ahead = int(time.time()) + 25 * 3600
    assert server.ask(f"RL.CLOCK SET {ahead}") == "OK"
    assert server.ask("RL.SLIDE k 10 60")[0] == 1
    assert server.stop() == 0
    ended = run_once("serve", *tcp_flags(free_port()), "--dir", str(tmp_path))
    assert ended.returncode == 1 and "24 hours" in ended.stderr, ended.stderr
    # Under the test clock any time will do.
    assert start(1, "--dir", str(tmp_path)).ask("RL.CLOCK") == ahead * 1_000_000


def test_while_it_loads_it_says_so_and_decides_nothing(start, cores, tmp_path):
    keys = 150_000
    server = start(cores, "--dir", str(tmp_path))
    with server.connect() as wire:
        for first in range(0, keys, 10_000):
            wire.send(*[f"RL.FIXED key:{number} 1 3600" for number in range(first, first + 10_000)])
            assert all(wire.read()[0] == 1 for _ in range(10_000))
    assert server.stop() == 0
    restarted = start(cores, "--dir", str(tmp_path))
    loading = Error("LOADING Tollgate is loading the dataset in memory")
    with restarted.connect() as wire:
        answers = []
        while not answers or answers[-1] == loading:
            wire.send("RL.FIXED key:77 1 3600", "RL.FIXED key:78 1 3600 COST 0", "INFO persistence")
            call, look, info = wire.read(), wire.read(), wire.read().decode()
            answers.append(call)
            # Between two commands of a batch loading may end, never begin.
            if call != loading:
                assert look != loading and "loading:0" in info
        # The unit is used, on whatever answer: never a fresh budget.
        assert answers[-1][0] == 0, answers[-1]
        assert wire("DBSIZE") == keys


def test_a_save_that_fails_says_so_and_harms_nothing(start, tmp_path):
    server = start(2, "--dir", str(tmp_path), "--save-interval", "0")
    with server.connect() as wire:
        fill(wire)
        assert wire("SAVE") == "OK"
        whole = (tmp_path / FILE).read_bytes()
        # Where the new file would be begun, something else is.
        (tmp_path / (FILE + ".tmp")).mkdir()
        answer = wire("SAVE")
        assert isinstance(answer, Error) and "could not be written" in answer
        assert persistence(server)["rdb_last_bgsave_status"] == "err"
        assert (tmp_path / FILE).read_bytes() == whole
        assert wire("RL.FIXED more 10 60")[0] == 1
        (tmp_path / (FILE + ".tmp")).rmdir()
        assert wire("SAVE") == "OK"
        assert persistence(server)["rdb_last_bgsave_status"] == "ok"


def test_a_last_save_that_fails_is_the_end_of_a_process_that_says_so(start, tmp_path):
    server = start(1, "--dir", str(tmp_path))
    assert server.ask("RL.FIXED k 10 60")[0] == 1
    (tmp_path / (FILE + ".tmp")).mkdir()
    server.process.send_signal(signal.SIGTERM)
    assert server.process.wait(10) == 1
    assert "could not be written" in server.log()


def test_no_link_is_followed(start, tmp_path):
    victim = tmp_path / "victim"
    victim.write_text("precious")
    data = tmp_path / "data"
    server = start(1, "--dir", str(data), "--save-interval", "0")
    os.symlink(victim, data / (FILE + ".tmp"))
    assert isinstance(server.ask("SAVE"), Error)
    assert victim.read_text() == "precious"
    (data / (FILE + ".tmp")).unlink(missing_ok=True)
    assert server.ask("SAVE") == "OK"
    assert (data / FILE).stat().st_mode & 0o777 == 0o600


def test_killed_at_any_moment_of_a_save_the_one_before_is_there(start, tmp_path):
    """Twelve kills at growing times after BGSAVE: what starts next has either snapshot, whole."""
    for attempt in range(12):
        server = start(2, "--dir", str(tmp_path), "--save-interval", "0")
        with server.connect() as wire:
            size = loaded(wire)
            first = size
            wire.send(*[f"SET key:{attempt}:{number} x" for number in range(2_000)])
            assert all(wire.read() == "OK" for _ in range(2_000))
            assert wire("BGSAVE") == "Background saving started"
            time.sleep(attempt * 0.004)
        server.kill()
        again = start(2, "--dir", str(tmp_path), "--save-interval", "0")
        with again.connect() as wire:
            size = loaded(wire)
            assert size in (first, first + 2_000), (attempt, size)
            wire.send("SHUTDOWN NOSAVE")
            wire.rest()
        assert again.process.wait(10) == 0
    assert not [path for path in Path(tmp_path).iterdir() if path.name not in KNOWN]


def test_who_reads_late_is_not_answered_what_the_last_snapshot_lacks(start, tmp_path):
    """A client that holds its connection up until the snapshot at the end is being written."""
    server = start(1, "--dir", str(tmp_path), "--save-interval", "0")
    with server.connect() as wire:
        for first in range(0, 600_000, 20_000):
            wire.send(*[f"SET key:{number} 1" for number in range(first, first + 20_000)])
            assert all(wire.read() == "OK" for _ in range(20_000))
        wire(["SET", "large", "x" * 60_000])
        late = server.connect()
        late.send(*["GET large", "RL.FIXED used 1000000 86400"] * 220)
        time.sleep(0.2)
        server.process.send_signal(signal.SIGTERM)
        time.sleep(2.05)
        answered = late.rest().count(b"*5\r\n:1\r\n")
    assert server.process.wait(20) == 0
    with start(1, "--dir", str(tmp_path)).connect() as wire:
        loaded(wire)
        remaining = wire("RL.FIXED used 1000000 86400 PEEK")[2]
        assert 1_000_000 - remaining >= answered


def test_a_key_that_is_renamed_while_it_is_written_is_in_it(start, cores, tmp_path):
    """Whether the walk has passed the old place, the new one, both or none."""
    server = start(cores, "--dir", str(tmp_path), "--save-interval", "0")
    with server.connect() as wire:
        for first in range(0, 120_000, 20_000):
            wire.send(*[f"SET key:{number} 1" for number in range(first, first + 20_000)])
            assert all(wire.read() == "OK" for _ in range(20_000))
        wire.send(*[f"RL.FIXED old:{number} 5 3600 COST 5" for number in range(400)])
        assert all(wire.read()[0] == 1 for _ in range(400))
        assert wire("BGSAVE") == "Background saving started"
        renamed = 0
        while persistence(server)["rdb_bgsave_in_progress"] == "1" and renamed < 400:
            assert wire(f"RENAME old:{renamed} new:{renamed}") == "OK"
            renamed += 1
        assert renamed > 50 and eventually(lambda: persistence(server)["rdb_bgsave_in_progress"] == "0", seconds=30)
    server.kill()
    with start(cores, "--dir", str(tmp_path), "--save-interval", "0").connect() as wire:
        loaded(wire)
        for number in range(renamed):
            wire.send(f"EXISTS old:{number} new:{number}")
        assert all(wire.read() >= 1 for _ in range(renamed))
