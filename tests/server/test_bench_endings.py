"""How `tollgate bench` ends when a server, a signal or a full disk ends it: what was measured is told all the same."""

import json
import os
import re
import signal
import subprocess

import pytest

from server.process import BINARY, Server, clean_environment, run_once

SHAPE = ["--connections", "4", "--pipeline", "4", "--keys", "200", "--warmup", "0"]
SECONDS = 30.0


def target(server) -> str:
    return f"redis://127.0.0.1:{server.port}"


def started(*flags: str) -> subprocess.Popen:
    """A running benchmark, whose progress tells what it is at."""
    return subprocess.Popen(
        [BINARY, "bench", *flags, "--progress", "always"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=clean_environment(),
    )


def wait_for_line(process, start: str) -> None:
    for line in process.stderr:
        if line.startswith(start):
            return
    raise AssertionError(f"the benchmark ended before {start!r}")


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
@pytest.mark.parametrize("pace", [[], ["--rate", "400"], ["--threads", "2"]], ids=["closed", "open", "threads"])
def test_a_signal_leaves_the_report_of_what_was_measured(start, tmp_path, number, code, pace):
    server = start(1)
    files = {name: tmp_path / name for name in ("one.json", "one.html")}
    flags = ["--json-file", str(files["one.json"]), "--html", str(files["one.html"])]
    process = started("--target", target(server), *SHAPE, "--duration", "60s", *flags, *pace)
    wait_for_line(process, "measuring")
    process.send_signal(number)
    table, _ = process.communicate(timeout=SECONDS)
    assert process.returncode == code
    assert "WARNING: Interrupted: the figures are of the" in table
    report = json.loads(files["one.json"].read_text())
    assert report["interrupted"] is True and report["calls"] > 0 and 0.2 < report["seconds"] < 20
    assert report["errors"] == 0
    assert report["calls_per_second"] == pytest.approx(report["calls"] / report["seconds"], rel=0.01)
    assert "Interrupted" in files["one.html"].read_text()


def test_a_run_to_its_end_is_not_interrupted(start):
    done = run_once("bench", "--target", target(start(1)), *SHAPE, "--requests", "100", "--json")
    assert json.loads(done.stdout)["interrupted"] is False


def test_a_signal_before_the_measuring_ends_at_once(start):
    process = started("--target", target(start(1)), *SHAPE[:6], "--warmup", "60s")
    wait_for_line(process, "warm-up")
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=SECONDS)
    assert process.returncode == 130 and out == "" and "interrupted before anything was measured" in err


def test_a_server_that_ends_takes_only_its_own_figures_with_it(start):
    """`--reconnect` over a restart: another process answers on the port afterwards."""
    for verify in ([], ["--verify"]):
        first = start(1, test_clock=False)
        flags = ["--reconnect", "--duration", "4s", *verify, "--json"]
        process = started("--target", target(first), *SHAPE, *flags)
        wait_for_line(process, "measuring")
        assert first.stop() == 0
        second = start(1, test_clock=False, port=first.port)
        out, err = process.communicate(timeout=SECONDS)
        report = json.loads(out)
        assert "server_cpu_ns_per_call" not in report and "server_pid" not in report, err
        assert re.fullmatch(f"process {first.pid} .* ended before the measuring did", report["server_unseen"])
        assert report["calls"] > report["errors"] and report["seconds"] >= 4
        assert second.stop() == 0


def test_a_server_that_ends_under_verify_leaves_its_clock_unknown(start):
    server = start(1, test_clock=False)
    process = started("--target", target(server), *SHAPE, "--reconnect", "--duration", "2500ms", "--verify", "--json")
    wait_for_line(process, "measuring")
    assert server.stop() == 0
    out, err = process.communicate(timeout=SECONDS)
    assert process.returncode == 1, err
    verify = json.loads(out)["verify"]
    assert verify["limits_checked"] is False and "could not be asked for its time" in verify["clock_doubt"]


def test_a_comparison_keeps_the_rounds_that_were_finished(start, tmp_path):
    servers, file = [start(1), start(1)], tmp_path / "compared.json"
    rivals = [word for server in servers for word in ("--compare", target(server))]
    process = started(*rivals, *SHAPE, "--duration", "1200ms", "--rounds", "50", "--json-file", str(file))
    wait_for_line(process, "round 2 of 50, A")
    servers[1].stop()
    out, err = process.communicate(timeout=SECONDS)
    assert process.returncode == 1
    expected = f"the server at this address has ended: process {servers[1].pid}"
    assert f"the comparison stopped at {target(servers[1])}" in err and expected in err
    assert f"WARNING: Only {json.loads(file.read_text())['rounds']} of 50 rounds were finished" in out
    report = json.loads(file.read_text())
    assert expected in report["stopped"]
    assert [row["name"] for row in report["rows"][:2]] == ["A", "B"] and len(report["rows"]) == 2 * report["rounds"]


def test_a_comparison_that_is_interrupted_keeps_them_too(start):
    rivals = [word for server in (start(1), start(1)) for word in ("--compare", target(server))]
    process = started(*rivals, *SHAPE, "--duration", "1200ms", "--rounds", "50", "--json")
    wait_for_line(process, "round 2 of 50, A")
    process.send_signal(signal.SIGTERM)
    out, _ = process.communicate(timeout=SECONDS)
    assert process.returncode == 143
    report = json.loads(out)
    assert report["stopped"] == "it was interrupted" and len(report["rows"]) == 2 * report["rounds"] > 0


@pytest.mark.parametrize("form", [[], ["--json"]])
def test_what_cannot_be_written_is_an_error(start, tmp_path, form):
    server, file = start(1), tmp_path / "kept.json"
    with open("/dev/full", "w") as full:
        flags = ["--target", target(server), *SHAPE, "--requests", "100", "--json-file", str(file), *form]
        done = subprocess.run(
            [BINARY, "bench", *flags], stdout=full, stderr=subprocess.PIPE, text=True, timeout=SECONDS
        )
    assert done.returncode == 1 and "cannot write the report to standard output" in done.stderr
    assert json.loads(file.read_text())["calls"] == 100
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(
        [BINARY, "bench", *flags], stdout=writing, stderr=subprocess.PIPE, text=True, timeout=SECONDS
    )
    os.close(writing)
    assert (done.returncode, done.stderr) == (0, ""), "whoever has gone away wants no more of it"


def test_files_and_targets_that_do_not_fit_are_refused(tmp_path):
    both = str(tmp_path / "both")
    cases = {
        ("--json-file", both, "--html", both): "--json-file and --html are both to be written to",
        ("--target", "rediss://127.0.0.1:1"): "TLS is not supported",
        ("--target", "redis://127.0.0.1:1/3"): "databases are not supported",
    }
    for flags, expected in cases.items():
        done = run_once("bench", *flags)
        assert done.returncode == 2 and expected in done.stderr, done.stderr
    assert not (tmp_path / "both").exists()


def test_a_process_that_is_not_there_is_refused(start):
    gone = Server(1)
    gone.kill()
    done = run_once("bench", "--target", target(start(1)), "--pid", str(gone.pid), "--requests", "1")
    assert done.returncode == 1 and f"/proc/{gone.pid}/stat" in done.stderr
