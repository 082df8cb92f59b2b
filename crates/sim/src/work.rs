//! Lets a core do its jobs, and looks at the keys concerned before and after.

use crate::check::Fact;
use crate::errand::{Duty, Note, Sight, Step, View};
use crate::fault::Fault;
use crate::request::Request;
use crate::world::World;
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use tollgate_engine::core::Core;
use tollgate_limits::{Charge, Micros, undo};

/// How far back a clock is that a planted fault sets back, at most.
const BEHIND_MICROS_MAX: u64 = 3_000_000;
/// Every so many runs, memory is recounted.
const RECOUNT_EVERY: u64 = 16;

impl World {
    /// Lets `core` do the jobs of `notes` in one go: `run` is given the core and its time and answers what each wrote.
    pub(crate) fn work(
        &mut self,
        core: usize,
        notes: &[Note],
        run: impl FnOnce(&mut Core, Micros) -> Vec<Vec<u8>>,
    ) -> Vec<Vec<u8>> {
        let now = self.clocks.read(core, self.now_micros, &mut self.random);
        let before = self.look(core, notes);
        let evicted_before = self.evicted(core);
        let goes_back = self.strikes(Fault::ClockBehind) && notes.iter().all(|note| note.duty != Duty::Undo);
        let engine_now = if goes_back { now - self.random.between(1_000, BEHIND_MICROS_MAX) } else { now };
        let outputs = match self.cores.get_mut(core) {
            Some(engine) => run(engine, engine_now),
            None => Vec::new(),
        };
        for (note, output) in notes.iter().zip(&outputs) {
            self.plant_after(core, note, output, now);
        }
        let after = self.look(core, notes);
        let evicted = self.evicted(core) != evicted_before;
        for (note, output) in notes.iter().zip(&outputs) {
            let sights = note.keys.iter().map(|key| sight(*key, notes, &before, &after, &self.slots)).collect();
            let is_keys = matches!(*note.request, Request::Keys);
            let alive = if is_keys { living(&before, now) } else { Vec::new() };
            let step = Step { core, now, note: note.clone(), output: output.clone(), sights, alive, evicted };
            self.note(Fact::Done(Box::new(step)));
        }
        if evicted {
            for (key, view) in &before {
                let is_gone = after.get(key).is_none_or(|after| after.record.is_none());
                if is_gone && view.alive(now).is_some() {
                    self.note(Fact::Lost(*key));
                }
            }
        }
        self.runs += 1;
        if self.runs.is_multiple_of(RECOUNT_EVERY) {
            self.recount(core);
        }
        outputs
    }

    /// Compares a core's account of its memory with a recount.
    pub(crate) fn recount(&mut self, core: usize) {
        if let Some(engine) = self.cores.get(core) {
            let (used, recounted) = (engine.store.memory_used(), engine.store.memory_recounted());
            self.note(Fact::Memory { core, used, recounted });
        }
    }

    /// The views of the keys of these jobs; of all the core's keys where others may be concerned too.
    pub(crate) fn look(&self, core: usize, notes: &[Note]) -> BTreeMap<usize, View> {
        let concerns_all = self.plan.evicts() || notes.iter().any(|note| matches!(*note.request, Request::Keys));
        let concerned = |key: &usize| {
            self.owners.get(*key) == Some(&core) && (concerns_all || notes.iter().any(|note| note.keys.contains(key)))
        };
        (0..self.plan.keys.len()).filter(concerned).map(|key| (key, self.view(core, key))).collect()
    }

    /// How a key looks, without touching it.
    pub(crate) fn view(&self, core: usize, key: usize) -> View {
        let (Some(engine), Some(name)) = (self.cores.get(core), self.names.get(key)) else {
            return View { version: 0, record: None };
        };
        let slot = self.slots.get(key).copied().unwrap_or(0);
        let mut record = None;
        // At the time 0 nothing has expired.
        let _ = engine.store.for_each_in_slot(slot, 0, &mut |id, found| {
            if found == name.as_bytes() {
                record = engine.store.save(id);
                return ControlFlow::Break(());
            }
            ControlFlow::Continue(())
        });
        View { version: engine.store.slot_version(slot), record }
    }

    fn evicted(&self, core: usize) -> u64 {
        self.cores.get(core).map_or(0, |engine| engine.store.stats().evicted_keys)
    }

    /// Faults that strike right after a job.
    fn plant_after(&mut self, core: usize, note: &Note, output: &[u8], now: Micros) {
        match note.duty {
            Duty::Charge if output.first() == Some(&0) && self.strikes(Fault::ChargedThoughRefused) => {
                self.charge_each(core, note, now);
            }
            Duty::Undo if self.strikes(Fault::UndoTwice) => self.take_off_again(core, note, now),
            Duty::Whole if output.starts_with(b"*5\r\n:0\r\n") && self.strikes(Fault::ForgottenAfterRefusal) => {
                let Some(engine) = self.cores.get_mut(core) else { return };
                for name in note.keys.iter().filter_map(|key| self.names.get(*key)) {
                    let at = engine.store.hasher().locate(name.as_bytes());
                    if let Some(id) = engine.store.find(at, name.as_bytes(), now) {
                        engine.store.remove(at, id);
                    }
                }
            }
            _ => {}
        }
    }

    fn charge_each(&mut self, core: usize, note: &Note, now: Micros) {
        let Some(engine) = self.cores.get_mut(core) else { return };
        for group in note.keys.iter().filter_map(|key| note.request.group(*key)) {
            let Some(name) = self.names.get(group.key) else { continue };
            let at = engine.store.hasher().locate(name.as_bytes());
            let policy = group.rule.policy();
            let ask = tollgate_limits::Ask { policy, cost: group.cost, mode: tollgate_limits::Mode::Charge };
            let _ = engine.limit(at, name.as_bytes(), &ask, now);
        }
    }

    fn take_off_again(&mut self, core: usize, note: &Note, now: Micros) {
        let Some(engine) = self.cores.get_mut(core) else { return };
        for group in note.keys.iter().filter_map(|key| note.request.group(*key)) {
            let Some(name) = self.names.get(group.key) else { continue };
            let at = engine.store.hasher().locate(name.as_bytes());
            let Some(id) = engine.store.find(at, name.as_bytes(), now) else { continue };
            let charge = Charge { policy: group.rule.policy(), units: group.cost, at: now };
            let Some((policy, state)) = engine.store.limit(id) else { continue };
            let (policy, change) = (*policy, undo(Some((policy, state)), &charge, now));
            engine.store.apply(at, id, &policy, &change);
        }
    }
}

/// A key's views, unless another job of the same run touched it too.
fn sight(
    key: usize,
    notes: &[Note],
    before: &BTreeMap<usize, View>,
    after: &BTreeMap<usize, View>,
    slots: &[u16],
) -> Option<Sight> {
    let jobs = notes.iter().filter(|note| note.keys.contains(&key)).count();
    if jobs != 1 {
        return None;
    }
    let slot = slots.get(key);
    let in_slot = |other: &&usize| slots.get(**other) == slot && **other != key;
    let alone_in_slot = !notes.iter().flat_map(|note| &note.keys).any(|other| in_slot(&other));
    Some(Sight { before: before.get(&key)?.clone(), after: after.get(&key)?.clone(), alone_in_slot })
}

fn living(views: &BTreeMap<usize, View>, now: Micros) -> Vec<usize> {
    views.iter().filter(|(_, view)| view.alive(now).is_some()).map(|(key, _)| *key).collect()
}
