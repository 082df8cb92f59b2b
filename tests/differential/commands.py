"""One random command: a table of makers with weights, and what may be broken about what they made."""

from collections.abc import Callable
from itertools import accumulate

from differential.words import Words

Command = list[bytes]
Maker = Callable[[Words], list]


def set_value(words: Words) -> list:
    options = [[], [], ["NX"], ["XX"]]
    chosen = [words.rng.choice(options)]
    chosen.append(["GET"] if words.chance(0.2) else [])
    chosen.append(expiry(words, "KEEPTTL"))
    words.rng.shuffle(chosen)
    return ["SET", words.key(), words.value(), *sum(chosen, [])]


def expiry(words: Words, bare: str) -> list:
    """The expiry of SET and GETEX; `bare` is the option without a number."""
    kind = words.rng.choice(["", "", "", "EX", "PX", "EXAT", "PXAT", bare])
    numbers = {"EX": words.seconds, "PX": words.milliseconds, "EXAT": words.at_seconds, "PXAT": words.at_milliseconds}
    if kind in numbers:
        return [kind, numbers[kind]()]
    return [kind] if kind else []


def get_and_expire(words: Words) -> list:
    return ["GETEX", words.any_key(), *expiry(words, "PERSIST")]


def pairs(words: Words) -> list:
    count = words.rng.randint(1, 5)
    return ["MSET", *sum(([words.key(), words.value()] for _ in range(count)), [])]


def long_write(words: Words) -> list:
    key, value = words.long_key(), words.long_value()
    return words.rng.choice([["SET", key, value], ["GETSET", key, value], ["MSET", key, value, words.key(), b"1"]])


def expire(words: Words) -> list:
    name = words.rng.choice(["EXPIRE", "PEXPIRE", "EXPIREAT", "PEXPIREAT"])
    number = {
        "EXPIRE": words.seconds,
        "PEXPIRE": words.milliseconds,
        "EXPIREAT": words.at_seconds,
        "PEXPIREAT": words.at_milliseconds,
    }[name]()
    conditions = [[], [], ["NX"], ["XX"], ["GT"], ["LT"], ["XX", "GT"], ["LT", "XX"], ["NX", "GT"], ["GT", "LT"], ["NX", "XX"]]
    return [name, words.any_key(), number, *words.rng.choice(conditions)]


def copy(words: Words) -> list:
    options = words.rng.choice([[], ["REPLACE"], ["REPLACE"], ["DB", "0"], ["DB", "0", "REPLACE"], ["DB", "1"], ["DB", "x"]])
    return ["COPY", words.key(), words.key(), *options]


def scan(words: Words) -> list:
    options = []
    if words.chance(0.6):
        options += ["COUNT", words.rng.choice([1, 3, 10, 100, 5000])]
    if words.chance(0.4):
        options += ["MATCH", words.pattern()]
    if words.chance(0.2):
        options += ["TYPE", words.rng.choice(["string", "STRING"])]
    return ["SCAN", 0, *options]


def wrong_scan(words: Words) -> list:
    tails = [["x"], ["-"], ["0 "], ["0", "COUNT", "0"], ["0", "COUNT", "-1"], ["0", "COUNT", "x"], ["0", "MATCH"], ["0", "FOO", "1"]]
    return ["SCAN", *words.rng.choice(tails)]


def flush(words: Words) -> list:
    return [words.rng.choice(["FLUSHALL", "FLUSHDB"]), *words.rng.choice([[], [], ["SYNC"], ["ASYNC"], ["NOW"], ["SYNC", "x"]])]


def watch(words: Words) -> list:
    """The watched keys share a slot."""
    tagged = [key for key in words.keys if key.startswith(b"{tag}")] or words.keys[:1]
    return ["WATCH", *words.rng.choices(tagged, k=words.rng.choice([0, 1, 1, 2, 3]))]


def of_connection(words: Words) -> list:
    return words.rng.choice([
        ["PING"], ["PING", words.value()], ["PING", "a", "b"], ["ECHO", words.value()], ["ECHO"],
        ["SELECT", "0"], ["SELECT", "1"], ["SELECT", "-1"], ["SELECT", words.odd_word()],
        ["CLIENT", "GETNAME"], ["CLIENT", "SETNAME", "name"], ["CLIENT", "SETNAME", ""], ["CLIENT", "SETNAME", "two words"],
        ["CLIENT", "SETNAME", "a\nb"], ["CLIENT", "SETNAME"], ["CLIENT", "SETNAME", "ключ"],
        ["CLIENT", "NOSUCH"], ["CLIENT"], ["CLIENT", "GETNAME", "x"], ["CLIENT", "REPLY"], ["CLIENT", "REPLY", "MAYBE"],
        ["CLIENT", "NO-EVICT", "ON"], ["CLIENT", "NO-EVICT", "OFF"], ["CLIENT", "NO-EVICT", "MAYBE"],
    ])  # fmt: skip


def of_object(words: Words) -> list:
    """What a value is made of. IDLETIME and FREQ depend on the time and on settings."""
    return ["OBJECT", words.rng.choice(["ENCODING", "ENCODING", "REFCOUNT", "NOSUCH"]), words.any_key()]


