"""What `tollgate bench` tells about a run: the server's own figures, JSON, the page, progress, and comparisons."""

import json
import os
import pty
import re
import select
import subprocess
import time
from pathlib import Path

import pytest

from differential.target import RedisServer
from server import browser
from server.process import BINARY, ROOT, Server, clean_environment, run_once

SHAPE = ["--connections", "4", "--pipeline", "8", "--keys", "500", "--warmup", "50ms"]
SHORT = [*SHAPE, "--duration", "400ms"]
SECONDS = 30.0
PASSWORD = "pa55-never-shown"
# Colours of text and of what lies behind it, whose contrast must be enough to read.
CONTRASTS = """
(() => {
  const channels = colour => colour.match(/[\\d.]+/g).map(Number);
  const linear = v => v / 255 <= .04045 ? v / 255 / 12.92 : ((v / 255 + .055) / 1.055) ** 2.4;
  const light = ([r, g, b]) => .2126 * linear(r) + .7152 * linear(g) + .0722 * linear(b);
  const behind = element => {
    for (let at = element; at; at = at.parentElement) {
      const colour = channels(getComputedStyle(at).backgroundColor);
      if (colour.length < 4 || colour[3] > 0) return colour;
    }
    return [255, 255, 255];
  };
  const faint = [];
  for (const element of document.querySelectorAll('h1, h2, p, dt, dd, th, td, figcaption, li, code, span')) {
    const [a, b] = [light(channels(getComputedStyle(element).color)), light(behind(element))];
    const ratio = (Math.max(a, b) + .05) / (Math.min(a, b) + .05);
    if (ratio < 4.5) faint.push([element.tagName, element.textContent, ratio]);
  }
  return faint;
})()
"""
PERCENTILES = ["p50", "p75", "p90", "p95", "p99", "p99.9", "p99.99", "max"]
ROWS = "[...document.querySelectorAll('#latency ~ .scroll tbody th')].map(cell => cell.textContent)"
# Rows of the table beside a chart that are seen only by scrolling in it.
HIDDEN_ROWS = """
(() => {
  const box = document.querySelector('#CHART ~ .scroll');
  const edge = box.getBoundingClientRect().top + box.clientHeight + 1;
  return [...box.querySelectorAll('tbody tr')].filter(row => row.getBoundingClientRect().bottom > edge)
    .map(row => row.textContent);
})()
"""
# Cells of settings that hang over the edge of their table's box.
CUT_SETTINGS = """
[...document.querySelectorAll('.words .scroll')].filter(box => box.scrollWidth > box.clientWidth).length
"""


def bench(*flags: str, code: int = 0) -> str:
    """Runs the benchmark to its end and returns what it printed."""
    done = run_once("bench", *flags)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout


def target(server) -> str:
    return f"redis://127.0.0.1:{server.port}"


@pytest.fixture(scope="module")
def redis():
    """A redis-server to compare with."""
    running = RedisServer()
    try:
        yield running.wait_until_ready()
    finally:
        running.stop()


@pytest.mark.smoke
def test_the_server_is_found_by_its_port(server):
    report = json.loads(bench("--target", target(server), *SHORT, "--json"))
    assert report["server_pid"] == server.pid and report["server_process"] == "tollgate"
    assert report["server_cpu_is_exact"] and report["server_cpu_ns_per_call"] > 0
    parts = report["server_user_ns_per_call"] + report["server_system_ns_per_call"]
    assert parts == pytest.approx(report["server_cpu_ns_per_call"], abs=0.01)
    assert report["warnings"] == []
    given = json.loads(bench("--target", target(server), *SHORT, "--json", "--pid", str(os.getpid())))
    assert given["server_pid"] == os.getpid()
    assert any(f"it is process {server.pid} that listens" in warning for warning in given["warnings"])


def test_memory_per_key_is_that_of_keys_that_the_run_made(start):
    server = start(2)
    shape = ["--connections", "8", "--warmup", "0", "--requests", "1000", "--json"]

    def report(*flags):
        return json.loads(bench("--target", target(server), *shape, *flags))

    for flags in [["--keys", "300000"], ["--workload", "ping"], ["--keys", "500", "--warm-keys"]]:
        found = report(*flags)
        assert found["server_rss_bytes"] > 0 and found["server_rss_bytes_per_key"] is None, flags
    made = report("--keys", "300000", "--key-prefix", "new:", "--warm-keys")
    assert made["server_keys_made"] == 300_000 and 40 < made["server_rss_bytes_per_key"] < 200
    again = report("--keys", "300000", "--key-prefix", "new:", "--warm-keys")
    assert again["server_rss_bytes_per_key"] is None, "the keys were there before"


