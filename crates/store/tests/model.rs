//! Random histories on a store and on a plain map: they must agree on every answer, and the account on every byte.

#![allow(clippy::unwrap_used)]

use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use tollgate_limits::{
    Ask, Change, Fixed, LogChange, Micros, Mode, Policy, Rate, Slide, StateRef, Under, Window, decide,
};
use tollgate_store::{ChargeError, Charged, Eviction, KEY_BYTES_MAX, Located, SLOTS, Saved, Store, StoreConfig};

const START: Micros = 1_577_836_800_000_000;

/// What a key holds, as the model knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Held {
    kind: Kind,
    window_micros: u64,
    units: u64,
    since: Micros,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Slide,
    Fixed,
    Log,
}

impl Held {
    fn index(&self) -> u64 {
        self.since / self.window_micros
    }

    fn end(&self) -> Micros {
        match self.kind {
            Kind::Slide => (self.index() + 2) * self.window_micros,
            Kind::Fixed => (self.index() + 1) * self.window_micros,
            Kind::Log => self.since + self.window_micros,
        }
    }

    fn policy(&self) -> Policy {
        let window = Window::new(self.window_micros).unwrap();
        match self.kind {
            Kind::Slide => Policy::Slide { limit: 100, window },
            Kind::Fixed => Policy::Fixed { limit: 100, window },
            Kind::Log => Policy::Log { limit: 100, window },
        }
    }

    /// The change that makes a record hold this, whatever it held before.
    fn change(&self) -> Change {
        let (units, at) = (self.units, self.since);
        match self.kind {
            Kind::Slide => Change::Slide(Under::Asked, Slide { index: self.index(), cur: units, prev: 0 }),
            Kind::Fixed => Change::Fixed(Under::Asked, Fixed { index: self.index(), count: units }),
            Kind::Log => Change::Log(Under::Asked, LogChange::Append { at, units, drop_through: at - 1 }),
        }
    }
}

#[derive(Clone, Debug)]
enum Act {
    Call { key: u16, kind: Kind, window: u8, units: u64 },
    Remove(u16),
    Save(u16),
    Restore(u16),
    Advance(u64),
    Sweep(usize),
    ScanAll(usize),
    Flush,
    FlushSlot(u16),
}

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let kind = prop_oneof![3 => Just(Kind::Slide), 1 => Just(Kind::Fixed), 1 => Just(Kind::Log)];
    let call = (0..400u16, kind, 0..3u8, 1..100u64);
    let act = prop_oneof![
        120 => call.prop_map(|(key, kind, window, units)| Act::Call { key, kind, window, units }),
        20 => (0..400u16).prop_map(Act::Remove),
        5 => (0..400u16).prop_map(Act::Save),
        5 => (0..400u16).prop_map(Act::Restore),
        6 => (1..4_000u64).prop_map(Act::Advance),
        3 => (1..200usize).prop_map(Act::Sweep),
        1 => (1..30usize).prop_map(Act::ScanAll),
        1 => Just(Act::Flush),
        1 => (0..400u16).prop_map(Act::FlushSlot),
    ];
    prop::collection::vec(act, 1..600)
}

struct Pair {
    store: Store,
    model: BTreeMap<u16, Held>,
    saved: BTreeMap<u16, (Option<Saved>, Option<Held>)>,
    now: Micros,
}

fn key_bytes(key: u16) -> Vec<u8> {
    // Half of the keys lie in one slot, and lengths differ.
    match key % 2 {
        0 => format!("{{hot}}{key}").into_bytes(),
        _ => format!("{key}{}", "x".repeat(usize::from(key % 23))).into_bytes(),
    }
}

impl Pair {
    fn new(cores: u16, split_load: usize) -> Pair {
        let mut store = Store::new(config(cores, 0, Eviction::NoEviction));
        store.set_split_load(split_load);
        Pair { store, model: BTreeMap::new(), saved: BTreeMap::new(), now: START }
    }

    fn locate(&self, key: u16) -> (Located, Vec<u8>) {
        let bytes = key_bytes(key);
        (self.store.hasher().locate(&bytes), bytes)
    }

