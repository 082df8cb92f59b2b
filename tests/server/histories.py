"""Random histories of calls, made in step with the model so that the clock can be moved to where it hurts.

A seed and a length give one history. Keys have a home algorithm and a home policy that most calls use; the others
change the limit, the window, the rate or the algorithm.
"""

import math
import random
from collections.abc import Iterator

from model.counters import Counter
from model.keyspace import Keyspace

KEYS = [f"k:{number}" for number in range(26)] + [f"{{tag}}:{number}" for number in range(4)]
ALGORITHMS = ["SLIDE", "TOKEN", "FIXED", "LOG", "LEAK"]
LIMITS = [0, 1, 1, 2, 3, 5, 10, 10, 17, 100, 1000, 100_000]
LARGE_LIMITS = [10**9, 10**12 - 1, 10**12]
WINDOWS = ["1", "1", "10", "0.5", "7ms", "1ms", "1.234567", "1m", "1h", "1d", "3650d", "999999us", "60s", "1w"]
RATES = ["1", "10", "0.5", "100/60", "100/1m", "600/1m", "7/3", "1000", "123/7m", "11/13ms", "1/365d", "1000000000"]
RATES += ["0.000012345", "999999999.999", "1/7w", "1000000/1001ms"]
DAY_MICROS = 86_400 * 10**6
EDGE_MAX_MICROS = 3650 * DAY_MICROS
YEARS_MAX = 500
MODES = ["", "", "", "", "", "PEEK", "PARTIAL", "PARTIAL", "REFUND"]
MALFORMED = [
    "RL.SLIDE k:1 5 0", "RL.SLIDE k:1 5 1.0000001", "RL.TOKEN k:2 1 0", "RL.TOKEN k:2 1 nan", "RL.FIXED k:3 -1 1",
    "RL.LOG k:4 100001 1", "RL.LEAK k:5 5 1 PARTIAL", "RL.LEAK k:5 5 1 REFUND", "RL.SLIDE k:1 5 1 COST -1",
    "RL.SLIDE k:1 5 1 PEEK PEEK", "RL.ALL k:1 SLIDE 5 1 1 k:1 SLIDE 5 1 1", "RL.ALL k:1 SLIDE 5 1 1 k:2 NONE 5 1 1",
    "CL.THROTTLE k:6 1 0 60", "RL.SLIDE k:1 1000000000001 1", "RL.FIXED k:3 1 3651d",
]  # fmt: skip


