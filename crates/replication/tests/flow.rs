//! Flows: whatever happens to a primary's store, and whenever links come and go, a replica that was told all holds what
//! the primary holds.

#![allow(clippy::unwrap_used, reason = "an unwrap that fails is a test that fails")]

#[allow(dead_code, reason = "what the fuzz target checks too is not needed here")]
mod harness;

use harness::NOW;
use proptest::prelude::*;
use std::collections::{BTreeMap, VecDeque};
use std::ops::ControlFlow;
use tollgate_limits::{Ask, Micros, Mode, Policy, Rate, Window};
use tollgate_replication::flow::{Broken, Heard, Hello, Inflow, LinkId, Outflow, RUN_ID_BYTES, Told};
use tollgate_replication::{VERSION, import};
use tollgate_store::{Content, Store, Value};

const HELLO: Hello = Hello { version: VERSION, run_id: [b'a'; RUN_ID_BYTES], core: 0, cores: 1 };

fn held(store: &Store, now: Micros) -> BTreeMap<Vec<u8>, Content> {
    let mut held = BTreeMap::new();
    let _ = store.for_each(now, &mut |id, key| {
        held.insert(key.to_vec(), store.content(id));
        ControlFlow::Continue(())
    });
    held
}

/// A replica at the end of a link that delivers late.
struct Replica {
    link: LinkId,
    inflow: Inflow,
    store: Store,
    under_way: VecDeque<u8>,
    acknowledged: u32,
}

impl Replica {
    /// Hears so many bytes of what is under way; puts what is whole.
    fn hear(&mut self, bytes: usize, now: Micros, buffer: &mut Vec<u8>) {
        buffer.extend(self.under_way.drain(..bytes.min(self.under_way.len())));
        let mut taken = 0;
        while let Some((heard, used)) = self.inflow.hear(&buffer[taken..]).unwrap() {
            match heard.told {
                Told::Changes { records, clears } => {
                    if clears {
                        self.store.flush();
                    }
                    import(records, &mut self.store, now).unwrap();
                }
                Told::Copy(records) => drop(import(records, &mut self.store, now).unwrap()),
                Told::Hello(hello) => assert_eq!(hello, HELLO),
                Told::Copied | Told::Beat => {}
            }
            self.acknowledged = heard.number;
            taken += used;
        }
        buffer.drain(..taken);
    }
}

/// A primary's core, its links, and what is told them.
struct World {
    store: Store,
    outflow: Outflow,
    replicas: Vec<(Replica, Vec<u8>)>,
    now: Micros,
    units: u64,
}

impl World {
    fn new() -> World {
        let mut store = harness::store();
        store.set_split_load(4);
        World { store, outflow: Outflow::new(HELLO), replicas: Vec::new(), now: NOW, units: 0 }
    }

    fn join(&mut self) {
        let mut out = Vec::new();
        let link = self.outflow.join(&mut self.store, self.now, &mut out);
        let store = harness::store();
        let replica = Replica { link, inflow: Inflow::default(), store, under_way: out.into(), acknowledged: 0 };
        self.replicas.push((replica, Vec::new()));
    }

    fn leave(&mut self, choice: usize) {
        if !self.replicas.is_empty() {
            let (replica, _) = self.replicas.remove(choice % self.replicas.len());
            self.outflow.leave(&mut self.store, replica.link);
        }
    }

    fn tick(&mut self, count: usize) {
        let mut out = Vec::new();
        self.outflow.flush(&mut self.store, self.units, self.now, &mut out).unwrap();
        for (replica, _) in &mut self.replicas {
            replica.under_way.extend(&out);
            let mut own = Vec::new();
            self.outflow.walk(replica.link, &mut self.store, count, self.now, &mut own);
            replica.under_way.extend(own);
        }
    }

    fn deliver(&mut self, choice: usize, bytes: usize) {
        if self.replicas.is_empty() {
            return;
        }
        let place = choice % self.replicas.len();
        let (replica, buffer) = &mut self.replicas[place];
        replica.hear(bytes, self.now, buffer);
        self.outflow.acknowledged(replica.link, replica.acknowledged, replica.inflow.is_copied());
    }

    fn call(&mut self, step: u8, choice: u8, pause: u64) {
        let key = format!("key:{}", choice % 40);
        let (key, store, now) = (key.as_bytes(), &mut self.store, self.now);
        let at = store.hasher().locate(key);
        let found = store.find(at, key, now);
        let (window, rate) = (Window::new(40_000_000).unwrap(), Rate::new(7, 3_000_000).unwrap());
        let policy = match step % 5 {
            0 => Policy::Slide { limit: 1_000, window },
            1 => Policy::Fixed { limit: 1_000, window },
            2 => Policy::Log { limit: 1_000, window },
            3 => Policy::Token { capacity: 1_000_000_000_000, rate },
            _ => Policy::Leak { capacity: 1_000, rate },
        };
        match (step, found) {
            (0..10, _) => {
                let ask = Ask { policy, cost: 1 + pause % 3, mode: Mode::Charge };
                if let Ok(charged) = store.charge(at, key, &ask, now) {
                    self.units += if charged.decision.allowed > 0 { ask.cost } else { 0 };
                }
            }
            (10, Some(id)) => store.remove(at, id),
            (11 | 12, found) if found.is_none_or(|id| store.value(id).is_some()) => {
                let text = "x".repeat(usize::from(choice % 30));
                let _ = store.put_value(at, key, found, Value::of(text.as_bytes()), Some(now + 9_000_000), now);
            }
            (13, Some(id)) => drop(store.set_expiry(at, id, Some(now + 1_000_000))),
            (14, _) => drop(store.sweep(now, 60)),
            _ => {}
        }
    }

