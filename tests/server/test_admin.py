"""The admin port: probes and metrics over plain HTTP."""

import http.client
import re

import pytest

from server.process import Server, free_port, run_once, tcp_flags

SAMPLE = re.compile(r'([a-zA-Z_:][a-zA-Z0-9_:]*)(\{(?:[a-zA-Z_]\w*="(?:[^"\\\n]|\\.)*",?)*\})? (\S+)')
COMMENT = re.compile(r"# (HELP|TYPE) ([a-zA-Z_:][a-zA-Z0-9_:]*) (.+)")
TYPES = {"counter", "gauge", "histogram", "summary", "untyped"}


@pytest.fixture(scope="module")
def watched(cores):
    server = Server(cores, admin=True)
    try:
        yield server.wait_until_ready()
        assert server.stop() == 0
    finally:
        server.kill()


def request(server: Server, path: str, method: str = "GET") -> tuple[int, str, dict]:
    connection = http.client.HTTPConnection("127.0.0.1", server.admin_port, timeout=10)
    connection.request(method, path)
    response = connection.getresponse()
    answer = response.status, response.read().decode(), {name.lower(): value for name, value in response.getheaders()}
    connection.close()
    return answer


@pytest.mark.smoke
@pytest.mark.parametrize(
    "method, path, status",
    [
        ("GET", "/livez", 200),
        ("GET", "/readyz", 200),
        ("GET", "/metrics", 200),
        ("GET", "/", 200),
        ("GET", "/nothing", 404),
        ("POST", "/livez", 405),
        ("DELETE", "/metrics", 405),
    ],
)
def test_status(watched, method, path, status):
    assert request(watched, path, method)[0] == status


def families(text: str) -> dict[str, str]:
    """Checks every line of an exposition and returns the type of each family."""
    types: dict[str, str] = {}
    seen = set()
    for line in text.splitlines():
        if comment := COMMENT.fullmatch(line):
            kind, name, rest = comment.groups()
            assert kind != "TYPE" or (rest in TYPES and name not in types)
            if kind == "TYPE":
                types[name] = rest
            continue
        sample = SAMPLE.fullmatch(line)
        assert sample, line
        name, labels, value = sample.groups()
        float(value)
        assert (name, labels) not in seen, line
        seen.add((name, labels))
        base = re.sub(r"_(bucket|sum|count)$", "", name)
        assert name in types or base in types, line
    return types


@pytest.mark.smoke
def test_metrics_are_well_formed_and_count(watched):
    before = request(watched, "/metrics")[1]
    with watched.connect() as wire:
        wire.pipeline([f"RL.SLIDE secret-caller-{number} 1 1h" for number in range(40)] * 2)
    status, after, headers = request(watched, "/metrics")
    assert status == 200 and headers["content-type"].startswith("text/plain; version=0.0.4")
    assert after.endswith("\n")
    types = families(after)
    assert "counter" in types.values() and "gauge" in types.values()
    assert all(name.startswith(("tollgate_", "process_")) for name in types), types
    assert after != before


def test_no_key_is_ever_a_label(watched):
    with watched.connect() as wire:
        wire("RL.SLIDE secret-caller 1 1h")
        wire("RL.NOSUCH secret-caller")
    assert "secret" not in request(watched, "/metrics")[1]


def test_the_port_is_off_when_zero(start, cores):
    server = start(cores)
    assert server.admin_port == 0
    assert server.ask("PING") == "PONG"


def test_a_taken_admin_port_is_an_error(watched):
    second = run_once("serve", *tcp_flags(free_port(), watched.admin_port), "--cores", "1")
    assert second.returncode == 1 and str(watched.admin_port) in second.stderr
