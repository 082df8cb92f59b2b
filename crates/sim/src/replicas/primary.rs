//! A primary's side of its links, as the server's `flows` does it.

use super::check::Fact;
use super::machine::{Flows, Process};
use super::wire::{Place, WIRE_BYTES_MAX, Wire};
use super::world::{Event, World};
use std::collections::BTreeMap;
use std::rc::Rc;
use tollgate_limits::Micros;
use tollgate_replication::flow::{Ack, Has};
use tollgate_replication::in_step::{Admitted, LinkId};
use tollgate_replication::outflow::{Moment, Outflow};

/// Between two flushes, in microseconds.
pub const FLUSH_MICROS: u64 = 5_000;
/// The longest time between two signs of life of a link; a tenth of what a replica may take to acknowledge, if less.
const BEAT_MICROS_MAX: u64 = 20_000;
/// Bytes that wait for a link from which on its copy waits.
const COPY_WAITS_BYTES: usize = 1_000;
/// Records that one upkeep looks at.
const SWEEP_RECORDS: usize = 20;

/// What waits for one link.
#[derive(Debug)]
pub struct Told {
    /// The link.
    pub wire: u64,
    waiting: Vec<u8>,
    /// When it was given the last sign of life.
    beaten: u64,
    acks: Vec<u8>,
}

impl World {
    /// A replica asks for what a core tells. `None`: it is told nothing.
    pub(super) fn join(&mut self, node: usize, core: usize, replica: Place, has: Option<Has>) -> Option<u64> {
        let (now, timeout) = (self.time(node), self.plan.replica_timeout_micros);
        let machine = self.machines.get_mut(node)?;
        let process = machine.process.as_mut().filter(|process| !process.is_replica())?;
        let (run, hello) = (process.run, process.hello(core));
        let (flows, engine) = (process.flows.get_mut(core)?, process.cores.get_mut(core)?);
        let outflow = flows.outflow.get_or_insert_with(|| Outflow::new(hello, timeout));
        let mut waiting = Vec::new();
        let link = outflow.join(&mut engine.store, has, now, &mut waiting);
        let id = self.next_wire;
        self.next_wire += 1;
        flows.links.insert(link, Told { wire: id, waiting, beaten: 0, acks: Vec::new() });
        let (forth, back) = Default::default();
        self.wires.insert(id, Wire { primary: Place { node, run }, core, link, replica, forth, back });
        self.tell(id);
        Some(id)
    }

    /// Gives a link as much as it takes of what waits for it.
    fn tell(&mut self, id: u64) {
        let Some(wire) = self.wires.get_mut(&id) else { return };
        let Some(told) = told(&mut self.machines, wire) else { return };
        if told.waiting.is_empty() || wire.forth.bytes() >= WIRE_BYTES_MAX {
            return;
        }
        let bytes = std::mem::take(&mut told.waiting);
        for at in wire.forth.write(&bytes, self.now, self.plan.delay_micros_max, &mut self.random) {
            self.agenda.add(&mut self.random, at, Event::Arrive { wire: id, is_forth: true });
        }
    }

    /// The replica has taken something off a link: there is room again.
    pub(super) fn has_room(&mut self, id: u64) {
        self.tell(id);
    }

    /// What a replica says back has come.
    pub(super) fn hear_back(&mut self, id: u64, bytes: &[u8]) {
        let Some(wire) = self.wires.get(&id) else { return };
        let (place, core, link) = (wire.primary, wire.core, wire.link);
        let Some(told) = told(&mut self.machines, wire) else { return };
        told.acks.extend_from_slice(bytes);
        let mut acks = Vec::new();
        while let Some((ack, rest)) = told.acks.split_first_chunk::<{ Ack::BYTES }>() {
            acks.push(Ack::read(*ack));
            told.acks = rest.to_vec();
        }
        let clock = self.steady(place.node);
        let Some(process) = self.process_of(place) else { return };
        if let Some(outflow) = process.flows.get_mut(core).and_then(|flows| flows.outflow.as_mut()) {
            acks.iter().for_each(|ack| outflow.acknowledged(link, ack.number, ack.is_copied, clock));
        }
        self.open_gate(place, core);
    }

    /// A link has ended, on this side or the other.
    pub(super) fn link_over(&mut self, id: u64) {
        let Some(wire) = self.wires.get_mut(&id) else { return };
        let (place, core, link) = (wire.primary, wire.core, wire.link);
        if let Some(at) = wire.forth.end(self.now, self.plan.delay_micros_max, &mut self.random) {
            self.agenda.add(&mut self.random, at, Event::Arrive { wire: id, is_forth: true });
        }
        let clock = self.steady(place.node);
        let Some(process) = self.process_of(place) else { return };
        let (Some(flows), Some(engine)) = (process.flows.get_mut(core), process.cores.get_mut(core)) else { return };
        if flows.links.remove(&link).is_some()
            && let Some(outflow) = &mut flows.outflow
        {
            outflow.leave(&mut engine.store, link, clock);
        }
        self.look_who_is_in_step(place, core);
    }

