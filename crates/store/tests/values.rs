//! Plain values beside limits, against a map: what is read, when it expires, what it costs, whether it was touched.

#![allow(clippy::unwrap_used)]

use proptest::prelude::*;
use std::collections::BTreeMap;
use tollgate_limits::{Ask, Micros, Mode, Policy, Window};
use tollgate_store::{ChargeError, Content, Eviction, RecordId, Store, StoreConfig, Value, Watch};

const START: Micros = 1_577_836_800_000_000;
const KEYS: u8 = 6;

fn store(memory_max_bytes: u64, eviction: Eviction) -> Store {
    let hash_seed = [1, 2, 3, 4];
    Store::new(StoreConfig { hash_seed, core: 0, cores: 1, memory_max_bytes, eviction, random_seed: 9 })
}

/// All keys lie in one slot, so that a change of one raises the version that the others see.
fn name(key: u8) -> Vec<u8> {
    format!("{{t}}{key}").into_bytes()
}

fn ask() -> Ask {
    Ask { policy: Policy::Slide { limit: 5, window: Window::new(1_000).unwrap() }, cost: 1, mode: Mode::Charge }
}

#[derive(Clone, Debug)]
enum Step {
    Put { key: u8, bytes: Vec<u8>, lasts: Option<u64> },
    Count { key: u8, number: i64 },
    Expire { key: u8, lasts: Option<u64> },
    Remove { key: u8 },
    Charge { key: u8 },
    Move { from: u8, to: u8 },
    Watch { key: u8 },
    Pass { micros: u64 },
    Sweep,
    Flush,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let key = || 0..KEYS;
    let lasts = || proptest::option::of(1..2_000u64);
    let bytes = prop_oneof![
        any::<i64>().prop_map(|number| number.to_string().into_bytes()),
        proptest::collection::vec(any::<u8>(), 0..40),
        (0..70_000usize).prop_map(|length| vec![b'x'; length]),
    ];
    let step = prop_oneof![
        6 => (key(), bytes, lasts()).prop_map(|(key, bytes, lasts)| Step::Put { key, bytes, lasts }),
        3 => (key(), any::<i64>()).prop_map(|(key, number)| Step::Count { key, number }),
        2 => (key(), lasts()).prop_map(|(key, lasts)| Step::Expire { key, lasts }),
        2 => key().prop_map(|key| Step::Remove { key }),
        2 => key().prop_map(|key| Step::Charge { key }),
        2 => (key(), key()).prop_map(|(from, to)| Step::Move { from, to }),
        4 => key().prop_map(|key| Step::Watch { key }),
        3 => (0..900u64).prop_map(|micros| Step::Pass { micros }),
        1 => Just(Step::Sweep),
        1 => Just(Step::Flush),
    ];
    proptest::collection::vec(step, 1..80)
}

/// What a key should hold, and how often it was written.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Held {
    Value(Vec<u8>, Option<Micros>),
    Limit(Micros),
}

struct Run {
    store: Store,
    held: BTreeMap<u8, Held>,
    writes: [u64; KEYS as usize],
    watches: Vec<(u8, Watch, u64, bool)>,
    now: Micros,
}

impl Run {
    fn alive(&self, key: u8) -> Option<&Held> {
        self.held.get(&key).filter(|held| match held {
            Held::Value(_, expires_at) => expires_at.is_none_or(|at| at > self.now),
            Held::Limit(expires_at) => *expires_at > self.now,
        })
    }

    fn find(&mut self, key: u8) -> Option<RecordId> {
        let bytes = name(key);
        let at = self.store.hasher().locate(&bytes);
        let found = self.store.find(at, &bytes, self.now);
        match (found, self.alive(key)) {
            (None, None) => {}
            (Some(id), Some(Held::Value(bytes, expires_at))) => {
                let (value, expires) = self.store.value(id).unwrap();
                let read = match value {
                    Value::Integer(number) => number.to_string().into_bytes(),
                    Value::Bytes(bytes) => bytes.to_vec(),
                };
                assert_eq!((&read, expires), (bytes, *expires_at));
                assert_eq!(value, Value::of(bytes), "an integer is kept as one");
                assert!(self.store.limit(id).is_none() && self.store.save(id).is_none());
                assert_eq!(self.store.expires_at(id), *expires_at);
            }
            (Some(id), Some(Held::Limit(expires_at))) => {
                assert!(self.store.value(id).is_none());
                assert_eq!(self.store.expires_at(id), Some(*expires_at));
            }
            (found, held) => unreachable!("{found:?} is {held:?}"),
        }
        found
    }

