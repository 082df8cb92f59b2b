"""The process: how it starts, what it refuses to share, how it ends and how it is configured."""

import json
import os
import select
import signal
import time
import socket
import stat

import pytest

from server.process import Server, free_port, run_once, tcp_flags
from server.wire import Wire, eventually

STARTED_BY_TEST = ["serve", "--test-clock", "--cores", "1"]


@pytest.mark.smoke
def test_a_second_process_does_not_share_the_port(start, cores):
    server = start(cores)
    second = run_once("serve", *tcp_flags(server.port), "--cores", "2")
    assert second.returncode == 1
    assert str(server.port) in second.stderr and "in use" in second.stderr
    assert server.ask("PING") == "PONG"


def test_a_second_process_does_not_share_the_directory(start, tmp_path):
    server = start(1, "--dir", str(tmp_path / "data"))
    second = run_once(*STARTED_BY_TEST, *tcp_flags(free_port()), "--dir", str(tmp_path / "data"))
    assert second.returncode == 1
    assert "data" in second.stderr and "in use" in second.stderr
    assert server.ask("PING") == "PONG"
    assert server.stop() == 0
    start(1, "--dir", str(tmp_path / "data"))


def test_the_port_is_free_again_after_the_end(start, cores):
    server = start(cores)
    with server.connect() as wire:
        assert wire("PING") == "PONG"
        assert server.stop() == 0
    again = run_once("serve", *tcp_flags(server.port), "--check-config")
    assert again.returncode == 0
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        probe.bind(server.address)


@pytest.mark.smoke
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=["term", "int"])
def test_signals_end_it_well(start, cores, number):
    server = start(cores)
    with server.connect() as wire:
        assert wire("RL.SLIDE k 5 1")[0] == 1
        os.kill(server.pid, number)
        assert server.process.wait(10) == 0
        assert wire.rest() == b""


def test_answers_that_were_earned_are_sent_before_the_end(start, cores):
    """What was sent before the signal and read by the server is answered whole, or not at all: never in part."""
    server = start(cores)
    with server.connect() as wire:
        wire.send(*[f"RL.SLIDE k:{number} 5 1" for number in range(500)])
        server.process.send_signal(signal.SIGTERM)
        data = wire.rest()
    assert server.process.wait(10) == 0
    assert data.count(b"*5\r\n") == data.count(b":1\r\n:5\r\n:4\r\n:0\r\n") and data[-2:] in (b"", b"\r\n")


@pytest.mark.parametrize("command", ["SHUTDOWN", "SHUTDOWN NOSAVE", "shutdown nosave"])
def test_shutdown(start, command):
    server = start(2)
    with server.connect() as wire:
        wire.send(command)
        assert wire.rest() == b""
    assert server.process.wait(10) == 0


def test_shutdown_abort_without_one_is_an_error(start):
    server = start(1)
    assert server.ask("SHUTDOWN ABORT").code == "ERR"
    assert server.ask("PING") == "PONG"


def test_a_unix_socket(start, cores, protocol, tmp_path):
    path = tmp_path / "tollgate.sock"
    server = start(cores, "--unixsocket", str(path), "--unixsocketperm", "700")
    assert stat.S_IMODE(path.stat().st_mode) == 0o700
    keys = [f"k:{number}" for number in range(50)]
    with Wire(str(path), protocol) as wire:
        assert [five[0] for five in wire.pipeline([f"RL.SLIDE {key} 5 1" for key in keys])] == [1] * 50
    assert server.ask(["EXISTS", *keys]) == 50
    assert server.stop() == 0
    assert not path.exists()


def test_a_stale_unix_socket_is_replaced_and_a_live_one_is_not(start, tmp_path):
    path = tmp_path / "tollgate.sock"
    first = start(1, "--unixsocket", str(path))
    second = run_once(*STARTED_BY_TEST, *tcp_flags(free_port()), "--unixsocket", str(path))
    assert second.returncode == 1 and str(path) in second.stderr
    first.kill()
    assert path.exists()
    start(1, "--unixsocket", str(path))
    with Wire(str(path)) as wire:
        assert wire("PING") == "PONG"


