"""The known differences are still there: an entry that no longer occurs must go."""

import pytest

from differential.known import load
from differential.run import Lockstep
from differential.target import Target

KNOWN = load()


def test_names_are_told_apart():
    names = [entry.name for entry in KNOWN]
    assert sorted(set(names)) == sorted(names)


@pytest.mark.parametrize("entry", KNOWN, ids=lambda entry: entry.name)
def test_example_differs_as_described(reference, tollgate, protocol, entry):
    """Only the last line of an example differs, and in the way that its entry says."""
    lockstep = Lockstep(Target(reference.address, protocol), Target(tollgate.address, protocol))
    faults = list(lockstep.differences(entry.example))
    assert faults, f"{entry.name}: the example no longer differs, the entry can go"
    assert len(faults) == 1 and len(faults[0].steps) == len(entry.example), list(map(str, faults))
    assert entry.covers(faults[0].pair), f"{entry.name} does not describe {faults[0]}"
