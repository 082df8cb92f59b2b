"""The differences that are meant, from known_differences.toml: what each matches, and the example that shows it."""

import re
import tomllib
from pathlib import Path
from typing import NamedTuple

from differential.compare import Pair
from differential.frames import show
from differential.history import Step
from differential.script import line_of, steps_of

FILE = Path(__file__).with_name("known_differences.toml")


class Known(NamedTuple):
    """A difference with its reason. Command and replies are patterns for their whole text."""

    name: str
    reason: str
    command: re.Pattern
    redis: re.Pattern
    tollgate: re.Pattern
    example: list[Step]

    def covers(self, pair: Pair) -> bool:
        """Whether this is the difference between two replies."""
        return (
            self.command.fullmatch(line_of(pair.words)) is not None
            and self.redis.fullmatch(show(pair.left)) is not None
            and self.tollgate.fullmatch(show(pair.right)) is not None
        )


def load(file: Path = FILE) -> list[Known]:
    entries = tomllib.loads(file.read_text()).get("difference", [])
    return [known_of(entry) for entry in entries]


def known_of(entry: dict) -> Known:
    wrong = set(entry) ^ {"name", "reason", "command", "redis", "tollgate", "example"}
    assert not wrong, f"{entry.get('name')}: missing or unknown fields {sorted(wrong)}"
    assert entry["reason"].strip(), f"{entry['name']}: without a reason"
    patterns = (
        re.compile(entry["command"], re.IGNORECASE | re.DOTALL),
        *(re.compile(entry[side], re.DOTALL) for side in ("redis", "tollgate")),
    )
    example = [Step(connection, tuple(words)) for connection, words in steps_of(entry["example"])]
    return Known(entry["name"], entry["reason"], *patterns, example)
