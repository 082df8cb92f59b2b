//! Flows: whatever happens to a primary's store, and whenever links come and go, a replica that was told all holds what
//! the primary holds.

#![allow(clippy::unwrap_used, reason = "an unwrap that fails is a test that fails")]

#[allow(dead_code, reason = "what the fuzz target checks too is not needed here")]
mod harness;

use harness::NOW;
use proptest::prelude::*;
use std::collections::{BTreeMap, VecDeque};
use std::ops::ControlFlow;
use tollgate_limits::{Ask, Charge, Log, Micros, Mode, Policy, Rate, StateRef, Window, undo};
use tollgate_replication::flow::{Broken, Has, Heard, Hello, Inflow, RUN_ID_BYTES, Told, slots_of};
use tollgate_replication::in_step::{Admitted, LinkId};
use tollgate_replication::outflow::{Moment, Outflow};
use tollgate_replication::{VERSION, import, write_piece};
use tollgate_store::{Content, Holding, SLOTS, Store, Value};

const HELLO: Hello = Hello {
    version: VERSION,
    run_id: [b'a'; RUN_ID_BYTES],
    core: 0,
    cores: 1,
    telling: 3,
    continues: None,
    resumes: false,
};
/// After which a replica that does not acknowledge is out: longer than a test's time.
const TIMEOUT: Micros = Micros::MAX / 2;

/// All that has not expired: of a log, the charges that count.
fn held(store: &Store, now: Micros) -> BTreeMap<Vec<u8>, Content> {
    let mut held = BTreeMap::new();
    let _ = store.for_each(now, &mut |id, key| {
        held.insert(key.to_vec(), without_what_expired(store.holding(id), now));
        ControlFlow::Continue(())
    });
    held
}

fn without_what_expired(holding: Holding<'_>, now: Micros) -> Content {
    match holding {
        Holding::Limit(policy @ Policy::Log { window, .. }, StateRef::Log(log)) => {
            let counts: Vec<_> = log.entries_after(now.saturating_sub(window.micros())).collect();
            let log = Log::of(log.dropped_through(), &counts).unwrap();
            Content::of(Holding::Limit(policy, StateRef::Log(&log)))
        }
        holding => Content::of(holding),
    }
}

/// A replica at the end of a link that delivers late.
struct Replica {
    link: LinkId,
    inflow: Inflow,
    store: Store,
    under_way: VecDeque<u8>,
    acknowledged: u32,
    /// What it has put, its copy included.
    has: Option<Has>,
    /// Slots that are copied.
    copying: Vec<u16>,
    /// Whether it hears everything twice.
    is_told_twice: bool,
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
                    self.put(records, now);
                }
                Told::Copy(records) => self.put(records, now),
                Told::Hello(hello) => {
                    assert_eq!(hello, Hello { resumes: hello.resumes, ..HELLO });
                    assert!(!hello.resumes || self.has.is_some());
                    self.copying = if hello.resumes { Vec::new() } else { (0..SLOTS).collect() };
                    self.copying.iter().for_each(|slot| self.store.begin_copy_of_slot(*slot));
                }
                Told::Slots(slots) => {
                    self.copying = slots_of(slots).collect();
                    self.copying.iter().for_each(|slot| self.store.begin_copy_of_slot(*slot));
                }
                Told::Copied => self.copying.iter().for_each(|slot| self.store.end_copy_of_slot(*slot)),
                Told::Beat { .. } => {}
            }
            self.acknowledged = heard.number;
            self.has = self.inflow.has();
            taken += used;
        }
        buffer.drain(..taken);
    }

    fn put(&mut self, records: &[u8], now: Micros) {
        for _ in 0..1 + usize::from(self.is_told_twice) {
            import(records, &mut self.store, now).unwrap();
        }
    }
}

/// A primary's core, its links, and what is told them.
struct World {
    store: Store,
    outflow: Outflow,
    replicas: Vec<(Replica, Vec<u8>)>,
    /// Those whose link is cut.
    away: Vec<Replica>,
    now: Micros,
    units: u64,
    /// Charges of logs, to be undone.
    charges: Vec<(Vec<u8>, Charge)>,
}

