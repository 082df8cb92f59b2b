"""Few runs of the script that measures how long a failover takes, which an operator has too; it fails if it is long."""

import subprocess
import sys

from server.process import BINARY, ROOT

SECONDS = 120.0


def test_a_killed_primary_is_replaced_in_time(tmp_path):
    words = [sys.executable, "-B", str(ROOT / "benches" / "cluster-failover"), "--tollgate", str(BINARY)]
    words += ["--runs", "3", "--rows", str(tmp_path)]
    done = subprocess.run(words, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=SECONDS)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "| random | 3 |" in done.stdout and "| leader | 3 |" in done.stdout, done.stdout
