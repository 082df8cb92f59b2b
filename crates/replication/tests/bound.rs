//! Who counts, what is safe, and which answers wait for it.

#![allow(clippy::unwrap_used, reason = "an unwrap that fails is a test that fails")]

#[allow(dead_code, reason = "what the fuzz target checks too is not needed here")]
mod harness;

use harness::NOW;
use tollgate_limits::{Ask, Micros, Mode, Policy, Window};
use tollgate_replication::VERSION;
use tollgate_replication::bound::{Gate, Mark};
use tollgate_replication::flow::{Hello, RUN_ID_BYTES};
use tollgate_replication::in_step::{Admitted, LinkId};
use tollgate_replication::outflow::{Moment, Outflow};
use tollgate_store::{Store, Value};

const HELLO: Hello = Hello {
    version: VERSION,
    run_id: [b'a'; RUN_ID_BYTES],
    core: 0,
    cores: 1,
    telling: 0,
    continues: None,
    resumes: false,
};
const TIMEOUT: Micros = 1_000_000;

/// A core and its answers.
struct Primary {
    store: Store,
    outflow: Outflow,
    gate: Gate<u32>,
    now: Micros,
    units: u64,
}

impl Primary {
    /// With so many links that know all there is.
    fn new(bound: Option<u64>, links: usize) -> (Primary, Vec<LinkId>) {
        let (store, outflow) = (harness::store(), Outflow::new(HELLO, TIMEOUT));
        let mut primary = Primary { store, outflow, gate: Gate::new(bound), now: NOW, units: 0 };
        let links: Vec<LinkId> = (0..links).map(|_| primary.join()).collect();
        for link in &links {
            primary.acknowledge(*link);
            // How long its parts take is known by the first sign of life that it answers.
            assert_eq!(primary.promised(*link), 0);
            primary.acknowledge(*link);
        }
        (primary, links)
    }

    fn join(&mut self) -> LinkId {
        let link = self.outflow.join(&mut self.store, None, self.now, &mut Vec::new());
        while self.outflow.is_walking(link) {
            self.flush();
            self.outflow.walk(link, &mut self.store, 1_000, self.now, &mut Vec::new());
        }
        link
    }

    fn flush(&mut self) {
        let admitted = Admitted { units: self.units, writes: 0 };
        let moment = self.moment();
        self.outflow.flush(&mut self.store, admitted, moment, &mut Vec::new()).unwrap();
    }

    fn moment(&self) -> Moment {
        Moment { timeline: self.now, clock: self.now }
    }

    /// The link acknowledges all that was flushed.
    fn acknowledge(&mut self, link: LinkId) {
        // Each part is, and a few more do no harm.
        (0..8).for_each(|_| self.outflow.acknowledged(link, self.outflow.number(), true, self.now));
    }

    fn wait(&mut self, micros: Micros) {
        self.now += micros;
        self.outflow.look(&mut self.store, self.now);
    }

    fn charge(&mut self, key: &str, cost: u64) -> Mark {
        let policy = Policy::Fixed { limit: 1_000_000, window: Window::new(3_600_000_000).unwrap() };
        let at = self.store.hasher().locate(key.as_bytes());
        let ask = Ask { policy, cost, mode: Mode::Charge };
        self.store.charge(at, key.as_bytes(), &ask, self.now).unwrap();
        self.units += cost;
        self.mark()
    }

    fn set(&mut self, key: &str) -> Mark {
        let at = self.store.hasher().locate(key.as_bytes());
        let found = self.store.find(at, key.as_bytes(), self.now);
        self.store.put_value(at, key.as_bytes(), found, Value::of(b"x"), None, self.now).unwrap();
        self.mark()
    }

    fn mark(&self) -> Mark {
        Mark { units: self.units, flush: self.outflow.number_to_tell_all(&self.store) }
    }

    /// Answers under this mark; whether that left at once.
    fn answer(&mut self, mark: Mark, name: u32) -> bool {
        let leaves = self.gate.may_leave(mark, &self.outflow.in_step);
        if !leaves {
            self.gate.hold(mark, name);
        }
        leaves
    }

    fn released(&mut self) -> Vec<u32> {
        std::iter::from_fn(|| self.gate.release(&self.outflow.in_step)).collect()
    }

    fn overshoot(&self) -> u64 {
        self.gate.overshoot(self.units, &self.outflow.in_step)
    }

    fn promised(&mut self, link: LinkId) -> u64 {
        let mut out = Vec::new();
        let moment = self.moment();
        self.outflow.beat(link, moment, &mut out);
        u64::from_le_bytes(out[17..25].try_into().unwrap())
    }
}

