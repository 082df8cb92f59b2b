//! A primary's side of its links: what its core tells, and whom the group is told to be in step.
//!
//! The group's word about who may take over is always within what the primary waits for: who is proposed is kept from
//! before it is proposed, and until a map has come in which it is not named any more.

use super::check::Fact;
use super::machine::{Place, Process, node_id, run_id};
use super::net::Body;
use super::serve::Held;
use super::world::{Event, World};
use crate::pipe::Pipe;
use std::collections::BTreeMap;
use tollgate_replication::VERSION;
use tollgate_replication::bound::Gate;
use tollgate_replication::flow::{Ack, Has, Hello};
use tollgate_replication::in_step::{Admitted, LinkId};
use tollgate_replication::outflow::{Moment, Outflow};
use tollgate_topology::map::STATE_NAME_BYTES;
use tollgate_topology::{Change, NodeId, RunId};

/// Between two flushes, in microseconds.
pub const FLUSH_MICROS: u64 = 5_000;
/// The longest time between two signs of life of a link.
const BEAT_MICROS: u64 = 15_000;
/// Bytes that a link takes before it is written no more to.
const LINK_BYTES_MAX: usize = 4_096;
/// Bytes that wait for a link at which it is ended.
const WAITING_BYTES_MAX: usize = 60_000;
/// A word that was not taken up for so long is said again, as a new one.
const AGAIN_MICROS: u64 = 120_000;
/// A primary that hands over waits so long for the replica to know all, and as long for the group.
const HAND_OVER_MICROS: u64 = 400_000;

/// A link from a primary's core to a replica.
#[derive(Debug)]
pub struct Wire {
    /// Who tells.
    pub primary: Place,
    /// Its name there.
    pub link: LinkId,
    /// Who is told.
    pub replica: Place,
    /// To the replica.
    pub forth: Pipe,
    /// To the primary.
    pub back: Pipe,
}

/// What waits for one link.
#[derive(Debug)]
struct Told {
    wire: u64,
    replica: (NodeId, RunId),
    waiting: Vec<u8>,
    beaten: u64,
    acks: Vec<u8>,
}

/// How a primary hands over.
#[derive(Clone, Copy, Debug)]
pub struct HandOver {
    to: usize,
    /// When it gives that up.
    until: u64,
    /// Whether the group was asked.
    is_sent: bool,
}

impl HandOver {
    /// Whether the group was asked: the primary serves no more.
    pub fn is_sent(self) -> bool {
        self.is_sent
    }
}

/// What a process is as a primary.
#[derive(Debug)]
pub struct Reign {
    /// Since when it leads.
    pub since: u64,
    /// What its core tells.
    pub outflow: Outflow,
    /// Answers that may not leave yet.
    pub gate: Gate<Held>,
    /// Whether nothing had changed at the last flush.
    pub is_quiet: bool,
    /// How it hands over, if it does.
    pub hand: Option<HandOver>,
    links: BTreeMap<LinkId, Told>,
    /// Whose each link is or was that may still count.
    names: BTreeMap<LinkId, (NodeId, RunId)>,
    /// Words about who is in step that may still be taken up, by their numbers; the last number, and when it was said.
    words: BTreeMap<u64, BTreeMap<NodeId, RunId>>,
    number: u64,
    said_at: u64,
}

impl Reign {
    /// One that begins, of a state of this name.
    pub fn new(since: u64, name: [u8; STATE_NAME_BYTES], timeout: u64, bound: Option<u64>) -> Reign {
        let (run_id, telling) = (name, 0);
        let hello = Hello { version: VERSION, run_id, core: 0, cores: 1, telling, continues: None, resumes: false };
        Reign {
            since,
            outflow: Outflow::new(hello, timeout),
            gate: Gate::new(bound),
            is_quiet: false,
            hand: None,
            links: BTreeMap::new(),
            names: BTreeMap::new(),
            words: BTreeMap::new(),
            number: 0,
            said_at: 0,
        }
    }

    /// Its links, by their names in the world.
    pub fn wires(&self) -> Vec<u64> {
        self.links.values().map(|told| told.wire).collect()
    }
}

impl World {
    /// A replica asks for what a core tells. `None`: it is told nothing.
    pub(super) fn join(&mut self, node: usize, replica: Place, has: Option<Has>) -> Option<u64> {
        let place = self.place(node)?;
        let moment = self.moment(place)?;
        let process = self.process_of(place)?;
        let reign = process.reign.as_mut()?;
        let mut waiting = Vec::new();
        let link = reign.outflow.join(&mut process.core.store, has, moment.timeline, &mut waiting);
        let id = self.next_wire;
        self.next_wire += 1;
        let name = (node_id(replica.node), run_id(replica.run));
        let reign = self.process_of(place)?.reign.as_mut()?;
        reign.links.insert(link, Told { wire: id, replica: name, waiting, beaten: 0, acks: Vec::new() });
        reign.names.insert(link, name);
        let (forth, back) = Default::default();
        self.wires.insert(id, Wire { primary: place, link, replica, forth, back });
        self.tell(id);
        Some(id)
    }

