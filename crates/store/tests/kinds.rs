//! Every kind of record through real decisions: written, read back, widened, undone and given back to the byte.

#![allow(clippy::unwrap_used)]

use tollgate_limits::{Ask, Micros, Mode, Policy, Rate, Window, decide};
use tollgate_store::{Eviction, Store, StoreConfig};

const NOW: Micros = 1_577_836_800_000_000;

fn store() -> Store {
    Store::new(StoreConfig {
        hash_seed: [1, 2, 3, 4],
        core: 0,
        cores: 1,
        memory_max_bytes: 0,
        eviction: Eviction::NoEviction,
        random_seed: 9,
    })
}

fn policies() -> Vec<Policy> {
    let window = Window::new(60_000_000).unwrap();
    let plain = Rate::new(10, 1_000_000).unwrap();
    // So many tokens in lowest terms that a part of a microsecond does not fit one word.
    let ugly = Rate::new(123_456_789_012_343, 7 * 7 * 86_400 * 1_000_000).unwrap();
    let capacity = 1_000_000_000_000;
    vec![
        Policy::Slide { limit: 100, window },
        Policy::Fixed { limit: 100, window },
        Policy::Log { limit: 100, window },
        Policy::Token { capacity, rate: plain },
        Policy::Leak { capacity, rate: plain },
        Policy::Token { capacity, rate: ugly },
        Policy::Leak { capacity, rate: ugly },
    ]
}

/// One call, as the engine makes it. Returns what was allowed; `None` for a record of another algorithm.
fn call(store: &mut Store, key: &str, policy: Policy, cost: u64, mode: Mode, now: Micros) -> Option<u64> {
    let at = store.hasher().locate(key.as_bytes());
    let id = store.find(at, key.as_bytes(), now);
    let outcome = decide(id.and_then(|id| store.limit(id)), &Ask { policy, cost, mode }, now)?;
    match id {
        Some(id) => drop(store.apply(at, id, &policy, &outcome.change)),
        None => drop(store.insert(at, key.as_bytes(), &policy, &outcome.change, now).unwrap()),
    }
    assert_eq!(store.memory_used(), store.memory_recounted());
    Some(outcome.decision.allowed)
}

#[test]
fn every_kind_keeps_its_state() {
    for policy in policies() {
        let mut store = store();
        for length in [1, 7, 8, 9, 24, 200] {
            let key = "k".repeat(length);
            for step in 0..10 {
                assert_eq!(
                    call(&mut store, &key, policy, policy.limit() / 10, Mode::Charge, NOW + step),
                    Some(1),
                    "{policy:?}"
                );
            }
            let id = store.find(store.hasher().locate(key.as_bytes()), key.as_bytes(), NOW + 10).unwrap();
            let end = store.expires_at(id).unwrap();
            assert!(store.find(store.hasher().locate(key.as_bytes()), key.as_bytes(), end - 1).is_some());
            assert!(store.find(store.hasher().locate(key.as_bytes()), key.as_bytes(), end).is_none());
            assert_eq!(store.len(), 0);
        }
    }
}

#[test]
fn a_bucket_widens_when_its_rate_asks_for_it() {
    let all = policies();
    for (narrow, wide) in [(all[3], all[5]), (all[4], all[6])] {
        let mut store = store();
        let key = "bucket";
        let at = store.hasher().locate(key.as_bytes());
        call(&mut store, key, narrow, 1_000, Mode::Charge, NOW);
        let id = store.find(at, key.as_bytes(), NOW).unwrap();
        let (bytes, saved) = (store.record_bytes(id), store.save(id).unwrap());
        assert_eq!(call(&mut store, key, wide, 1_000_001, Mode::Charge, NOW + 3), Some(1));
        let id = store.find(at, key.as_bytes(), NOW + 3).unwrap();
        assert_eq!(store.limit(id).map(|(policy, _)| *policy), Some(wide));
        assert_eq!((store.record_bytes(id), store.key(id)), (bytes + 16, key.as_bytes()));
        assert!(!store.is_same(id, &saved));
        // It stays wide at a plain rate, and an undo makes it what it was.
        assert_eq!(call(&mut store, key, narrow, 1, Mode::Charge, NOW + 4), Some(1));
        let id = store.find(at, key.as_bytes(), NOW + 4).unwrap();
        let id = store.restore(at, key.as_bytes(), Some(id), Some(&saved)).unwrap();
        assert!(store.is_same(id, &saved));
        assert_eq!((store.record_bytes(id), store.len()), (bytes, 1));
        assert_eq!(store.memory_used(), store.memory_recounted());
    }
}

#[test]
fn an_undone_log_is_what_it_was() {
    let (mut store, log) = (store(), policies()[2]);
    let at = store.hasher().locate(b"log");
    for step in 0..30 {
        call(&mut store, "log", log, 1, Mode::Charge, NOW + step);
    }
    let id = store.find(at, b"log", NOW + 30).unwrap();
    let saved = store.save(id).unwrap();
    call(&mut store, "log", log, 70, Mode::Charge, NOW + 30);
    assert_eq!(call(&mut store, "log", log, 1, Mode::Charge, NOW + 30), Some(0));
    let id = store.find(at, b"log", NOW + 30).unwrap();
    assert!(!store.is_same(id, &saved));
    let id = store.restore(at, b"log", Some(id), Some(&saved)).unwrap();
    assert!(store.is_same(id, &saved));
    assert_eq!(call(&mut store, "log", log, 70, Mode::Charge, NOW + 30), Some(1));
    assert_eq!(call(&mut store, "log", log, 100, Mode::Refund, NOW + 30), Some(100));
    assert_eq!((store.len(), store.stats().body_bytes < 1_000), (0, true));
    assert_eq!(store.restore(at, b"log", None, None), None);
}

#[test]
fn another_algorithm_is_not_touched() {
    let mut store = store();
    for policy in policies() {
        call(&mut store, policy.algorithm().word(), policy, 10, Mode::Charge, NOW);
    }
    let saved = store.stats();
    for key in ["SLIDE", "FIXED", "LOG", "TOKEN", "LEAK"] {
        for policy in policies().into_iter().filter(|policy| policy.algorithm().word() != key) {
            assert_eq!(call(&mut store, key, policy, 1, Mode::Charge, NOW), None);
        }
    }
    assert_eq!(store.stats(), saved);
}

#[test]
fn many_policies_are_counted_and_forgotten() {
    let mut store = store();
    for number in 0..3_000u64 {
        let window = Window::new(1_000_000 + number).unwrap();
        let key = format!("{number}");
        call(&mut store, &key, Policy::Fixed { limit: 5, window }, 1, Mode::Charge, NOW);
        if number % 500 == 0 {
            assert_eq!(store.stats().policies, number + 1);
        }
    }
    while !store.sweep(NOW + 10_000_000, 100).wrapped {}
    assert_eq!((store.len(), store.stats().policies), (0, 0));
    assert_eq!(store.memory_used(), store.memory_recounted());
}