#[test]
fn with_a_bound_of_zero_every_answer_waits_for_what_was_changed_before_it() {
    let (mut primary, links) = Primary::new(Some(0), 1);
    let mark = primary.mark();
    assert!(primary.answer(mark, 0), "nothing was changed");
    let (charged, set) = (primary.charge("a", 1), primary.set("b"));
    assert!(!primary.answer(charged, 1) && !primary.answer(set, 2));
    assert!(primary.gate.is_near(primary.units, &primary.outflow.in_step), "it is told at once");
    let only_reads = primary.mark();
    assert!(!primary.answer(only_reads, 3), "it may have read what is not known yet");
    primary.flush();
    let later = primary.set("b");
    assert!(!primary.answer(later, 4));
    assert_eq!(primary.released(), [0; 0]);
    primary.acknowledge(links[0]);
    assert_eq!((primary.released(), primary.gate.held()), (vec![1, 2, 3], 1));
    assert_eq!(primary.overshoot(), 0);
    primary.flush();
    primary.acknowledge(links[0]);
    assert_eq!(primary.released(), [4]);
}

#[test]
fn answers_leave_up_to_the_bound_and_in_order() {
    let (mut primary, links) = Primary::new(Some(10), 2);
    let marks = [primary.charge("a", 4), primary.charge("b", 6), primary.charge("c", 1), primary.charge("a", 5)];
    let leave: Vec<bool> = marks.iter().zip(0..).map(|(mark, name)| primary.answer(*mark, name)).collect();
    assert_eq!(leave, [true, true, false, false]);
    assert_eq!(primary.overshoot(), 10, "what is held is nobody's yet");
    primary.flush();
    primary.acknowledge(links[0]);
    assert_eq!((primary.released(), primary.overshoot()), (vec![], 10), "the other replica does not know");
    primary.acknowledge(links[1]);
    assert_eq!((primary.released(), primary.overshoot()), (vec![2, 3], 0));
    // A small answer does not overtake a large one.
    let (large, small) = (primary.charge("a", 11), primary.mark());
    assert!(!primary.answer(large, 5) && !primary.answer(small, 6));
    // A write of something else is no unit.
    let (mut primary, _) = Primary::new(Some(10), 1);
    assert!((0..100).all(|name| {
        let mark = primary.set("plain");
        primary.answer(mark, name)
    }));
}

#[test]
fn it_is_told_at_once_only_near_the_bound() {
    let (mut primary, links) = Primary::new(Some(100), 1);
    let mut near = Vec::new();
    for _ in 0..52 {
        let mark = primary.charge("a", 1);
        assert!(primary.answer(mark, 0));
        near.push(primary.gate.is_near(primary.units, &primary.outflow.in_step));
    }
    assert_eq!(near.iter().position(|near| *near), Some(50));
    primary.flush();
    let mark = primary.charge("a", 1);
    assert!(primary.answer(mark, 0));
    assert!(!primary.gate.is_near(primary.units, &primary.outflow.in_step), "it was told just now");
    primary.acknowledge(links[0]);
    assert_eq!(primary.overshoot(), 1);
    let (unbounded, _) = Primary::new(None, 1);
    assert!(!unbounded.gate.is_near(u64::MAX, &unbounded.outflow.in_step));
}

#[test]
fn who_does_not_acknowledge_is_waited_for_until_the_timeout_and_comes_back() {
    let (mut primary, links) = Primary::new(Some(0), 2);
    let mark = primary.charge("a", 3);
    assert!(!primary.answer(mark, 1));
    primary.flush();
    primary.acknowledge(links[0]);
    primary.wait(TIMEOUT - 1);
    assert_eq!(primary.released(), []);
    primary.wait(1);
    assert_eq!((primary.released(), primary.overshoot()), (vec![1], 0));
    assert!(primary.outflow.in_step.is_in_step(links[0]) && !primary.outflow.in_step.is_in_step(links[1]));
    // With nobody left nobody is waited for, and what nobody knows is counted.
    let mark = primary.charge("a", 2);
    assert!(!primary.answer(mark, 2));
    primary.flush();
    primary.wait(TIMEOUT);
    assert_eq!((primary.released(), primary.overshoot()), (vec![2], 2));
    assert!(!primary.outflow.in_step.is_anybody_waited_for());
    let mark = primary.charge("a", 1);
    assert!(primary.answer(mark, 3));
    // One acknowledges some, and is out; all, and counts again.
    primary.outflow.acknowledged(links[1], primary.outflow.number() - 1, true, primary.now);
    assert!(!primary.outflow.in_step.is_anybody_waited_for());
    primary.acknowledge(links[1]);
    assert!(primary.outflow.in_step.is_in_step(links[1]));
    primary.flush();
    primary.acknowledge(links[1]);
    assert_eq!(primary.overshoot(), 0);
}

