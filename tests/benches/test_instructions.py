"""User-space instructions of a call stay within their budgets: a slower hot path is seen before it is merged.

Time says little on a shared machine; instructions under valgrind are exact. They are counted on the release build, by
the script that makes the table of docs/benchmarks.md.
"""

import json
import subprocess
import sys
import tomllib
import warnings
from pathlib import Path

import pytest

from server.process import BINARY, ROOT

SCRIPT = ROOT / "benches" / "instructions"
BUDGETS = Path(__file__).with_name("budgets.toml")
SECONDS_MAX = 500


class BudgetCanBeLowered(UserWarning):
    """A call takes clearly less than its budget."""


def judge(name: str, found: float, budget: float, allowance_percent: float, bar: float) -> tuple[bool, str]:
    """Whether a figure is within its budget and its bar, and what to say: nothing where it is near the budget."""
    part = allowance_percent / 100
    figure = f"RL.SLIDE takes {found:,.0f} user-space instructions a call at {name.replace('_', ' ')}"
    if found > bar:
        return False, f"{figure}: the bar is {bar:,}, whatever the budget allows"
    if found > budget * (1 + part):
        look = f"{SCRIPT.relative_to(ROOT)} --subjects tollgate --functions 20"
        return False, (
            f"{figure}: its budget is {budget:,}, with {allowance_percent} % allowed. To see where they are spent, run "
            f"{look} on this build and on the one before. A raised budget needs its reason: {BUDGETS.relative_to(ROOT)}"
        )
    if found < budget * (1 - part):
        return True, f"{figure}: its budget of {budget:,} can be lowered to that in {BUDGETS.relative_to(ROOT)}"
    return True, ""


@pytest.mark.parametrize(
    ("found", "is_within", "said"),
    [(1_031, False, "1,031"), (1_030, True, ""), (1_000, True, ""), (970, True, ""), (969, True, "can be lowered")],
)
def test_a_budget_is_kept_to_its_allowance(found, is_within, said):
    within, text = judge("pipeline_16", found, 1_000, 3, 1_100)
    assert within == is_within
    assert said in text and bool(said) == bool(text)
    if not within:
        assert "1,000" in text and "pipeline 16" in text and "--functions" in text


@pytest.mark.parametrize(("found", "is_within"), [(1_020, True), (1_021, False), (1_031, False)])
def test_no_allowance_reaches_over_a_bar(found, is_within):
    within, text = judge("pipeline_16", found, 1_000, 3, 1_020)
    assert within == is_within and ("the bar is 1,020" in text) != is_within


def bars(script) -> dict[str, float]:
    """The most that a call may take at all, by the names of the budgets."""
    return {f"pipeline_{pipeline}": bar for (_, pipeline), bar in script("instructions").BARS.items()}


def test_every_budget_is_within_its_bar(script):
    budgets, limits = tomllib.loads(BUDGETS.read_text())["instructions_per_call"], bars(script)
    assert limits == {"pipeline_16": 600, "pipeline_1": 3_000}
    assert budgets.keys() == limits.keys()
    assert all(budgets[name] <= limits[name] for name in limits)


@pytest.fixture(scope="module")
def rows(tmp_path_factory) -> list[dict]:
    """What the script keeps."""
    if BINARY.parent.name == "debug":
        pytest.skip("budgets are for the release build")
    folder = tmp_path_factory.mktemp("rows")
    words = [SCRIPT, "--subjects", "tollgate", "--tollgate", BINARY, "--rows", folder, "--seconds-max", SECONDS_MAX]
    done = subprocess.run([sys.executable, "-B", *map(str, words)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for file in folder.iterdir() for line in file.read_text().splitlines()]


@pytest.fixture(scope="module")
def figures(rows) -> dict[str, float]:
    """Instructions a call, by the names of the budgets."""
    return {
        f"pipeline_{row['pipeline']}": row["instructions_per_call"] for row in rows if "instructions_per_call" in row
    }


def test_a_node_of_a_cluster_takes_hardly_more(rows, script):
    of_alone = {row["pipeline"]: row["of_alone"] for row in rows if "of_alone" in row}
    assert of_alone.keys() == {16, 1}
    assert all(ratio <= script("instructions").CLUSTER_BAR for ratio in of_alone.values()), of_alone


def test_a_call_takes_no_more_instructions_than_its_budget(figures, script):
    budgets = tomllib.loads(BUDGETS.read_text())
    assert figures.keys() == budgets["instructions_per_call"].keys()
    limits = bars(script)
    verdicts = {
        name: judge(name, figures[name], budget, budgets["allowance_percent"], limits[name])
        for name, budget in budgets["instructions_per_call"].items()
    }
    for within, text in verdicts.values():
        if within and text:
            warnings.warn(text, BudgetCanBeLowered, stacklevel=1)
    faults = [text for within, text in verdicts.values() if not within]
    assert not faults, "\n".join(faults)