impl World {
    fn new() -> World {
        let mut store = harness::store();
        store.set_split_load(4);
        World {
            store,
            outflow: Outflow::new(HELLO, TIMEOUT),
            replicas: Vec::new(),
            away: Vec::new(),
            now: NOW,
            units: 0,
            charges: Vec::new(),
        }
    }

    fn join(&mut self) {
        let (store, inflow, under_way) = (harness::store(), Inflow::default(), VecDeque::new());
        let link = self.outflow.join(&mut self.store, None, self.now, &mut Vec::new());
        self.outflow.leave(&mut self.store, link, self.now);
        let is_told_twice = self.replicas.len() % 2 == 1;
        let (has, copying) = (None, Vec::new());
        self.away.push(Replica { link, inflow, store, under_way, acknowledged: 0, has, copying, is_told_twice });
        self.come_again(usize::MAX);
    }

    /// One whose link was cut comes again.
    fn come_again(&mut self, choice: usize) {
        if self.away.is_empty() {
            return;
        }
        let mut replica = self.away.remove(choice.min(self.away.len() - 1));
        let mut out = Vec::new();
        replica.link = self.outflow.join(&mut self.store, replica.has, self.now, &mut out);
        (replica.inflow, replica.under_way) = (Inflow::default(), out.into());
        self.replicas.push((replica, Vec::new()));
    }

    /// As above; answers how many of its slots are copied anew.
    fn slots_copied_anew(&mut self, choice: usize) -> usize {
        self.come_again(choice);
        let place = self.replicas.len() - 1;
        self.deliver(place, usize::MAX);
        self.replicas[place].0.copying.len()
    }

    fn leave(&mut self, choice: usize) {
        if !self.replicas.is_empty() {
            let (replica, _) = self.replicas.remove(choice % self.replicas.len());
            self.outflow.leave(&mut self.store, replica.link, self.now);
            self.away.push(replica);
        }
    }

    fn overshoot(&self) -> u64 {
        self.units - self.outflow.in_step.safe().units
    }

    fn tick(&mut self, count: usize) {
        let mut out = Vec::new();
        let admitted = Admitted { units: self.units, writes: 0 };
        let moment = Moment { timeline: self.now, clock: self.now };
        self.outflow.flush(&mut self.store, admitted, moment, &mut out).unwrap();
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
        self.outflow.acknowledged(replica.link, replica.acknowledged, replica.inflow.is_copied(), self.now);
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

    /// Charges of one of a few logs that come thick and fast, units given back, charges undone, or another limit.
    fn call_log(&mut self, choice: u8, pause: u64) {
        let key = format!("log:{}", choice % 3).into_bytes();
        let at = self.store.hasher().locate(&key);
        let window = Window::new(if choice > 250 { 60_000_000 } else { 20_000_000 }).unwrap();
        let policy = Policy::Log { limit: if choice > 240 { 4_999 } else { 5_000 }, window };
        match choice {
            0..40 => {
                let ask = Ask { policy, cost: 1 + pause % 60, mode: Mode::Refund };
                let _ = self.store.charge(at, &key, &ask, self.now);
            }
            40..80 if !self.charges.is_empty() => {
                let place = self.charges.len() - 1 - pause as usize % self.charges.len();
                let (key, charge) = self.charges.swap_remove(place);
                let at = self.store.hasher().locate(&key);
                let Some(id) = self.store.find(at, &key, self.now) else { return };
                let change = undo(self.store.limit(id), &charge, self.now);
                self.store.apply(at, id, &charge.policy, &change);
            }
            _ => {
                for step in 0..pause % 50 {
                    self.now += step % 3;
                    let ask = Ask { policy, cost: 1 + step % 2, mode: Mode::Charge };
                    if self.store.charge(at, &key, &ask, self.now).is_ok_and(|charged| charged.decision.allowed == 1) {
                        self.units += ask.cost;
                        self.charges.push((key.clone(), Charge { policy, units: ask.cost, at: self.now }));
                    }
                }
            }
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
        steps in prop::collection::vec((0u8..42, any::<u8>(), 0u64..2_000_000), 1..500),
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
                18 if world.replicas.len() < 3 => world.come_again(number % 5),
                19..26 => world.tick(1 + number % 9),
                26..34 => world.deliver(number, number * 7),
                34.. => world.call_log(choice, pause),
                _ => {}
            }
            // What a failover would forget is never less than what some whole copy lacks.
            prop_assert!(world.overshoot() <= world.units);
        }
        world.join();
        while !world.away.is_empty() {
            world.come_again(0);
        }
        world.heal();
        let expected = held(&world.store, world.now);
        for (replica, _) in &world.replicas {
            prop_assert!(replica.inflow.is_copied());
            prop_assert_eq!(&held(&replica.store, world.now), &expected);
            prop_assert_eq!(replica.store.memory_used(), replica.store.memory_recounted());
        }
        prop_assert_eq!(world.overshoot(), 0);
    }
}