#[test]
fn one_that_comes_back_behind_what_is_safe_is_in_step_only_when_it_knows_that() {
    let (mut primary, links) = Primary::new(Some(0), 2);
    for _ in 0..3 {
        primary.charge("a", 1);
        primary.flush();
        primary.wait(TIMEOUT / 2);
        primary.acknowledge(links[0]);
    }
    assert!(!primary.outflow.in_step.is_in_step(links[1]));
    primary.charge("a", 1);
    primary.flush();
    primary.acknowledge(links[0]);
    let safe = primary.outflow.in_step.safe();
    // It lacks the last flush only, which is young: it is waited for, and nothing that is safe is not any more.
    primary.outflow.acknowledged(links[1], primary.outflow.number() - 1, true, primary.now);
    assert_eq!(primary.outflow.in_step.safe(), safe);
    assert!(!primary.outflow.in_step.is_in_step(links[1]));
    primary.charge("a", 1);
    primary.flush();
    primary.acknowledge(links[0]);
    assert_eq!(primary.outflow.in_step.safe(), safe, "it is waited for");
    primary.acknowledge(links[1]);
    assert!(primary.outflow.in_step.is_in_step(links[1]));
    assert_eq!(primary.outflow.in_step.safe().units, 5);
}

#[test]
fn a_promise_is_kept() {
    let (mut primary, links) = Primary::new(Some(0), 1);
    assert_eq!(primary.promised(links[0]), TIMEOUT / 2);
    let mark = primary.charge("a", 1);
    assert!(!primary.answer(mark, 1));
    primary.flush();
    primary.wait(TIMEOUT / 4 - 1);
    assert_eq!(primary.promised(links[0]), TIMEOUT / 2);
    primary.wait(1);
    assert_eq!(primary.promised(links[0]), 0, "it may be given up soon");
    // The link is cut: until the promise has ended nothing leaves that its replica does not know.
    primary.outflow.leave(&mut primary.store, links[0], primary.now);
    primary.wait(TIMEOUT / 2 - 2);
    assert_eq!(primary.released(), []);
    primary.wait(1);
    assert_eq!(primary.released(), [1]);
    // One that was promised nothing is forgotten at once.
    let link = primary.join();
    primary.outflow.leave(&mut primary.store, link, primary.now);
    let mark = primary.charge("a", 1);
    assert!(primary.answer(mark, 2));
}

#[test]
fn a_link_that_is_slow_is_promised_nothing() {
    let (mut primary, links) = Primary::new(Some(0), 1);
    assert_eq!(primary.promised(links[0]), TIMEOUT / 2);
    primary.wait(TIMEOUT / 4);
    assert_eq!(primary.promised(links[0]), 0, "the one before is still on its way");
    primary.acknowledge(links[0]);
    assert_eq!(primary.promised(links[0]), 0, "it took too long");
    assert!(primary.outflow.in_step.is_in_step(links[0]), "it is waited for all the same");
    primary.wait(TIMEOUT / 4 - 1);
    primary.acknowledge(links[0]);
    assert_eq!(primary.promised(links[0]), TIMEOUT / 2);
}

#[test]
fn units_that_overflow_are_counted_on() {
    let (mut primary, links) = Primary::new(Some(10), 1);
    for units in [1 << 62, 1 << 63, 3 << 62, u64::MAX - 5] {
        primary.units = units;
        primary.flush();
        primary.acknowledge(links[0]);
        let mark = primary.mark();
        assert!(primary.answer(mark, 0));
    }
    assert_eq!(primary.overshoot(), 0);
    primary.units = primary.units.wrapping_add(9);
    let mark = primary.mark();
    assert!(primary.answer(mark, 1));
    assert_eq!(primary.overshoot(), 9);
    primary.units = primary.units.wrapping_add(2);
    let mark = primary.mark();
    assert!(!primary.answer(mark, 2));
}

#[test]
fn with_a_bound_of_zero_plain_values_wait_for_one_that_has_left_too() {
    let (mut primary, links) = Primary::new(Some(0), 1);
    assert!(primary.promised(links[0]) > 0);
    primary.outflow.leave(&mut primary.store, links[0], primary.now);
    primary.flush();
    let mark = primary.set("plain");
    assert!(!primary.answer(mark, 1));
    primary.flush();
    assert_eq!(primary.released(), []);
    primary.wait(TIMEOUT / 2);
    assert_eq!(primary.released(), [1]);
    assert!(!primary.store.tracks_changes());
}

