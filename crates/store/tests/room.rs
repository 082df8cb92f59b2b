//! What happens at the memory bound: how much one call may drop, what never goes, and what goes on.

#![allow(clippy::unwrap_used)]

use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use tollgate_limits::{Ask, Micros, Mode, Policy, Rate, StateRef, Window};
use tollgate_store::{ChargeError, Charged, Eviction, RecordId, Saved, Store, StoreConfig};

const NOW: Micros = 1_577_836_800_000_000;
const MINUTE: u64 = 60_000_000;
/// What one call may drop.
const EVICTIONS_MAX: u64 = 16;

fn store(memory_max_bytes: u64, eviction: Eviction) -> Store {
    Store::new(StoreConfig { hash_seed: [1, 2, 3, 4], core: 0, cores: 1, memory_max_bytes, eviction, random_seed: 9 })
}

fn slide(limit: u64) -> Policy {
    Policy::Slide { limit, window: Window::new(MINUTE).unwrap() }
}

fn log(limit: u64) -> Policy {
    Policy::Log { limit, window: Window::new(MINUTE).unwrap() }
}

fn token(capacity: u64) -> Policy {
    Policy::Token { capacity, rate: Rate::new(1, 3_600_000_000).unwrap() }
}

/// A call on a key, which must keep to what holds of every call.
fn call(store: &mut Store, key: &str, policy: Policy, cost: u64, mode: Mode, now: Micros) -> Result<u64, ChargeError> {
    let at = store.hasher().locate(key.as_bytes());
    let evicted_before = store.stats().evicted_keys;
    let outcome = store.charge(at, key.as_bytes(), &Ask { policy, cost, mode }, now);
    assert!(store.stats().evicted_keys - evicted_before <= EVICTIONS_MAX);
    outcome.map(|Charged { decision, .. }| decision.allowed)
}

fn charge(store: &mut Store, key: &str, policy: Policy, cost: u64, now: Micros) -> Result<u64, ChargeError> {
    call(store, key, policy, cost, Mode::Charge, now)
}

fn find(store: &mut Store, key: &str, now: Micros) -> Option<RecordId> {
    let at = store.hasher().locate(key.as_bytes());
    store.find(at, key.as_bytes(), now)
}

fn save(store: &mut Store, key: &str, now: Micros) -> Option<Saved> {
    find(store, key, now).and_then(|id| store.save(id))
}

/// Appends to so many logs, a unit a microsecond each, until all hold `units` or the bound is met.
fn grow_logs(store: &mut Store, logs: u64, units: u64) -> u64 {
    let mut refused = 0;
    for unit in 0..units {
        for number in 0..logs {
            refused += u64::from(charge(store, &format!("{{t}}log{number}"), log(100_000), 1, NOW + unit).is_err());
        }
    }
    refused
}

#[test]
fn a_new_key_among_logs_drops_a_few_of_them() {
    let bound = 2_000_000;
    let mut full = store(bound, Eviction::EvictLeast);
    grow_logs(&mut full, 50, 1_025);
    let filler = grow_logs(&mut full, 58, 1_025);
    let (before, keys) = (full.stats(), full.len());
    assert!(keys >= 40, "{keys} logs, {filler} refused");
    assert_eq!(charge(&mut full, "{t}new", slide(10), 1, NOW + 2_000), Ok(1));
    let after = full.stats();
    // A page is three logs of 32 KiB at most.
    assert!(after.evicted_keys - before.evicted_keys <= 3, "{after:?}");
    assert!(after.evicted_units - before.evicted_units <= 3 * 1_100, "{after:?}");
    assert!(full.memory_used() <= bound);
}

