"""SLOWLOG and LATENCY: what took long, on whichever core, is told with who asked for it."""

import pytest

from server.slots import core_of, keys_over_cores
from server.wire import eventually


@pytest.fixture
def log(wire):
    """The connection, with an empty log that every command goes into from here on."""
    wire("CLIENT SETNAME watcher")
    assert wire("CONFIG SET slowlog-log-slower-than 0 slowlog-max-len 1000") == "OK"
    assert wire("SLOWLOG RESET") == "OK"
    yield wire
    assert wire("CONFIG SET slowlog-log-slower-than 10000 slowlog-max-len 128 latency-monitor-threshold 0") == "OK"
    wire("SLOWLOG RESET")
    wire("LATENCY RESET")


def calls(wire, count: int = -1) -> list[str]:
    """The commands of the log, the oldest first, without those that look at it."""
    lines = [b" ".join(entry[3]).decode() for entry in reversed(wire(f"SLOWLOG GET {count}"))]
    return [line for line in lines if not line.startswith("SLOWLOG")]


@pytest.mark.smoke
def test_an_entry(log):
    log("RL.SLIDE k 5 1h")
    (entry,) = log("SLOWLOG GET 1")
    number, seconds, micros, words, address, name = entry
    assert words == [b"RL.SLIDE", b"k", b"5", b"1h"] and name == b"watcher"
    host, port = log.socket.getsockname()
    assert address == f"{host}:{port}".encode()
    assert seconds == log("RL.CLOCK") // 10**6 and 0 <= micros < 10**7 and number >= 0


