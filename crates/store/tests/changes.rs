//! Changes: a copy that is told them holds what the store holds.

#![allow(clippy::unwrap_used, reason = "an unwrap that fails is a test that fails")]

use proptest::prelude::*;
use std::collections::BTreeMap;
use tollgate_limits::{Ask, Charge, Log, Micros, Mode, Policy, Rate, StateRef, Window, undo};
use tollgate_store::{Content, Eviction, Holding, KeyChange, Located, RecordId, Store, StoreConfig, Value};

const NOW: Micros = 1_577_836_800_000_000;

fn store(memory_max_bytes: u64) -> Store {
    let mut store = Store::new(StoreConfig {
        hash_seed: [1, 2, 3, 4],
        core: 0,
        cores: 1,
        memory_max_bytes,
        eviction: Eviction::EvictLeast,
        random_seed: 1,
    });
    store.set_split_load(5);
    store
}

type Held = BTreeMap<Vec<u8>, Content>;

/// Every record that has not expired.
fn held(store: &Store, now: Micros) -> Held {
    let mut held = Held::new();
    let _ = store.for_each(now, &mut |id, key| {
        held.insert(key.to_vec(), store.content(id));
        std::ops::ControlFlow::Continue(())
    });
    held
}

/// A copy in the making: a walk that goes on after each taking of changes.
struct Copy {
    held: Held,
    cursor: Option<u32>,
    told: usize,
    /// Of them, logs that were told by their ends.
    pieces: usize,
}

/// Takes over only what is later than `told`; where no log is known, the walk will come to it.
fn grow(held: &mut Held, key: &[u8], policy: &Policy, log: &Log, told: Micros) {
    let Some(content) = held.get_mut(key) else { return };
    let Holding::Limit(Policy::Log { .. }, StateRef::Log(known)) = content.holding() else { return };
    let kept = known.entries().filter(|(at, _)| log.dropped_through() < *at && *at <= told);
    let charges: Vec<_> = kept.chain(log.entries().filter(|(at, _)| *at > told)).collect();
    let grown = Log::of(log.dropped_through(), &charges).unwrap();
    *content = Content::of(Holding::Limit(policy, StateRef::Log(&grown)));
}

impl Copy {
    fn of(store: &mut Store) -> Copy {
        store.track_changes(true);
        Copy { held: Held::new(), cursor: store.first_cursor(), told: 0, pieces: 0 }
    }

    fn take(&mut self, store: &mut Store, now: Micros) {
        let held = &mut self.held;
        let (mut told, mut pieces) = (0, 0);
        store
            .take_changes(now, &mut |change| {
                told += 1;
                match change {
                    KeyChange::Clear => held.clear(),
                    KeyChange::Gone(key) => drop(held.remove(key)),
                    KeyChange::Holds(key, holding) => drop(held.insert(key.to_vec(), Content::of(holding))),
                    KeyChange::HoldsMore(key, policy, log, told) => {
                        pieces += 1;
                        grow(held, key, policy, log, told);
                    }
                }
            })
            .unwrap();
        self.told += told;
        self.pieces += pieces;
    }

    fn step(&mut self, store: &mut Store, now: Micros) {
        self.take(store, now);
        let Some(cursor) = self.cursor else { return };
        let mut met: Vec<RecordId> = Vec::new();
        let held = &mut self.held;
        self.cursor = store.scan(cursor, 3, now, &mut |id, key| {
            held.insert(key.to_vec(), store.content(id));
            met.push(id);
        });
        met.into_iter().for_each(|id| store.copied(id));
    }
}

/// Undoes a charge of a unit that was made then, if one was.
fn take_off(store: &mut Store, at: Located, id: RecordId, then: Micros, now: Micros) {
    let Some((policy, state)) = store.limit(id) else { return };
    let policy = *policy;
    let change = undo(Some((&policy, state)), &Charge { policy, units: 1, at: then }, now);
    store.apply(at, id, &policy, &change);
}