#[test]
fn a_flood_of_little_used_keys_leaves_full_ones_alone() {
    for (flood_name, is_longer) in [("flood", false), ("a-key-of-another-size-that-needs-pages-of-its-own", true)] {
        let mut full = store(700_000, Eviction::EvictLeast);
        let names: Vec<String> = (0..2_000).map(|number| format!("{{t}}full{number:04}")).collect();
        for name in &names {
            assert_eq!(charge(&mut full, name, slide(100), 100, NOW), Ok(1));
        }
        let mut refused = 0;
        for number in 0..20_000 {
            refused +=
                u64::from(charge(&mut full, &format!("{{t}}{flood_name}{number:05}"), slide(100), 1, NOW).is_err());
            assert!(full.memory_used() <= 700_000);
        }
        let stats = full.stats();
        assert_eq!(refused, 0, "{is_longer}");
        assert!(stats.evicted_keys > 10_000, "{stats:?}");
        let left = names.iter().filter(|name| find(&mut full, name, NOW).is_some()).count();
        assert_eq!((left, stats.evicted_units), (2_000, stats.evicted_keys), "{is_longer}");
        assert!(names.iter().all(|name| charge(&mut full, name, slide(100), 1, NOW) == Ok(0)));
    }
}

#[test]
fn full_keys_of_one_length_do_not_go_for_little_used_ones_of_that_length() {
    let mut full = store(1_300_000, Eviction::EvictLeast);
    let long = "k".repeat(60);
    let names: Vec<String> = (0..3_000).map(|number| format!("{{t}}{long}{number:04}")).collect();
    for name in &names {
        assert_eq!(charge(&mut full, name, slide(100), 100, NOW), Ok(1));
    }
    for number in 0..8_000 {
        assert_eq!(charge(&mut full, &format!("{{t}}{number:05}"), slide(100), 1, NOW), Ok(1));
    }
    let before = full.stats();
    // Every other key is short and little used, and goes in their stead, until there is a page of long ones.
    let made =
        (0..400).filter(|number| charge(&mut full, &format!("{{t}}{long}x{number:03}"), slide(100), 1, NOW).is_ok());
    let (made, after) = (made.count(), full.stats());
    let left = names.iter().filter(|name| find(&mut full, name, NOW).is_some()).count();
    assert!(made > 100, "{made}");
    assert_eq!(left, 3_000, "{made} made, {before:?} {after:?}");
}

#[test]
fn logs_of_old_keys_keep_to_the_bound() {
    for eviction in [Eviction::NoEviction, Eviction::EvictLeast] {
        let bound = 1_000_000;
        let mut full = store(bound, eviction);
        assert_eq!(charge(&mut full, "{t}slide", slide(9_000), 1, NOW), Ok(1));
        assert_eq!(charge(&mut full, "{t}token", token(9_000), 7_000, NOW), Ok(1));
        assert_eq!(charge(&mut full, "{t}slide", slide(9_000), 7_000, NOW), Ok(1));
        let mut refused = 0;
        for unit in 0..1_200 {
            refused += grow_logs_by_one(&mut full, 60, NOW + unit);
            assert!(full.memory_used() <= bound, "{eviction:?} {unit}");
            // Well used keys that need no memory go on, whatever happens to logs.
            assert!(matches!(charge(&mut full, "{t}slide", slide(9_000), 1, NOW + unit), Ok(0..=1)));
            assert!(matches!(charge(&mut full, "{t}token", token(9_000), 1, NOW + unit), Ok(0..=1)));
        }
        assert_eq!(full.memory_used(), full.memory_recounted());
        match eviction {
            Eviction::NoEviction => {
                assert!(refused > 1_000);
                assert_eq!((full.stats().oom_refusals, full.stats().evicted_keys, full.len()), (refused, 0, 62));
            }
            Eviction::EvictLeast => assert!(full.stats().evicted_keys > 20, "{:?}", full.stats()),
        }
    }
}

fn grow_logs_by_one(store: &mut Store, logs: u64, now: Micros) -> u64 {
    let refused = (0..logs).filter(|number| charge(store, &format!("{{t}}log{number}"), log(100_000), 1, now).is_err());
    refused.count() as u64
}

