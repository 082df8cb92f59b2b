"""Random words of commands: a few dozen keys that collide, values of every sort, numbers at the edges.

What a word may not be, so that two servers can be compared: a time near the present. An expiry is a day away or more,
or it is past already. So no odd word is a small positive number: it could become one.
"""

import random

SLOTTED_KEYS = [f"k:{number}".encode() for number in range(16)]
TAG_KEYS = [f"{{tag}}:{number}".encode() for number in range(6)]
OTHER_TAG_KEYS = [f"{{other}}:{number}".encode() for number in range(3)]
BINARY_KEYS = [b"", b"\x00", b"\r\n", bytes(range(256)), "ключ".encode(), b"sp ace", b"a*b", b"{", b"{}x", b"x" * 1024]
KEYS = SLOTTED_KEYS + TAG_KEYS + OTHER_TAG_KEYS + BINARY_KEYS
# Only these hold long values; nothing is appended to them, and none is renamed or copied, so that no value passes the
# most bytes that Tollgate takes.
LONG_KEYS = [b"long:0", b"long:1", b"{tag}:long"]
LONG_BYTES = [1_000, 16_383, 16_384, 16_385, 32_768, 65_535, 65_536]

INT_MAX = 2**63 - 1
INT_MIN = -(2**63)
SMALL_INTS = [0, 1, 2, 7, 10, 42, 100, 9_999, 10_000, -1, -5, -100]
EDGE_INTS = [INT_MAX, INT_MAX - 1, INT_MAX - 10, INT_MIN, INT_MIN + 1, INT_MIN + 10, 2**31, 2**32, 2**53, -(2**53) - 1]
FLOATS = [b"0", b"0.5", b"-0.5", b"1.5", b"3.0", b"3.14159", b"0.1", b"1e3", b"-2.5e-3", b"1e17", b"1e-7", b"123456789.25"]
ODD_NUMBERS = [b"", b" 5", b"5 ", b"+5", b"05", b"-0", b"-", b"+", b"0x10", b"1e400", b"nan", b"inf", b"-inf", b"1.0", b"1,5"]
ODD_NUMBERS += [b"9223372036854775808", b"-9223372036854775809", b"18446744073709551616", b"1" * 40, b"five", b"5\x00"]
TEXTS = [b"", b"a", b"hello", b"value with spaces", b"\x00\x01\x02", b"\r\n", b"$-1\r\n", b"\xff\xfe", "grün".encode()]
TEXTS += [b"x" * 44, b"x" * 45, b"y" * 300, b"true", b"null", b"OK"]
ODD_WORDS = [b"", b"NX", b"XX", b"GT", b"LT", b"EX", b"PX", b"KEEPTTL", b"GET", b"PERSIST", b"REPLACE", b"DB", b"FOO", b"MATCH"]
ODD_WORDS += [b"COUNT", b"\x00", b"'quoted'", b"two words", b"ASYNC", b"SYNC", b"-1", b"0"]
PATTERNS = [b"*", b"k:*", b"k:?", b"k:1[0-5]", b"k:[^0-4]", b"{tag}*", b"*:1", b"", b"a\\*b", b"[", b"k:[", b"\\", b"*g*:*", b"long*"]

