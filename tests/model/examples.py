"""The example table of the contract, as steps that any implementation can be walked through.

A step is a time in seconds after `T` at which the calls that follow are made, or a call and its reply; a call without
a reply only brings the key into the state that the example starts from.
"""

T = 1_751_540_400

ALL_OF_TWO = "RL.ALL a SLIDE 1 60 1 c TOKEN 5 1 1"

EXAMPLES = {
    "slide_weighs_the_previous_window": [
        ("-0.6", "RL.SLIDE k 100 1 COST 82", None),
        ("0.4", "RL.SLIDE k 100 1 COST 30", None),
        ("0.4", "RL.SLIDE k 100 1", [1, 100, 20, 0, 1600]),
    ],
    "slide_denies_until_the_estimate_falls": [
        ("-0.6", "RL.SLIDE k 1000 1 COST 82", None),
        ("0.45", "RL.SLIDE k 1000 1 COST 55", None),
        ("0.45", "RL.SLIDE k 100 1", [0, 100, 0, 2, 1550]),
    ],
    "slide_last_unit": [
        ("0", "RL.SLIDE k 100 1 COST 99", None),
        ("0", "RL.SLIDE k 100 1", [1, 100, 0, 0, 2000]),
        ("0", "RL.SLIDE k 100 1", [0, 100, 0, 1001, 2000]),
    ],
    "token_drains": [
        ("-0.5", "RL.TOKEN k 20 10 COST 16", None),
        ("0", "RL.TOKEN k 20 10", [1, 20, 8, 0, 1200]),
    ],
    "slide_over_two_windows": [
        ("0", "RL.SLIDE k 2 10", [1, 2, 1, 0, 20000]),
        ("1", "RL.SLIDE k 2 10", [1, 2, 0, 0, 19000]),
        ("2", "RL.SLIDE k 2 10", [0, 2, 0, 8001, 18000]),
        ("12", "RL.SLIDE k 2 10", [1, 2, 0, 0, 18000]),
    ],
    "token_partial": [
        ("0", "RL.TOKEN k 5 1 COST 3 PARTIAL", [3, 5, 2, 0, 3000]),
        ("0", "RL.TOKEN k 5 1 COST 3 PARTIAL", [2, 5, 0, 0, 5000]),
        ("0", "RL.TOKEN k 5 1 COST 3 PARTIAL", [0, 5, 0, 1000, 5000]),
    ],
    "leak_tells_the_hold": [
        ("0", "RL.LEAK k 3 2", [1, 3, 2, 0, 500]),
        ("0", "RL.LEAK k 3 2", [1, 3, 1, 500, 1000]),
        ("0", "RL.LEAK k 3 2", [1, 3, 0, 1000, 1500]),
        ("0", "RL.LEAK k 3 2", [0, 3, 0, 500, 1500]),
    ],
    "slide_refund_takes_cur_then_prev": [
        ("0", "RL.SLIDE k 10 10 COST 4", None),
        ("12", "RL.SLIDE k 10 10 COST 3", None),
        ("12", "RL.SLIDE k 10 10 COST 5 REFUND", [5, 10, 9, 0, 8000]),
    ],
    "slide_changed_window": [
        ("0", "RL.SLIDE k 100 1 COST 100", None),
        ("0.5", "RL.SLIDE k 100 3600", [0, 100, 0, 501, 1500]),
        ("1.5", "RL.SLIDE k 100 3600", [1, 100, 49, 0, 7198500]),
    ],
    "token_changed_capacity": [
        ("0", "RL.TOKEN k 10 1 COST 8", None),
        ("0", "RL.TOKEN k 20 1 PEEK", [1, 20, 12, 0, 8000]),
        ("0", "RL.TOKEN k 5 1", [0, 5, 0, 4000, 8000]),
    ],
    "all_or_nothing": [
        ("0", ALL_OF_TWO, [1, 0, [1, 1, 0, 0, 120000], [1, 5, 4, 0, 1000]]),
        ("0", ALL_OF_TWO, [0, 0, [0, 1, 0, 60001, 120000], [1, 5, 4, 0, 1000]]),
    ],
}


def clock_line(seconds_after: str) -> str:
    """The clock command that moves to a time after `T`, without the rounding of floats."""
    millis = T * 1000 + round(float(seconds_after) * 1000)
    return f"RL.CLOCK SET {millis}ms"