#[test]
fn a_refused_append_changes_nothing_and_looking_and_giving_back_go_on() {
    let mut full = store(400_000, Eviction::NoEviction);
    let (key, policy) = ("{t}log", log(100_000));
    let at = full.hasher().locate(key.as_bytes());
    let count = (0..).find(|unit| charge(&mut full, key, policy, 1, NOW + unit).is_err()).unwrap();
    let now = NOW + count;
    let (saved, version, memory) = (save(&mut full, key, now), full.slot_version(at.slot), full.memory_used());
    assert_eq!(charge(&mut full, key, policy, 1, now), Err(ChargeError::OutOfMemory));
    assert_eq!((save(&mut full, key, now), full.slot_version(at.slot)), (saved, version));
    assert_eq!((full.memory_used(), full.stats().oom_refusals), (memory, 2));
    assert_eq!(call(&mut full, key, policy, 1, Mode::Peek, now), Ok(1));
    // Charges of one moment share an entry.
    assert_eq!(charge(&mut full, key, policy, 5, now - 1), Ok(1));
    assert_eq!(call(&mut full, key, policy, 2, Mode::Refund, now), Ok(2));
    assert_eq!(call(&mut full, key, policy, 4, Mode::Refund, now), Ok(4));
    assert_eq!(charge(&mut full, key, policy, 1, now), Ok(1));
    // Once entries leave the window, new ones take their place.
    assert_eq!(charge(&mut full, key, policy, 1, NOW + MINUTE), Ok(1));
    assert!(full.memory_used() <= 400_000);
}

#[test]
fn a_log_that_grows_is_not_dropped_for_itself() {
    let mut full = store(400_000, Eviction::EvictLeast);
    for unit in 0..5_000 {
        let now = NOW + unit;
        let was_there = find(&mut full, "{t}little-used", now).is_some();
        let outcome = charge(&mut full, "{t}little-used", log(1_000_000), 1, now);
        assert!(find(&mut full, "{t}little-used", now).is_some() || (outcome.is_err() && !was_there), "{unit}");
        let _ = charge(&mut full, &format!("{{t}}other{unit}"), slide(10), 9, now);
        assert!(full.memory_used() <= 400_000);
    }
    let mut alone = store(300_000, Eviction::EvictLeast);
    let count = (0..).find(|unit| charge(&mut alone, "{t}log", log(1_000_000), 1, NOW + unit).is_err()).unwrap();
    let id = find(&mut alone, "{t}log", NOW + count).unwrap();
    let Some((_, StateRef::Log(kept))) = alone.limit(id) else { panic!("a log") };
    assert_eq!((kept.len() as u64, alone.stats().evicted_keys), (count, 0));
}

#[test]
fn policies_and_wide_buckets_of_old_keys_keep_to_the_bound() {
    for eviction in [Eviction::NoEviction, Eviction::EvictLeast] {
        let bound = 600_000;
        let mut full = store(bound, eviction);
        let names: Vec<String> = (0..8_000).map(|number| format!("{{t}}{number}")).collect();
        for name in &names {
            let _ = charge(&mut full, name, token(1_000), 900, NOW);
        }
        let mut refused = 0;
        for (name, number) in names.iter().zip(1..) {
            // Each key gets a rate of its own, and one that two words do not hold.
            let rate = Rate::new(1_000 + number, 86_399_999_983).unwrap();
            let policy = Policy::Token { capacity: 1_000_000, rate };
            refused += u64::from(charge(&mut full, name, policy, 1, NOW + 12_345).is_err());
            assert!(full.memory_used() <= bound);
        }
        assert!(refused > 0 || eviction == Eviction::EvictLeast, "{:?}", full.stats());
        assert_eq!(full.memory_used(), full.memory_recounted());
    }
}

#[test]
fn spare_pages_make_room_for_tables_and_logs() {
    let mut store = store(900_000, Eviction::NoEviction);
    for number in 0..3_000 {
        assert_eq!(charge(&mut store, &format!("{{t}}{number}{}", "x".repeat(60)), slide(10), 1, NOW), Ok(1));
    }
    let later = NOW + 3 * MINUTE;
    // What expired is swept by those who come, a few records each, and its pages serve logs.
    let refused = (0..12_000).filter(|unit| charge(&mut store, "{t}log", log(100_000), 1, later + unit).is_err());
    assert_eq!(refused.count(), 0);
    assert!(store.memory_used() <= 900_000);
}

