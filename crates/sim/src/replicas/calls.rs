//! Calls of clients on the primary: run on the core that owns the key, RL.ALL core after core, answered through gates.

use super::check::{Duty, Fact, Ran};
use super::demand::Demand;
use super::wire::Place;
use super::world::{Event, World};
use crate::client::Words;
use crate::view::{self, look};
use std::collections::VecDeque;
use std::rc::Rc;
use tollgate_engine::all::{self, AllPlan, UndoLog};
use tollgate_engine::call::Call as EngineCall;
use tollgate_engine::command::Handler;
use tollgate_engine::core::Core;
use tollgate_engine::dispatch::{Ready, Way};
use tollgate_limits::Micros;
use tollgate_replication::planted::{Planted, is_planted};
use tollgate_resp::{Protocol, Reply};
use tollgate_store::Eviction;

/// The longest time between two steps of a call that several cores run.
const STEP_MICROS_MAX: u64 = 4_000;

/// A call that is under way.
#[derive(Debug)]
pub struct Call {
    /// The process that runs it.
    pub place: Place,
    demand: Rc<Demand>,
    words: Words,
    course: Course,
    /// The core that ran its last part.
    core: usize,
    /// The reply, once it is complete.
    reply: Option<Vec<u8>>,
}

/// What is still to be done.
#[derive(Debug)]
enum Course {
    /// Nothing but to answer.
    Whole,
    /// The parts of an RL.ALL to charge, and the charges to take back.
    All { plan: AllPlan, charges: VecDeque<u16>, undos: VecDeque<(u16, Box<UndoLog>)>, is_decided: bool },
    /// The cores that are to flush.
    Flush(VecDeque<usize>),
}

impl World {
    /// A client asks something.
    pub(super) fn call(&mut self, caller: usize) {
        if !self.is_troubled {
            return;
        }
        let Some(place) = self.serving() else { return self.call_later(caller) };
        let demand = Rc::new(Demand::new(&self.plan, &mut self.random));
        let words = Words::new(demand.arguments(&self.names).iter().map(Vec::as_slice));
        let Some(process) = self.process_of(place) else { return self.call_later(caller) };
        let Ok(ready) = process.dispatcher.prepare(words.args()) else { return self.call_later(caller) };
        let (settings, hasher) = (process.settings.clone(), process.dispatcher.hasher().clone());
        let cores = process.cores.len();
        let course = match ready.way {
            Way::AllOrNothing => {
                let number = u16::try_from(cores).unwrap_or(1);
                let Ok(plan) = AllPlan::new(&settings, &hasher, number, words.args()) else {
                    return self.call_later(caller);
                };
                let charges = plan.cores().collect();
                Course::All { plan, charges, undos: VecDeque::new(), is_decided: false }
            }
            Way::Every => Course::Flush((0..cores).collect()),
            _ => Course::Whole,
        };
        let id = self.next_call;
        self.next_call += 1;
        let call = Call { place, demand, words, course, core: 0, reply: None };
        self.calls.insert(id, call);
        self.step(id);
        // Clients do not wait for each other, and some not for their answer.
        self.call_later(caller);
    }

    fn call_later(&mut self, caller: usize) {
        let at = self.now + self.random.between(1, self.plan.pause_micros_max);
        self.schedule(at, Event::Call { caller });
    }

    /// Goes on with a call by one core.
    pub(super) fn step(&mut self, id: u64) {
        let Some(mut call) = self.calls.remove(&id) else { return };
        let place = call.place;
        let ready = self.process_of(place).and_then(|process| process.dispatcher.prepare(call.words.args()).ok());
        let (Some(ready), true) = (ready, self.serving() == Some(place)) else {
            // Its connection is gone, and with it whatever was still to come.
            return;
        };
        call.reply = self.run_step(id, &mut call, &ready);
        self.summary.calls += u64::from(call.reply.is_some());
        let core = call.core;
        self.calls.insert(id, call);
        self.pass_gate(place, core, id);
    }

    /// Runs a step. Answers the reply once it is complete.
    fn run_step(&mut self, id: u64, call: &mut Call, ready: &Ready) -> Option<Vec<u8>> {
        let words = call.words.clone();
        match &mut call.course {
            Course::Whole => {
                let Way::To(core) = ready.way else { return Some(b"-ERR\r\n".to_vec()) };
                let core = usize::from(core);
                call.core = core;
                let reply = self.job(id, call, core, Duty::Whole, &call.demand.keys(), |engine, now| {
                    let mut bytes = Vec::new();
                    let engine_call = EngineCall { args: words.args(), at: ready.at, now };
                    engine.run_key(ready.entry, &engine_call, &mut Reply::new(&mut bytes, Protocol::Resp2));
                    bytes
                });
                Some(reply)
            }
            Course::Flush(cores) => {
                let core = cores.pop_front()?;
                let is_last = cores.is_empty();
                call.core = core;
                let keys: Vec<usize> = (0..self.plan.keys.len()).collect();
                let part = self.job(id, call, core, Duty::Whole, &keys, |engine, now| {
                    let mut fragment = Vec::new();
                    if let Handler::Spread(part, _) = ready.entry.command.handler {
                        part(engine, &EngineCall { args: words.args(), at: ready.at, now }, &mut fragment);
                    }
                    fragment
                });
                (is_last && !part.is_empty()).then(|| b"+OK\r\n".to_vec())
            }
            Course::All { .. } => self.run_all_step(id, call, ready),
        }
    }