    fn wrote(&mut self, key: u8, held: Option<Held>) {
        self.writes[usize::from(key)] += 1;
        match held {
            Some(held) => drop(self.held.insert(key, held)),
            None => drop(self.held.remove(&key)),
        }
    }

    fn step(&mut self, step: Step) {
        let is_sweep = matches!(step, Step::Sweep);
        let (changes, sizes) = (self.store.changes(), (self.store.len(), self.store.memory_used()));
        self.run(step);
        if self.store.changes() == changes && !is_sweep {
            assert_eq!((self.store.len(), self.store.memory_used()), sizes, "a change that nobody is told of");
        }
        self.check();
    }

    fn run(&mut self, step: Step) {
        match step {
            Step::Put { key, bytes, lasts } => {
                let (id, expires_at) = (self.find(key), lasts.map(|lasts| self.now + lasts));
                if id.is_none_or(|id| self.store.value(id).is_some()) {
                    let at = self.store.hasher().locate(&name(key));
                    self.store.put_value(at, &name(key), id, Value::of(&bytes), expires_at, self.now).unwrap();
                    self.wrote(key, Some(Held::Value(bytes, expires_at)));
                }
            }
            Step::Count { key, number } => {
                let Some(id) = self.find(key) else { return };
                let is_integer = matches!(self.store.value(id), Some((Value::Integer(_), _)));
                let expires_at = self.store.expires_at(id);
                let at = self.store.hasher().locate(&name(key));
                assert_eq!(self.store.set_integer(at, id, number), is_integer);
                if is_integer {
                    self.wrote(key, Some(Held::Value(number.to_string().into_bytes(), expires_at)));
                }
            }
            Step::Expire { key, lasts } => {
                let Some(id) = self.find(key) else { return };
                let expires_at = lasts.map(|lasts| self.now + lasts);
                let at = self.store.hasher().locate(&name(key));
                let is_set = self.store.set_expiry(at, id, expires_at);
                match self.alive(key).cloned() {
                    Some(Held::Value(bytes, _)) if is_set => self.wrote(key, Some(Held::Value(bytes, expires_at))),
                    other => assert!(!is_set && matches!(other, Some(Held::Limit(_)))),
                }
            }
            Step::Remove { key } => {
                let Some(id) = self.find(key) else { return };
                let at = self.store.hasher().locate(&name(key));
                self.store.remove(at, id);
                self.wrote(key, None);
            }
            Step::Charge { key } => self.charge(key),
            Step::Move { from, to } => {
                let Some(id) = self.find(from) else { return };
                let (content, held) = (self.store.content(id), self.alive(from).cloned().unwrap());
                assert!(self.put(to, &content));
                self.wrote(to, Some(held));
            }
            Step::Watch { key } => {
                let at = self.store.hasher().locate(&name(key));
                let watch = self.store.watch(at, &name(key), self.now);
                self.watches.push((key, watch, self.writes[usize::from(key)], self.alive(key).is_some()));
            }
            Step::Pass { micros } => self.now += micros,
            Step::Sweep => drop(self.store.sweep(self.now, 50)),
            Step::Flush => {
                self.store.flush();
                (0..KEYS).for_each(|key| self.wrote(key, None));
            }
        }
    }

    fn put(&mut self, key: u8, content: &Content) -> bool {
        let (bytes, id) = (name(key), self.find(key));
        let at = self.store.hasher().locate(&bytes);
        let placed = self.store.put_content(at, &bytes, id, content, false, self.now);
        placed.is_ok_and(|id| self.store.content(id) == *content)
    }

