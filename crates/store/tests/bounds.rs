//! The memory bound, steps, SCAN while keys come, and what becomes of each kind of record.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;
use tollgate_limits::{Change, Micros, Policy, Slide, StateRef, Under, Window};
use tollgate_store::{Eviction, OutOfMemory, RecordId, SLOTS, SlotState, Store, StoreConfig, cursor_slot, slot_cursor};

const NOW: Micros = 1_577_836_800_000_000;

fn store(core: u16, cores: u16, memory_max_bytes: u64, eviction: Eviction) -> Store {
    Store::new(StoreConfig { hash_seed: [1, 2, 3, 4], core, cores, memory_max_bytes, eviction, random_seed: 9 })
}

fn policy(limit: u64, window_micros: u64) -> Policy {
    Policy::Slide { limit, window: Window::new(window_micros).unwrap() }
}

/// Makes `key` hold `units` of 100 in a window of a minute.
fn put(store: &mut Store, key: &str, units: u64, now: Micros) -> Result<Option<RecordId>, OutOfMemory> {
    let asked = policy(100, 60_000_000);
    let change = Change::Slide(Under::Asked, Slide { index: now / 60_000_000, cur: units, prev: 0 });
    let at = store.hasher().locate(key.as_bytes());
    match store.find(at, key.as_bytes(), now) {
        Some(id) => Ok(store.apply(at, id, &asked, &change)),
        None => store.insert(at, key.as_bytes(), &asked, &change, now),
    }
}

fn find(store: &mut Store, key: &str, now: Micros) -> Option<RecordId> {
    let at = store.hasher().locate(key.as_bytes());
    store.sight(at);
    store.find(at, key.as_bytes(), now)
}

fn everything(store: &Store, now: Micros) -> BTreeSet<(Vec<u8>, u64)> {
    let mut all = BTreeSet::new();
    let _ = store.for_each(now, &mut |id, key| {
        if let Some((_, StateRef::Slide(slide))) = store.limit(id) {
            all.insert((key.to_vec(), slide.cur));
        }
        std::ops::ControlFlow::Continue(())
    });
    all
}

#[test]
fn an_empty_store_is_small() {
    let mut empty = store(0, 1, 0, Eviction::NoEviction);
    assert_eq!((empty.memory_used(), empty.len()), (0, 0));
    put(&mut empty, "one", 1, NOW).unwrap();
    assert!(empty.memory_used() < 100_000);
    assert_eq!(empty.flush(), 1);
    assert_eq!(find(&mut empty, "one", NOW), None);
}

#[test]
fn refused_keys_change_nothing() {
    let mut full = store(0, 1, 4_000_000, Eviction::NoEviction);
    let made = (0..100_000).take_while(|number| put(&mut full, &format!("key:{number:08}"), 5, NOW).is_ok()).count();
    assert!(made > 40_000, "{made}");
    let (before, memory, version) = (everything(&full, NOW), full.memory_used(), full.slot_version(full_slot(made)));
    assert_eq!(put(&mut full, &format!("key:{made:08}"), 5, NOW), Err(OutOfMemory));
    assert_eq!(full.slot_version(full_slot(made)), version);
    assert_eq!((everything(&full, NOW), full.memory_used()), (before, memory));
    assert!(full.memory_used() <= 4_000_000);
    assert_eq!((full.stats().oom_refusals, full.stats().evicted_keys), (2, 0));
    // Calls on what exists go on, and expired keys make room for new ones.
    assert!(put(&mut full, "key:00000000", 6, NOW).is_ok());
    let later = NOW + 120_000_000;
    assert!(put(&mut full, "key:new", 1, later).is_ok());
    full.set_memory_max(0);
    assert!((0..100).all(|number| put(&mut full, &format!("more:{number}"), 1, later).is_ok()));
}

fn full_slot(number: usize) -> u16 {
    tollgate_store::slot_of(format!("key:{number:08}").as_bytes())
}

#[test]
fn eviction_drops_what_frees_least() {
    let mut full = store(0, 1, 4_000_000, Eviction::EvictLeast);
    for number in 0..150_000u64 {
        // One key in ten is nearly unused.
        let units = if number % 10 == 0 { 1 } else { 90 };
        put(&mut full, &format!("key:{number:08}"), units, NOW).unwrap();
        assert!(full.memory_used() <= 4_000_000);
    }
    let stats = full.stats();
    assert_eq!((stats.oom_refusals, stats.evicted_keys + stats.keys), (0, 150_000));
    // A sample of 16 has an unused one among it in four of five cases, so long as there are any.
    let unused = everything(&full, NOW).iter().filter(|(_, units)| *units == 1).count() as u64;
    assert!(unused * 40 < stats.keys, "{unused} of {}", stats.keys);
    assert!(stats.evicted_units > stats.evicted_keys);
}

