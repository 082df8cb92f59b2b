"""Makes a failing history short: the few commands that are needed, printed as a script."""

import time

from differential.history import Step
from differential.run import Difference, Lockstep
from differential.script import script_of

# Only long words are worth it: a short one that is cut becomes another word.
WORD_LENGTHS = [4, 32, 256, 2048, 16_384]
SHORT_BYTES = 20
RELATED_FIRST = (8, 64, 512)


class Shrinker:
    """Shrinks one difference, as long as the same fault remains and time is left."""

    def __init__(self, lockstep: Lockstep, fault: Difference, seconds: float) -> None:
        self.lockstep = lockstep
        self.signature = fault.signature
        self.best = fault
        self.deadline = time.monotonic() + seconds

    def shrink(self) -> Difference:
        self.take_tail()
        self.drop_parts()
        self.shorten_words()
        return self.best

    @property
    def is_late(self) -> bool:
        return time.monotonic() > self.deadline

    def still_fails(self, steps: list[Step]) -> bool:
        """Whether the same fault shows with these steps; if so they are kept, up to it."""
        if self.is_late:
            return False
        faults = self.lockstep.differences(steps)
        found = next((fault for fault in faults if fault.signature == self.signature), None)
        faults.close()
        if found is None or len(found.steps) > len(self.best.steps):
            return False
        self.best = found
        return True

    def take_tail(self) -> None:
        """The last steps, or those that share a key with the last, are often enough."""
        steps = self.best.steps
        keys = set(steps[-1].words[1:])
        related = [step for step in steps[:-1] if keys & set(step.words[1:])]
        for length in RELATED_FIRST:
            if length >= len(steps) or self.still_fails(steps[-length:]):
                return
            if self.still_fails(related[-length:] + steps[-1:]):
                return

    def drop_parts(self) -> None:
        """Delta debugging: parts of halving size are left out while the fault remains."""
        size = max(1, len(self.best.steps) // 2)
        while not self.is_late:
            place, dropped = 0, False
            while place < len(self.best.steps) and not self.is_late:
                steps = self.best.steps
                if self.still_fails(steps[:place] + steps[place + size :]):
                    dropped = True
                else:
                    place += size
            if size == 1 and not dropped:
                return
            size = max(1, size // 2)

    def shorten_words(self) -> None:
        """Words that need not be long become short, and all steps go to one connection if that is enough."""
        self.still_fails([Step(0, step.words) for step in self.best.steps])
        for number in range(len(self.best.steps)):
            for place in range(1, len(self.best.steps[number].words)):
                self.shorten(number, place)

    def shorten(self, number: int, place: int) -> None:
        steps = self.best.steps
        word = steps[number].words[place]
        for length in WORD_LENGTHS:
            if length >= len(word) or len(word) <= SHORT_BYTES:
                return
            words = (*steps[number].words[:place], word[:length], *steps[number].words[place + 1 :])
            if self.still_fails([*steps[:number], steps[number]._replace(words=words), *steps[number + 1 :]]):
                return


def report(fault: Difference) -> str:
    """A difference and the script that shows it on an empty server."""
    return "\n".join([str(fault), "  script:", *(f"    {line}" for line in script_of(fault.steps))])