    fn expected(&self, key: u16) -> Option<Held> {
        self.model.get(&key).copied().filter(|held| held.end() > self.now)
    }

    fn alive(&self) -> BTreeSet<Vec<u8>> {
        self.model.keys().filter(|key| self.expected(**key).is_some()).map(|key| key_bytes(*key)).collect()
    }

    /// Looks a key up in both.
    fn check(&mut self, key: u16) -> Option<tollgate_store::RecordId> {
        let (at, bytes) = self.locate(key);
        let expected = self.expected(key);
        let id = self.store.find(at, &bytes, self.now);
        assert_eq!(id.is_some(), expected.is_some(), "key {key}");
        if let (Some(id), Some(held)) = (id, expected) {
            let (policy, state) = self.store.limit(id).unwrap();
            assert_eq!(*policy, held.policy());
            match state {
                StateRef::Slide(slide) => assert_eq!((slide.index, slide.cur), (held.index(), held.units)),
                StateRef::Fixed(fixed) => assert_eq!((fixed.index, fixed.count), (held.index(), held.units)),
                _ => assert_eq!(held.kind, Kind::Log),
            }
            assert_eq!(self.store.expires_at(id), Some(held.end()));
            assert_eq!(self.store.key(id), bytes);
            assert!(self.store.record_bytes(id) >= bytes.len() + 16);
        }
        id
    }

    fn act(&mut self, act: &Act) {
        match *act {
            Act::Call { key, kind, window, units } => self.call(key, kind, window, units),
            Act::Remove(key) => {
                if let Some(id) = self.check(key) {
                    self.store.remove(self.locate(key).0, id);
                }
                self.model.remove(&key);
            }
            Act::Save(key) => {
                let saved = self.check(key).and_then(|id| self.store.save(id));
                self.saved.insert(key, (saved, self.expected(key)));
            }
            Act::Restore(key) => self.restore(key),
            Act::Advance(millis) => self.now += millis * 1_000,
            Act::Sweep(budget) => {
                self.store.sweep(self.now, budget);
            }
            Act::ScanAll(count) => self.scan_all(count),
            Act::Flush => {
                self.store.flush();
                self.model.clear();
            }
            Act::FlushSlot(key) => {
                let slot = self.locate(key).0.slot;
                self.store.flush_slot(slot);
                self.model.retain(|key, _| tollgate_store::slot_of(&key_bytes(*key)) != slot);
            }
        }
    }

    fn call(&mut self, key: u16, kind: Kind, window: u8, units: u64) {
        let held =
            Held { kind, window_micros: [500_000, 1_000_000, 7_000_000][usize::from(window)], units, since: self.now };
        let (at, bytes) = self.locate(key);
        let version = self.store.slot_version(at.slot);
        let id = self.check(key);
        let id = match id {
            Some(id) if self.expected(key).unwrap().kind != kind => {
                self.store.remove(at, id);
                None
            }
            id => id,
        };
        let id = match id {
            Some(id) => self.store.apply(at, id, &held.policy(), &held.change()),
            None => self.store.insert(at, &bytes, &held.policy(), &held.change(), self.now).unwrap(),
        };
        assert!(self.store.is_dirty(id.unwrap()));
        assert!(self.store.slot_version(at.slot) > version);
        self.model.insert(key, held);
        self.check(key);
    }

    fn restore(&mut self, key: u16) {
        let Some((saved, held)) = self.saved.get(&key).cloned() else { return };
        let id = self.check(key);
        let (at, bytes) = self.locate(key);
        let id = self.store.restore(at, &bytes, id, saved.as_ref());
        assert_eq!(id.is_some(), saved.is_some());
        if let (Some(id), Some(saved)) = (id, &saved) {
            assert!(self.store.is_same(id, saved));
        }
        match held {
            Some(held) => self.model.insert(key, held),
            None => self.model.remove(&key),
        };
        self.check(key);
    }

