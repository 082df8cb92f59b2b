//! What a node asks its leader, what it is granted, and for how long it may serve.
//!
//! The problem: a primary that was paused or cut off cannot know that another has taken over. The idea: it serves only
//! under a lease. The lease begins when the node *sent* what asked for it, by its own clock that counts suspend, so
//! that whatever the way took makes it shorter at the node and never longer; it belongs to one process's time as a
//! primary.
//!
//! ```text
//! node    ask n, at t ──────────>           <────── grant n: serve until t + lease
//! leader             a round of a majority, begun after n came, says that it still leads
//! ```
//!
//! **Invariant:** a node holds no lease later than its length after it sent the ask that was granted last.

use crate::change::is_same_epoch;
use crate::id::{NodeId, RunId};
use crate::map::{Info, SlotMap};
use crate::planted::{Planted, is_planted};
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;

/// Asks that are remembered until they are answered: those of some seconds.
const ASKS_MAX: usize = 128;

/// What a node tells its leader some times in a lease.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ask {
    /// The node.
    pub id: NodeId,
    /// What it says of itself.
    pub info: Info,
    /// Rises with every ask of a process.
    pub number: u64,
    /// The epoch of the map that it goes by.
    pub epoch: u64,
    /// Since when it leads, by that map, and wants a lease for it; `None`: it wants none.
    pub leads_since: Option<u64>,
    /// How it follows, if it does.
    pub follows: Option<Follows>,
}

/// How a replica follows its primary.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Follows {
    /// Since when that primary leads whose state it holds, [`crate::map::Leading::since`].
    pub since: u64,
    /// Whether the primary has told it lately that it waits for it.
    pub is_in_step: bool,
    /// Flushes that it has put, of all the primary's cores: the higher, the more it knows.
    pub progress: u64,
}

/// What comes of an ask.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answer {
    /// A lease.
    pub grant: Option<Grant>,
    /// Nodes that the leader has not heard for the length of a lease.
    pub silent: Vec<NodeId>,
    /// The leader's time, in microseconds since 1970: limits are decided by it everywhere.
    pub time: u64,
    /// The epoch of the leader's map.
    pub epoch: u64,
}

/// A lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Grant {
    /// The ask that it answers.
    pub number: u64,
    /// Since when the node leads for which it is granted.
    pub since: u64,
    /// Its length.
    pub micros: u64,
}

/// A node's side: how long it may serve. Times are of a clock that counts suspend, in microseconds.
#[derive(Clone, Debug, Default)]
pub struct Holder {
    asks: VecDeque<(u64, u64)>,
    last: u64,
    /// Grants for asks up to this one are worth nothing.
    void_through: u64,
    since: Option<u64>,
    until: u64,
}

impl Holder {
    /// The node asks now; gives the ask's number.
    pub fn ask(&mut self, now: u64) -> u64 {
        self.last += 1;
        self.asks.push_back((self.last, now));
        if self.asks.len() > ASKS_MAX {
            self.asks.pop_front();
        }
        self.last
    }

    /// What it leads as has changed, or has not: under another map's time no lease holds. `process` is its own.
    pub fn follow_map(&mut self, map: &SlotMap, id: NodeId, process: RunId) {
        let leading = map.leading(id).filter(|leading| leading.run == process || keeps_lease());
        let since = leading.map(|leading| leading.since);
        if self.since != since {
            self.since = since;
            if !is_planted(Planted::EpochOffByOne) {
                self.until = 0;
            }
        }
    }

    /// Takes a grant.
    pub fn granted(&mut self, grant: &Grant, now: u64) {
        if grant.number <= self.void_through {
            return;
        }
        let Some((_, sent)) = self.asks.iter().find(|(number, _)| *number == grant.number).copied() else { return };
        self.asks.retain(|(number, _)| *number > grant.number);
        let is_meant = self.since.is_some_and(|since| is_same_epoch(since, grant.since));
        if is_meant {
            let from = if is_planted(Planted::LeaseFromGrantTime) { now } else { sent };
            self.until = self.until.max(from.saturating_add(grant.micros));
        }
    }

    /// It serves no more, whatever it was granted or is granted for what it has asked. Gives the last ask's number.
    pub fn give_up(&mut self) -> u64 {
        (self.void_through, self.until) = (self.last, 0);
        self.asks.clear();
        self.last
    }

    /// The moment at which its lease ends; 0: it holds none.
    pub fn until(&self) -> u64 {
        self.until
    }

    /// Since when it leads, by the map that it goes by.
    pub fn leads_since(&self) -> Option<u64> {
        self.since
    }
}

fn keeps_lease() -> bool {
    is_planted(Planted::NewRunKeepsLease)
}