    fn run_all_step(&mut self, id: u64, call: &mut Call, ready: &Ready) -> Option<Vec<u8>> {
        let Course::All { mut plan, mut charges, mut undos, mut is_decided } =
            std::mem::replace(&mut call.course, Course::Whole)
        else {
            return None;
        };
        let (core, undo) = match charges.pop_front() {
            Some(core) => (core, None),
            None => undos.pop_front().map(|(core, undo)| (core, Some(undo)))?,
        };
        let positions: Vec<usize> = plan.arguments(core).collect();
        let words = call.words.pick(&positions);
        let groups = call.demand.keys();
        // After the name a part has groups of five, in order; each names the key that its first argument is.
        let keys: Vec<usize> =
            positions.iter().skip(1).step_by(5).filter_map(|first| groups.get((first - 1) / 5).copied()).collect();
        let number = usize::from(core);
        call.core = number;
        let duty = if undo.is_some() { Duty::Undo } else { Duty::Charge };
        let (is_undo, mut kept) = (undo.is_some(), None);
        let fragment = self.job(id, call, number, duty, &keys, |engine, now| {
            let mut fragment = Vec::new();
            let engine_call = EngineCall { args: words.args(), at: ready.at, now };
            match undo {
                Some(undo) => all::undo(engine, &engine_call, *undo, &mut fragment),
                None => kept = all::charge(engine, &engine_call, &mut fragment),
            }
            fragment
        });
        if is_undo {
            plan.undone(core, &fragment);
            self.hide_undo(call.place, number, &keys);
        } else {
            plan.charged(core, &fragment, kept);
        }
        if charges.is_empty() && !std::mem::replace(&mut is_decided, charges.is_empty()) {
            undos = plan.to_undo().into();
        }
        if charges.is_empty() && undos.is_empty() {
            let mut bytes = Vec::new();
            plan.reply(&mut Reply::new(&mut bytes, Protocol::Resp2));
            return Some(bytes);
        }
        call.course = Course::All { plan, charges, undos, is_decided };
        None
    }

    /// Has what an undo changed not told, if that fault is planted.
    fn hide_undo(&mut self, place: Place, core: usize, keys: &[usize]) {
        if !is_planted(Planted::UndoNotTold) {
            return;
        }
        let names: Vec<_> = keys.iter().filter_map(|key| self.keys.get(*key).cloned()).collect();
        let Some(engine) = self.process_of(place).and_then(|process| process.cores.get_mut(core)) else { return };
        if !engine.store.tracks_changes() {
            return;
        }
        for key in names {
            if let Some(id) = engine.store.find(key.at, key.name.as_bytes(), 0) {
                engine.store.copied(id);
            }
        }
    }

    /// Lets a core do something for a call, and looks at its keys before and after.
    fn job(
        &mut self,
        id: u64,
        call: &Call,
        core: usize,
        duty: Duty,
        keys: &[usize],
        run: impl FnOnce(&mut Core, Micros) -> Vec<u8>,
    ) -> Vec<u8> {
        let (place, now) = (call.place, self.time(call.place.node));
        let evicts = self.plan.memory_max_bytes > 0 && self.plan.eviction == Eviction::EvictLeast;
        let looked: Vec<usize> = if evicts { (0..self.keys.len()).collect() } else { keys.to_vec() };
        let names = self.keys.clone();
        let Some(engine) = self.process_of(place).and_then(|process| process.cores.get_mut(core)) else {
            return Vec::new();
        };
        let views = |engine: &mut Core| -> Vec<_> {
            let named = looked.iter().filter_map(|key| names.get(*key).map(|name| (*key, name)));
            let owned: Vec<_> = named.filter(|(_, name)| engine.store.owns(name.at.slot)).collect();
            owned.into_iter().map(|(key, name)| (key, look(&mut engine.store, name))).collect()
        };
        let before = views(engine);
        let evicted = engine.store.stats().evicted_keys;
        let output = run(engine, now);
        engine.publish();
        let evicted = engine.store.stats().evicted_keys - evicted;
        let after = views(engine);
        self.summary.evicted += evicted;
        let sights: Vec<_> =
            before.into_iter().zip(after).map(|((key, before), (_, after))| (key, before, after)).collect();
        let (own, others): (Vec<_>, Vec<_>) = sights.into_iter().partition(|(key, ..)| keys.contains(key));
        let is_lost = |(_, before, after): &(usize, view::View, view::View)| {
            view::alive(before.record.as_ref(), now).is_some() && after.record.is_none()
        };
        let lost = others.iter().filter(|other| is_lost(other)).map(|(key, ..)| *key).collect();
        let demand = call.demand.clone();
        let ran = Ran {
            call: id,
            run: place.run,
            core,
            now,
            demand,
            duty,
            sights: own,
            output: output.clone(),
            lost,
            has_evicted: evicted > 0,
        };
        self.note(Fact::Ran(Box::new(ran)));
        output
    }

    /// A core has let out what it did for a call: that goes on, or is answered.
    pub(super) fn go_on(&mut self, id: u64) {
        match self.calls.get_mut(&id).map(|call| call.reply.take()) {
            None => {}
            Some(None) => {
                let at = self.now + self.random.between(1, STEP_MICROS_MAX);
                self.schedule(at, Event::Step { call: id });
            }
            Some(Some(reply)) => {
                self.calls.remove(&id);
                self.note(Fact::Answered { call: id, reply });
            }
        }
    }
}