    fn scan_all(&mut self, count: usize) {
        // The store here holds keys of every slot, so the walks of all cores are joined.
        let mut met = BTreeSet::new();
        let mut cursor = self.store.first_cursor();
        let store = &self.store;
        while let Some(at) = cursor {
            cursor = store.scan(at, count, self.now, &mut |id, key| {
                assert_eq!(store.key(id), key);
                met.insert(key.to_vec());
            });
            assert_ne!(cursor, Some(0));
        }
        let owned: BTreeSet<_> =
            self.alive().into_iter().filter(|key| store.owns(tollgate_store::slot_of(key))).collect();
        assert_eq!(met, owned);
    }

    fn check_all(&mut self) {
        assert_eq!(self.store.memory_used(), self.store.memory_recounted());
        let mut met = BTreeSet::new();
        let mut twice = false;
        let _ = self.store.for_each(self.now, &mut |_, key| {
            twice |= !met.insert(key.to_vec());
            ControlFlow::Continue(())
        });
        assert!(!twice);
        assert_eq!(met, self.alive());
        let lens: u64 = (0..SLOTS).map(|slot| self.store.slot_len(slot, self.now)).sum();
        assert_eq!(lens, met.len() as u64);
        // Every dead record goes with a whole sweep, and then the count is exact.
        while !self.store.sweep(self.now, 50).wrapped {}
        while !self.store.sweep(self.now, 50).wrapped {}
        assert_eq!(self.store.len(), met.len() as u64);
        assert_eq!(self.store.memory_used(), self.store.memory_recounted());
        for key in 0..400 {
            self.check(key);
        }
    }
}

fn config(cores: u16, memory_max_bytes: u64, eviction: Eviction) -> StoreConfig {
    StoreConfig { hash_seed: [7, 11, 13, 17], core: cores - 1, cores, memory_max_bytes, eviction, random_seed: 3 }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn a_store_is_a_map_with_expiry(acts in acts(), cores in 1..5u16, split_load in 1..12usize) {
        let mut pair = Pair::new(cores, split_load);
        for act in &acts {
            pair.act(act);
            prop_assert_eq!(pair.store.memory_used(), pair.store.memory_recounted());
        }
        pair.check_all();
        pair.store.flush();
        // A pass over the pages says nothing about what was flushed: that goes a piece with each sweep.
        (0..50).for_each(|_| _ = pair.store.sweep(pair.now, 1_000));
        prop_assert_eq!(pair.store.len(), 0);
        prop_assert_eq!(pair.store.stats().index_bytes, 0);
        prop_assert_eq!(pair.store.stats().body_bytes, 0);
        prop_assert_eq!(pair.store.stats().policies, 0);
    }
}

/// What [`Store::charge`] stands for, step by step.
fn charge_by_steps(store: &mut Store, at: Located, key: &[u8], ask: &Ask, now: Micros) -> Result<Charged, ChargeError> {
    let Some(id) = store.find(at, key, now) else {
        let outcome = decide(None, ask, now).unwrap();
        if outcome.change != Change::Keep {
            store.insert(at, key, &ask.policy, &outcome.change, now).map_err(|_| ChargeError::OutOfMemory)?;
        }
        return Ok(Charged { decision: outcome.decision, hit: false });
    };
    let outcome = decide(store.limit(id), ask, now).ok_or(ChargeError::WrongType)?;
    if outcome.change != Change::Keep {
        store.apply(at, id, &ask.policy, &outcome.change);
    }
    Ok(Charged { decision: outcome.decision, hit: true })
}

/// One call, and how far time goes on before it.
#[derive(Clone, Copy, Debug)]
struct Timed {
    key: usize,
    ask: Ask,
    micros_before: u64,
}