    /// Takes what changed and tells all links; at a tick goes on with their walks too.
    pub(super) fn flush(&mut self, place: Place, core: usize, is_tick: bool) {
        let moment = Moment { timeline: self.time(place.node), clock: self.steady(place.node) };
        let expiry = self.expiry_time(place.node);
        let pace = Pace {
            copy_keys: if is_tick { self.plan.copy_keys } else { 0 },
            link_bytes_max: self.plan.link_bytes_max,
            beat_micros: (self.plan.replica_timeout_micros / 10).min(BEAT_MICROS_MAX),
        };
        let Some(process) = self.process_of(place) else { return };
        if let Some(engine) = process.cores.get_mut(core).filter(|_| is_tick) {
            engine.store.sweep(expiry, SWEEP_RECORDS);
            engine.publish();
        }
        let (mut over, mut told) = (Vec::new(), Vec::new());
        let mut number = None;
        if let Some(flows) = process.flows.get(core).filter(|flows| !flows.links.is_empty()) {
            told = flows.links.values().map(|told| told.wire).collect();
            (over, number) = flush_core(process, core, moment, pace);
        }
        if let Some(number) = number {
            let (records, now) = (Rc::new(self.held_by(place.node, core)), moment.timeline);
            self.note(Fact::Flushed { run: place.run, core, number, now, records });
        }
        told.into_iter().for_each(|wire| self.tell(wire));
        over.into_iter().for_each(|wire| self.link_over(wire));
        self.look_who_is_in_step(place, core);
        if is_tick {
            self.schedule(self.now + FLUSH_MICROS, Event::Flush { place, core });
        }
    }

    /// Finds out who is in step, and lets out what waited for who is not any more.
    fn look_who_is_in_step(&mut self, place: Place, core: usize) {
        let clock = self.steady(place.node);
        let Some(process) = self.process_of(place) else { return };
        if let (Some(engine), Some(Flows { outflow: Some(outflow), .. })) =
            (process.cores.get_mut(core), process.flows.get_mut(core))
        {
            outflow.look(&mut engine.store, clock);
        }
        self.open_gate(place, core);
    }

    /// Ends all links of a core: its process follows another.
    pub(super) fn end_all(&mut self, place: Place, core: usize) {
        let Some(process) = self.process_of(place) else { return };
        if let (Some(engine), Some(Flows { outflow: Some(outflow), last_noted, .. })) =
            (process.cores.get_mut(core), process.flows.get_mut(core))
        {
            outflow.end_telling(&mut engine.store);
            *last_noted = None;
        }
        let links = process.flows.get(core).map(|flows| flows.links.values().map(|told| told.wire).collect());
        let wires: Vec<u64> = links.unwrap_or_default();
        wires.into_iter().for_each(|wire| self.link_over(wire));
    }

    /// What a core holds, by key.
    pub(super) fn held_by(&mut self, node: usize, core: usize) -> BTreeMap<usize, Vec<u8>> {
        let cores = self.machines.get(node).and_then(|machine| machine.process.as_ref()).map_or(1, |of| of.cores.len());
        self.held_of(node, core, cores)
    }
}

fn told<'a>(machines: &'a mut [super::machine::Machine], wire: &Wire) -> Option<&'a mut Told> {
    let process = machines.get_mut(wire.primary.node)?.process.as_mut()?;
    if process.run != wire.primary.run {
        return None;
    }
    process.flows.get_mut(wire.core)?.links.get_mut(&wire.link)
}

/// How much is done at a flush.
#[derive(Clone, Copy, Debug)]
struct Pace {
    copy_keys: usize,
    link_bytes_max: usize,
    beat_micros: u64,
}

/// One flush of a core with links. Answers the links that are over, and the flush.
fn flush_core(process: &mut Process, core: usize, moment: Moment, pace: Pace) -> (Vec<u64>, Option<u32>) {
    let (Some(Flows { outflow: Some(outflow), links, is_quiet, last_noted }), Some(engine)) =
        (process.flows.get_mut(core), process.cores.get_mut(core))
    else {
        return (Vec::new(), None);
    };
    let (now, mut out): (Micros, Vec<u8>) = (moment.timeline, Vec::new());
    let admitted = Admitted { units: engine.counters.units_admitted(), writes: 0 };
    if outflow.flush(&mut engine.store, admitted, moment, &mut out).is_err() {
        return (links.values().map(|told| told.wire).collect(), None);
    }
    *is_quiet = pace.copy_keys > 0 && out.is_empty();
    let copying = links.keys().filter(|id| outflow.is_walking(**id)).count();
    let mut over = Vec::new();
    for (id, told) in links.iter_mut() {
        let id: LinkId = *id;
        told.waiting.extend_from_slice(&out);
        if pace.copy_keys > 0 && told.waiting.len() < COPY_WAITS_BYTES {
            let count = (pace.copy_keys / copying.max(1)).max(1);
            outflow.walk(id, &mut engine.store, count, now, &mut told.waiting);
        }
        if moment.clock.saturating_sub(told.beaten) >= pace.beat_micros {
            outflow.beat(id, moment, &mut told.waiting);
            told.beaten = moment.clock;
        }
        if told.waiting.len() > pace.link_bytes_max {
            over.push(told.wire);
        }
    }
    // While there is no whole copy, what changes where no walk was yet is told by none and makes no new number.
    let is_new = last_noted.replace(outflow.number()) != Some(outflow.number()) || copying > 0;
    (over, is_new.then(|| outflow.number()))
}
