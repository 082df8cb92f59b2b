//! An undo leaves the others what is theirs: with the charge gone, a key holds at least what it would hold had the
//! charge never been made, at that moment and later. Also where the charge, or others, changed the window or the rate.

use super::alike::{used, with_room};
use super::{Checker, Fact, Scene};
use crate::answer::{Answer, Part};
use crate::errand::{Duty, RequestId, Step};
use crate::request::{Group, Request};
use std::collections::{BTreeMap, BTreeSet};
use tollgate_limits::{Ask, Micros, Mode, Policy, decide};
use tollgate_store::{Eviction, Saved, Store, StoreConfig};

/// How long after an undo the use is compared, in microseconds: less than the shortest window, and more than most.
const LATER_MICROS: [Micros; 8] = [0, 400, 1_200, 3_500, 60_000, 700_000, 2_500_000, 70_000_000];

/// Watches each charge and what others do until its undo.
pub(super) struct OthersKept {
    courses: BTreeMap<(RequestId, usize), Course>,
    replay: Replay,
}

/// What happened to a key since a charge that may be undone.
#[derive(Debug, Default)]
struct Course {
    /// The record before the charge.
    base: Option<Saved>,
    /// Charges in that record that may be undone.
    open: BTreeSet<RequestId>,
    /// What others were admitted for since.
    deeds: Vec<Deed>,
    /// The policy of the last of them, of the charge at first, with room: its window or rate is what counts here.
    last: Option<Policy>,
    /// How often the window or rate changed since the charge.
    changes: u32,
    /// Something happened that cannot be told without the charge: units were given back, or a key was dropped.
    is_blurred: bool,
}

/// A record does not remember which windows and rates it has had: of one that was changed and changed back between a
/// charge and its undo it cannot be told what is left of the charge.
const CHANGES_MAX: u32 = 1;

#[derive(Clone, Copy, Debug)]
struct Deed {
    id: RequestId,
    policy: Policy,
    units: u64,
    at: Micros,
}

impl Default for OthersKept {
    fn default() -> OthersKept {
        OthersKept { courses: BTreeMap::new(), replay: Replay::new() }
    }
}

impl Checker for OthersKept {
    fn name(&self) -> &'static str {
        "others kept"
    }

    fn see(&mut self, fact: &Fact, _scene: &Scene<'_>) -> Result<(), String> {
        match fact {
            Fact::Done(step) => {
                if step.evicted {
                    step.note.keys.iter().for_each(|key| self.blur(*key));
                }
                return self.see_step(step);
            }
            Fact::Lost(key) => self.blur(*key),
            Fact::Settled(id, _) => {
                self.courses.retain(|(of, _), _| of != id);
                self.courses.values_mut().for_each(|course| {
                    course.open.remove(id);
                });
            }
            _ => {}
        }
        Ok(())
    }
}

impl OthersKept {
    fn see_step(&mut self, step: &Step) -> Result<(), String> {
        let whole = Answer::whole(&step.output);
        match (&*step.note.request, step.note.duty) {
            (Request::Limit(group, mode), Duty::Whole) => {
                let allowed = whole.and_then(|answer| answer.five()).map_or(0, |five| five[0]);
                match (mode, u64::try_from(allowed).unwrap_or(0)) {
                    (Mode::Peek, _) | (_, 0) => {}
                    (Mode::Charge, _) => self.add(step, *group, group.cost),
                    (Mode::Partial, units) => self.add(step, *group, units),
                    (Mode::Refund, _) => self.blur(group.key),
                }
            }
            (Request::All(groups), Duty::Whole) => {
                let admitted = whole.and_then(|answer| answer.all()).is_some_and(|(admitted, ..)| admitted);
                groups.iter().filter(|_| admitted).for_each(|group| self.add(step, *group, group.cost));
            }
            (Request::All(_), Duty::Charge) if matches!(Part::read(&step.output), Some(Part::Charged(_))) => {
                self.begin(step);
            }
            (Request::All(_), Duty::Undo) => return self.end(step),
            (Request::Delete(_), _) => step.note.keys.iter().for_each(|key| self.forget(*key)),
            _ => {}
        }
        Ok(())
    }

    fn of_key(&mut self, key: usize) -> impl Iterator<Item = (RequestId, &mut Course)> {
        self.courses.iter_mut().filter(move |((_, of), _)| *of == key).map(|((id, _), course)| (*id, course))
    }