    /// Lets everything arrive.
    fn heal(&mut self) {
        while self.replicas.iter().any(|(replica, _)| self.outflow.is_walking(replica.link)) {
            self.tick(7);
        }
        self.tick(7);
        for place in 0..self.replicas.len() {
            self.deliver(place, usize::MAX);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn a_replica_that_was_told_all_holds_all(
        steps in prop::collection::vec((0u8..34, any::<u8>(), 0u64..2_000_000), 1..500),
    ) {
        let mut world = World::new();
        for (step, choice, pause) in steps {
            world.now += pause;
            let number = usize::from(choice);
            match step {
                ..15 => world.call(step, choice, pause),
                15 if choice < 4 => drop(world.store.flush()),
                16 | 17 if world.replicas.len() < 3 => world.join(),
                18 if choice < 60 => world.leave(number),
                19..26 => world.tick(1 + number % 9),
                26.. => world.deliver(number, number * 7),
                _ => {}
            }
            // What a failover would forget is never less than what some whole copy lacks.
            prop_assert!(world.outflow.overshoot(world.units) <= world.units);
        }
        world.join();
        world.heal();
        let expected = held(&world.store, world.now);
        for (replica, _) in &world.replicas {
            prop_assert!(replica.inflow.is_copied());
            prop_assert_eq!(&held(&replica.store, world.now), &expected);
            prop_assert_eq!(replica.store.memory_used(), replica.store.memory_recounted());
        }
        prop_assert_eq!(world.outflow.overshoot(world.units), 0);
    }
}

#[test]
fn overshoot_is_what_the_slowest_whole_copy_lacks() {
    let mut world = World::new();
    let charge = |world: &mut World| world.call(0, 1, 0);
    charge(&mut world);
    assert_eq!(world.outflow.overshoot(world.units), 1, "nobody else knows");
    world.join();
    world.join();
    world.heal();
    assert_eq!(world.outflow.overshoot(world.units), 0);
    charge(&mut world);
    charge(&mut world);
    world.tick(1);
    charge(&mut world);
    assert_eq!(world.outflow.overshoot(world.units), 3);
    world.deliver(0, usize::MAX);
    assert_eq!(world.outflow.overshoot(world.units), 3, "the other has not");
    world.deliver(1, usize::MAX);
    assert_eq!(world.outflow.overshoot(world.units), 1, "what is not flushed is not known");
    // One that is only being copied holds nobody up, and counts for nothing, though it acknowledges what it is told.
    for choice in 0..40 {
        world.call(0, choice, 0);
    }
    world.join();
    world.tick(1);
    (0..3).for_each(|place| world.deliver(place, usize::MAX));
    assert!(world.outflow.is_walking(world.replicas[2].0.link));
    charge(&mut world);
    world.tick(1);
    world.deliver(0, usize::MAX);
    world.deliver(1, usize::MAX);
    assert_eq!(world.outflow.overshoot(world.units), 0);
    // The slower of two leaves: what the other knows is known.
    charge(&mut world);
    world.tick(1);
    world.deliver(0, usize::MAX);
    assert_eq!(world.outflow.overshoot(world.units), 1);
    world.leave(1);
    assert_eq!(world.outflow.overshoot(world.units), 0);
}

#[test]
fn a_hot_key_is_one_record_a_flush() {
    let mut world = World::new();
    world.join();
    world.heal();
    let before = world.replicas[0].0.under_way.len();
    for _ in 0..900 {
        world.call(0, 1, 0);
    }
    world.tick(1);
    let told = world.replicas[0].0.under_way.len() - before;
    assert!(told < 150, "{told} bytes");
}

#[test]
fn what_is_changed_on_the_way_is_not_taken() {
    let mut world = World::new();
    for choice in 0..40 {
        world.call(choice % 10, choice, 0);
    }
    world.join();
    for _ in 0..40 {
        world.tick(2);
        world.call(0, 1, 0);
    }
    let told: Vec<u8> = world.replicas[0].0.under_way.iter().copied().collect();
    let parts = |bytes: &[u8]| -> Result<Vec<(usize, usize)>, Broken> {
        let (mut inflow, mut at, mut parts) = (Inflow::default(), 0, Vec::new());
        while let Some((Heard { .. }, used)) = inflow.hear(&bytes[at..])? {
            parts.push((at, at + used));
            at += used;
        }
        Ok(parts)
    };
    let whole = parts(&told).unwrap();
    assert!(whole.len() > 10);
    for place in 0..told.len() {
        let mut changed = told.clone();
        changed[place] ^= 16;
        // A length that was made larger waits for bytes that do not come, or is too long; all else is damage.
        assert!(parts(&changed).map_or(true, |parts| parts.len() < whole.len()), "{place}");
    }
    // A part of changes that is left out, or comes twice, is missed.
    for (from, to) in whole.iter().filter(|(from, _)| told[*from] == 17) {
        let without = [&told[..*from], &told[*to..]].concat();
        let twice = [&told[..*to], &told[*from..]].concat();
        assert_eq!(parts(&twice), Err(Broken::OutOfOrder));
        if *to < told.len() {
            assert_eq!(parts(&without), Err(Broken::OutOfOrder));
        }
    }
    // Without its begin a flow is none, nor with two.
    assert_eq!(parts(&told[whole[0].1..]), Err(Broken::OutOfOrder));
    assert_eq!(parts(&[&told[..whole[0].1], &told[..]].concat()), Err(Broken::OutOfOrder));
}
