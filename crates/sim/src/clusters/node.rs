//! A node's part in the group: it applies what is committed, asks for its lease, and is what the map says that it is.

use super::check::Fact;
use super::follower::Following;
use super::leader::Lead;
use super::machine::{Place, Process, info, node_id, node_of, run_id};
use super::net::{Body, Party};
use super::primary::Reign;
use super::raft;
use super::world::{Event, World};
use std::rc::Rc;
use tollgate_topology::Change;
use tollgate_topology::leader::Leader;
use tollgate_topology::lease::{Answer, Ask};
use tollgate_topology::planted::{Planted, is_planted};
use tollgate_topology::slots::SlotSet;

/// Between two ticks of a node, in microseconds.
pub const TICK_MICROS: u64 = 10_000;
/// A node asks so often in a lease.
const ASKS_PER_LEASE: u64 = 5;
/// Between two tries to join.
const JOIN_MICROS: u64 = 200_000;

impl World {
    /// Time passes for a process.
    pub(super) fn tick(&mut self, place: Place) {
        let clock = self.boot(place.node);
        let Some(process) = self.machines.get_mut(place.node).and_then(|machine| machine.process.as_mut()) else {
            return;
        };
        if process.run != place.run {
            return;
        }
        let out = process.raft.tick(clock, &mut self.random);
        self.send_raft(place, out);
        self.go_on_with_group(place);
        self.look_as_leader(place);
        self.ask(place);
        self.look_who_is_in_step(place);
        self.go_on_handing_over(place);
        self.look_whether_silent(place);
        self.refuse_who_waited_long(place);
        self.schedule(self.now + TICK_MICROS, Event::Tick { place });
    }

    /// A message of the group's has come.
    pub(super) fn hear_raft(&mut self, place: Place, from: usize, message: raft::Message) {
        let clock = self.boot(place.node);
        let Some(process) = self.machines.get_mut(place.node).and_then(|machine| machine.process.as_mut()) else {
            return;
        };
        let out = process.raft.hear(from, message, clock, &mut self.random);
        self.send_raft(place, out);
        self.go_on_with_group(place);
    }

    pub(super) fn send_raft(&mut self, place: Place, out: raft::Out) {
        for (to, message) in out {
            self.send(Party::Node(place.node), Party::Node(to), Body::Raft(message));
        }
    }

    /// Applies what is committed, and leads or does not any more.
    pub(super) fn go_on_with_group(&mut self, place: Place) {
        let clock = self.boot(place.node);
        let Some(process) = self.process_of(place) else { return };
        let (leads, term) = (process.raft.leads(), process.raft.term());
        if !leads {
            process.lead = None;
        } else if process.lead.as_ref().is_none_or(|lead| lead.term != term) {
            process.lead = Some(Lead::new(term));
            self.note(Fact::Leads { node: place.node, term });
            self.summary.leaders += 1;
        }
        while self.apply_next(place) {}
        let Some(process) = self.process_of(place) else { return };
        let is_ready = process.raft.is_ready();
        if let Some(lead) = process.lead.as_mut().filter(|lead| is_ready && lead.leader.is_none()) {
            lead.leader = Some(Leader::new(clock));
        }
        self.answer_asks(place);
    }

    /// Applies the next entry that is committed. Answers whether there was one.
    fn apply_next(&mut self, place: Place) -> bool {
        let Some(process) = self.process_of(place) else { return false };
        if process.applied >= process.raft.committed() {
            return false;
        }
        let index = process.applied + 1;
        let Some(entry) = process.raft.entry(index).cloned() else { return false };
        process.applied = index;
        if let Some(change) = &entry.change {
            // A change that is refused changes nothing on any node.
            let _ = process.map.apply(change);
            if let Some(Lead { leader: Some(leader), .. }) = &mut process.lead {
                leader.settled(change);
            }
        }
        let map = Rc::new(process.map.clone());
        self.note(Fact::Applied { node: place.node, index, entry, map });
        self.follow_map(place);
        true
    }

    /// A process is what the map says.
    pub(super) fn follow_map(&mut self, place: Place) {
        let Some(process) = self.process_of(place) else { return };
        process.holder.follow_map(&process.map, node_id(place.node), run_id(place.run));
        let since = process.holder.leads_since();
        if process.reign.as_ref().map(|reign| reign.since) != since {
            self.end_reign(place);
            if let Some(since) = since {
                self.begin_reign(place, since);
            }
        }
        let Some(process) = self.process_of(place) else { return };
        let whom = process.map.followed_by(node_id(place.node)).filter(|_| since.is_none());
        let wanted = whom.and_then(|id| Some((node_of(id), process.map.leading(id)?)));
        let (is_other, following) = match (&process.following, wanted) {
            (Some(of), Some((primary, leading))) if of.primary == primary && of.since == leading.since => return,
            (None, None) => return,
            (_, None) => (false, None),
            (_, Some((primary, leading))) => (true, Some(Following::new(primary, leading.since, leading.state_name()))),
        };
        self.hang_up(place);
        if let Some(process) = self.process_of(place) {
            process.following = following;
        }
        if is_other {
            self.try_later(place, 1);
        }
    }