class History:
    """The commands of one seed, with the replies that the model gives."""

    def __init__(self, seed: int, now: int) -> None:
        self.random = random.Random(seed)
        self.keyspace = Keyspace(now)
        self.started_at = now
        self.home = {key: self.policy_of(ALGORITHMS[index % 5]) for index, key in enumerate(KEYS)}
        self.waits: list[int] = [1]

    def calls(self, count: int) -> Iterator[tuple[str, object]]:
        """`count` commands, each with the reply it must get."""
        for _ in range(count):
            line = self.next_line()
            reply = self.keyspace.execute(line)
            if isinstance(reply, list) and isinstance(reply[-1], int) and reply[3] > 0:
                self.waits = [*self.waits[-7:], reply[3]]
            yield line, reply

    def next_line(self) -> str:
        dice = self.random.random()
        if dice < 0.13:
            return self.clock_line()
        if dice < 0.78:
            return self.limit_line()
        if dice < 0.87:
            return self.all_line()
        if dice < 0.91:
            return self.throttle_line()
        if dice < 0.98:
            return self.key_line()
        if dice < 0.999:
            return self.random.choice(MALFORMED)
        return "RL.CLOCK"

    def policy_of(self, algorithm: str) -> tuple[str, int, str]:
        limit = self.random.choice(LARGE_LIMITS if self.random.random() < 0.04 else LIMITS)
        if algorithm == "LOG":
            limit = min(limit, 100_000)
        return algorithm, limit, self.random.choice(RATES if algorithm in ("TOKEN", "LEAK") else WINDOWS)

    def pick(self) -> tuple[str, str, int, str]:
        """A key with an algorithm, a limit and a window or rate: mostly its own, sometimes changed."""
        key = self.random.choice(KEYS)
        algorithm, limit, policy = self.home[key]
        dice = self.random.random()
        if dice < 0.05:
            limit = self.policy_of(algorithm)[1]
        elif dice < 0.10:
            policy = self.policy_of(algorithm)[2]
        elif dice < 0.13:
            algorithm, limit, policy = self.policy_of(self.random.choice(ALGORITHMS))
        elif dice < 0.135:
            self.home[key] = self.policy_of(self.random.choice(ALGORITHMS))
        return key, algorithm, limit, policy

    def cost(self, key: str, limit: int) -> int:
        counter = self.keyspace.find(key)
        left = max(0, limit - counter.taken(self.keyspace.now)) if counter else limit
        choices = [1, 1, 1, 1, 2, 3, 0, left, left + 1, max(1, left // 2), limit, limit + 1, self.random.randint(1, 20)]
        return min(self.random.choice(choices), 10**12)

    def limit_line(self) -> str:
        key, algorithm, limit, policy = self.pick()
        mode = self.random.choice(MODES if algorithm != "LEAK" else ["", "", "PEEK"])
        cost = self.cost(key, limit)
        options = [f"COST {cost}"] if cost != 1 or self.random.random() < 0.2 else []
        options += [mode if self.random.random() < 0.8 else mode.lower()] if mode else []
        self.random.shuffle(options)
        return " ".join([f"RL.{algorithm} {key} {limit} {policy}", *options])

    def all_line(self) -> str:
        groups = {}
        for _ in range(self.random.choice([1, 2, 2, 3, 4, 8])):
            key, algorithm, limit, policy = self.pick()
            cost = self.cost(key, limit)
            if limit and self.random.random() < 0.7:
                cost = min(cost, 1)
            groups[key] = f"{key} {algorithm} {limit} {policy} {cost}"
        return " ".join(["RL.ALL", *groups.values()])

    def throttle_line(self) -> str:
        key, algorithm, limit, policy = self.pick()
        burst, count, period = min(limit, 10**6), self.random.choice([1, 30, 600]), self.random.choice([1, 60, 3600])
        quantity = self.random.choice(["", "", "0", "1", "2", str(burst + 1), str(burst + 2)])
        return f"CL.THROTTLE {key} {burst} {count} {period} {quantity}".strip()

    def key_line(self) -> str:
        key = self.random.choice(KEYS)
        others = " ".join(self.random.sample(KEYS, 3))
        lines = [f"PTTL {key}", f"PTTL {key}", f"TTL {key}", f"TYPE {key}", f"EXISTS {key}", f"EXISTS {key} {others}"]
        return self.random.choice([*lines, f"DEL {key}", f"DEL {key} {others}", f"UNLINK {key}"])

    def clock_line(self) -> str:
        """Moves the clock by a little, by about a window, exactly to (or beside) an expiry or a retry, or far."""
        dice = self.random.random()
        if dice < 0.35:
            micros = self.random.choice([1, 2, 137, 999, 1000, 1001, 10_000, 123_457])
        elif dice < 0.45:
            micros = self.random.choice([250_000, 500_000, 999_999, 1_000_000, 5_000_000, 9_999_999])
        elif dice < 0.98:
            micros = self.micros_to_an_edge() + self.random.choice([-1000, -1, 0, 0, 0, 1, 1000])
        elif dice < 0.999 or self.keyspace.now - self.started_at > YEARS_MAX * 365 * DAY_MICROS:
            micros = self.random.randint(1, DAY_MICROS // 4)
        else:
            micros = self.random.choice([1, 30, 3650]) * DAY_MICROS
        micros = max(1, micros)
        if self.random.random() < 0.2:
            return f"RL.CLOCK SET {self.keyspace.now + micros}us"
        if micros % 1000 == 0:
            return f"RL.CLOCK ADVANCE {micros // 1000}ms"
        return f"RL.CLOCK ADVANCE {micros}us"

    def micros_to_an_edge(self) -> int:
        """The time to a key's expiry, to the end of its window, or to the end of a wait that was answered.

        Mostly the nearest of several, so that long-lived keys see many edges of others before their own.
        """
        now = self.keyspace.now
        counters = [self.keyspace.find(key) for key in self.random.sample(KEYS, 12)]
        edges = [self.edge_of(counter, now) - now for counter in counters if counter]
        edges += [1000 * wait for wait in self.waits if self.random.random() < 0.5]
        if not edges:
            return 1000
        edges.sort()
        return min(edges[min(len(edges) - 1, self.random.choice([0, 0, 0, 0, 0, 0, 1, 1, 2, 3]))], EDGE_MAX_MICROS)

    def edge_of(self, counter: Counter, now: int) -> int:
        window = getattr(counter, "window", None)
        if window and self.random.random() < 0.5:
            return now - now % window + window
        return math.ceil(counter.untouched_at())