#[test]
fn a_page_made_for_a_length_that_does_not_come_again_serves_another() {
    let mut full = store(700_000, Eviction::EvictLeast);
    for number in 0..12_000 {
        let _ = charge(&mut full, &format!("{{t}}{number}"), slide(100), 50, NOW);
    }
    let long = |length: usize| "k".repeat(length);
    assert_eq!(charge(&mut full, &long(200), slide(100), 50, NOW), Err(ChargeError::OutOfMemory));
    // As long as a page is missed, each new key drops one more than it needs, until there is one.
    let made =
        (12_000..16_000).filter(|number| charge(&mut full, &format!("{{t}}{number}"), slide(100), 50, NOW).is_ok());
    assert_eq!(made.count(), 4_000);
    let attempts = (1..300).find(|_| charge(&mut full, &long(900), slide(100), 50, NOW).is_ok());
    assert!(attempts.is_some());
    assert_eq!(full.memory_used(), full.memory_recounted());
}

#[test]
fn a_lowered_bound_is_come_down_to() {
    let mut lowered = store(0, Eviction::EvictLeast);
    for number in 0..20_000 {
        assert_eq!(charge(&mut lowered, &format!("{{t}}{number}"), slide(10), 1 + number % 10, NOW), Ok(1));
    }
    let bound = lowered.memory_used() * 3 / 4;
    lowered.set_memory_max(bound);
    let calls = (0..).find(|number| {
        let _ = charge(&mut lowered, &format!("{{t}}new{number}"), slide(10), 9, NOW);
        lowered.memory_used() <= bound
    });
    assert!(calls < Some(9_000), "{calls:?}");
}

/// One call of a random history.
#[derive(Clone, Copy, Debug)]
struct Act {
    key: usize,
    algorithm: u8,
    cost: u64,
    micros_before: u64,
}

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let micros_before = prop_oneof![20 => Just(1u64), 5 => 0..100_000u64, 1 => 0..2 * MINUTE];
    let act = (0..4_000usize, 0..8u8, 1..120u64, micros_before);
    let act = act.prop_map(|(key, algorithm, cost, micros_before)| Act { key, algorithm, cost, micros_before });
    prop::collection::vec(act, 100..400)
}

fn policy_of(algorithm: u8, key: usize) -> Policy {
    match algorithm {
        0..3 => slide(100),
        3 => slide(100 + key as u64),
        4 => token(100),
        _ => log(10_000),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(30))]

    /// Each act stands for a run of calls, so that a short history meets the bound over and over.
    #[test]
    fn at_the_bound_records_hold_what_was_written(
        acts in acts(),
        evicts in any::<bool>(),
        bound in 200_000..500_000u64,
    ) {
        let mut full = store(bound, if evicts { Eviction::EvictLeast } else { Eviction::NoEviction });
        let mut written: BTreeMap<String, Saved> = BTreeMap::new();
        let mut now = NOW;
        for act in &acts {
            now += act.micros_before;
            for place in 0..40 {
                now += 1;
                let number = act.key + if act.algorithm < 5 { place } else { place % 2 };
                let length = [2, 9, 30, 31, 120][number % 5];
                let key = format!("{{t{}}}{number}{}", number % 3, "z".repeat(length));
                let outcome = charge(&mut full, &key, policy_of(act.algorithm, number), act.cost, now);
                if outcome.is_ok_and(|allowed| allowed > 0) {
                    written.insert(key.clone(), save(&mut full, &key, now).unwrap());
                }
                prop_assert!(full.memory_used() <= bound);
            }
        }
        prop_assert_eq!(full.memory_used(), full.memory_recounted());
        let mut met = BTreeSet::new();
        let mut twice = false;
        let _ = full.for_each(now, &mut |id, key| {
            let key = String::from_utf8_lossy(key).into_owned();
            twice |= !full.is_same(id, &written[&key]) || !met.insert(key);
            std::ops::ControlFlow::Continue(())
        });
        prop_assert!(!twice);
        prop_assert!(met.iter().all(|key| find(&mut full, key, now).is_some()));
        prop_assert!(evicts || full.stats().evicted_keys == 0);
    }
}
