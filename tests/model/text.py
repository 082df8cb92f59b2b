"""Numbers as callers write them: amounts, windows, rates and instants, all exact."""

import re
from fractions import Fraction

AMOUNT_MAX = 10**12
DIGITS_MAX = 18
WINDOW_MIN_MICROS = 1_000
WINDOW_MAX_MICROS = 3650 * 86_400 * 10**6
YEAR_MICROS = 365 * 86_400 * 10**6
RATE_MIN = Fraction(1, YEAR_MICROS)
RATE_MAX = Fraction(10**9, 10**6)

UNIT_MICROS = {
    "": 10**6,
    "us": 1,
    "ms": 10**3,
    "s": 10**6,
    "m": 60 * 10**6,
    "h": 3_600 * 10**6,
    "d": 86_400 * 10**6,
    "w": 7 * 86_400 * 10**6,
}

WHOLE = re.compile(r"0|[1-9][0-9]*")
DECIMAL = re.compile(r"(0|[1-9][0-9]*)(\.[0-9]+)?")
DURATION = re.compile(r"((?:0|[1-9][0-9]*)(?:\.[0-9]+)?)(us|ms|s|m|h|d|w)?")


class BadArgument(Exception):
    """An argument that must be answered with `-ERR` and its name."""


def amount(text: str, name: str) -> int:
    """A limit, capacity or cost: whole, 0 to 10^12."""
    if not WHOLE.fullmatch(text) or len(text) > DIGITS_MAX or int(text) > AMOUNT_MAX:
        raise BadArgument(name)
    return int(text)


def duration(text: str, name: str) -> int:
    """A duration of any size that is a whole number of microseconds."""
    match = DURATION.fullmatch(text)
    if not match or digits(text) > DIGITS_MAX:
        raise BadArgument(name)
    micros = Fraction(match[1]) * UNIT_MICROS[match[2] or ""]
    if micros.denominator != 1 or micros < 0:
        raise BadArgument(name)
    return int(micros)


def window(text: str, name: str = "window") -> int:
    """A window in microseconds: 1 ms to 3650 d."""
    micros = duration(text, name)
    if not WINDOW_MIN_MICROS <= micros <= WINDOW_MAX_MICROS:
        raise BadArgument(name)
    return micros


def rate(text: str, name: str = "rate") -> Fraction:
    """A rate in tokens a microsecond, from tokens a second or `count/duration`."""
    if digits(text) > DIGITS_MAX:
        raise BadArgument(name)
    count, slash, per = text.partition("/")
    if slash:
        if not WHOLE.fullmatch(count):
            raise BadArgument(name)
        micros = duration(per, name)
    else:
        micros = UNIT_MICROS[""]
        if not DECIMAL.fullmatch(count):
            raise BadArgument(name)
    if micros == 0:
        raise BadArgument(name)
    tokens = Fraction(count) / micros
    if not RATE_MIN <= tokens <= RATE_MAX:
        raise BadArgument(name)
    return tokens


def digits(text: str) -> int:
    """How many digits a number has in all."""
    return sum(character.isdigit() for character in text)