#[test]
fn eviction_makes_room_for_keys_of_any_length() {
    for (memory_max, keys) in [(2_600_000, 36_000), (3_000_000, 40_000), (3_000_000, 44_000), (3_600_000, 60_000)] {
        let mut full = store(0, 1, memory_max, Eviction::EvictLeast);
        for number in 0..keys {
            put(&mut full, &format!("k{number}"), 50, NOW).unwrap();
        }
        for length in [1, 30, 90, 200, 300, 400, 600, 999] {
            let key = "y".repeat(length);
            // The first key of its length waits until sixteen records a call have made up a page of short ones.
            let mut evicted = full.stats().evicted_keys;
            let attempts = (1..300).find(|_| {
                let outcome = put(&mut full, &key, 50, NOW);
                let evicted_before = std::mem::replace(&mut evicted, full.stats().evicted_keys);
                assert!(evicted - evicted_before <= 16 && full.memory_used() <= memory_max);
                outcome.is_ok()
            });
            assert!(attempts.is_some(), "{length} bytes under {memory_max}");
            assert!(find(&mut full, &key, NOW).is_some());
        }
        assert_eq!(full.memory_used(), full.memory_recounted());
    }
}

#[test]
fn sampling_repeats_with_its_seed() {
    let run = || {
        let mut full = store(0, 1, 2_500_000, Eviction::EvictLeast);
        for number in 0..30_000 {
            put(&mut full, &format!("{number}"), number % 100 + 1, NOW).unwrap();
        }
        assert!(full.stats().evicted_keys > 1_000);
        everything(&full, NOW)
    };
    assert_eq!(run(), run());
}

#[test]
fn a_hot_tag_grows_in_small_steps_and_shrinks_again() {
    let mut hot = store(0, 1, 0, Eviction::NoEviction);
    for number in 0..60_000 {
        put(&mut hot, &format!("{{hot}}{number}"), 1, NOW).unwrap();
    }
    assert!(hot.stats().moved_max <= 1_200, "{}", hot.stats().moved_max);
    assert!(hot.stats().splits > 60);
    assert_eq!(hot.slot_len(tollgate_store::slot_of(b"hot"), NOW), 60_000);
    let later = NOW + 120_000_000;
    assert_eq!(hot.slot_len(tollgate_store::slot_of(b"hot"), later), 0);
    while !hot.sweep(later, 1_000).wrapped {}
    assert_eq!((hot.len(), hot.stats().index_bytes, hot.stats().expired), (0, 0, 60_000));
    assert!(hot.memory_used() < 1_000_000);
}

/// So many shares of a pass are one pass.
const SHARES: u64 = 80;

/// Spends one share of a pass.
fn sweep_share(store: &mut Store, now: Micros) -> bool {
    let budget = usize::try_from(store.sweep_work() / SHARES + 1).unwrap();
    store.sweep(now, budget).wrapped
}

#[test]
fn all_that_expires_is_gone_after_as_many_shares_as_a_pass_has() {
    for begun in [0, 20, 40, 79] {
        let mut swept = store(0, 1, 0, Eviction::NoEviction);
        for number in 0..100_000 {
            put(&mut swept, &format!("{number}"), 1, NOW).unwrap();
        }
        while !sweep_share(&mut swept, NOW) {}
        let whole = swept.sweep_work();
        assert!((0..begun).all(|_| !sweep_share(&mut swept, NOW)), "nothing is freed: the pass is {SHARES} shares");
        let later = NOW + 120_000_000;
        let shares = (1..).find(|_| {
            sweep_share(&mut swept, later);
            swept.is_empty()
        });
        assert!(shares.unwrap() <= SHARES + 1, "{shares:?} after {begun}");
        assert_eq!(swept.sweep_work(), whole);
        // Whoever looks at nothing twice looks at nothing.
        let passes = (0..4).filter(|_| swept.sweep(later, 100_000).wrapped).count();
        assert_eq!(passes, 4);
        assert!(swept.sweep_work() < 1_000, "{}", swept.sweep_work());
    }
}

#[test]
fn what_was_flushed_keeps_no_expired_key_waiting() {
    let mut flushed = store(0, 1, 0, Eviction::NoEviction);
    for number in 0..30_000 {
        put(&mut flushed, &format!("{number}"), 1, NOW).unwrap();
    }
    flushed.flush();
    for number in 0..500 {
        put(&mut flushed, &format!("{number}"), 1, NOW).unwrap();
    }
    let used = flushed.memory_used();
    flushed.sweep(NOW + 120_000_000, 1_000);
    assert!(flushed.is_empty() && flushed.memory_used() < used);
}

