//! The example table of the reference, and the arithmetic of limits that went wrong elsewhere, by the id of the case.

mod common;

use common::{Key, T, ask, five, policy};
use tollgate_limits::{
    Ask, Bucket, Change, Charge, Decision, Fixed, Log, LogChange, Micros, Mode, Slide, StateRef, decide, undo,
};

const SECOND: Micros = 1_000_000;

/// Makes each call on one key at its time after `t` (in microseconds) and compares the replies.
fn check(rows: &[(Micros, &str, [i128; 5])]) {
    check_on(&mut Key::new(), rows);
}

fn check_on(key: &mut Key, rows: &[(Micros, &str, [i128; 5])]) {
    for (after, call, expected) in rows {
        let decision = key.call(&ask(call), T + after);
        assert_eq!(five(decision), *expected, "{call} at t+{after} us");
    }
}

/// A SLIDE key with these counts in the window of `t` and the one before.
fn slide(prev: u64, cur: u64) -> Key {
    let policy = policy("SLIDE", 100, "1");
    Key { record: Some((policy, common::State::Slide(Slide { index: T / SECOND, cur, prev }))) }
}

#[test]
fn slide_with_both_windows() {
    check_on(&mut slide(82, 30), &[(400_000, "SLIDE 100 1", [1, 100, 20, 0, 1600])]);
    check_on(&mut slide(82, 55), &[(450_000, "SLIDE 100 1", [0, 100, 0, 2, 1550])]);
}

#[test]
fn slide_at_its_limit() {
    let last = [(0, "SLIDE 100 1", [1, 100, 0, 0, 2000]), (0, "SLIDE 100 1", [0, 100, 0, 1001, 2000])];
    check_on(&mut slide(0, 99), &last);
}

#[test]
fn token_half_a_second_later() {
    check(&[(0, "TOKEN 20 10 COST 16", [1, 20, 4, 0, 1600]), (500_000, "TOKEN 20 10", [1, 20, 8, 0, 1200])]);
}

#[test]
fn slide_over_two_windows() {
    check(&[
        (0, "SLIDE 2 10", [1, 2, 1, 0, 20000]),
        (SECOND, "SLIDE 2 10", [1, 2, 0, 0, 19000]),
        (2 * SECOND, "SLIDE 2 10", [0, 2, 0, 8001, 18000]),
        (12 * SECOND, "SLIDE 2 10", [1, 2, 0, 0, 18000]),
    ]);
}

#[test]
fn token_in_part() {
    check(&[
        (0, "TOKEN 5 1 COST 3 PARTIAL", [3, 5, 2, 0, 3000]),
        (0, "TOKEN 5 1 COST 3 PARTIAL", [2, 5, 0, 0, 5000]),
        (0, "TOKEN 5 1 COST 3 PARTIAL", [0, 5, 0, 1000, 5000]),
    ]);
}

#[test]
fn leak_says_how_long_to_hold() {
    check(&[
        (0, "LEAK 3 2", [1, 3, 2, 0, 500]),
        (0, "LEAK 3 2", [1, 3, 1, 500, 1000]),
        (0, "LEAK 3 2", [1, 3, 0, 1000, 1500]),
        (0, "LEAK 3 2", [0, 3, 0, 500, 1500]),
    ]);
}

#[test]
fn slide_given_back() {
    check(&[
        (0, "SLIDE 10 10 COST 4", [1, 10, 6, 0, 20000]),
        (12 * SECOND, "SLIDE 10 10 COST 3", [1, 10, 4, 0, 18000]),
        (12 * SECOND, "SLIDE 10 10 COST 5 REFUND", [5, 10, 9, 0, 8000]),
    ]);
}

#[test]
fn slide_under_a_longer_window() {
    check(&[
        (0, "SLIDE 100 1 COST 100", [1, 100, 0, 0, 2000]),
        (500_000, "SLIDE 100 3600", [0, 100, 0, 501, 1500]),
        (1_500_000, "SLIDE 100 3600", [1, 100, 49, 0, 7198500]),
    ]);
}

#[test]
fn token_under_another_capacity_and_rate() {
    check(&[
        (0, "TOKEN 10 1 COST 8", [1, 10, 2, 0, 8000]),
        (0, "TOKEN 20 1 PEEK", [1, 20, 12, 0, 8000]),
        (0, "TOKEN 5 1", [0, 5, 0, 4000, 8000]),
    ]);
}