    /// What a process reads off its clocks; `None`: it is gone.
    pub(super) fn moment(&self, place: Place) -> Option<Moment> {
        let clock = self.boot(place.node);
        let process = self.machines.get(place.node)?.process.as_ref().filter(|process| process.run == place.run)?;
        Some(Moment { timeline: process.timeline.now(clock), clock })
    }

    /// Gives a link as much as it takes of what waits for it.
    pub(super) fn tell(&mut self, id: u64) {
        let Some(wire) = self.wires.get_mut(&id) else { return };
        let (place, link) = (wire.primary, wire.link);
        let Some(process) = self.machines.get_mut(place.node).and_then(|machine| machine.process.as_mut()) else {
            return;
        };
        let reign = process.reign.as_mut().filter(|_| process.run == place.run);
        let Some(told) = reign.and_then(|reign| reign.links.get_mut(&link)) else { return };
        if told.waiting.is_empty() || told.wire != id || wire.forth.bytes() >= LINK_BYTES_MAX {
            return;
        }
        let bytes = std::mem::take(&mut told.waiting);
        self.write(id, true, &bytes);
    }

    /// Writes to a link.
    pub(super) fn write(&mut self, id: u64, is_forth: bool, bytes: &[u8]) {
        let Some(wire) = self.wires.get_mut(&id) else { return };
        let (from, to) = (wire.primary.node, wire.replica.node);
        let (way, pipe) = if is_forth { ((from, to), &mut wire.forth) } else { ((to, from), &mut wire.back) };
        pipe.held_until = pipe.held_until.max(self.net.cut_until(way));
        let delay = self.net.delay_max(way, self.now, self.plan.delay_micros_max);
        for at in pipe.write(bytes, self.now, delay, &mut self.random) {
            self.agenda.add(&mut self.random, at, Event::Arrive { wire: id, is_forth });
        }
    }

    /// What a replica says back has come.
    pub(super) fn hear_back(&mut self, id: u64, bytes: &[u8]) {
        let Some(wire) = self.wires.get(&id) else { return };
        let (place, link) = (wire.primary, wire.link);
        let clock = self.boot(place.node);
        let Some(reign) = self.process_of(place).and_then(|process| process.reign.as_mut()) else { return };
        let Some(told) = reign.links.get_mut(&link).filter(|told| told.wire == id) else { return };
        told.acks.extend_from_slice(bytes);
        while let Some((ack, rest)) = told.acks.split_first_chunk::<{ Ack::BYTES }>() {
            let ack = Ack::read(*ack);
            told.acks = rest.to_vec();
            reign.outflow.acknowledged(link, ack.number, ack.is_copied, clock);
        }
        self.open_gate(place);
    }

    /// A link has ended, on this side or the other.
    pub(super) fn link_over(&mut self, id: u64) {
        let Some(wire) = self.wires.get_mut(&id) else { return };
        let (place, link) = (wire.primary, wire.link);
        if let Some(at) = wire.forth.end(self.now, self.plan.delay_micros_max, &mut self.random) {
            self.agenda.add(&mut self.random, at, Event::Arrive { wire: id, is_forth: true });
        }
        let clock = self.boot(place.node);
        let Some(process) = self.process_of(place) else { return };
        if let Some(reign) = &mut process.reign
            && reign.links.get(&link).is_some_and(|told| told.wire == id)
        {
            reign.links.remove(&link);
            reign.outflow.leave(&mut process.core.store, link, clock);
        }
        self.look_who_is_in_step(place);
    }

    /// Takes what changed and tells all links; at a tick goes on with their walks too.
    pub(super) fn flush(&mut self, place: Place, is_tick: bool) {
        let Some(moment) = self.moment(place) else { return };
        let copy_keys = if is_tick { self.plan.copy_keys } else { 0 };
        let Some(process) = self.process_of(place) else { return };
        let mut over = Vec::new();
        if process.reign.as_ref().is_some_and(|reign| !reign.links.is_empty()) {
            over = flush_core(process, moment, copy_keys);
        }
        let told = process.reign.as_ref().map_or(Vec::new(), Reign::wires);
        told.into_iter().for_each(|wire| self.tell(wire));
        over.into_iter().for_each(|wire| self.link_over(wire));
        self.look_who_is_in_step(place);
        if is_tick {
            self.schedule(self.now + FLUSH_MICROS, Event::Flush { place });
        }
    }

    /// Finds out who is in step, has the group know, and lets out what waited for who is not any more.
    pub(super) fn look_who_is_in_step(&mut self, place: Place) {
        let clock = self.boot(place.node);
        let Some(process) = self.process_of(place) else { return };
        if let Some(reign) = &mut process.reign {
            reign.outflow.look(&mut process.core.store, clock);
            if let Some(change) = word(process, place.node, clock) {
                self.send_to_leader(place, Body::Propose(Box::new(change)));
                self.maybe_cut_off_soon(place.node);
            }
        }
        self.open_gate(place);
    }