def test_a_unix_socket_is_found_too(start, tmp_path):
    path = tmp_path / "t.sock"
    server = start(1, "--unixsocket", str(path))
    report = json.loads(bench("--target", f"unix:{path}", *SHORT, "--json"))
    assert report["server_pid"] == server.pid, report.get("server_unseen")


def test_the_table_leads_with_the_server(server):
    table = bench("--target", target(server), *SHORT)
    names = ["server CPU per call", "server memory  ", "calls per second", "batch latency", "denied", "errors"]
    places = [table.index(name) for name in names]
    assert places == sorted(places)
    assert re.search(r"batch latency +p50 +p90 +p99 +p99\.9 +p99\.99 +max\n( +[\d.]+ (ns|µs|ms|s)){6}\n", table)


def test_json_holds_the_curve_and_each_error(server):
    with server.connect() as wire:
        wire("SET text words")
    flags = ["--command", "INCR text", "--requests", "100", "--warmup", "0", "--json"]
    report = json.loads(bench("--target", target(server), *flags, code=1))
    assert report["denied"] is None, "INCR does not say"
    assert report["errors_by_text"] == [{"text": "ERR value is not an integer or out of range", "count": 100}]
    curve = report["latency"]["percentiles"]
    assert curve == sorted(curve) and curve[0][0] == 0 and curve[-1] == [100.0, report["latency"]["max_us"]]
    assert "command_line" not in report


def test_a_file_holds_the_run_over_time_and_how_to_repeat_it(server, tmp_path):
    path = tmp_path / "report.json"
    flags = [*SHAPE, "--duration", "1s", "--json", "--json-file", str(path)]
    printed = bench("--target", f"redis://:{PASSWORD}@127.0.0.1:{server.port}", *flags, code=1)
    assert printed == "" and not path.exists(), "a refused password leaves no report"
    printed = bench("--target", target(server), *flags)
    report = json.loads(path.read_text())
    assert report == json.loads(printed)
    assert report["command_line"].startswith("tollgate bench --target redis://127.0.0.1:")
    assert report["machine"]["cpus"] >= 1
    calls = sum(
        interval["calls_per_second"] * (interval["to_seconds"] - interval["from_seconds"])
        for interval in report["intervals"]
    )
    assert calls == pytest.approx(report["calls"], rel=0.01) and len(report["intervals"]) >= 3


def test_credentials_are_in_no_report(start, redis, tmp_path):
    server = start(1, "--requirepass", PASSWORD)
    page, file = tmp_path / "page.html", tmp_path / "report.json"
    secret = f"redis://:{PASSWORD}@127.0.0.1:{server.port}"
    files = ["--html", str(page), "--json-file", str(file)]
    printed = bench("--target", secret, *SHORT, *files)
    texts = [printed, page.read_text(), file.read_text()]
    compared = ["--compare", secret, "--compare", f"redis://127.0.0.1:{redis.port}", "--rounds", "1"]
    printed = bench(*compared, "--command", "PING", *SHORT, *files)
    for text in [*texts, printed, page.read_text(), file.read_text()]:
        assert PASSWORD not in text
    assert "CREDENTIALS@127.0.0.1" in file.read_text()


def test_a_file_that_cannot_be_written_is_told_before_the_run(server):
    started = time.monotonic()
    done = run_once("bench", "--target", target(server), "--duration", "15s", "--html", "/nowhere/page.html")
    assert done.returncode == 1 and "cannot write /nowhere/page.html" in done.stderr
    assert time.monotonic() - started < 5


def test_progress_is_a_bar_on_a_terminal(server):
    shown, code = on_a_terminal("--target", target(server), *SHAPE, "--duration", "1200ms")
    assert code == 0
    assert "warm-up" in shown or "measuring" in shown
    assert re.search(r"measuring .*[\d.]+[kM]? calls/s  p50 [\d.]+ .s", shown), shown
    assert "\x1b[2K" in shown or "\x1b[K" in shown, "the bar is cleared at the end"
    quiet, code = on_a_terminal("--target", target(server), *SHORT, "--progress", "never")
    assert (quiet, code) == ("", 0)


def test_progress_elsewhere_is_silent_unless_it_was_asked_for(server):
    flags = ["--target", target(server), *SHAPE, "--duration", "1300ms", "--json"]
    done = run_once("bench", *flags)
    assert (done.returncode, done.stderr) == (0, "")
    done = run_once("bench", *flags, "--progress", "always")
    assert re.search(r"^measuring [\d.]+[kM]? calls/s", done.stderr, re.M) and "\x1b" not in done.stderr
    assert json.loads(done.stdout)["calls"] > 0