#[test]
fn the_parts_of_all() {
    check(&[(0, "SLIDE 1 60", [1, 1, 0, 0, 120000]), (0, "SLIDE 1 60", [0, 1, 0, 60001, 120000])]);
    check(&[(0, "TOKEN 5 1", [1, 5, 4, 0, 1000]), (0, "TOKEN 5 1 PEEK", [1, 5, 4, 0, 1000])]);
}

#[test]
fn refund_of_a_missing_key() {
    for width in ["SLIDE 7 10", "TOKEN 7 10", "FIXED 7 10", "LOG 7 10", "LEAK 7 10"] {
        let call = ask(&format!("{width} COST 3 REFUND"));
        let outcome = Key::new().ask(&call, T);
        assert_eq!((five(outcome.decision), outcome.change), ([0, 7, 7, 0, 0], Change::Keep), "{width}");
    }
}

#[test]
fn zero_cost() {
    for width in ["SLIDE 2 10", "TOKEN 2 10", "FIXED 2 10", "LOG 2 10", "LEAK 2 10"] {
        let mut key = Key::new();
        key.call(&ask(&format!("{width} COST 2")), T);
        let lowered = width.replacen(" 2 ", " 1 ", 1);
        for (mode, allowed) in [("", 1), ("PEEK", 1), ("PARTIAL", 0), ("REFUND", 0)] {
            let outcome = key.ask(&ask(&format!("{lowered} COST 0 {mode}")), T);
            let [shown, _, remaining, retry, _] = five(outcome.decision);
            assert_eq!((shown, remaining, retry, outcome.change), (allowed, 0, 0, Change::Keep), "{width} {mode}");
        }
    }
}

#[test]
fn zero_rate() {
    for width in ["SLIDE 0 60", "TOKEN 0 60", "FIXED 0 60", "LOG 0 60", "LEAK 0 60"] {
        for mode in ["", "PEEK", "PARTIAL"] {
            let outcome = Key::new().ask(&ask(&format!("{width} {mode}")), T);
            assert_eq!((five(outcome.decision), outcome.change), ([0, 0, 0, -1, 0], Change::Keep), "{width} {mode}");
        }
    }
}

#[test]
fn high_rate() {
    let (mut key, call, mut admitted) = (Key::new(), ask("TOKEN 6 6000"), 0);
    for tick in 0..10_000 {
        let now = T + tick * 10;
        let decision = key.call(&call, now);
        admitted += decision.allowed;
        assert!(decision.remaining <= 6 && decision.reset_ms >= 1);
    }
    assert_eq!(admitted, 605);
}

#[test]
fn wrong_type() {
    let calls = ["SLIDE 5 10", "TOKEN 5 10", "FIXED 5 10", "LOG 5 10", "LEAK 5 10"];
    for first in calls {
        let mut key = Key::new();
        key.call(&ask(first), T);
        for second in calls {
            let answered = decide(key.stored(), &ask(second), T).is_some();
            assert_eq!(answered, first == second, "{first} then {second}");
        }
    }
}

#[test]
fn cost_above_capacity() {
    check(&[
        (0, "TOKEN 5 5/5 COST 1", [1, 5, 4, 0, 1000]),
        (5 * SECOND, "TOKEN 5 5/5 COST 6", [0, 5, 5, -1, 0]),
        (5 * SECOND, "TOKEN 5 5/5 COST 5", [1, 5, 0, 0, 5000]),
    ]);
    for width in ["TOKEN 5 1", "SLIDE 5 10", "FIXED 5 10", "LOG 5 10", "LEAK 5 1"] {
        let outcome = Key::new().ask(&ask(&format!("{width} COST 6")), T);
        assert_eq!((five(outcome.decision), outcome.change), ([0, 5, 5, -1, 0], Change::Keep), "{width}");
    }
}

