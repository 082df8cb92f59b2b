"""How many nodes a rate of checks needs, from what a check costs a server in CPU time.

A pure reckoning: a core that may be busy for a part of the time answers that part of a second, divided by the CPU time
of a check, each second. Cores are rounded up, and nodes of a number of cores too.

What a random key costs depends on how often it belongs to another core than the connection's: on a node of n cores in
(n - 1) of n cases. It is measured on two cores, where that is a half, and what it costs there beyond a key of the own
core is taken in proportion.
"""

import math

SECOND_NANOS = 1_000_000_000


def hop_share(cores):
    """The part of random keys that belong to another core than the connection's."""
    return (cores - 1) / cores


def random_key_nanos(own_nanos, random_nanos, measured_cores, cores):
    """CPU time of a check on a random key on a node of `cores`, given the two times on `measured_cores`."""
    hop_nanos = max(0.0, random_nanos - own_nanos) / hop_share(measured_cores)
    return own_nanos + hop_nanos * hop_share(cores)


def cores_needed(checks_per_second, nanos, busy):
    """Cores that answer so many checks a second while each is busy for the part `busy` of the time."""
    return math.ceil(checks_per_second * nanos / (SECOND_NANOS * busy))


def nodes_needed(checks_per_second, nanos, busy, cores):
    """Nodes of so many cores."""
    return math.ceil(cores_needed(checks_per_second, nanos, busy) / cores)