def unknown(words: Words) -> list:
    return words.rng.choice([
        ["NOSUCH"], ["NOSUCH", words.key(), words.value()], ["GETT", words.key()], ["", "a"], ["no such", "b"], ["n" * 200, "c"],
        ["NOSUCH", "x" * 200, "y"], ["GET|SET", "k"], ["nosuch", *["word"] * 40], ["CONFIG", "NOSUCH"], ["CONFIG"],
        ["COMMAND", "NOSUCH"], ["MEMORY", "NOSUCH"], ["SLOWLOG", "NOSUCH"], ["LATENCY", "NOSUCH"], ["OBJECT"],
        ["OBJECT", "ENCODING"], ["CONFIG", "GET"], ["COMMAND", "GETKEYS"], ["COMMAND", "GETKEYS", "GET", "k:1"],
        ["COMMAND", "GETKEYS", "MSET", "a", "1", "b", "2"], ["CLUSTER", "KEYSLOT", words.key()], ["READONLY"], ["READWRITE"], ["ASKING"], ["AUTH"], ["AUTH", "secret"], ["AUTH", "default", "secret"],
        ["HELLO", "1"], ["HELLO", "4"], ["HELLO", "x"], ["WAIT", "0", "0"], ["WAIT", "x", "0"], ["EXEC"], ["DISCARD"],
        ["EXEC", "x"], ["MULTI", "x"], ["UNWATCH"], ["UNWATCH", "x"], ["WATCH"],
    ])  # fmt: skip


# Weight, maker. The weights are parts of their sum.
MAKERS: list[tuple[int, Maker]] = [
    (90, set_value),
    (60, lambda words: ["GET", words.any_key()]),
    (12, lambda words: ["SETNX", words.key(), words.value()]),
    (10, lambda words: ["SETEX", words.key(), words.seconds(), words.value()]),
    (10, lambda words: ["PSETEX", words.key(), words.milliseconds(), words.value()]),
    (15, lambda words: ["GETSET", words.key(), words.value()]),
    (15, lambda words: ["GETDEL", words.any_key()]),
    (25, get_and_expire),
    (20, lambda words: ["MGET", *words.some_keys()]),
    (20, pairs),
    (6, long_write),
    (15, lambda words: ["STRLEN", words.any_key()]),
    (20, lambda words: ["APPEND", words.key(), words.value()]),
    (30, lambda words: ["INCR", words.key()]),
    (15, lambda words: ["DECR", words.key()]),
    (30, lambda words: ["INCRBY", words.key(), words.integer()]),
    (20, lambda words: ["DECRBY", words.key(), words.integer()]),
    (40, lambda words: ["INCRBYFLOAT", words.key(), words.float_number()]),
    (70, expire),
    (12, lambda words: ["TTL", words.any_key()]),
    (12, lambda words: ["PTTL", words.any_key()]),
    (8, lambda words: ["EXPIRETIME", words.any_key()]),
    (8, lambda words: ["PEXPIRETIME", words.any_key()]),
    (15, lambda words: ["PERSIST", words.any_key()]),
    (15, lambda words: ["DEL", *words.some_keys()]),
    (6, lambda words: ["UNLINK", *words.some_keys()]),
    (12, lambda words: ["EXISTS", *words.some_keys()]),
    (6, lambda words: ["TOUCH", *words.some_keys()]),
    (8, lambda words: ["TYPE", words.any_key()]),
    (18, lambda words: ["RENAME", words.key(), words.key()]),
    (25, copy),
    (6, lambda words: ["KEYS", words.pattern()]),
    (4, wrong_scan),
    (1, flush),
    (14, of_object),
    (14, of_connection),
    (14, unknown),
]
# Asked step by step and compared by what they mean; inside MULTI they would be no more than random.
PROBES: list[tuple[int, Maker]] = [
    (5, scan),
    (4, lambda _words: ["RANDOMKEY"]),
    (4, lambda _words: ["DBSIZE"]),
]
# Commands that a changed word could turn into another kind of difference: a watch over several slots, a name that
# changes how many replies come, a transaction that nobody ends, an answer that only a client or the time explains.
KEPT_WHOLE = {b"WATCH", b"CLIENT", b"COMMAND", b"HELLO", b"CLUSTER", b"OBJECT", b"MEMORY", b"CONFIG", b"SLOWLOG", b"LATENCY"}
KEPT_WHOLE |= {b"MULTI", b"EXEC", b"DISCARD", b"SCAN", b"RANDOMKEY", b"DBSIZE", b"AUTH", b"WAIT"}
BROKEN_PART = 0.06
WORD_BYTES_BROKEN_MAX = 2_000


class Commands:
    """Draws commands from a table of makers."""

    def __init__(self, words: Words, makers: list[tuple[int, Maker]]) -> None:
        self.words = words
        self.makers = [maker for _, maker in makers]
        self.limits = list(accumulate(weight for weight, _ in makers))

    def draw(self) -> Command:
        rng = self.words.rng
        maker = rng.choices(self.makers, cum_weights=self.limits)[0]
        name, *rest = maker(self.words)
        command = [self.words.any_case(name), *map(as_bytes, rest)]
        is_kept = command[0].upper() in KEPT_WHOLE or sum(map(len, command)) > WORD_BYTES_BROKEN_MAX
        return command if is_kept or not self.words.chance(BROKEN_PART) else broken(command, self.words)


def as_bytes(word: bytes | str | int) -> bytes:
    return word if isinstance(word, bytes) else str(word).encode()


def broken(command: Command, words: Words) -> Command:
    """The command with a word too many or too few, or another word in the place of one."""
    place = words.rng.randint(1, len(command))
    kind = words.rng.randrange(5)
    if kind == 0:
        return command[:place]
    if kind == 1:
        return [*command[:place], *command[place + 1 :]]
    if kind == 2:
        return [*command[:place], words.odd_word(), *command[place + 1 :]]
    if kind == 3:
        return [*command, words.odd_word()]
    return [*command[:place], words.odd_word(), *command[place:]]