#[test]
fn denied_consumes() {
    check(&[
        (0, "TOKEN 10 1 COST 8", [1, 10, 2, 0, 8000]),
        (0, "TOKEN 10 1 COST 5", [0, 10, 2, 3000, 8000]),
        (0, "TOKEN 10 1 COST 1000000", [0, 10, 2, -1, 8000]),
        (SECOND, "TOKEN 10 1 COST 3", [1, 10, 0, 0, 10000]),
    ]);
    check(&[
        (0, "SLIDE 10 60 COST 8", [1, 10, 2, 0, 120000]),
        (0, "SLIDE 10 60 COST 5", [0, 10, 2, 75001, 120000]),
        (0, "SLIDE 10 60 COST 2", [1, 10, 0, 0, 120000]),
    ]);
}

#[test]
fn expiry_instant() {
    for width in ["SLIDE 5 1", "TOKEN 5 5", "FIXED 5 1", "LOG 5 1", "LEAK 5 5"] {
        let (mut key, call) = (Key::new(), ask(width));
        for second in 0..600 {
            let skew = [0, 1_000, 2_000][usize::try_from(second % 3).expect("small")];
            let decision = key.call(&call, T + second * SECOND + skew);
            assert_eq!(decision.allowed, 1, "{width} at {second} s");
        }
    }
}

#[test]
fn long_idle() {
    let (call, hour) = ("TOKEN 1000000 1000000", 3_600 * SECOND);
    let fresh = [1, 1_000_000, 999_999, 0, 1];
    check(&[(0, call, fresh), (12 * hour, call, fresh), (9 * 8_766 * hour, call, fresh)]);
}

#[test]
fn huge_arguments() {
    check(&[(0, "TOKEN 1 1/86400 COST 200000000", [0, 1, 1, -1, 0])]);
    check(&[
        // 10^12 tokens of a year each: about 3.15 * 10^22 ms, shown as the largest that is shown.
        (0, "TOKEN 1000000000000 1/365d COST 1000000000000", [1, 1_000_000_000_000, 0, 0, (1 << 53) - 1]),
        (0, "TOKEN 1000000000000 1/365d", [0, 1_000_000_000_000, 0, 31_536_000_000, (1 << 53) - 1]),
        (0, "TOKEN 1000000000000 1/365d COST 1000000000000", [0, 1_000_000_000_000, 0, (1 << 53) - 1, (1 << 53) - 1]),
    ]);
}

#[test]
fn small_capacity() {
    let mut key = Key::new();
    let five_and_no: Vec<u64> = (0..6).map(|_| key.call(&ask("TOKEN 5 5"), T).allowed).collect();
    assert_eq!(five_and_no, [1, 1, 1, 1, 1, 0]);
    let again: Vec<u64> = (0..6).map(|_| key.call(&ask("TOKEN 5 5"), T + 2 * SECOND).allowed).collect();
    assert_eq!(again, [1, 1, 1, 1, 1, 0]);

    let mut single = Key::new();
    let admitted: u64 = (0..100).map(|tick| single.call(&ask("TOKEN 1 10"), T + tick * 500).allowed).sum();
    assert_eq!(admitted, 1);

    check(&[
        (0, "TOKEN 1 0.1", [1, 1, 0, 0, 10_000]),
        (0, "TOKEN 1 0.1", [0, 1, 0, 10_000, 10_000]),
        (10 * SECOND, "TOKEN 1 0.1", [1, 1, 0, 0, 10_000]),
    ]);
}

#[test]
fn window_phrase() {
    let admitted = |call: &str| {
        let mut key = Key::new();
        (0..120).map(|quarter| key.call(&ask(call), T + quarter * 250_000).allowed).sum::<u64>()
    };
    assert_eq!(admitted("TOKEN 17 17/30"), 33);
    assert_eq!(admitted("SLIDE 17 30"), 17);
}

#[test]
fn small_limits() {
    check(&[
        (30 * SECOND, "SLIDE 1 60", [1, 1, 0, 0, 90_000]),
        (45 * SECOND, "SLIDE 1 60", [0, 1, 0, 15_001, 75_000]),
        (60 * SECOND, "SLIDE 1 60", [0, 1, 0, 1, 60_000]),
        (61 * SECOND, "SLIDE 1 60", [1, 1, 0, 0, 119_000]),
    ]);
    check(&[
        (30 * SECOND, "LOG 1 60", [1, 1, 0, 0, 60_000]),
        (45 * SECOND, "LOG 1 60", [0, 1, 0, 45_000, 45_000]),
        (60 * SECOND, "LOG 1 60", [0, 1, 0, 30_000, 30_000]),
        (61 * SECOND, "LOG 1 60", [0, 1, 0, 29_000, 29_000]),
        (90 * SECOND, "LOG 1 60", [1, 1, 0, 0, 60_000]),
    ]);
}

