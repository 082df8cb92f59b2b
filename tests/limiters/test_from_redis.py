"""docs/from-redis.md says what is so: its sessions, its scripts beside the calls that replace them, its clients."""

import importlib.util
import json
import random
import re
import socket
import subprocess
import time
from pathlib import Path

import pytest
import redis

from limiters import page
from server.process import Server
from server.wire import Wire

FOLDER = Path(__file__).parent
CALLS = 300
# What a client may take until it has given up on a server that says nothing: its deadline, and a busy machine.
PATIENCE_SECONDS = 5.0


@pytest.fixture
def port(clocked) -> int:
    assert clocked.ask("FLUSHALL") == "OK"
    return clocked.port


def test_the_sessions_are_shown_as_they_are(start_of_page):
    """All sessions one after the other on one server, whose clock stands at the start of the page."""
    for session in page.sessions():
        for typed, shown in session:
            assert page.redis_cli(start_of_page, typed) == shown, typed


@pytest.fixture
def start_of_page(port, clocked) -> int:
    """The shared server at a moment that no other test has come to."""
    assert clocked.ask(f"RL.CLOCK SET {page.START}") == "OK"
    return port


def test_the_calls_in_the_text_are_calls(port):
    """Names stand for numbers there: with numbers in their places, each is answered by integers."""
    values = {"key": "k", "limit": "100", "window": "60", "capacity": "5", "burst": "5", "rate": "1", "cost": "1"}
    values |= {"alg": "SLIDE", "a": "100", "b": "60"}
    seen = 0
    with redis.Redis(port=port) as client:
        for name, *words in page.calls():
            words = [values.get(word, word).replace("1/interval", "1/6") for word in words if word != "..."]
            client.flushall()
            reply = client.execute_command(name, *words)
            assert all(isinstance(value, int | list) for value in reply), (name, words)
            seen += 1
    assert seen >= 8


def steps(seed: int) -> list[int]:
    """How far the clock moves before each call, in milliseconds: bursts, pauses, and the edges of windows."""
    rng = random.Random(seed)
    return [rng.choice([0, 0, 0, 1, 125, 1000, 7000, 20_000]) for _ in range(CALLS)]


def log(script, now: int, number: int):
    return script(["log"], [now, 60_000, 5, number])[::2], "RL.LOG log 5 60"


def counters(script, now: int, _: int):
    window = now // 60_000
    return script([f"c:{window}", f"c:{window - 1}"], [now, 60_000, 20])[:1], "RL.SLIDE counters 20 60"


def bucket(script, now: int, number: int):
    cost = 1 + number % 3
    return script(["bucket"], [now, 16, 0.125, cost]), f"RL.TOKEN bucket 16 0.125 COST {cost}"


def gcra(script, now: int, _: int):
    return script(["gcra"], [now, 6000, 5]), "RL.TOKEN gcra 5 1/6"


# Which of the five integers the script answers too.
REPLACED = {log: [0, 3], counters: [0], bucket: [0, 2], gcra: [0, 3]}


@pytest.mark.parametrize("replaced", REPLACED, ids=lambda replaced: replaced.__name__)
def test_the_calls_decide_as_the_scripts_do(port, reference, replaced):
    """The script on redis-server is given the time that the call on Tollgate has."""
    with redis.Redis(port=reference.port) as old, Wire(("127.0.0.1", port)) as new:
        old.flushall()
        script = old.register_script(page.scripts()[replaced.__name__])
        now = new("RL.CLOCK") // 60_000_000 * 60_000 + 120_000
        decisions = set()
        for number, step in enumerate(steps(len(replaced.__name__))):
            now += step
            assert new(f"RL.CLOCK SET {now}ms") == "OK"
            expected, call = replaced(script, now, number)
            five = new(call)
            assert [five[index] for index in REPLACED[replaced]] == expected, (number, call, five)
            decisions.add(five[0])
    assert decisions == {0, 1}


def test_every_script_is_compared_or_told(reference):
    names = {replaced.__name__ for replaced in REPLACED} | {"window"}
    assert set(page.scripts()) == names
    with redis.Redis(port=reference.port) as client:
        client.flushall()
        window = client.register_script(page.scripts()["window"])
        counts = [window(["w"], [60_000]) for _ in range(3)]
    assert [count for count, _ in counts] == [1, 2, 3]
    assert all(59_000 < left <= 60_000 for _, left in counts)


# What each client must answer to three calls of two in a minute, to a limit of none, and while the server is gone.
# The two calls of a minute are in its first microsecond, so the next one fits just after a minute.
EXPECTED = [[True, None], [True, None], [False, 61], [False, None], [True, None], [True, None]]
PLAN = [["caller", 2, "60"]] * 3 + [["nobody", 0, "60"], ["a wrong call", 1, "sixty"]]


@pytest.fixture
def fresh() -> Server:
    """A server for a client that will see it stop."""
    running = Server(2)
    try:
        yield running.wait_until_ready()
    finally:
        running.kill()


@pytest.fixture
def silent():
    """The port of a listener that takes connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener.getsockname()[1]


def test_the_python_client(tmp_path, fresh, silent):
    path = tmp_path / "limiter.py"
    path.write_text(page.blocks("python")[0])
    spec = importlib.util.spec_from_file_location("limiter_of_the_page", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)

    limiter = module.Limiter(f"redis://127.0.0.1:{fresh.port}", deadline_seconds=PATIENCE_SECONDS)
    answers = [list(limiter.check(*call)) for call in PLAN]
    fresh.kill()
    answers.append(list(limiter.check(*PLAN[0])))
    assert answers == EXPECTED

    begun = time.monotonic()
    assert module.Limiter(f"redis://127.0.0.1:{silent}").check(*PLAN[0]) == (True, None)
    assert time.monotonic() - begun < PATIENCE_SECONDS


NODE_CLIENTS = ["ioredis", "redis"]


@pytest.mark.parametrize("library", NODE_CLIENTS)
def test_the_node_clients(tmp_path, fresh, silent, library):
    code = next(block for block in page.blocks("js") if f'require("{library}")' in block)
    (tmp_path / "limiter.js").write_text(code)
    (tmp_path / "node_modules").symlink_to(FOLDER / "node_modules")
    (tmp_path / "run.js").write_text((FOLDER / "page_client.js").read_text())
    check_program(["node", tmp_path / "run.js"], fresh, silent)


def test_the_ruby_client(tmp_path, fresh, silent):
    (tmp_path / "limiter.rb").write_text(page.blocks("ruby")[0])
    (tmp_path / "run.rb").write_text((FOLDER / "page_client.rb").read_text())
    check_program(["ruby", tmp_path / "run.rb"], fresh, silent)


def check_program(command: list, fresh: Server, silent: int) -> None:
    """Runs a program that makes the plan's calls, ends the server by its id, asks once more, and asks one that is
    silent; it prints the answers and how long the silent one took."""
    plan = json.dumps({"port": fresh.port, "pid": fresh.pid, "silent": silent, "calls": PLAN})
    done = subprocess.run([*command, plan], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    printed = json.loads(done.stdout)
    assert printed["answers"] == EXPECTED, done.stderr
    assert printed["silent"] == [True, None]
    assert printed["silent_seconds"] < PATIENCE_SECONDS


def test_the_page_is_linked():
    """The page, and what it points at, exist."""
    readme = (page.PAGE.parents[1] / "README.md").read_text()
    assert "(docs/from-redis.md)" in readme
    for target in re.findall(r"\]\(([^)#:]+)\)", page.PAGE.read_text()):
        assert (page.PAGE.parent / target).exists(), target
