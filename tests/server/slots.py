"""Which core owns a key: the cluster's hash slots, spread over the cores in runs of 64."""

from binascii import crc_hqx
from itertools import count

SLOTS = 16_384
SLOTS_A_RUN = 64


def slot_of(key: str) -> int:
    """CRC16 of the key, or of what is between its first `{` and the next `}` if that is not empty."""
    start = key.find("{")
    end = key.find("}", start + 1)
    hashed = key[start + 1 : end] if start >= 0 and end > start + 1 else key
    return crc_hqx(hashed.encode(), 0) % SLOTS


def core_of(key: str, cores: int) -> int:
    return slot_of(key) // SLOTS_A_RUN % cores


def keys_over_cores(prefix: str, how_many: int, cores: int) -> list[str]:
    """Keys that take the cores in turn, so that neighbours belong to different cores."""
    names = (f"{prefix}:{number}" for number in count())
    keys: list[str] = []
    for name in names:
        if core_of(name, cores) == len(keys) % cores:
            keys.append(name)
            if len(keys) == how_many:
                return keys
    raise AssertionError("there are always more names")