    fn begin_reign(&mut self, place: Place, since: u64) {
        let (timeout, bound) = (self.plan.replica_timeout_micros, self.plan.overshoot_max);
        self.hang_up(place);
        let Some(process) = self.process_of(place) else { return };
        process.following = None;
        process.early = None;
        let name = process.map.leading(node_id(place.node)).map(|leading| leading.state_name()).unwrap_or([b'0'; 40]);
        process.reign = Some(Reign::new(since, name, timeout, bound));
        let now = self.time(place.node);
        let held = self.held_of(place.node);
        self.note(Fact::Reigns { place, since, now, held });
        self.summary.reigns += 1;
    }

    /// A process leads no more: who waits for an answer is told so, and all links end.
    fn end_reign(&mut self, place: Place) {
        let Some(process) = self.process_of(place) else { return };
        let Some(mut reign) = process.reign.take() else { return };
        let mut refused: Vec<u64> = std::mem::take(&mut process.ready).into_keys().collect();
        while let Some(held) = reign.gate.give_up() {
            refused.push(held.call);
        }
        refused.extend(std::mem::take(&mut process.waiting).into_iter().map(|(call, _)| call));
        reign.outflow.end_telling(&mut process.core.store);
        refused.into_iter().for_each(|call| self.redirect(place, call));
        for id in reign.wires() {
            let Some(wire) = self.wires.get_mut(&id) else { continue };
            if let Some(at) = wire.forth.end(self.now, self.plan.delay_micros_max, &mut self.random) {
                self.schedule(at, Event::Arrive { wire: id, is_forth: true });
            }
        }
    }

    /// A node asks its leader, some times in a lease.
    fn ask(&mut self, place: Place) {
        let (clock, node) = (self.boot(place.node), place.node);
        let Some(process) = self.process_of(place) else { return };
        if clock < process.ask_at {
            return;
        }
        process.ask_at = clock + u64::from(process.map.lease.ms) * 1_000 / ASKS_PER_LEASE;
        if process.raft.leader().is_none() {
            return;
        }
        let is_handing = process.reign.as_ref().and_then(|reign| reign.hand).is_some_and(|hand| hand.is_sent());
        let ask = Ask {
            id: node_id(node),
            info: process.info.clone(),
            number: process.holder.ask(clock),
            epoch: process.map.epoch,
            leads_since: process.holder.leads_since().filter(|_| !is_handing),
            follows: process.following.as_ref().and_then(|following| following.follows(clock)),
        };
        let is_known = process.map.nodes.contains_key(&node_id(node));
        self.send_to_leader(place, Body::Ask(Box::new(ask)));
        if !is_known {
            self.join_group(place);
        } else if let Some((late, shard)) = self.plan.late.filter(|(late, _)| *late == node) {
            self.follow_first(Place { node: late, ..place }, shard);
        }
    }

    /// A node that nobody knows says that it is there.
    fn join_group(&mut self, place: Place) {
        let change = Change::Join {
            id: node_id(place.node),
            info: info(place.node, place.run),
            slots: SlotSet::default(),
            config_epoch: 0,
        };
        self.wish_now_and_then(place, change);
    }

    /// A node that has come late follows who has the slots of a shard.
    fn follow_first(&mut self, place: Place, shard: usize) {
        let slot = self.plan.shards.get(shard).map_or(0, |shard| shard.slots.0);
        let Some(process) = self.process_of(place) else { return };
        let id = node_id(place.node);
        let Some(of) = process.map.owner_of(slot).filter(|of| *of != id) else { return };
        if process.map.followed_by(id).is_none() && !process.map.owns_any(id) {
            self.wish_now_and_then(place, Change::Replicate { id, of });
        }
    }

    fn wish_now_and_then(&mut self, place: Place, change: Change) {
        let clock = self.boot(place.node);
        let Some(process) = self.process_of(place).filter(|process| clock >= process.join_at) else { return };
        process.join_at = clock + JOIN_MICROS;
        self.send_to_leader(place, Body::Propose(Box::new(change)));
    }

    /// Whom a process takes for the leader, if that is another node.
    pub(super) fn leader_elsewhere(&mut self, place: Place) -> Option<usize> {
        self.process_of(place)?.raft.leader().filter(|leader| *leader != place.node)
    }

    /// Sends something to whom a process takes for the leader.
    pub(super) fn send_to_leader(&mut self, place: Place, body: Body) {
        let leader = self.process_of(place).and_then(|process| process.raft.leader());
        if let Some(leader) = leader {
            self.send(Party::Process(place), Party::Node(leader), body);
        }
    }

    /// The leader has answered.
    pub(super) fn hear_answer(&mut self, place: Place, answer: &Answer) {
        let (clock, now) = (self.boot(place.node), self.now);
        let Some(machine) = self.machines.get_mut(place.node) else { return };
        let boot_now = machine.boot(now);
        let Some(process) = machine.process.as_mut().filter(|process| process.run == place.run) else { return };
        process.timeline.follow(answer.time, clock, false);
        let Some(grant) = &answer.grant else { return };
        process.holder.granted(grant, clock);
        if is_planted(Planted::TargetServesBeforeCommit) && process.reign.is_none() {
            process.early = Some((clock + grant.micros, grant.since));
        }
        let (since, until) = (process.holder.leads_since(), process.holder.until());
        if let Some(since) = since.filter(|_| until > boot_now) {
            process.fenced_since = None;
            let at = self.machines.get(place.node).map_or(0, |machine| machine.when(until));
            self.note(Fact::Lease { since, until: at });
        }
        self.serve_who_wait(place);
        self.open_gate(place);
    }
}

/// The lease that a process holds of its reign, by its clock; 0: none.
pub fn lease_until(process: &Process) -> u64 {
    process.holder.until()
}