def on_a_terminal(*flags: str) -> tuple[str, int]:
    """Runs the benchmark with a terminal as its standard error; what was shown there, and the exit code."""
    ours, theirs = pty.openpty()
    environment = clean_environment() | {"TERM": "xterm", "COLUMNS": "120"}
    process = subprocess.Popen(
        [BINARY, "bench", *flags], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=theirs, env=environment
    )
    os.close(theirs)
    shown = b""
    deadline = time.monotonic() + SECONDS
    try:
        while select.select([ours], [], [], max(0.0, deadline - time.monotonic()))[0]:
            more = os.read(ours, 1 << 16)
            if not more:
                break
            shown += more
    except OSError:
        # The kernel's way to say that nobody holds the other side any more.
        pass
    finally:
        os.close(ours)
    return shown.decode(errors="replace"), process.wait(SECONDS)


def test_tollgate_and_redis_are_compared_in_rounds(server, redis):
    targets = ["--compare", target(server), "--compare", f"redis://127.0.0.1:{redis.port}"]
    shape = ["--command", "INCR {key}", "--key-prefix", "count:", "--rounds", "3", *SHAPE, "--duration", "100ms"]
    report = json.loads(bench(*targets, *shape, "--json"))
    assert [row["name"] for row in report["rows"]] == ["A", "B", "B", "A", "A", "B"]
    assert [target["name"] for target in report["targets"]] == ["A", "B"]
    assert {row["server_process"] for row in report["rows"]} == {"tollgate", "redis-server"}
    ratios = report["targets"][1]["ratios_to_first"]
    for name in ["server_cpu_ns_per_call", "calls_per_second", "p50_us", "p99_us", "p999_us"]:
        found = [ratios[name][part] for part in ["least", "quartile_1", "median", "quartile_3", "most"]]
        assert found == sorted(found) and found[0] > 0, name
        by_round = {}
        for row in report["rows"]:
            by_round.setdefault(row["round"], {})[row["name"]] = row[name]
        expected = sorted(pair["B"] / pair["A"] for pair in by_round.values())
        assert [found[0], found[2], found[4]] == pytest.approx(expected), name
    with server.connect() as wire:
        assert wire("DBSIZE") >= 500, "every key was touched"
    assert report["targets"][1]["denied_percent"] is None and report["warnings"] == []
    table = bench(*targets, *shape)
    assert re.search(r"^B to A +median +least", table, re.M) and "redis-server" in table


def test_the_server_that_cannot_be_compared_is_named(server):
    closed = "redis://127.0.0.1:1"
    done = run_once("bench", "--compare", target(server), "--compare", closed, *SHORT)
    assert done.returncode == 1 and f"the comparison stopped at {closed}" in done.stderr
    twice = ["--compare", closed] * 2
    for flags in [twice[:2], [*twice, "--target", closed], [*twice, "--pid", "1"], ["--rounds", "3"]]:
        assert run_once("bench", *flags).returncode == 2, flags


def test_both_sides_of_a_comparison_admit_and_what_they_deny_is_said(server, redis):
    targets = ["--compare", target(server), "--compare", f"redis://127.0.0.1:{redis.port}"]
    shape = ["--workload", "slide", "--keys", "2", "--rounds", "1", "--connections", "2", "--warmup", "0", "--json"]
    report = json.loads(bench(*targets, *shape, "--requests", "3000"))
    assert [side["denied"] for side in report["targets"]] == [0, 0]
    limited = json.loads(bench(*targets, *shape, "--requests", "3000", "--limit", "7", "--key-prefix", "few:"))
    assert all(side["denied_percent"] > 90 for side in limited["targets"])


def test_the_example_of_the_page_for_redis_users_runs(server, redis, tmp_path):
    page = (ROOT / "docs" / "from-redis.md").read_text().partition("## Comparing with your own script")[2]
    example = page.partition("```sh\n")[2].partition("```")[0]
    for old, new in [("6379", server.port), ("6380", redis.port), ("tollgate bench", f"{BINARY} bench --json")]:
        assert old in example
        example = example.replace(old, str(new))
    short = "--rounds 1 --keys 500 --duration 100ms --warmup 0"
    done = subprocess.run(
        ["bash", "-ec", f"{example.rstrip()} {short}"], cwd=tmp_path, capture_output=True, text=True, timeout=SECONDS
    )
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert [row["command"].split()[0] for row in report["rows"]] == ["RL.FIXED", "EVALSHA"]
    assert [side["denied_percent"] for side in report["targets"]] == [0.0, 0.0]
    assert (tmp_path / "compared.html").stat().st_size > 1_000


