//! Ways between nodes, and between clients and nodes: late, lost, cut one way or both.
//!
//! What is sent into a cut is lost, or comes when the cut has ended, as what a kernel sends again does.

use super::machine::Place;
use super::raft;
use crate::random::Random;
use std::collections::BTreeMap;
use tollgate_topology::lease::{Answer, Ask};
use tollgate_topology::{Change, NodeId};

/// Who sends or is sent something.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Party {
    /// A node, whatever process it is.
    Node(usize),
    /// A process: what comes for another one of the same node is lost.
    Process(Place),
    /// A client.
    Client(usize),
}

/// What is sent.
#[derive(Clone, Debug)]
pub enum Body {
    /// The group's.
    Raft(raft::Message),
    /// A node asks its leader.
    Ask(Box<Ask>),
    /// It is answered.
    Answer(Answer),
    /// Somebody wishes a change.
    Propose(Box<Change>),
    /// A primary hands over, [`tollgate_topology::leader::Leader::hand_over`].
    HandOver { from: NodeId, since: u64, number: u64, to: NodeId },
    /// An operator tells a primary to hand over to a replica.
    FailOver { to: usize },
    /// A client's call.
    Call(u64),
    /// Its answer.
    Reply { call: u64, reply: Vec<u8> },
}

/// The most that a message that a cut has held up comes late after it, in microseconds.
const AFTER_CUT_MICROS_MAX: u64 = 30_000;

/// All ways.
#[derive(Debug, Default)]
pub struct Net {
    /// From and to which node nothing comes before this.
    cuts: BTreeMap<(usize, usize), u64>,
    /// From and to which node it takes longer, by up to how much, until when.
    slow: BTreeMap<(usize, usize), (u64, u64)>,
}

impl Net {
    /// When something arrives that is sent now; `None`: it is lost.
    pub fn arrival(&self, way: (Party, Party), now: u64, delay_max: u64, random: &mut Random) -> Option<u64> {
        let longest = if random.chance(900) { delay_max / 8 } else { delay_max };
        let mut at = now + random.between(1, longest.max(1));
        let Some(way) = nodes(way) else { return Some(at) };
        if let Some((extra, until)) = self.slow.get(&way)
            && *until > now
        {
            at += random.between(extra / 4, *extra);
        }
        let cut = self.cut_until(way);
        if cut <= now {
            return Some(at);
        }
        random.chance(400).then(|| cut + random.between(1, AFTER_CUT_MICROS_MAX))
    }

    /// Until when nothing comes through; 0: it does.
    pub fn cut_until(&self, way: (usize, usize)) -> u64 {
        self.cuts.get(&way).copied().unwrap_or(0)
    }

    /// How long something takes that is sent on a way between two nodes, at most.
    pub fn delay_max(&self, way: (usize, usize), now: u64, delay_max: u64) -> u64 {
        delay_max + self.slow.get(&way).filter(|(_, until)| *until > now).map_or(0, |(extra, _)| *extra)
    }

    /// Whether two nodes cannot talk.
    pub fn is_cut(&self, one: usize, other: usize, now: u64) -> bool {
        self.cut_until((one, other)) > now || self.cut_until((other, one)) > now
    }

    /// Cuts a way until then.
    pub fn cut(&mut self, way: (usize, usize), until: u64) {
        let place = self.cuts.entry(way).or_insert(0);
        *place = until.max(*place);
    }

    /// Makes a way slower by up to `extra` until then.
    pub fn slow(&mut self, way: (usize, usize), extra: u64, until: u64) {
        self.slow.insert(way, (extra, until));
    }

    /// All is well again.
    pub fn heal(&mut self) {
        self.cuts.clear();
        self.slow.clear();
    }
}

/// The nodes that a way is between; `None`: a client is at one end, or it is one node alone.
fn nodes(way: (Party, Party)) -> Option<(usize, usize)> {
    let node = |party: Party| match party {
        Party::Node(node) | Party::Process(Place { node, .. }) => Some(node),
        Party::Client(_) => None,
    };
    let (from, to) = (node(way.0)?, node(way.1)?);
    (from != to).then_some((from, to))
}