    fn charge(&mut self, key: u8) {
        let at = self.store.hasher().locate(&name(key));
        let charged = self.store.charge(at, &name(key), &ask(), self.now);
        match self.alive(key) {
            Some(Held::Value(..)) => assert_eq!(charged, Err(ChargeError::WrongType)),
            _ if charged.unwrap().decision.allowed == 1 => {
                let id = self.store.find(at, &name(key), self.now).unwrap();
                let expires_at = self.store.expires_at(id).unwrap();
                self.wrote(key, Some(Held::Limit(expires_at)));
            }
            _ => {}
        }
    }

    fn check(&mut self) {
        (0..KEYS).for_each(|key| {
            self.find(key);
        });
        assert_eq!(self.store.memory_used(), self.store.memory_recounted());
        let lasting = self.held.values().filter(|held| matches!(held, Held::Value(_, None))).count();
        assert_eq!(self.store.stats().lasting, lasting as u64);
        let watches = std::mem::take(&mut self.watches);
        for (key, watch, writes, was_there) in &watches {
            let is_there = self.alive(*key).is_some();
            if self.store.is_unchanged(watch, self.now) {
                assert!(*writes == self.writes[usize::from(*key)] || !was_there, "key {key}");
                assert_eq!(*was_there, is_there);
            } else {
                let is_written = *writes != self.writes[usize::from(*key)];
                let is_expired = *was_there && !is_there;
                // Whatever is no longer known counts as a change, but only after removals.
                assert!(is_written || is_expired || self.store.stats().removed > 0, "key {key}");
            }
        }
        self.watches = watches;
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn values_are_what_was_put(steps in steps()) {
        let store = store(0, Eviction::NoEviction);
        let mut run = Run { store, held: BTreeMap::new(), writes: [0; KEYS as usize], watches: Vec::new(), now: START };
        steps.into_iter().for_each(|step| run.step(step));
        run.store.flush();
        while !run.store.sweep(run.now, 1_000).wrapped {}
        prop_assert_eq!(run.store.stats().body_bytes, 0);
        prop_assert_eq!(run.store.memory_used(), run.store.memory_recounted());
    }
}

#[test]
fn a_value_that_has_no_room_changes_nothing() {
    let mut store = store(2 * 1024 * 1024, Eviction::NoEviction);
    let put = |store: &mut Store, key: &str, bytes: usize| {
        let at = store.hasher().locate(key.as_bytes());
        let id = store.find(at, key.as_bytes(), START);
        store.put_value(at, key.as_bytes(), id, Value::Bytes(&vec![b'v'; bytes]), None, START)
    };
    let placed = (0..1_000).take_while(|number| put(&mut store, &format!("{{t}}{number}"), 20_000).is_ok()).count();
    assert!(placed > 50 && placed < 1_000, "{placed}");
    assert!(store.memory_used() <= 2 * 1024 * 1024);
    let at = store.hasher().locate(b"{t}0");
    assert!(put(&mut store, "{t}0", 60_000).is_err());
    let id = store.find(at, b"{t}0", START).unwrap();
    assert_eq!(store.value(id), Some((Value::Bytes(&vec![b'v'; 20_000]), None)));
    // What becomes shorter or is a number always fits, and gives room to others.
    put(&mut store, "{t}0", 10).unwrap();
    put(&mut store, "{t}1", 10).unwrap();
    put(&mut store, "{t}2", 30_000).unwrap();
    assert_eq!(store.memory_used(), store.memory_recounted());
}

#[test]
fn limits_with_room_are_dropped_before_values() {
    let mut store = store(4 * 1024 * 1024, Eviction::EvictLeast);
    for number in 0..2_000 {
        let key = format!("value{number}");
        let at = store.hasher().locate(key.as_bytes());
        store.put_value(at, key.as_bytes(), None, Value::Integer(number), None, START).unwrap();
    }
    for number in 0..100_000 {
        let key = format!("limit{number}");
        let at = store.hasher().locate(key.as_bytes());
        let _ = store.charge(at, key.as_bytes(), &ask(), START);
    }
    assert!(store.stats().evicted_keys > 1_000, "{:?}", store.stats());
    let is_there = |number: &i32| {
        let key = format!("value{number}");
        let at = store.hasher().locate(key.as_bytes());
        store.find(at, key.as_bytes(), START).is_some()
    };
    assert_eq!((0..2_000).filter(is_there).count(), 2_000);
}
