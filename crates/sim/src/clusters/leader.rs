//! What a node does while it leads the group: it hears, grants after a round of a majority, and decides who takes over.

use super::machine::{Place, Process, node_id};
use super::net::{Body, Party};
use super::world::World;
use tollgate_topology::leader::Leader;
use tollgate_topology::lease::{Answer, Ask};
use tollgate_topology::planted::{Planted, is_planted};
use tollgate_topology::{Change, NodeId};

/// Between two looks at who is silent, in microseconds.
const LOOK_MICROS: u64 = 20_000;
/// An ask that no majority has confirmed for so long is not answered any more.
const ASK_MICROS_MAX: u64 = 5_000_000;

/// What it knows as the leader of a term.
#[derive(Debug)]
pub struct Lead {
    /// The term.
    pub term: u64,
    /// What it decides by, once an entry of its own is committed.
    pub leader: Option<Leader>,
    asks: Vec<Asked>,
    look_at: u64,
}

#[derive(Debug)]
struct Asked {
    ask: Ask,
    from: Place,
    /// The round that must be answered first.
    round: u64,
    at: u64,
}

impl Lead {
    /// One that was elected now.
    pub fn new(term: u64) -> Lead {
        Lead { term, leader: None, asks: Vec::new(), look_at: 0 }
    }
}

impl World {
    /// A node asks.
    pub(super) fn hear_ask(&mut self, place: Place, from: Place, ask: Ask) {
        let clock = self.boot(place.node);
        let Some(process) = self.process_of(place) else { return };
        let Some(Lead { leader: Some(leader), asks, .. }) = &mut process.lead else { return };
        leader.hears(&ask, clock);
        let (round, out) = process.raft.begin_round(clock);
        let round = if is_planted(Planted::RenewalWithoutMajority) { 0 } else { round };
        asks.push(Asked { ask, from, round, at: clock });
        self.send_raft(place, out);
        self.answer_asks(place);
    }

    /// Answers the asks whose rounds a majority has answered.
    pub(super) fn answer_asks(&mut self, place: Place) {
        let clock = self.boot(place.node);
        let Some(process) = self.process_of(place) else { return };
        let time = process.timeline.now(clock);
        let answered = process.raft.round_answered();
        let Process { lead: Some(Lead { leader: Some(leader), asks, .. }), map, .. } = process else { return };
        asks.retain(|asked| clock < asked.at + ASK_MICROS_MAX);
        let (due, rest) = std::mem::take(asks).into_iter().partition(|asked: &Asked| asked.round <= answered);
        *asks = rest;
        let mut answers = Vec::new();
        for Asked { ask, from, .. } in due {
            let grant = leader.grant(map, &ask, clock);
            answers.push((from, Answer { grant, silent: leader.silent(map, clock), time, epoch: map.epoch }));
        }
        for (to, answer) in answers {
            self.send(Party::Node(place.node), Party::Process(to), Body::Answer(answer));
        }
    }

    /// Looks who is silent, now and then.
    pub(super) fn look_as_leader(&mut self, place: Place) {
        let clock = self.boot(place.node);
        let Some(Process { lead: Some(Lead { leader: Some(leader), look_at, .. }), map, raft, .. }) =
            self.process_of(place)
        else {
            return;
        };
        if clock < *look_at {
            return;
        }
        *look_at = clock + LOOK_MICROS;
        let mut changes = leader.look(map, clock);
        // What a node says of itself is found out again at each look until that is committed.
        changes.retain(|change| !raft.is_under_way(change));
        for change in changes {
            self.propose(place, change);
        }
    }

    /// Somebody wishes a change.
    pub(super) fn hear_wish(&mut self, place: Place, mut change: Change) {
        let clock = self.boot(place.node);
        let Some(Process { lead: Some(Lead { leader: Some(leader), .. }), map, raft, .. }) = self.process_of(place)
        else {
            return;
        };
        if !raft.is_under_way(&change) && leader.permit(map, &mut change, clock).is_ok() {
            self.propose(place, change);
        }
    }

    /// A primary hands over.
    pub(super) fn hear_hand_over(&mut self, place: Place, (from, since): (NodeId, u64), number: u64, to: NodeId) {
        let clock = self.boot(place.node);
        let Some(Process { lead: Some(Lead { leader: Some(leader), .. }), map, .. }) = self.process_of(place) else {
            return;
        };
        if let Ok(change) = leader.hand_over(map, (from, since), number, to, clock) {
            self.propose(place, change);
        }
    }

    fn propose(&mut self, place: Place, change: Change) {
        let clock = self.boot(place.node);
        let Some(process) = self.process_of(place) else { return };
        process.raft.propose(change);
        let (_, out) = process.raft.begin_round(clock);
        self.send_raft(place, out);
        self.go_on_with_group(place);
    }

    /// An operator says that a replica is to take over whatever it knows: the leader is told.
    pub(super) fn force(&mut self, to: usize) {
        let Some(leader) = self.some_leader() else { return };
        let Some(process) = self.process_at(leader) else { return };
        let map = &process.map;
        let Some(from) = map.followed_by(node_id(to)) else { return };
        let Some((leading, info)) =
            map.leading(from).zip(map.nodes.get(&node_id(to))).map(|(leading, node)| (leading, &node.info))
        else {
            return;
        };
        let change = Change::Promote { from, since: leading.since, to: node_id(to), run: info.run, is_forced: true };
        // It comes from the node that an operator talks to.
        self.send(Party::Node(to), Party::Node(leader), Body::Propose(Box::new(change)));
    }
}
