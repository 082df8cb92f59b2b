"""docs/from-redis.md, taken apart: its sessions with redis-cli, its scripts and its clients."""

import re
import shlex
import subprocess
from pathlib import Path

PAGE = Path(__file__).resolve().parents[2] / "docs" / "from-redis.md"
PROMPT = "$ redis-cli "
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
    words = re.findall(r"`((?:RL\.|CL\.)[A-Z]+ [^`]*)`", PAGE.read_text())
    return [shlex.split(call) for call in words]


def redis_cli(port: int, typed: str) -> str:
    """What redis-cli shows at a terminal."""
    command = ["redis-cli", "-p", str(port), "--no-raw", *shlex.split(typed)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS)
    return done.stdout.replace("\n\n", "\n")
