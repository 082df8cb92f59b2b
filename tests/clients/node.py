"""Runs a client's script in Node and reads what its cases answered."""

import json
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path

HERE = Path(__file__).parent
# For a whole script; a case has a shorter time of its own, in harness.mjs.
SECONDS = 60.0


def nobody_asks(what: str) -> None:
    raise AssertionError(f"a case asks to {what}")


def run_cases(
    script: str,
    port: int,
    protocol: int,
    *cases: str,
    password: str = "",
    on_ask: Callable[[str], None] = nobody_asks,
) -> dict:
    """What each of these cases (if none is named: every case) answered, by its name, or the text of its failure.

    `on_ask` is called with what a case asks the outside for, and the case goes on when it returns.
    """
    answers = {}
    process = subprocess.Popen(
        ["node", HERE / f"{script}.mjs", str(port), str(protocol), password, *cases],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    watchdog = threading.Timer(SECONDS, process.kill)
    watchdog.start()
    try:
        for line in process.stdout:
            message = json.loads(line)
            if "ask" in message:
                on_ask(message["ask"])
                process.stdin.write("done\n")
                process.stdin.flush()
            else:
                answers[message["case"]] = message.get("answer", message.get("failed"))
        assert process.wait() == 0, answers
    finally:
        watchdog.cancel()
        process.kill()
        process.wait()
        process.stdin.close()
        process.stdout.close()
    return answers
