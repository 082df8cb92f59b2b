"""All keys, one clock, and the commands on them: `execute` answers what the server must answer.

Errors are answered by their code and the name of the argument only, as their wording is the server's own.
"""

import copy
import math
from fractions import Fraction

from model import text
from model.counters import BY_NAME, Counter, Leak, Log, Token
from model.decision import NEVER, Ask, decide, reset_ms
from reply import OK, Error, Status

START_MICROS = 1_577_836_800 * 10**6
LOG_LIMIT_MAX = 100_000
GROUPS_MAX = 64
WRONG_TYPE = Error("WRONGTYPE")
SYNTAX = "syntax"


class Keyspace:
    """Every key of a server, whatever its number of cores."""

    def __init__(self, now: int = START_MICROS) -> None:
        self.now = now
        self.counters: dict[str, Counter] = {}

    def execute(self, line: str | list[str]):
        """Runs one command, given as words or as a line of words."""
        name, *arguments = line.split() if isinstance(line, str) else line
        try:
            return COMMANDS[name.upper()](self, name.upper(), arguments)
        except text.BadArgument as argument:
            return Error(f"ERR {argument}")

    def find(self, key: str) -> Counter | None:
        """The counter of a key; one that is as if untouched does not exist."""
        counter = self.counters.get(key)
        if counter and counter.untouched_at() <= self.now:
            del self.counters[key]
            return None
        return counter

    def put(self, key: str, counter: Counter | None) -> None:
        if counter:
            self.counters[key] = counter
        else:
            self.counters.pop(key, None)

    def call(self, key: str, ask: Ask) -> list[int] | Error:
        counter = self.find(key)
        if counter and type(counter) is not ask.algorithm:
            return WRONG_TYPE
        five, counter = decide(counter, ask, self.now)
        self.put(key, counter)
        return five

    def limit(self, name: str, arguments: list[str]):
        """`RL.SLIDE key limit window [COST n] [PEEK | PARTIAL | REFUND]` and its like."""
        algorithm = BY_NAME[name.removeprefix("RL.")]
        if len(arguments) < 3:
            return Error("ERR wrong")
        key, first, second, *options = arguments
        ask = parse_ask(algorithm, first, second)
        parse_options(ask, options)
        return self.call(key, ask)

    def throttle(self, _name: str, arguments: list[str]):
        """`CL.THROTTLE key max_burst count period [quantity]` on the bucket of RL.TOKEN."""
        if not 4 <= len(arguments) <= 5:
            return Error("ERR wrong")
        key, burst, count, period = arguments[:4]
        capacity = text.amount(burst, "max_burst") + 1
        if text.amount(count, "count") == 0 or text.amount(period, "period") == 0:
            raise text.BadArgument("count" if count == "0" else "period")
        cost = text.amount(arguments[4], "quantity") if len(arguments) == 5 else 1
        five = self.call(key, Ask(Token, capacity, text.rate(f"{count}/{period}"), cost))
        if isinstance(five, Error):
            return five
        allowed, limit, left, retry, reset = five
        wait = NEVER if allowed or retry == NEVER else math.ceil(Fraction(retry, 1000))
        return [1 - allowed, limit, left, wait, math.ceil(Fraction(reset, 1000))]

    def all(self, _name: str, arguments: list[str]):
        """`RL.ALL key alg a b cost ...`: charges every limit or none."""
        if not arguments or len(arguments) % 5 or len(arguments) > 5 * GROUPS_MAX:
            return Error("ERR wrong")
        groups = [arguments[start : start + 5] for start in range(0, len(arguments), 5)]
        keys = [group[0] for group in groups]
        if len(set(keys)) < len(keys):
            return Error("ERR key")
        asks = []
        for _key, algorithm, first, second, cost in groups:
            if algorithm.upper() not in BY_NAME:
                raise text.BadArgument("alg")
            ask = parse_ask(BY_NAME[algorithm.upper()], first, second)
            ask.cost = text.amount(cost, "cost")
            asks.append(ask)
        looks = []
        for key, ask in zip(keys, asks):
            look = copy.copy(ask)
            look.mode = "PEEK"
            looks.append(self.call(key, look))
        if WRONG_TYPE in looks:
            return WRONG_TYPE
        if min(look[0] for look in looks) == 0:
            return [0, longest_refusal(looks), *looks]
        fives = [self.call(key, ask) for key, ask in zip(keys, asks)]
        return [1, least_left(fives), *fives]

    def clock(self, _name: str, arguments: list[str]):
        """`RL.CLOCK [SET time | ADVANCE duration]` under `--test-clock`."""
        if not arguments:
            return self.now
        action, written = arguments[0].upper(), text.duration(arguments[1], "time")
        target = written if action == "SET" else self.now + written
        if target < self.now:
            return Error("ERR clock")
        self.now = target
        return OK

    def pttl(self, key: str) -> int:
        counter = self.find(key)
        return reset_ms(counter, self.now) if counter else -2

    def time_to_live(self, name: str, arguments: list[str]) -> int:
        """PTTL is the time to untouched rounded up; TTL rounds that to the nearest second as Redis does."""
        left_ms = self.pttl(arguments[0])
        return left_ms if name == "PTTL" or left_ms < 0 else (left_ms + 500) // 1000

    def type(self, _name: str, arguments: list[str]) -> Status:
        counter = self.find(arguments[0])
        return Status(counter.kind if counter else "none")

    def exists(self, _name: str, arguments: list[str]) -> int:
        return sum(self.find(key) is not None for key in arguments)

    def delete(self, _name: str, arguments: list[str]) -> int:
        found = 0
        for key in arguments:
            found += self.find(key) is not None
            self.counters.pop(key, None)
        return found

    def flush(self, _name: str, _arguments: list[str]) -> Status:
        self.counters.clear()
        return OK


