"""Few runs of the script that pauses and cuts off primaries, which an operator has too; and what judges its callers."""

import dataclasses
import subprocess
import sys

import pytest

from cluster import judge, net
from cluster.calls import Call
from server.process import BINARY, ROOT

SECONDS = 120.0
WHY_NOT = net.why_not()
in_namespaces = pytest.mark.skipif(bool(WHY_NOT), reason=WHY_NOT or "they can be made")


@pytest.mark.parametrize(
    "kind", ["pause", "peers", pytest.param("clean", marks=in_namespaces), pytest.param("one-way", marks=in_namespaces)]
)
def test_an_old_primary_admits_nothing_without_a_lease(tmp_path, kind):
    words = [sys.executable, "-B", str(ROOT / "benches" / "cluster-faults"), "--tollgate", str(BINARY)]
    words += ["--runs", "2", "--kinds", kind, "--rows", str(tmp_path)]
    done = subprocess.run(words, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=SECONDS)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"| {kind} | 2 |" in done.stdout, done.stdout


OLD, NEW = "old:1", "new:2"
ADMITTED = Call(OLD, "k", 5, invoked=1.0, answered=1.1, allowed=True)
ELSEWHERE = Call(NEW, "k", 5, invoked=2.0, answered=2.1, allowed=False)


@pytest.mark.parametrize(
    "invoked, is_late",
    [(1.0, False), (1.5, False), (1.51, True), (3.0, True)],
)
def test_a_call_after_the_lease_is_seen(invoked, is_late):
    late = dataclasses.replace(ADMITTED, invoked=invoked, answered=invoked + 5)
    assert judge.after_lease([late, ELSEWHERE], OLD, unheard_since=1.0) == [late] * is_late
    # Where nobody took over, it has been granted another.
    assert judge.after_lease([late], OLD, unheard_since=1.0) == []
    assert judge.after_lease([dataclasses.replace(late, allowed=False), ELSEWHERE], OLD, unheard_since=1.0) == []


def test_a_call_after_the_successor_has_answered_is_seen():
    late = dataclasses.replace(ADMITTED, invoked=2.2, answered=2.3)
    for call, found in [(ADMITTED, []), (late, [late]), (dataclasses.replace(late, key="other"), [])]:
        assert judge.after_successor([ELSEWHERE, call], OLD) == found


def test_two_nodes_in_turn_are_seen():
    middle = Call(NEW, "k", 5, invoked=1.2, answered=1.25, allowed=True)
    last = dataclasses.replace(ADMITTED, invoked=1.3, answered=1.4)
    assert judge.interleaved([last, middle, ADMITTED]) == [(ADMITTED, middle, last)]
    overlapping = dataclasses.replace(middle, answered=1.35)
    later = dataclasses.replace(last, invoked=1.9, answered=2.0)
    for calls in ([ADMITTED, overlapping, last], [ADMITTED, middle, later], [ADMITTED, middle]):
        assert judge.interleaved(calls) == []


def test_units_above_a_limit_are_counted():
    assert judge.above_limits([ADMITTED] * 5 + [ELSEWHERE]) == {}
    assert judge.above_limits([ADMITTED] * 7 + [ELSEWHERE]) == {"k": 2}