/// A log that has been under a shorter window keeps only what lay in it, whatever window comes later.
#[test]
fn log_entries_that_left_do_not_come_back() {
    check(&[
        (0, "LOG 10 60 COST 4", [1, 10, 6, 0, 60_000]),
        (5 * SECOND, "LOG 10 60 COST 2", [1, 10, 4, 0, 60_000]),
        (9 * SECOND, "LOG 10 5 COST 1", [1, 10, 7, 0, 5_000]),
        (9 * SECOND, "LOG 10 60 COST 1", [1, 10, 6, 0, 60_000]),
    ]);
}

/// The hold is the level before the call at the rate that the call asks for; a refusal waits at the stored one.
#[test]
fn leak_at_another_rate() {
    check(&[
        (0, "LEAK 10 1 COST 4", [1, 10, 6, 0, 4_000]),
        (0, "LEAK 10 2 PEEK", [1, 10, 6, 2_000, 4_000]),
        (0, "LEAK 10 2 COST 7", [0, 10, 6, 1_000, 4_000]),
        (0, "LEAK 10 2", [1, 10, 5, 2_000, 2_500]),
    ]);
}

/// A third of a token cannot be carried over to another rate, so it becomes 0.333334.
#[test]
fn use_is_rounded_up_when_the_rate_changes() {
    check(&[
        (0, "TOKEN 10 1/3 COST 1", [1, 10, 9, 0, 3_000]),
        (2 * SECOND, "TOKEN 10 1/3 PEEK", [1, 10, 9, 0, 1_000]),
        (2 * SECOND, "TOKEN 10 1/1000 COST 1", [1, 10, 8, 0, 1_333_334]),
    ]);
}

/// Records that no call can have written, from a damaged file or a hostile peer: never a panic, never room made by a
/// wrap, and a way out where time can bring one.
#[test]
fn damaged_records_deny() {
    let words = [0, 1, 1 << 40, u64::MAX >> 1, u64::MAX];
    let calls: Vec<Ask> = ["SLIDE 5 10", "TOKEN 5 10", "FIXED 5 10", "LEAK 5 0.99999999999999999"]
        .iter()
        .flat_map(|width| ["", "PEEK", "PARTIAL", "REFUND"].map(|mode| ask(&format!("{width} COST 3 {mode}"))))
        .collect();
    for first in words {
        for second in words {
            let wide = Bucket::unpack_wide([first, second, second, first]);
            for bucket in [Bucket::unpack([first, second]), wide] {
                for call in &calls {
                    check_damaged(call, StateRef::Token(bucket));
                    check_damaged(call, StateRef::Leak(bucket));
                }
            }
            for call in &calls {
                check_damaged(call, StateRef::Slide(Slide::unpack([first, second])));
                check_damaged(call, StateRef::Fixed(Fixed::unpack([first, second])));
                check_damaged(call, StateRef::Slide(Slide { index: first, cur: second, prev: first }));
                check_damaged(call, StateRef::Fixed(Fixed { index: first, count: second }));
            }
        }
    }
}

fn check_damaged(call: &Ask, state: StateRef<'_>) {
    for now in [0, T, u64::MAX] {
        let Some(outcome) = decide(Some((&call.policy, state)), call, now) else { return };
        let Decision { remaining, reset_ms, allowed, .. } = outcome.decision;
        assert!(remaining <= 5 && allowed <= 3, "{call:?} on {state:?}");
        if reset_ms > 1_000_000 && call.mode == Mode::Charge {
            // Whatever is this far from being untouched holds more than five units, or has not begun.
            assert!(allowed == 0 || matches!(state, StateRef::Slide(_) | StateRef::Fixed(_)), "{call:?} on {state:?}");
        }
        let charge = Charge { policy: call.policy, units: 3, at: T };
        undo(Some((&call.policy, state)), &charge, now);
    }
}