#[test]
fn a_copy_that_is_not_whole_counts_for_nothing() {
    let (mut primary, _) = Primary::new(Some(0), 0);
    let link = primary.outflow.join(&mut primary.store, None, primary.now, &mut Vec::new());
    let mark = primary.charge("a", 1);
    assert!(primary.answer(mark, 1));
    primary.flush();
    primary.acknowledge(link);
    assert!(!primary.outflow.in_step.is_anybody_waited_for(), "it says that it is whole, and was not told all");
    assert_eq!(primary.promised(link), 0);
    assert_eq!(primary.overshoot(), 1);
}

#[test]
fn what_is_admitted_without_a_change_holds_nothing_up() {
    let (mut primary, _) = Primary::new(Some(0), 1);
    primary.units += 1;
    let mark = primary.mark();
    assert!(!primary.answer(mark, 1));
    primary.flush();
    assert_eq!(primary.released(), [1]);
}

#[test]
fn answers_that_are_given_up_never_leave() {
    let (mut primary, _) = Primary::new(Some(0), 1);
    let mark = primary.charge("a", 5);
    assert!(!primary.answer(mark, 1) && !primary.answer(mark, 2));
    assert_eq!(primary.gate.give_up(), Some(1));
    assert_eq!(primary.gate.give_up(), Some(2));
    assert_eq!((primary.gate.give_up(), primary.gate.held(), primary.overshoot()), (None, 0, 0));
}

/// Whoever goes on alone lets answers out without a look, and counts them all the same.
#[test]
fn with_nobody_left_all_that_is_admitted_counts() {
    for bound in [None, Some(0), Some(10)] {
        let (mut primary, links) = Primary::new(bound, 1);
        let mark = primary.charge("a", 5);
        let leaves = primary.answer(mark, 1);
        primary.flush();
        primary.acknowledge(links[0]);
        assert_eq!((primary.released().is_empty(), primary.overshoot()), (leaves, 0), "{bound:?}");
        primary.outflow.leave(&mut primary.store, links[0], primary.now);
        primary.wait(TIMEOUT);
        assert!(primary.outflow.in_step.is_empty());
        primary.charge("a", 7);
        assert_eq!(primary.overshoot(), 7, "{bound:?}");
    }
}

#[test]
fn who_may_take_over_by_anothers_word_is_waited_for_until_that_is_taken_back() {
    for is_gone in [false, true] {
        let (mut primary, links) = Primary::new(Some(0), 2);
        let [stays, lags] = links[..] else { panic!("two links") };
        assert!(primary.outflow.in_step.keep(lags, true), "it is waited for anyway");
        if is_gone {
            primary.outflow.leave(&mut primary.store, lags, primary.now);
        }
        let mark = primary.charge("a", 1);
        primary.flush();
        assert!(!primary.answer(mark, 1));
        primary.wait(TIMEOUT);
        primary.acknowledge(stays);
        primary.wait(10 * TIMEOUT);
        assert_eq!(primary.released(), [], "gone: {is_gone}");
        assert!(!primary.outflow.in_step.is_in_step(lags), "it can be let go");
        assert!(primary.outflow.in_step.is_in_step(stays));
        primary.outflow.in_step.keep(lags, false);
        primary.wait(1);
        assert_eq!(primary.released(), [1]);
        assert_eq!(primary.outflow.in_step.links().count(), if is_gone { 1 } else { 2 });
        assert!(!primary.outflow.in_step.keep(lags, true), "who is not waited for cannot be kept any more");
    }
}

/// Nobody is waited for while the copy of the only replica is made, so that answers leave; what they say is on its way
/// to the replica when that begins to be waited for.
#[test]
fn who_may_take_over_knows_what_had_left_before_it_was_waited_for() {
    let (mut primary, _) = Primary::new(Some(0), 0);
    let link = primary.join();
    let mark = primary.charge("a", 1);
    assert!(primary.answer(mark, 1), "nobody is waited for");
    primary.acknowledge(link);
    let may_take_over = |primary: &Primary| primary.outflow.in_step.may_take_over(link);
    assert!(primary.outflow.in_step.is_in_step(link) && !may_take_over(&primary), "it was not told yet");
    primary.flush();
    assert!(!may_take_over(&primary), "it is being told");
    primary.acknowledge(link);
    assert!(may_take_over(&primary));
    primary.charge("a", 1);
    primary.flush();
    primary.wait(TIMEOUT);
    assert!(!may_take_over(&primary), "it is out");
    primary.acknowledge(link);
    primary.wait(1);
    assert!(primary.outflow.in_step.is_in_step(link) && !may_take_over(&primary), "it may lack what left meanwhile");
}