@pytest.mark.smoke
def test_the_banner_says_what_people_need(start, cores, tmp_path):
    server = start(cores)
    # The port accepts a moment before the banner is out.
    deadline = time.monotonic() + 10
    while "redis-cli" not in server.log() and time.monotonic() < deadline:
        select.select([], [], [], 0.01)
    for word in ("0.1.0", str(server.port), "redis-cli", "RL.SLIDE", "--dir"):
        assert word in server.log(), word


def test_logs_are_json_where_no_terminal_reads_them(start):
    server = start(1)
    server.ask("PING")
    server.stop()
    lines = [line for line in server.log().splitlines() if line.startswith("{")]
    assert lines and all(isinstance(json.loads(line), dict) for line in lines)


def test_settings_by_flag_over_environment_over_file(tmp_path):
    file = tmp_path / "tollgate.toml"
    file.write_text('port = 7001\nmaxclients = 111\nmaxmemory = "64mb"\nrequirepass = "from the file"\n')
    environment = {"TOLLGATE_PORT": "7002", "TOLLGATE_MAXCLIENTS": "222"}
    checked = run_once("serve", "--config", str(file), "--port", "7003", "--check-config", environment=environment)
    assert checked.returncode == 0, checked.stderr
    for word in ("7003", "222", "67108864"):
        assert word in checked.stdout, checked.stdout
    for word in ("7001", "7002", "from the file"):
        assert word not in checked.stdout + checked.stderr


BAD_SETTINGS = {
    "port": "port = 70000\n",
    "cores": "cores = 0\n",
    "maxmemory": 'maxmemory = "12 parsecs"\n',
    "bind": 'bind = "not an address"\n',
    "prot": "prot = 7001\n",
}


@pytest.mark.parametrize("key", BAD_SETTINGS)
def test_a_bad_setting_is_named(tmp_path, key):
    file = tmp_path / "tollgate.toml"
    file.write_text(BAD_SETTINGS[key])
    checked = run_once("serve", "--config", str(file), "--check-config")
    assert checked.returncode == 1, checked
    assert key in checked.stderr and "tollgate.toml" in checked.stderr


def test_all_bad_settings_are_told_at_once():
    environment = {"TOLLGATE_MAXMEMORY": "lots"}
    checked = run_once("serve", "--cores", "0", "--check-config", environment=environment)
    assert checked.returncode in (1, 2)
    assert "cores" in checked.stderr and "maxmemory" in checked.stderr.lower()


@pytest.mark.parametrize("arguments", [["--version"], ["--help"], ["serve", "--help"], ["bench", "--help"]])
def test_help_and_version(arguments):
    shown = run_once(*arguments)
    assert shown.returncode == 0 and shown.stdout


def test_an_unknown_flag_is_a_usage_error():
    assert run_once("serve", "--prot", "1").returncode == 2


def test_clients_that_idle_too_long_are_ended(start):
    server = start(2, "--timeout", "1")
    with server.connect() as wire:
        assert wire("PING") == "PONG"
        assert wire.rest() == b""


@pytest.mark.smoke
def test_the_real_clock_runs_and_does_not_obey(start, cores):
    server = start(cores, test_clock=False)
    with server.connect() as wire:
        before = wire("RL.CLOCK")
        assert eventually(lambda: wire("RL.CLOCK") > before)
        assert wire("RL.CLOCK ADVANCE 1s").code == "ERR"
        assert wire("RL.CLOCK SET 4000000000").code == "ERR"
        assert wire("RL.CLOCK") < before + 60 * 10**6


def test_a_full_memory_refuses_new_keys_only(start):
    server: Server = start(2, "--maxmemory", "2mb")
    with server.connect() as wire:
        assert wire("RL.SLIDE first 1000 1h")[0] == 1
        refused = None
        for start_number in range(0, 400_000, 1000):
            lines = [f"RL.SLIDE flood:{number} 5 1h" for number in range(start_number, start_number + 1000)]
            codes = {getattr(reply, "code", "admitted") for reply in wire.pipeline(lines)}
            if "OOM" in codes:
                refused = lines[-1]
                break
        assert refused, "a small memory is never full"
        assert wire("RL.SLIDE first 1000 1h")[:3] == [1, 1000, 998]
        assert wire("RL.SLIDE never:made 5 1h PEEK")[0] == 1
        assert wire("RL.SLIDE never:made 5 1h REFUND") == [0, 5, 5, 0, 0]
        assert wire("FLUSHALL") == "OK"
        assert wire("RL.SLIDE again 5 1h")[0] == 1
