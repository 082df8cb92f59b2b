"""docs/from-redis.md, taken apart: its sessions with redis-cli, its scripts and its clients.

Where an answer of the server has changed, `python -m limiters.page`, run in tests/, writes the sessions anew.
"""

import re
import shlex
import subprocess
from pathlib import Path

from server.process import Server

PAGE = Path(__file__).resolve().parents[2] / "docs" / "from-redis.md"
PROMPT = "$ redis-cli "
# 2030, in seconds: the sessions' clock when the first one begins.
START = 1_893_456_000
SECONDS = 20


def blocks(language: str) -> list[str]:
    """The code blocks of one language, in their order."""
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE.read_text(), re.DOTALL | re.MULTILINE)


def scripts() -> dict[str, str]:
    """The Lua scripts by their names, each the first word of the first line."""
    return {re.match(r"-- (\w+)\. ", script)[1]: script for script in blocks("lua")}


def sessions() -> list[list[tuple[str, str]]]:
    """The sessions: pairs of what is typed after `redis-cli` and what is shown."""
    found = []
    for block in blocks("console"):
        assert block.startswith(PROMPT), block
        typed_and_shown = (part.partition("\n") for part in block.split(PROMPT)[1:])
        found.append([(typed, shown) for typed, _, shown in typed_and_shown])
    return found


def calls() -> list[list[str]]:
    """Each whole call of a limit that stands in the text between backquotes."""
    words = re.findall(r"`((?:RL\.(?!TOP|CLOCK)|CL\.)[A-Z]+ [^`]*)`", PAGE.read_text())
    return [shlex.split(call) for call in words]


def redis_cli(port: int, typed: str) -> str:
    """What redis-cli shows at a terminal."""
    command = ["redis-cli", "-p", str(port), "--no-raw", *shlex.split(typed)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS)
    return done.stdout.replace("\n\n", "\n")


def shown_anew() -> str:
    """The page with all its sessions as a server shows them now, one after the other."""
    server = Server(2)
    try:
        assert server.wait_until_ready().ask(f"RL.CLOCK SET {START}") == "OK"
        text = PAGE.read_text()
        for session in sessions():
            before = "".join(f"{PROMPT}{typed}\n{shown}" for typed, shown in session)
            now = "".join(f"{PROMPT}{typed}\n{redis_cli(server.port, typed)}" for typed, _ in session)
            text = text.replace(f"```console\n{before}```", f"```console\n{now}```")
        return text
    finally:
        server.kill()


if __name__ == "__main__":
    PAGE.write_text(shown_anew())