def test_commands_of_every_core_are_logged_in_order_with_their_client(log, server, cores):
    keys = keys_over_cores("log", 8 * cores, cores)
    with server.connect() as other:
        other("CLIENT SETNAME other")
        log("SLOWLOG RESET")
        for number, key in enumerate(keys):
            (log if number % 2 else other)(f"RL.SLIDE {key} 5 1h")
    entries = [entry for entry in log("SLOWLOG GET -1") if entry[3][0] == b"RL.SLIDE"][::-1]
    assert [entry[3][1].decode() for entry in entries] == keys
    assert [entry[5] for entry in entries] == [b"other", b"watcher"] * (len(keys) // 2)
    numbers = [entry[0] for entry in entries]
    assert numbers == sorted(set(numbers))
    assert {core_of(key, cores) for key in keys} == set(range(cores))


def test_all_of_a_pipeline_is_logged(log, cores):
    keys = keys_over_cores("pipe", 150, cores)
    log.pipeline([f"RL.SLIDE {key} 5 1h" for key in keys])
    assert sorted(calls(log)) == sorted(f"RL.SLIDE {key} 5 1h" for key in keys)


def test_a_command_for_several_cores_is_one_entry(log, cores):
    keys = " ".join(keys_over_cores("several", 3 * cores, cores))
    commands = [f"DEL {keys}", f"EXISTS {keys}", "DBSIZE", "SCAN 0", "CONFIG GET port", "TIME", "MEMORY USAGE none"]
    groups = " ".join(f"{key} SLIDE 5 1 1" for key in keys.split()[:5])
    for command in [*commands, f"RL.ALL {groups}"]:
        log(command)
    assert calls(log) == [*commands, f"RL.ALL {groups}"]


def test_the_commands_of_a_transaction_are_logged_each_by_itself(log, cores):
    keys = keys_over_cores("multi", 4 * cores, cores)
    commands = [command for key in keys for command in (f"SET {key} 1", f"RL.SLIDE l:{key} 5 1h", "TIME")]
    log.pipeline(["MULTI", *commands, "EXEC"])
    entries = [entry for entry in log("SLOWLOG GET -1") if entry[3][0] != b"SLOWLOG"]
    lines = [b" ".join(entry[3]).decode() for entry in entries]
    assert sorted(lines) == sorted(commands)
    assert {entry[5] for entry in entries} == {b"watcher"}


def test_the_threshold_and_what_is_off(log):
    log("CONFIG SET slowlog-log-slower-than -1")
    log("SLOWLOG RESET")
    log("CONFIG GET port")
    assert calls(log) == []
    log("CONFIG SET slowlog-log-slower-than 60000000")
    log("CONFIG GET port")
    assert calls(log) == []


def test_the_log_is_bounded_and_shows_the_newest(log):
    log("CONFIG SET slowlog-max-len 5")
    for number in range(20):
        log(f"ECHO {number}")
    assert calls(log)[-4:] == [f"ECHO {number}" for number in range(16, 20)]
    assert log("SLOWLOG LEN") == 5 == len(log("SLOWLOG GET -1"))
    assert log("SLOWLOG GET 0") == []
    log("CONFIG SET slowlog-max-len 0")
    assert log("SLOWLOG LEN") == 0 and log("SLOWLOG GET") == []


def test_ten_are_shown_by_default(log):
    for number in range(15):
        log(f"ECHO {number}")
    assert len(log("SLOWLOG GET")) == 10


def test_long_calls_are_cut(log):
    log(["EXISTS", *(f"key:{number}" for number in range(40))])
    log(["ECHO", "x" * 200])
    entries = [entry[3] for entry in log("SLOWLOG GET -1")]
    cut = next(words for words in entries if words[0] == b"EXISTS")
    long = next(words for words in entries if words[0] == b"ECHO")
    assert len(cut) == 32 and cut[-1] == b"... (10 more arguments)"
    assert long[1] == b"x" * 128 + b"... (72 more bytes)"


def test_secrets_are_not_logged(log, server):
    with server.connect() as other:
        other("AUTH default s3cret")
        other("HELLO 3 AUTH default s3cret")
        other("CONFIG SET requirepass s3cret")
        other("ACL SETUSER me >s3cret")
    text = repr(log("SLOWLOG GET -1"))
    assert "s3cret" not in text and text.count("(redacted)") >= 5


@pytest.mark.parametrize("words", ["GET x", "GET -2", "GET 1.5"])
def test_a_count_that_is_none(wire, words):
    assert wire(f"SLOWLOG {words}") == "ERR count should be greater than or equal to -1"


def test_subcommands_that_are_none(wire):
    for command in ["SLOWLOG", "LATENCY", "MEMORY", "OBJECT", "ACL"]:
        assert wire(f"{command} nope") == f"ERR unknown subcommand 'nope'. Try {command} HELP."
        assert len(wire(f"{command} HELP")) >= 4


# Enough for a walk over all to take more than a millisecond on any machine.
MANY_KEYS = 60_000


def test_latency_of_slow_commands(log, cores):
    assert log("LATENCY LATEST") == [] == log("LATENCY HISTORY command")
    assert log("LATENCY GRAPH command") == "ERR No samples available for event 'command'"
    assert b"not monitored" in log("LATENCY DOCTOR")
    log("CONFIG SET latency-monitor-threshold 1")
    for step in range(0, MANY_KEYS, 2000):
        log.pipeline([f"RL.SLIDE latency:{number} 5 1h" for number in range(step, step + 2000)])

    def is_sampled() -> bool:
        log("KEYS no*such*key")
        return b"command" in {event[0] for event in log("LATENCY LATEST")}

    assert eventually(is_sampled)
    now = log("RL.CLOCK") // 10**6
    (latest,) = [event for event in log("LATENCY LATEST") if event[0] == b"command"]
    history = log("LATENCY HISTORY command")
    assert latest[1] == now and latest[3] >= latest[2] >= 1
    assert history[-1][0] == now and history[-1][1] >= latest[2]
    log("RL.CLOCK ADVANCE 2s")
    assert eventually(lambda: log("KEYS no*such*key") == [] and len(log("LATENCY HISTORY command")) > len(history))
    assert b"command - high" in log("LATENCY GRAPH command") and b"command:" in log("LATENCY DOCTOR")
    log("CONFIG SET latency-monitor-threshold 0")
    assert log("LATENCY RESET command") == 1 and log("LATENCY HISTORY command") == []


def test_latency_is_off_unless_asked_for(log):
    log("KEYS *")
    assert log("LATENCY LATEST") == []