#[test]
fn packed_forms_keep_their_values() {
    for index in [0, 1, (1 << 48) - 1] {
        for cur in [0, 7, (1 << 40) - 1] {
            for prev in [0, 1, 1 << 24, (1 << 40) - 1] {
                let slide = Slide { index, cur, prev };
                assert_eq!(Slide::unpack(slide.pack()), slide);
            }
            let fixed = Fixed { index, count: cur };
            assert_eq!(Fixed::unpack(fixed.pack()), fixed);
        }
    }
    let wide = [1, 2, 3, 4];
    assert_eq!(Bucket::unpack_wide(wide).pack_wide(), wide);
    assert_eq!(Bucket::unpack_wide(wide).pack(), None);
    assert_eq!(Bucket::unpack([5, 6]).pack(), Some([5, 6]));
}

#[test]
fn a_log_gives_memory_back() {
    let mut log = Log::default();
    for at in 1..=10_000 {
        log.apply(LogChange::Append { at, units: 1, drop_through: 0 });
    }
    assert!(log.heap_bytes() >= 160_000);
    log.apply(LogChange::Append { at: 10_001, units: 1, drop_through: 9_990 });
    assert_eq!((log.len(), log.heap_bytes() <= 16 * 64), (11, true));
}

#[test]
fn a_log_takes_off_where_the_charge_lies() {
    let mut log = Log::default();
    for at in [10, 20, 30] {
        log.apply(LogChange::Append { at, units: 5, drop_through: 0 });
    }
    log.apply(LogChange::TakeOff { at: 20, units: 3, drop_through: 0 });
    assert_eq!(log.entries().collect::<Vec<_>>(), [(10, 5), (20, 2), (30, 5)]);
    log.apply(LogChange::TakeOff { at: 20, units: 9, drop_through: 0 });
    log.apply(LogChange::TakeOff { at: 25, units: 9, drop_through: 0 });
    assert_eq!(log.entries().collect::<Vec<_>>(), [(10, 5), (30, 5)]);
    log.apply(LogChange::Refund { units: 7, drop_through: 0 });
    assert_eq!(log.entries().collect::<Vec<_>>(), [(10, 3)]);
    // From another timeline: later than all that is known, and after the drop point.
    log.apply(LogChange::Append { at: 2, units: 1, drop_through: 11 });
    assert_eq!(log.entries().collect::<Vec<_>>(), [(12, 1)]);
}

/// A bucket's undo takes off only what cannot have drained since, at the faster of the two rates.
#[test]
fn an_undo_leaves_what_may_have_drained() {
    let rows = [
        ("TOKEN 100 1", "TOKEN 100 1", 3, 10),
        ("TOKEN 100 1", "TOKEN 100 2", 3, 10),
        ("TOKEN 100 2", "TOKEN 100 1", 3, 13),
        ("TOKEN 100 1", "TOKEN 100 100", 3, 0),
    ];
    for (first, second, seconds, left) in rows {
        let mut key = Key::new();
        key.call(&ask(&format!("{first} COST 10")), T);
        let charge = Charge { policy: ask(first).policy, units: 10, at: T };
        key.call(&ask(&format!("{second} COST 10")), T);
        let now = T + seconds * SECOND;
        key.write(undo(key.stored(), &charge, now), &ask(second).policy);
        let used = 100 - key.ask(&ask(&format!("{second} PEEK")), now).decision.remaining;
        assert_eq!(used, left, "{first} then {second}");
    }
}

/// What lies in another window, or may, stays: over-stated is the safe side.
#[test]
fn an_undo_that_is_not_sure_takes_nothing() {
    for (first, second) in [("SLIDE 100 1", "SLIDE 100 60"), ("FIXED 100 1", "FIXED 100 60"), ("TOKEN 9 1", "LEAK 9 1")]
    {
        let mut key = Key::new();
        key.call(&ask(second), T);
        let charge = Charge { policy: ask(first).policy, units: 1, at: T };
        assert_eq!(undo(key.stored(), &charge, T), Change::Keep, "{first} in {second}");
    }
    let charge = Charge { policy: ask("SLIDE 9 1").policy, units: 1, at: T };
    assert_eq!(undo(None, &charge, T), Change::Keep);
}