    fn add(&mut self, step: &Step, group: Group, units: u64) {
        let deed = Deed { id: step.note.id, policy: with_room(&group.rule.policy()), units, at: step.now };
        if units > 0 {
            self.of_key(group.key).for_each(|(_, course)| course.add(deed));
        }
    }

    fn blur(&mut self, key: usize) {
        self.of_key(key).for_each(|(_, course)| course.is_blurred = true);
    }

    /// The key was deleted, and with it all that lay there.
    fn forget(&mut self, key: usize) {
        self.of_key(key).for_each(|(_, course)| *course = Course::default());
    }

    fn begin(&mut self, step: &Step) {
        for (key, sight) in step.note.keys.iter().zip(&step.sights) {
            let Some(group) = step.note.request.group(*key) else { continue };
            self.add(step, group, group.cost);
            let base = sight.as_ref().and_then(|sight| sight.before.alive(step.now)).cloned();
            let open = self.of_key(*key).map(|(id, _)| id).collect();
            let is_blurred = step.evicted || sight.is_none();
            let last = Some(with_room(&group.rule.policy()));
            let course = Course { base, open, last, is_blurred, ..Course::default() };
            self.courses.insert((step.note.id, *key), course);
        }
    }

    fn end(&mut self, step: &Step) -> Result<(), String> {
        for (key, sight) in step.note.keys.iter().zip(&step.sights) {
            let id = step.note.id;
            let ended = self.courses.remove(&(id, *key));
            for (_, course) in self.of_key(*key) {
                course.take_back(id);
            }
            let (Some(course), Some(sight)) = (ended.filter(Course::is_clear), sight) else { continue };
            let Some(expected) = self.replay.run(&course) else { continue };
            let left = sight.after.record.as_ref();
            for later_micros in LATER_MICROS {
                let at = step.now + later_micros;
                let (least, found) = (used_at(expected.as_ref(), at), used_at(left, at));
                if found < least {
                    return Err(format!("key {key} holds {found} at {at} instead of {least}, {course:?}: {step}"));
                }
            }
        }
        Ok(())
    }
}

impl Course {
    fn add(&mut self, deed: Deed) {
        self.changes += u32::from(self.last.is_some_and(|last| last != deed.policy));
        self.last = Some(deed.policy);
        self.deeds.push(deed);
    }

    /// Another charge is undone, and with it what it may have changed.
    fn take_back(&mut self, id: RequestId) {
        self.is_blurred |= self.open.contains(&id);
        let count = self.deeds.len();
        self.deeds.retain(|deed| deed.id != id);
        self.changes += u32::from(self.changes > 0 && self.deeds.len() < count);
    }

    fn is_clear(&self) -> bool {
        !self.is_blurred && self.changes <= CHANGES_MAX
    }
}

/// What is in use at a time; nothing if there is no record by then.
fn used_at(record: Option<&Saved>, at: Micros) -> u64 {
    let is_alive = |record: &&Saved| tollgate_limits::expires_at(record.policy(), record.state()) > at;
    record.filter(is_alive).and_then(|record| used(record, at)).unwrap_or(0)
}

/// A store with one key, to make the history of a key without one charge.
struct Replay {
    store: Store,
}

const KEY: &[u8] = b"key";

impl Replay {
    fn new() -> Replay {
        let config = StoreConfig {
            hash_seed: [1, 2, 3, 4],
            core: 0,
            cores: 1,
            memory_max_bytes: 0,
            eviction: Eviction::NoEviction,
            random_seed: 1,
        };
        Replay { store: Store::new(config) }
    }

    /// What the key would hold. `None` if it cannot be told: it would have been of another algorithm.
    fn run(&mut self, course: &Course) -> Option<Option<Saved>> {
        let at = self.store.hasher().locate(KEY);
        // At the time 0 nothing has expired.
        let found = self.store.find(at, KEY, 0);
        self.store.restore(at, KEY, found, course.base.as_ref());
        for deed in &course.deeds {
            let ask = Ask { policy: deed.policy, cost: deed.units, mode: Mode::Charge };
            let found = self.store.find(at, KEY, deed.at);
            let outcome = decide(found.and_then(|id| self.store.limit(id)), &ask, deed.at)?;
            match found {
                Some(id) => self.store.apply(at, id, &deed.policy, &outcome.change),
                None => self.store.insert(at, KEY, &deed.policy, &outcome.change, deed.at).ok()?,
            };
        }
        let found = self.store.find(at, KEY, 0);
        Some(found.and_then(|id| self.store.save(id)))
    }
}