fn policy(choice: u8) -> Policy {
    let (window, rate) = (Window::new(50_000_000).unwrap(), Rate::new(7, 3_000_000).unwrap());
    match choice % 5 {
        0 => Policy::Slide { limit: 1_000, window },
        1 => Policy::Fixed { limit: 1_000, window },
        2 => Policy::Log { limit: 1_000, window },
        3 => Policy::Token { capacity: 1_000_000_000_000, rate },
        _ => Policy::Leak { capacity: 1_000, rate },
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    /// Whatever is done to a store, in whatever order with the walk of the copy.
    #[test]
    fn a_copy_holds_what_the_store_holds(
        steps in prop::collection::vec((0u8..40, any::<u8>(), 0u64..3_000_000), 1..400),
        is_bounded: bool,
    ) {
        let mut store = store(if is_bounded { 400_000 } else { 0 });
        let mut copy: Option<Copy> = None;
        let mut now = NOW;
        for (step, choice, pause) in steps {
            now += pause;
            let key = format!("key:{}", choice % 60);
            let key = key.as_bytes();
            let at = store.hasher().locate(key);
            let found = store.find(at, key, now);
            match (step, found) {
                (2, Some(id)) if choice > 200 => take_off(&mut store, at, id, now - pause, now),
                (7 | 12, _) if choice > 90 => {
                    let mode = if choice > 150 { Mode::Refund } else { Mode::Charge };
                    let limit = if choice > 140 { 1_000 } else { 900 };
                    let window = Window::new(if choice > 130 { 50_000_000 } else { 60_000_000 }).unwrap();
                    let ask = Ask { policy: Policy::Log { limit, window }, cost: 1 + pause % 5, mode };
                    let _ = store.charge(at, key, &ask, now);
                }
                (0..15, _) => {
                    let ask = Ask { policy: policy(step), cost: 1 + pause * u64::from(step > 10), mode: Mode::Charge };
                    let _ = store.charge(at, key, &ask, now);
                }
                (15..18, Some(id)) => store.remove(at, id),
                (18..22, found) if found.is_none_or(|id| store.value(id).is_some()) => {
                    let text = "x".repeat(usize::from(choice) * usize::from(step % 2));
                    let expires_at = (step == 20).then_some(now + 2_000_000);
                    let _ = store.put_value(at, key, found, Value::of(text.as_bytes()), expires_at, now);
                }
                (22, Some(id)) => drop(store.set_expiry(at, id, Some(now + 1_000_000))),
                (23, Some(id)) => drop(store.set_integer(at, id, 5)),
                (24, Some(id)) => {
                    let content = store.content(id);
                    let _ = store.put_content(at, key, Some(id), &content, true, now);
                }
                (25, Some(id)) => {
                    let saved = store.save(id);
                    if saved.is_some() {
                        store.restore(at, key, Some(id), saved.as_ref());
                    }
                }
                (26..30, _) => drop(store.sweep(now, 40)),
                (30, _) if choice < 8 => drop(store.flush()),
                (31, _) => copy = Some(Copy::of(&mut store)),
                (32.., _) => if let Some(copy) = &mut copy {
                    copy.step(&mut store, now);
                },
                _ => {}
            }
        }
        let mut copy = copy.unwrap_or_else(|| Copy::of(&mut store));
        while copy.cursor.is_some() {
            copy.step(&mut store, now);
        }
        copy.take(&mut store, now);
        // What has expired the copy finds by itself.
        let mut second = self::store(0);
        for (key, content) in &copy.held {
            let at = second.hasher().locate(key);
            second.put_content(at, key, None, content, true, now).unwrap();
        }
        prop_assert_eq!(held(&second, now), held(&store, now));
    }
}

#[test]
fn a_hot_key_is_told_once_and_an_untold_store_keeps_no_list() {
    let mut store = store(0);
    let ask = Ask { policy: policy(0), cost: 0, mode: Mode::Charge };
    let ask = Ask { cost: 1, ..ask };
    let at = store.hasher().locate(b"hot");
    let mut copy = Copy::of(&mut store);
    for _ in 0..4 {
        for _ in 0..100 {
            store.charge(at, b"hot", &ask, NOW).unwrap();
        }
        copy.step(&mut store, NOW);
    }
    assert_eq!(copy.told, 4);
    store.track_changes(false);
    for _ in 0..100 {
        store.charge(at, b"hot", &ask, NOW).unwrap();
    }
    let mut told = 0;
    store.take_changes(NOW, &mut |_| told += 1).unwrap();
    assert_eq!(told, 0);
}

/// However long it is: what was charged since, and that again which charges of its moment might have joined.
#[test]
fn a_log_is_told_by_what_came_to_it() {
    let mut store = store(0);
    let at = store.hasher().locate(b"log");
    let window = Window::new(50_000_000).unwrap();
    let charge = |store: &mut Store, limit, window, mode, now| {
        store.charge(at, b"log", &Ask { policy: Policy::Log { limit, window }, cost: 1, mode }, now).unwrap();
    };
    let told = |store: &mut Store| {
        let mut told = Vec::new();
        let mut count = |change: KeyChange<'_>| match change {
            KeyChange::HoldsMore(_, _, log, through) => told.push(log.entries_after(through).len()),
            KeyChange::Holds(_, Holding::Limit(_, StateRef::Log(log))) => told.push(log.len()),
            _ => panic!("nothing else is there"),
        };
        store.take_changes(NOW, &mut count).unwrap();
        told
    };
    (0..500).for_each(|step| charge(&mut store, 5_000, window, Mode::Charge, NOW + step));
    store.track_changes(true);
    // A walk passes.
    let id = store.find(at, b"log", NOW).unwrap();
    store.copied(id);
    assert_eq!(told(&mut store), [0; 0]);
    (500..510).for_each(|step| charge(&mut store, 5_000, window, Mode::Charge, NOW + step));
    assert_eq!(told(&mut store), [11]);
    charge(&mut store, 5_000, window, Mode::Charge, NOW + 509);
    assert_eq!(told(&mut store), [1]);
    charge(&mut store, 4_999, window, Mode::Charge, NOW + 510);
    assert_eq!(told(&mut store), [2], "another limit");
    (0..4).for_each(|_| charge(&mut store, 5_000, window, Mode::Refund, NOW + 511));
    assert_eq!(told(&mut store), [1], "three of the newest four are gone, and the fourth is told again");
    let other = Window::new(60_000_000).unwrap();
    charge(&mut store, 5_000, other, Mode::Charge, NOW + 512);
    assert_eq!(told(&mut store), [509], "another window");
    // Put in anew it is told whole, be it the same.
    let id = store.find(at, b"log", NOW).unwrap();
    let content = store.content(id);
    store.put_content(at, b"log", Some(id), &content, true, NOW).unwrap();
    assert_eq!(told(&mut store), [509]);
    // What is taken from elsewhere is no longer as it was told.
    let piece = Log::of(NOW + 400, &[(NOW + 450, 2), (NOW + 512, 2)]).unwrap();
    let limit = Policy::Log { limit: 5_000, window: other };
    let piece = Content::of(Holding::Limit(&limit, StateRef::Log(&piece)));
    let id = store.find(at, b"log", NOW).unwrap();
    assert!(store.join_piece(at, id, &piece, NOW + 440));
    assert_eq!(told(&mut store), [2], "{:?}", store.holding(id));
    assert!(!store.join_piece(at, id, &piece, NOW + 450), "it begins later");
    assert_eq!(told(&mut store), [0; 0]);
    // What was told of all that is left has gone.
    charge(&mut store, 5_000, other, Mode::Charge, NOW + 60_000_400);
    charge(&mut store, 5_000, other, Mode::Charge, NOW + 60_000_512);
    assert_eq!(told(&mut store), [2]);
    assert_eq!(store.memory_used(), store.memory_recounted());
}

