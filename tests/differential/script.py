"""Commands as lines of a redis-cli script: what a failing history is printed as, and what the examples of the known
differences are written in.

A line is the words of one command, between quotes where they hold more than plain text, with redis-cli's escapes.
`<65537 x>` stands for a word of that many letters `x`. `2> GET k` is sent on the second connection; without a number
it is the first.
"""

import re

from differential.frames import escape

PLAIN = re.compile(rb"[!#-&(-;=?-\[\]-~]+")
LONG_BYTES = 100
WORD = re.compile(r'<(?P<count>\d+) (?P<letter>\S+)>|"(?P<quoted>(?:[^"\\]|\\.)*)"|(?P<plain>[^\s"]+)')
ESCAPE = re.compile(r"\\(?:x([0-9a-f]{2})|(.))")
CONNECTION = re.compile(r"([1-9])> ")


def line_of(words) -> str:
    return " ".join(map(show_word, words))


def show_word(word: bytes) -> str:
    if len(word) > LONG_BYTES and word == word[:1] * len(word):
        return f"<{len(word)} {escape(word[0])}>"
    if PLAIN.fullmatch(word):
        return word.decode()
    return f'"{"".join(map(escape, word))}"'


def words_of(line: str) -> list[bytes]:
    return [read_word(match) for match in WORD.finditer(line)]


def read_word(match: re.Match) -> bytes:
    if match["count"]:
        return unescape(match["letter"]) * int(match["count"])
    return match["plain"].encode() if match["plain"] else unescape(match["quoted"])


def unescape(text: str) -> bytes:
    return ESCAPE.sub(lambda match: chr(int(match[1], 16)) if match[1] else match[2], text).encode("latin-1")


def steps_of(lines: list[str]) -> list[tuple[int, list[bytes]]]:
    """The connection, from 0, and the words of each line."""
    steps = []
    for line in lines:
        prefix = CONNECTION.match(line)
        steps.append((int(prefix[1]) - 1, words_of(line[3:])) if prefix else (0, words_of(line)))
    return steps


def script_of(steps) -> list[str]:
    """The lines for steps; connections are named only where there is more than one."""
    connections = sorted({connection for connection, _ in steps})
    names = {connection: number for number, connection in enumerate(connections, 1)}
    if len(connections) < 2:
        return [line_of(words) for _, words in steps]
    return [f"{names[connection]}> {line_of(words)}" for connection, words in steps]