#[test]
fn overshoot_is_what_the_slowest_whole_copy_lacks() {
    let mut world = World::new();
    let charge = |world: &mut World| world.call(0, 1, 0);
    charge(&mut world);
    assert_eq!(world.overshoot(), 1, "nobody else knows");
    world.join();
    world.join();
    world.heal();
    assert_eq!(world.overshoot(), 0);
    charge(&mut world);
    charge(&mut world);
    world.tick(1);
    charge(&mut world);
    assert_eq!(world.overshoot(), 3);
    world.deliver(0, usize::MAX);
    assert_eq!(world.overshoot(), 3, "the other has not");
    world.deliver(1, usize::MAX);
    assert_eq!(world.overshoot(), 1, "what is not flushed is not known");
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
    assert_eq!(world.overshoot(), 0);
    // The slower of two leaves: what the other knows is known.
    charge(&mut world);
    world.tick(1);
    world.deliver(0, usize::MAX);
    assert_eq!(world.overshoot(), 1);
    world.leave(1);
    assert_eq!(world.overshoot(), 0);
}

#[test]
fn who_comes_again_is_told_what_changed_since() {
    let mut world = World::new();
    let charge = |world: &mut World, choices: std::ops::Range<u8>| choices.for_each(|choice| world.call(0, choice, 0));
    charge(&mut world, 0..40);
    world.join();
    world.join();
    world.heal();
    // Nothing has changed.
    world.leave(0);
    assert_eq!(world.slots_copied_anew(0), 0);
    world.heal();
    // What it was told and did not put, and what it was not told.
    charge(&mut world, 3..5);
    world.tick(1);
    world.leave(0);
    charge(&mut world, 7..9);
    world.tick(1);
    charge(&mut world, 9..10);
    assert_eq!(world.slots_copied_anew(0), 5);
    world.heal();
    // While nobody is told, and another was told since.
    world.leave(0);
    world.leave(0);
    charge(&mut world, 11..12);
    assert_eq!(world.slots_copied_anew(1), 1);
    world.heal();
    assert_eq!(world.slots_copied_anew(0), 1, "although no flush told that change");
    world.heal();
    // In another telling, or where it has more than there is, all is copied.
    world.leave(0);
    let has = world.away[0].has;
    world.away[0].has = has.map(|has| Has { number: has.number + 9, ..has });
    assert_eq!(world.slots_copied_anew(0), usize::from(SLOTS));
    world.leave(0);
    world.away[0].has = has.map(|has| Has { telling: 2, ..has });
    assert_eq!(world.slots_copied_anew(0), usize::from(SLOTS));
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

/// Long logs cost what comes to them, be it that units are given back and charges undone meanwhile.
#[test]
fn a_long_log_is_told_by_what_came_to_it() {
    let mut world = World::new();
    let policy = Policy::Log { limit: 100_000, window: Window::new(60_000_000).unwrap() };
    let call = |world: &mut World, number: u64, mode, cost| {
        let key = format!("log:{number}").into_bytes();
        let at = world.store.hasher().locate(&key);
        world.store.charge(at, &key, &Ask { policy, cost, mode }, world.now).unwrap();
        Charge { policy, units: cost, at: world.now }
    };
    for number in (0..3_000).flat_map(|_| 0..20) {
        world.now += 1;
        call(&mut world, number, Mode::Charge, 1);
    }
    world.join();
    world.join();
    world.heal();
    let whole = 20 * 3_000 * 16;
    for _ in 0..30 {
        let mut last = Charge { policy, units: 1, at: world.now };
        for number in (0..10).flat_map(|_| 0..20) {
            world.now += 1;
            last = call(&mut world, number, Mode::Charge, 1);
        }
        call(&mut world, 3, Mode::Refund, 7);
        let at = world.store.hasher().locate(b"log:19");
        let id = world.store.find(at, b"log:19", world.now).unwrap();
        let change = undo(world.store.limit(id), &last, world.now);
        world.store.apply(at, id, &policy, &change);
        let before = world.replicas[0].0.under_way.len();
        world.tick(1);
        let told = world.replicas[0].0.under_way.len() - before;
        assert!(told < 20 * 11 * 16 + 20 * 60 + 100, "{told} bytes of {whole}");
    }
    world.heal();
    for (replica, _) in &world.replicas {
        assert_eq!(held(&replica.store, world.now), held(&world.store, world.now));
        assert_eq!(replica.store.memory_used(), replica.store.memory_recounted());
    }
}

/// A copy whose log ran out before it heard of a charge that came just in time: what it lost no longer counts.
#[test]
fn a_piece_of_a_log_that_expired_meanwhile_is_all_that_counts() {
    let mut world = World::new();
    let policy = Policy::Log { limit: 1_000, window: Window::new(1_000_000).unwrap() };
    let charge = |world: &mut World| {
        let at = world.store.hasher().locate(b"log");
        world.store.charge(at, b"log", &Ask { policy, cost: 1, mode: Mode::Charge }, world.now).unwrap();
    };
    for _ in 0..10 {
        world.now += 1;
        charge(&mut world);
    }
    world.join();
    world.heal();
    // The newest still counts, and four before it are still kept, but no longer when it is told.
    world.now += 999_995;
    charge(&mut world);
    world.now += 100;
    world.replicas[0].0.store.sweep(world.now, 1_000);
    assert!(held(&world.replicas[0].0.store, world.now).is_empty());
    world.heal();
    assert_eq!(held(&world.replicas[0].0.store, world.now).len(), 1);
    assert_eq!(held(&world.replicas[0].0.store, world.now), held(&world.store, world.now));
}

/// What a replica held before stays until the copy tells the whole, whatever a piece of it says before that.
#[test]
fn a_piece_frees_nothing_where_the_log_is_not_known() {
    let (mut world, mut replica) = (World::new(), harness::store());
    let log = |window: u64| Policy::Log { limit: 1_000, window: Window::new(window).unwrap() };
    let fixed = Policy::Fixed { limit: 1_000, window: Window::new(60_000_000).unwrap() };
    let kept = [("other kind", fixed), ("other window", log(90_000_000)), ("older", log(60_000_000))];
    let used = |store: &mut Store, key: &str, policy: Policy, now| {
        let at = store.hasher().locate(key.as_bytes());
        store
            .charge(at, key.as_bytes(), &Ask { policy, cost: 1_000, mode: Mode::Peek }, now)
            .unwrap()
            .decision
            .remaining
    };
    for (key, policy) in kept {
        let at = replica.hasher().locate(key.as_bytes());
        replica.charge(at, key.as_bytes(), &Ask { policy, cost: 7, mode: Mode::Charge }, NOW).unwrap();
    }
    let mut told = Vec::new();
    for (key, _) in kept.into_iter().chain([("unknown", log(60_000_000))]) {
        let (at, key) = (world.store.hasher().locate(key.as_bytes()), key.as_bytes());
        for pause in 1..4 {
            world.now = NOW + pause * 1_000_000;
            world
                .store
                .charge(at, key, &Ask { policy: log(60_000_000), cost: 3, mode: Mode::Charge }, world.now)
                .unwrap();
        }
        let Some(id) = world.store.find(at, key, world.now) else { unreachable!("it was charged") };
        let Some((policy, StateRef::Log(log))) = world.store.limit(id) else { unreachable!("it is a log") };
        write_piece(&mut told, key, policy, log, NOW + 2_500_000);
    }
    for _ in 0..2 {
        import(&told, &mut replica, world.now).unwrap();
        for ((key, policy), remaining) in kept.into_iter().zip([993, 993, 990]) {
            assert_eq!(used(&mut replica, key, policy, world.now), remaining, "{key}");
        }
        assert_eq!(used(&mut replica, "unknown", log(60_000_000), world.now), 997);
    }
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