    /// An operator tells a primary to hand over.
    pub(super) fn begin_to_hand_over(&mut self, place: Place, to: usize) {
        let until = self.boot(place.node) + HAND_OVER_MICROS;
        let Some(reign) = self.process_of(place).and_then(|process| process.reign.as_mut()) else { return };
        reign.hand.get_or_insert(HandOver { to, until, is_sent: false });
        self.go_on_handing_over(place);
    }

    /// Once the replica knows all, the primary gives up its lease and has the group change who leads.
    pub(super) fn go_on_handing_over(&mut self, place: Place) {
        let clock = self.boot(place.node);
        let Some(process) = self.process_of(place) else { return };
        let has_answers = !process.ready.is_empty();
        let Some(reign) = &mut process.reign else { return };
        let Some(hand) = reign.hand else { return };
        if clock >= hand.until {
            reign.hand = None;
            return self.serve_who_wait(place);
        }
        let to = node_id(hand.to);
        let all = reign.outflow.number_to_tell_all(&process.core.store);
        let is_known = reign.outflow.in_step.safe_number() >= all
            && reign.links.iter().any(|(link, told)| told.replica.0 == to && reign.outflow.in_step.is_in_step(*link));
        if hand.is_sent || has_answers || !is_known || reign.gate.held() > 0 {
            return;
        }
        reign.hand = Some(HandOver { is_sent: true, until: clock + HAND_OVER_MICROS, ..hand });
        let (from, since, number) = (node_id(place.node), reign.since, process.holder.give_up());
        self.note(Fact::Lease { since, until: 0 });
        self.send_to_leader(place, Body::HandOver { from, since, number, to });
        self.maybe_cut_off_soon(place.node);
    }
}

/// What the group is to be told about who is in step, if that is another than it was told last.
fn word(process: &mut Process, node: usize, clock: u64) -> Option<Change> {
    let of = node_id(node);
    let reign = process.reign.as_mut()?;
    let leading = process.map.leading(of).filter(|leading| leading.since == reign.since)?;
    // Whoever is named by the last map that came, or by a word that may still be taken up, is waited for.
    reign.words.retain(|number, _| *number > leading.in_step_number);
    let is_settled = reign.words.is_empty();
    let is_named = |name: &(NodeId, RunId)| {
        let is_in = |set: &BTreeMap<NodeId, RunId>| set.get(&name.0) == Some(&name.1);
        is_in(&leading.in_step) || reign.words.values().any(is_in)
    };
    let in_step = &mut reign.outflow.in_step;
    let counts: Vec<LinkId> = reign.names.keys().copied().filter(|link| in_step.is_in_step(*link)).collect();
    let mut wanted = BTreeMap::new();
    for link in &counts {
        let Some(name) = reign.names.get(link) else { continue };
        let follows = process.map.followed_by(name.0) == Some(of)
            && process.map.nodes.get(&name.0).is_some_and(|node| node.info.run == name.1);
        if follows && in_step.keep(*link, true) && in_step.may_take_over(*link) {
            wanted.insert(name.0, name.1);
        }
    }
    // A link whose replica has a newer one that counts is not needed any more, nor is one that nobody names.
    let links: Vec<LinkId> = in_step.links().map(|(link, _)| link).collect();
    for link in &links {
        let Some(name) = reign.names.get(link).filter(|_| !counts.contains(link)) else { continue };
        let is_replaced = counts.iter().any(|other| reign.names.get(other) == Some(name));
        in_step.keep(*link, is_named(name) && !is_replaced);
    }
    reign.names.retain(|link, _| links.contains(link));
    // One at a time, and again if it is not taken up.
    let waits = !is_settled && clock < reign.said_at + AGAIN_MICROS;
    if waits || is_settled && wanted == leading.in_step {
        return None;
    }
    reign.number += 1;
    reign.said_at = clock;
    reign.words.insert(reign.number, wanted.clone());
    Some(Change::InStep { of, since: reign.since, number: reign.number, replicas: wanted })
}

/// One flush. Answers the links that are over.
fn flush_core(process: &mut Process, moment: Moment, copy_keys: usize) -> Vec<u64> {
    let Some(reign) = &mut process.reign else { return Vec::new() };
    let Reign { outflow, links, is_quiet, .. } = reign;
    let store = &mut process.core.store;
    let mut out: Vec<u8> = Vec::new();
    let admitted = Admitted { units: process.core.counters.units_admitted(), writes: 0 };
    if outflow.flush(store, admitted, moment, &mut out).is_err() {
        return links.values().map(|told| told.wire).collect();
    }
    *is_quiet = copy_keys > 0 && out.is_empty();
    let mut over = Vec::new();
    for (link, told) in links.iter_mut() {
        told.waiting.extend_from_slice(&out);
        if copy_keys > 0 {
            outflow.walk(*link, store, copy_keys, moment.timeline, &mut told.waiting);
        }
        if moment.clock.saturating_sub(told.beaten) >= BEAT_MICROS {
            outflow.beat(*link, moment, &mut told.waiting);
            told.beaten = moment.clock;
        }
        if told.waiting.len() > WAITING_BYTES_MAX {
            over.push(told.wire);
        }
    }
    over
}