#[test]
fn too_many_changes_are_said_to_be_and_take_no_memory() {
    let mut store = store(0);
    store.track_changes(true);
    for number in 0..600_000u64 {
        let key = format!("key:{number}:{}", "k".repeat(20));
        let at = store.hasher().locate(key.as_bytes());
        let id = store.put_value(at, key.as_bytes(), None, Value::Integer(1), None, NOW).unwrap();
        store.remove(at, id);
    }
    assert!(store.take_changes(NOW, &mut |_| panic!("none are shown")).is_err());
    // From there on they are kept again.
    let at = store.hasher().locate(b"k");
    store.put_value(at, b"k", None, Value::Integer(1), None, NOW).unwrap();
    let mut told = 0;
    store.take_changes(NOW, &mut |_| told += 1).unwrap();
    assert_eq!(told, 1);
}

/// Keys of one length, their removal in part, and keys of another length, all at the bound: records are evicted, or
/// moved so that pages come free, while a copy is kept.
#[test]
fn a_copy_is_told_of_what_is_moved_or_evicted_to_make_room() {
    for eviction in [Eviction::EvictLeast, Eviction::NoEviction] {
        let mut store = Store::new(StoreConfig {
            hash_seed: [1, 2, 3, 4],
            core: 0,
            cores: 1,
            memory_max_bytes: 2_000_000,
            eviction,
            random_seed: 1,
        });
        let mut copy = Copy::of(&mut store);
        let put = |store: &mut Store, number: usize, length: usize| {
            let key = format!("{number:0length$}");
            let at = store.hasher().locate(key.as_bytes());
            let ask = Ask { policy: policy(0), cost: 1, mode: Mode::Charge };
            store.charge(at, key.as_bytes(), &ask, NOW).is_ok()
        };
        for number in 0..30_000 {
            put(&mut store, number, 20);
            if number % 1_000 == 0 {
                copy.step(&mut store, NOW);
            }
        }
        while copy.cursor.is_some() {
            copy.step(&mut store, NOW);
        }
        let keys: Vec<Vec<u8>> = held(&store, NOW).into_keys().collect();
        for key in keys.iter().enumerate().filter(|(number, _)| number % 3 > 0).map(|(_, key)| key) {
            let at = store.hasher().locate(key);
            let id = store.find(at, key, NOW).unwrap();
            store.remove(at, id);
        }
        copy.take(&mut store, NOW);
        // What is written now is to be told, and may be moved before it is.
        for number in 0..30_000 {
            put(&mut store, number % 3_000, 20);
            put(&mut store, number, 90);
            if number % 700 == 0 {
                copy.take(&mut store, NOW);
            }
        }
        copy.take(&mut store, NOW);
        assert_eq!(copy.held, held(&store, NOW), "{eviction:?}");
        assert!(store.stats().evicted_keys > 100 || eviction == Eviction::NoEviction);
    }
}
