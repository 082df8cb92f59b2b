"""`tollgate bench` against Tollgate and redis-server: every workload in both dialects, each reply held against its limit."""

import json

import pytest

from differential.target import RedisServer
from server.process import Server, run_once

LIMITS = ["slide", "token", "fixed", "log", "leak", "all", "throttle"]
PLAIN = ["incr", "increx", "ping", "get"]
# Hot keys that use their limit up many times over, and many that do not.
HOT = ["--keys", "3", "--limit", "40", "--window", "250ms", "--duration", "450ms"]
# The dialect of whole seconds needs one that is.
HOT_SECONDS = ["--keys", "3", "--limit", "40", "--window", "1", "--duration", "1200ms"]
MANY = ["--keys", "2000", "--window", "1", "--threads", "2"]
SHAPE = ["--connections", "8", "--pipeline", "8", "--warmup", "20ms"]


def run(server, *flags: str, code: int = 0):
    """The report as fields, or what was said if the run ended badly."""
    target = f"redis://127.0.0.1:{server.port}"
    done = run_once("bench", "--target", target, "--json", *SHAPE, *flags)
    assert done.returncode == code, done.stdout + done.stderr
    return json.loads(done.stdout) if done.stdout else done.stderr


def holds(report, workload: str) -> None:
    """The run is without errors, and no reply broke its limit."""
    verify = report["verify"]
    assert verify["violations"] == 0, verify
    assert verify["unknown"] == 0 and verify["calls_checked"] >= report["calls"] > 0
    assert (report["workload"], report["errors"], report["unexpected_replies"]) == (workload, 0, 0)


@pytest.fixture(scope="module")
def real(cores):
    """A server whose time passes; it must end well after all tests."""
    running = Server(cores, test_clock=False)
    try:
        yield running.wait_until_ready()
        assert running.stop() == 0, running.log()
        assert "panicked" not in running.log()
    finally:
        running.kill()


@pytest.fixture(scope="module")
def redis():
    running = RedisServer()
    try:
        yield running.wait_until_ready()
    finally:
        running.stop()


@pytest.mark.parametrize("workload", LIMITS)
def test_tollgate_keeps_every_limit(real, workload):
    hot = run(real, "--workload", workload, "--verify", *(HOT_SECONDS if workload == "throttle" else HOT))
    holds(hot, workload)
    assert hot["dialect"] == "tollgate" and hot["denied"] > 0
    many = run(real, "--workload", workload, "--verify", *MANY, "--requests", "6000")
    holds(many, workload)
    assert many["threads"] == 2 and many["calls"] == 6000


@pytest.mark.parametrize("workload", LIMITS)
def test_the_scripts_keep_every_limit(redis, workload):
    hot = run(redis, "--workload", workload, "--verify", *HOT)
    holds(hot, workload)
    assert hot["dialect"] == "redis" and hot["denied"] > 0 and hot["command"].startswith("EVALSHA {sha}")
    holds(run(redis, "--workload", workload, "--verify", *MANY, "--requests", "6000"), workload)


@pytest.mark.parametrize("workload", PLAIN)
def test_what_has_no_limit_to_check_runs_on_both(real, redis, workload):
    for server in (real, redis):
        report = run(server, "--workload", workload, "--keys", "100", "--requests", "2000")
        assert (report["calls"], report["errors"], report["unexpected_replies"]) == (2000, 0, 0)
    error = run(real, "--workload", workload, "--verify", code=2)
    assert "--verify has nothing to check" in error


@pytest.mark.smoke
def test_an_open_loop_keeps_its_rate_and_every_limit(real):
    report = run(real, "--verify", *HOT, "--rate", "8000", "--arrivals", "poisson")
    holds(report, "slide")
    # 450 batches in the mean: five deviations of a Poisson process.
    assert abs(report["calls"] - 3600) < 5 * 8 * 450**0.5
    assert report["rate_asked"] == 8000 and abs(report["rate_due"] - report["calls"] / 0.45) < 400
    assert report["calls_unsent"] == 0 and report["rate"] == 8000 and report["arrivals"] == "poisson"


@pytest.mark.parametrize("workload", [*LIMITS, "increx"])
def test_the_denied_share_is_as_asked(real, redis, workload):
    check = ["--verify"] if workload != "increx" else []
    for server in (real, redis):
        flags = ["--workload", workload, "--denied", "0.3", "--keys", "500", "--requests", "5000", *check]
        flags += ["--window", "1d", "--limit", "90000"]
        report = run(server, *flags)
        # Five deviations of 5000 draws.
        assert abs(report["denied"] / report["calls"] - 0.3) < 5 * (0.3 * 0.7 / 5000) ** 0.5
        if check:
            holds(report, workload)


def test_zipf_heats_few_keys(real):
    report = run(real, "--key-distribution", "zipf", "--keys", "10000", "--verify", "--requests", "20000")
    holds(report, "slide")
    assert (report["key_distribution"], report["zipf_exponent"]) == ("zipf", 0.99)
    # The hottest of ten thousand keys has a tenth of the calls, which a limit of 100 does not bear.
    assert report["denied"] > 1000


@pytest.mark.parametrize("workload", LIMITS)
def test_a_clock_that_stands_still_is_refused(server, workload):
    error = run(server, "--workload", workload, "--verify", "--keys", "3", "--requests", "4000", code=1)
    assert "the server's clock stands still" in error and "--test-clock" in error


def test_every_thread_may_have_a_cpu_of_its_own(real):
    error = run(real, "--cpu", "0,0,0", "--threads", "2", code=2)
    assert "--cpu names 3 CPUs for 2 threads" in error
    assert run(real, "--cpu", "0,0", "--threads", "2", "--requests", "100")["calls"] == 100


def test_what_a_server_cannot_do_is_told(redis):
    said = run(redis, "--workload", "slide", "--dialect", "tollgate", "--requests", "10", code=1)
    assert "calls of the warm-up failed, the first with: ERR unknown command" in said
    said = run(redis, "--workload", "slide", "--dialect", "throttlecrab", "--requests", "10", code=1)
    assert "cannot do the workload slide" in said and "THROTTLE and PING" in said