#[test]
fn scan_meets_all_that_stay_while_keys_come() {
    for cores in [1, 2, 3] {
        let mut stores: Vec<Store> = (0..cores).map(|core| store(core, cores, 0, Eviction::NoEviction)).collect();
        stores.iter_mut().for_each(|store| store.set_split_load(3));
        let add = |stores: &mut Vec<Store>, key: &str| {
            let slot = tollgate_store::slot_of(key.as_bytes());
            let owner = stores.iter_mut().find(|store| store.owns(slot)).unwrap();
            put(owner, key, 1, NOW).unwrap();
        };
        let first: BTreeSet<String> = (0..300).flat_map(|n| [format!("{{hot}}{n}"), format!("cold{n}")]).collect();
        first.iter().for_each(|key| add(&mut stores, key));
        let (mut met, mut come, mut calls) = (BTreeSet::new(), 0, 0);
        for core in 0..usize::from(cores) {
            let mut cursor = stores[core].first_cursor();
            while let Some(at) = cursor {
                assert!(cursor_slot(at).is_some_and(|slot| stores[core].owns(slot)));
                cursor = stores[core].scan(at, 10, NOW, &mut |_, key| {
                    met.insert(key.to_vec());
                });
                (0..5).for_each(|n| add(&mut stores, &format!("{{hot}}new{}", come + n)));
                come += 5;
                calls += 1;
            }
        }
        assert!(first.iter().all(|key| met.contains(key.as_bytes())));
        assert!(calls > 50);
    }
}

#[test]
fn cursors_are_slots() {
    assert_eq!(cursor_slot(slot_cursor(16_383)), Some(16_383));
    assert_eq!(cursor_slot(u32::MAX), None);
    assert!(slot_cursor(SLOTS - 1) < 1 << 31);
    let cases = [(0, 1, Some(0)), (1, 2, Some(64)), (3, 4, Some(192)), (255, 256, Some(16_320)), (300, 301, None)];
    for (core, cores, slot) in cases {
        assert_eq!(store(core, cores, 0, Eviction::NoEviction).first_cursor(), slot.map(slot_cursor), "{core}");
    }
    let empty = store(1, 2, 0, Eviction::NoEviction);
    assert_eq!(empty.scan(0, 10, NOW, &mut |_, _| ()), None);
    assert_eq!(empty.scan(u32::MAX, 10, NOW, &mut |_, _| ()), None);
}

#[test]
fn changes_that_write_nothing() {
    let mut quiet = store(0, 1, 0, Eviction::NoEviction);
    let at = quiet.hasher().locate(b"key");
    let asked = policy(10, 1_000_000);
    let slide = Slide { index: NOW / 1_000_000, cur: 1, prev: 0 };
    for change in [Change::Keep, Change::Remove, Change::Slide(Under::Stored, slide)] {
        assert_eq!(quiet.insert(at, b"key", &asked, &change, NOW), Ok(None));
    }
    let id = quiet.insert(at, b"key", &asked, &Change::Slide(Under::Asked, slide), NOW).unwrap().unwrap();
    let version = quiet.slot_version(at.slot);
    quiet.copied(id);
    assert_eq!(quiet.apply(at, id, &policy(99, 5_000_000), &Change::Keep), Some(id));
    assert_eq!((quiet.slot_version(at.slot), quiet.is_dirty(id)), (version, false));
    assert_eq!(quiet.apply(at, id, &policy(99, 5_000_000), &Change::Slide(Under::Stored, slide)), Some(id));
    assert_eq!(quiet.limit(id).map(|(policy, _)| *policy), Some(asked));
    assert_eq!((quiet.slot_version(at.slot), quiet.is_dirty(id)), (version + 1, true));
    assert_eq!(quiet.apply(at, id, &asked, &Change::Remove), None);
    assert_eq!((quiet.len(), quiet.slot_version(at.slot)), (0, version + 2));
    assert_eq!(quiet.slot_state(at.slot), SlotState::Owned);
    quiet.set_slot_state(at.slot, SlotState::Frozen);
    assert_eq!(quiet.slot_state(at.slot), SlotState::Frozen);
}

#[test]
fn a_key_that_no_record_holds_is_refused() {
    let mut small = store(0, 1, 0, Eviction::NoEviction);
    let longest = "k".repeat(tollgate_store::KEY_BYTES_MAX);
    assert!(put(&mut small, &longest, 1, NOW).is_ok());
    assert!(find(&mut small, &longest, NOW).is_some());
    assert_eq!(put(&mut small, &format!("{longest}k"), 1, NOW), Err(OutOfMemory));
    assert!(put(&mut small, "", 1, NOW).is_ok() && find(&mut small, "", NOW).is_some());
}