DAY_SECONDS = 86_400
FAR_DAYS = 3_000
# Instants that come again, so that two expiries are sometimes equal.
COMMON_DAYS = [10, 20, 30, 400]
PAST_SECONDS = [1, 1_000, 1_000_000_000]
ODD_SPANS = [0, -1, -1000, INT_MAX, INT_MIN, INT_MAX // 1000, INT_MAX // 1000 + 1, INT_MIN // 1000]
# Only one of them, in seconds, is later than the last instant that Tollgate keeps.
ODD_INSTANTS = [0, -1, -1000, INT_MIN, INT_MAX // 1000, INT_MAX // 1000 + 1]


class Words:
    """Draws words. `base_seconds` is a Unix time of the present day, from which the instants to come are counted."""

    def __init__(self, rng: random.Random, base_seconds: int) -> None:
        self.rng = rng
        self.base_seconds = base_seconds
        self.keys = KEYS
        self.long_keys = LONG_KEYS

    def within(self, keys: list[bytes]) -> "Words":
        """The same draws with these keys only, all of the tag's slot."""
        narrow = Words(self.rng, self.base_seconds)
        narrow.keys = keys
        narrow.long_keys = [key for key in LONG_KEYS if key.startswith(b"{tag}")]
        return narrow

    def chance(self, part: float) -> bool:
        return self.rng.random() < part

    def key(self) -> bytes:
        return self.rng.choice(self.keys)

    def any_key(self) -> bytes:
        """A key for a command that does not lengthen or move the value."""
        return self.long_key() if self.chance(0.06) else self.key()

    def some_keys(self, most: int = 6) -> list[bytes]:
        return [self.any_key() for _ in range(self.rng.randint(1, most))]

    def long_key(self) -> bytes:
        return self.rng.choice(self.long_keys)

    def long_value(self) -> bytes:
        return bytes([self.rng.choice(b"abc\x00\xff")]) * self.rng.choice(LONG_BYTES)

    def value(self) -> bytes:
        kind = self.rng.random()
        if kind < 0.35:
            return b"%d" % self.rng.choice(SMALL_INTS)
        if kind < 0.5:
            return b"%d" % self.rng.choice(EDGE_INTS)
        if kind < 0.65:
            return self.rng.choice(FLOATS)
        if kind < 0.75:
            return self.rng.choice(ODD_NUMBERS)
        if kind < 0.95:
            return self.rng.choice(TEXTS)
        return self.rng.randbytes(self.rng.randint(1, 200))

    def integer(self) -> bytes:
        kind = self.rng.random()
        if kind < 0.7:
            return b"%d" % self.rng.choice(SMALL_INTS)
        return b"%d" % self.rng.choice(EDGE_INTS) if kind < 0.9 else self.rng.choice(ODD_NUMBERS)

    def float_number(self) -> bytes:
        kind = self.rng.random()
        if kind < 0.5:
            return self.rng.choice(FLOATS)
        if kind < 0.7:
            return b"%.*f" % (self.rng.randint(0, 12), self.rng.uniform(-1000, 1000))
        return self.integer() if kind < 0.9 else self.rng.choice(ODD_NUMBERS)

    def seconds(self) -> bytes:
        """A span: far, not to be counted, or one that is over."""
        return self.span(1)

    def milliseconds(self) -> bytes:
        return self.span(1000)

    def span(self, units_a_second: int) -> bytes:
        kind = self.rng.random()
        if kind < 0.85:
            return b"%d" % self.rng.randint(DAY_SECONDS * units_a_second, FAR_DAYS * DAY_SECONDS * units_a_second)
        return b"%d" % self.rng.choice(ODD_SPANS) if kind < 0.95 else self.rng.choice(ODD_NUMBERS)

    def at_seconds(self) -> bytes:
        return self.instant(1)

    def at_milliseconds(self) -> bytes:
        return self.instant(1000)

    def instant(self, units_a_second: int) -> bytes:
        kind = self.rng.random()
        if kind < 0.4:
            days = self.rng.choice(COMMON_DAYS)
            return b"%d" % ((self.base_seconds + days * DAY_SECONDS) * units_a_second)
        if kind < 0.8:
            later = self.rng.randint(2 * DAY_SECONDS * units_a_second, FAR_DAYS * DAY_SECONDS * units_a_second)
            return b"%d" % (self.base_seconds * units_a_second + later)
        if kind < 0.9:
            return b"%d" % (self.rng.choice(PAST_SECONDS) * units_a_second)
        return b"%d" % self.rng.choice(ODD_INSTANTS) if kind < 0.96 else self.rng.choice(ODD_NUMBERS)

    def odd_word(self) -> bytes:
        return self.rng.choice(ODD_WORDS if self.chance(0.5) else ODD_NUMBERS)

    def pattern(self) -> bytes:
        return self.rng.choice(PATTERNS)

    def any_case(self, word: str) -> bytes:
        return self.rng.choice([word, word, word, word.lower(), word.capitalize()]).encode()