def parse_ask(algorithm: type, first: str, second: str) -> Ask:
    if algorithm in (Token, Leak):
        return Ask(algorithm, text.amount(first, "capacity"), text.rate(second))
    limit = text.amount(first, "limit")
    if algorithm is Log and limit > LOG_LIMIT_MAX:
        raise text.BadArgument("limit")
    return Ask(algorithm, limit, text.window(second))


def parse_options(ask: Ask, options: list[str]) -> None:
    """Options in any order, any case, each at most once; a queue knows only COST and PEEK."""
    modes = ("PEEK",) if ask.algorithm is Leak else ("PEEK", "PARTIAL", "REFUND")
    cost_given = False
    words = iter(options)
    for word in words:
        option = word.upper()
        if option == "COST" and not cost_given:
            ask.cost = text.amount(next(words, ""), "cost")
            cost_given = True
        elif option in modes and not ask.mode:
            ask.mode = option
        else:
            raise text.BadArgument(SYNTAX)


def longest_refusal(fives: list[list[int]]) -> int:
    """The refusing group with the longest retry as shown; never is the longest; ties to the lowest."""
    waits = [(math.inf if five[3] == NEVER else five[3]) if five[0] == 0 else -1 for five in fives]
    return waits.index(max(waits))


def least_left(fives: list[list[int]]) -> int:
    """The group with the least remaining/limit; a limit of 0 counts as 0; ties to the lowest."""
    shares = [Fraction(five[2], five[1]) if five[1] else Fraction(0) for five in fives]
    return shares.index(min(shares))


COMMANDS = {
    "RL.SLIDE": Keyspace.limit,
    "RL.TOKEN": Keyspace.limit,
    "RL.FIXED": Keyspace.limit,
    "RL.LOG": Keyspace.limit,
    "RL.LEAK": Keyspace.limit,
    "RL.ALL": Keyspace.all,
    "RL.CLOCK": Keyspace.clock,
    "CL.THROTTLE": Keyspace.throttle,
    "RL.THROTTLE": Keyspace.throttle,
    "PTTL": Keyspace.time_to_live,
    "TTL": Keyspace.time_to_live,
    "TYPE": Keyspace.type,
    "EXISTS": Keyspace.exists,
    "DEL": Keyspace.delete,
    "UNLINK": Keyspace.delete,
    "FLUSHALL": Keyspace.flush,
    "FLUSHDB": Keyspace.flush,
}
