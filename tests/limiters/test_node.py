"""Node: rate-limiter-flexible, express-rate-limit and express-limiter on ioredis and node-redis.

Those that send plain commands decide alike. Those that are scripts work on redis-server only; here each of their calls
fails with the server's error, and what happens then is their own setting.
"""

import json
import subprocess
from pathlib import Path

from limiters.pair import FEWEST_AND_MOST_CORES

pytestmark = FEWEST_AND_MOST_CORES
FOLDER = Path(__file__).parent
SECONDS = 60


def test_all(pair):
    subject, reference = run_both(pair)
    assert subject["first"] == reference["first"] == subject["again"] == reference["again"]
    assert subject["first"] == {
        "rate-limiter-flexible, not atomic, ioredis": [2, 1, 0, "refused", "refused"],
        "rate-limiter-flexible, not atomic, node-redis": [2, 1, 0, "refused", "refused"],
        "express-rate-limit on rate-limit-redis 2": [200, 200, 200, 429, 429],
        "express-limiter": [200, 200, 200, 429, 429],
    }
    assert subject["other"] == reference["other"]
    assert list(reference["refused"].values()) == [2, 2, 200, 200]
    assert subject["refused"] == {
        "rate-limiter-flexible": "ERR unknown command 'eval'",
        "rate-limiter-flexible, insured": 2,
        "express-rate-limit on rate-limit-redis 6": "ERR unknown command 'SCRIPT'",
        "express-rate-limit on rate-limit-redis 6, open": 200,
    }


def run_both(pair) -> tuple[dict, dict]:
    processes = [
        subprocess.Popen(
            ["node", FOLDER / "limiters.js", str(port)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        for port in pair.ports
    ]
    outputs = [process.communicate(timeout=SECONDS) for process in processes]
    assert all(process.returncode == 0 for process in processes), outputs
    subject, reference = (json.loads(out) for out, _ in outputs)
    return subject, reference
