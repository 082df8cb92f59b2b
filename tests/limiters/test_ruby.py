"""Ruby: rack-attack on a Redis client and on Rails' cache store, and that store used as a counter."""

import json
import random
import subprocess
from pathlib import Path

import pytest

from limiters.pair import FEWEST_AND_MOST_CORES

pytestmark = FEWEST_AND_MOST_CORES
FOLDER = Path(__file__).parent
T = 1_751_540_400
SECONDS = 60
ADDRESSES = ["10.0.0.1", "10.0.0.2", "10.0.0.3", "2001:db8::7"]
PATHS = ["/", "/", "/login", "/export", "/.env"]


def ruby(script: str, *arguments: str, text: str = ""):
    """Runs a script and returns the JSON that it printed; it must end well."""
    command = ["ruby", FOLDER / script, *arguments]
    done = subprocess.run(command, input=text, capture_output=True, text=True, timeout=SECONDS)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def history(seed: int) -> list:
    rng = random.Random(seed)
    now, requests = T, []
    for _ in range(200):
        now += rng.choice([0, 0, 0, 1, 2, 9, 31])
        requests.append([now, rng.choice(ADDRESSES), rng.choice(PATHS)])
    return requests


@pytest.mark.parametrize("store", ["redis", "cache"])
def test_rack_attack(pair, store):
    """Throttles, a limit that depends on the request, and both kinds of bans."""
    text = json.dumps(history(1))
    decided = pair.same_at_once(lambda port: ruby("rack_attack.rb", str(port), store, text=text))
    assert {status for status, _, _ in decided} == {200, 403, 429}


def test_rails_cache_store(pair):
    decided = pair.same_at_once(lambda port: ruby("cache_store.rb", str(port)))
    assert decided["first"] == decided["again"] == [True] * 3 + [False] * 2
    assert decided["decrement"] == [10, 7, "7"]