def test_the_bench_has_a_version_and_names_the_cpus_there_are(server):
    done = run_once("bench", "--version")
    assert done.returncode == 0 and re.fullmatch(r"tollgate-bench [\d.]+\n", done.stdout), done.stdout
    done = run_once("bench", "--target", target(server), "--cpu", "1023")
    assert done.returncode == 2 and re.search(r"--cpu 1023 is none of the CPUs .*: \d", done.stderr), done.stderr


@pytest.fixture(scope="module")
def pages(tmp_path_factory, redis):
    """A page of one run, whose command and error texts hold markup, and one of a comparison."""
    folder = tmp_path_factory.mktemp("pages")
    server = Server(2)
    try:
        server.wait_until_ready()
        planted = "<script>document.title='planted'</script>"
        one, two = folder / "one.html", folder / "two.html"
        strange = ["--command", f"ECHO '{planted}' {{key}}", "--requests", "2000", "--warmup", "0"]
        bench("--target", target(server), *SHAPE[:6], *strange, "--html", str(one), code=1)
        rivals = ["--compare", target(server), "--compare", f"redis://127.0.0.1:{redis.port}"]
        # A third server, as settings of three need room.
        rivals += ["--compare", target(server)]
        bench(*rivals, "--rounds", "3", "--command", "PING", *SHAPE, "--duration", "100ms", "--html", str(two))
        yield {"one": one, "two": two}
        assert server.stop() == 0
    finally:
        server.kill()


@pytest.fixture(scope="module")
def chromium():
    """A browser for all pages."""
    if browser.program() is None:
        pytest.skip("no chromium on this machine: tests/run installs it")
    with browser.Browser() as running:
        yield running


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1200, 360])
@pytest.mark.parametrize("name", ["one", "two"])
def test_the_page_in_a_browser(pages, chromium, name, width, scheme):
    page: Path = pages[name]
    chromium.open(page, width=width, scheme=scheme)
    assert chromium.requests == [page.as_uri()], "the page loads nothing besides itself"
    assert chromium.complaints == []
    assert chromium.evaluate("document.title") != "planted"
    assert chromium.evaluate("document.scripts.length") == 0
    charts = chromium.evaluate("[...document.querySelectorAll('figure')].map(figure => figure.id)")
    assert charts == (["latency", "rate"] if name == "one" else ["latency", "rounds"])
    for chart in charts:
        check_chart(chromium, chart)
    assert chromium.evaluate("document.documentElement.scrollWidth") <= width, "nothing hangs over the edge"
    assert chromium.evaluate(CUT_SETTINGS) == 0, "no setting is out of sight"
    background = chromium.evaluate("getComputedStyle(document.body).backgroundColor")
    darkness = sum(map(int, re.findall(r"\d+", background)[:3])) / 3
    assert (darkness < 60) == (scheme == "dark"), background
    assert chromium.evaluate(CONTRASTS) == []


def check_chart(chromium, chart: str) -> None:
    """Every figure of the table beside a chart is a point in it, within its frame, in the order of the line."""
    found = chromium.evaluate(f"""
        (() => {{
            const figure = document.getElementById('{chart}');
            const box = figure.querySelector('svg.plot').getBoundingClientRect();
            const cells = [...figure.parentElement.querySelectorAll('tbody tr')].map(row => row.cells.length - 1);
            const middles = [...figure.querySelectorAll('circle')].map(point => point.getBoundingClientRect())
                .map(point => [(point.left + point.right) / 2 - box.left, (point.top + point.bottom) / 2 - box.top]);
            const tips = [...figure.querySelectorAll('circle title')].map(tip => tip.textContent);
            const lines = figure.querySelectorAll('polyline').length;
            return {{cells, middles, tips, lines, width: box.width, height: box.height}};
        }})()
    """)
    assert found["width"] > 200 and found["height"] > 200
    rows, points = len(found["cells"]), len(found["middles"])
    assert points == len(found["tips"]) and rows > 0
    if chart == "latency":
        names = chromium.evaluate(ROWS)
        assert names == [name for name in PERCENTILES if name in names] and {"p50", "p99", "max"} <= set(names)
        # The table has the percentiles that people ask for, the curve others too.
        assert rows <= points
    else:
        assert rows <= points <= rows * found["lines"], (rows, points, found["lines"])
    hidden = chromium.evaluate(HIDDEN_ROWS.replace("CHART", chart))
    assert chart != "latency" or hidden == [], f"rows below an inner edge: {hidden}"
    for left, top in found["middles"]:
        assert -1 <= left <= found["width"] + 1 and -1 <= top <= found["height"] + 1
    assert all(re.search(r": [\d.,]+", tip) for tip in found["tips"])