fn timed_calls() -> impl Strategy<Value = Vec<Timed>> {
    let limit = prop_oneof![4 => Just(20u64), 1 => 0..40u64, 1 => Just(1_000_000_000_000)];
    let window = prop_oneof![8 => Just(1_000_000u64), 1 => Just(1_000), 1 => Just(1_700_000)];
    let policy = (limit, window, 0..20u8).prop_map(|(limit, micros, algorithm)| {
        let window = Window::new(micros).unwrap();
        let rate = Rate::new(limit.clamp(1, 1_000), u128::from(micros)).unwrap();
        match algorithm {
            0 => Policy::Token { capacity: limit, rate },
            1 => Policy::Fixed { limit, window },
            2 => Policy::Log { limit: limit.min(40), window },
            3 => Policy::Leak { capacity: limit, rate },
            _ => Policy::Slide { limit, window },
        }
    });
    let cost = prop_oneof![8 => Just(1u64), 2 => 0..25u64, 1 => Just(1_000_000_000_000)];
    let mode =
        prop_oneof![12 => Just(Mode::Charge), 1 => Just(Mode::Peek), 1 => Just(Mode::Partial), 1 => Just(Mode::Refund)];
    let micros_before = prop_oneof![6 => Just(0u64), 6 => 0..200_000u64, 2 => 0..3_000_000u64, 1 => Just(1_000_000)];
    let call = (0..12usize, policy, cost, mode, micros_before);
    let call = call.prop_map(|(key, policy, cost, mode, micros_before)| {
        let mode = if matches!(policy, Policy::Leak { .. }) { Mode::Charge } else { mode };
        Timed { key, ask: Ask { policy, cost, mode }, micros_before }
    });
    prop::collection::vec(call, 1..300)
}

/// Keys of one slot that the index cannot tell apart by their tags, the seven highest bits of the hash: the first that
/// a probe meets is mostly another one.
fn keys_of_one_tag(store: &Store, count: usize) -> Vec<Vec<u8>> {
    let keys = (0..).map(|number: u32| format!("{{hot}}{number}").into_bytes());
    keys.filter(|key| store.hasher().locate(key).hash >> 57 == 5).take(count).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn a_charge_is_its_steps(calls in timed_calls(), crowd in any::<bool>()) {
        let mut quick = Store::new(config(1, 0, Eviction::NoEviction));
        let mut slow = Store::new(config(1, 0, Eviction::NoEviction));
        let keys = if crowd { keys_of_one_tag(&quick, 12) } else { (0..12).map(key_bytes).collect() };
        let mut now = START;
        for call in &calls {
            now += call.micros_before;
            let key = &keys[call.key];
            let at = quick.hasher().locate(key);
            let expected = charge_by_steps(&mut slow, at, key, &call.ask, now);
            prop_assert_eq!(quick.charge(at, key, &call.ask, now), expected, "{:?}", call);
            prop_assert_eq!(quick.slot_version(at.slot), slow.slot_version(at.slot));
            let (quick_id, slow_id) = (quick.find(at, key, now), slow.find(at, key, now));
            prop_assert_eq!(quick_id, slow_id);
            if let (Some(quick_id), Some(slow_id)) = (quick_id, slow_id) {
                prop_assert!(quick.is_same(quick_id, &slow.save(slow_id).unwrap()));
                prop_assert_eq!(quick.is_dirty(quick_id), slow.is_dirty(slow_id));
                if call.micros_before % 2 == 0 {
                    quick.copied(quick_id);
                    slow.copied(slow_id);
                }
            }
            prop_assert_eq!(quick.stats(), slow.stats());
        }
    }
}

#[test]
fn a_charge_says_why_it_was_not_decided() {
    let mut store = Store::new(config(1, 0, Eviction::NoEviction));
    let window = Window::new(1_000_000).unwrap();
    let ask = |policy| Ask { policy, cost: 1, mode: Mode::Charge };
    let (slide, fixed) = (ask(Policy::Slide { limit: 5, window }), ask(Policy::Fixed { limit: 5, window }));
    let at = store.hasher().locate(b"key");
    assert!(store.charge(at, b"key", &fixed, START).is_ok_and(|charged| !charged.hit));
    let version = store.slot_version(at.slot);
    assert_eq!(store.charge(at, b"key", &slide, START), Err(ChargeError::WrongType));
    assert_eq!(store.slot_version(at.slot), version);
    let long = vec![b'x'; KEY_BYTES_MAX + 1];
    let at = store.hasher().locate(&long);
    assert_eq!(store.charge(at, &long, &slide, START), Err(ChargeError::OutOfMemory));
}
