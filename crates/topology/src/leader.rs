//! What the leader of a group decides: who gets a lease, and who takes over.
//!
//! The problem: to say that a primary is gone, one must know that it serves no more, though it cannot be asked. The
//! idea: the leader remembers when it last granted each node a lease. When that one's longest time has passed by the
//! leader's own clock, with what clocks may differ and a margin, it is over wherever the node is. A new leader does not
//! know what those before it have granted, so it waits as long from the first change that it commits: what they granted
//! they had a majority confirm before, and that majority has followed the new leader since.
//!
//! Nothing here waits or sends. Who leads calls [`Leader::grant`] for an ask only after a round of a majority that
//! began after the ask came, and says what became of each change that [`Leader::look`] or [`Leader::permit`] gave it.
//!
//! **Invariant:** while a change that takes slots from a node may yet be committed, that node is granted nothing.

use crate::change::{Change, is_same_epoch};
use crate::id::{NodeId, RunId};
use crate::lease::{Ask, Follows, Grant};
use crate::map::{Leading, SlotMap};
use crate::planted::{Planted, is_planted};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// How clocks may differ: in this much time they do by one unit. Crystals are good to 100 in a million.
pub const DRIFT_ONE_IN: u64 = 1_000;
/// What is waited beyond that, in microseconds.
pub const MARGIN_MICROS: u64 = 20_000;
/// A look that comes so much later than the one before says that the leader itself has stood still.
const STOOD_STILL_MICROS: u64 = 150_000;

/// How long after the last grant its end is certain, in microseconds.
pub fn wait_micros(map: &SlotMap) -> u64 {
    let lease = u64::from(map.lease.longest_ms) * 1_000;
    lease + lease / DRIFT_ONE_IN + MARGIN_MICROS
}

/// Why a node's wish is not granted yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub enum NotYet {
    /// Another change about the node is under way.
    #[error("ERR Another change is under way, try again")]
    Busy,
    /// It was granted a lease since.
    #[error("ERR The node has been granted a lease since")]
    LeaseHeld,
    /// A node's lease has not ended.
    #[error("ERR Master is up and serves: its lease has not ended")]
    PrimaryIsUp,
    /// A node that is concerned is not heard of.
    #[error("ERR The node does not answer")]
    Silent,
}

#[derive(Clone, Debug)]
struct Heard {
    at: u64,
    ask: Ask,
}

#[derive(Clone, Copy, Debug)]
struct Granted {
    at: u64,
    /// The process that asked, whose asks are numbered.
    run: RunId,
    number: u64,
}

/// What a leader knows beside the map, from the first change that it has committed until it leads no more. Times are of
/// its own clock, which counts suspend, in microseconds.
#[derive(Clone, Debug)]
pub struct Leader {
    ready_at: u64,
    heard: BTreeMap<NodeId, Heard>,
    granted: BTreeMap<NodeId, Granted>,
    /// Nodes that a change may take slots from that is under way.
    busy: BTreeSet<NodeId>,
    last_look: u64,
    /// Since when it has not stood still.
    awake_since: u64,
    /// The length of leases, and since when it is that, as far as this leader has seen.
    lease: (u32, u64),
}

impl Leader {
    /// One that has committed its first change now.
    pub fn new(now: u64) -> Leader {
        Leader {
            ready_at: now,
            heard: BTreeMap::new(),
            granted: BTreeMap::new(),
            busy: BTreeSet::new(),
            last_look: now,
            awake_since: now,
            lease: (0, now),
        }
    }

    /// A node has asked.
    pub fn hears(&mut self, ask: &Ask, now: u64) {
        match self.heard.get_mut(&ask.id) {
            // What was overtaken on the way.
            Some(heard) if heard.ask.info.run == ask.info.run && heard.ask.number > ask.number => {}
            _ => {
                self.heard.insert(ask.id, Heard { at: now, ask: ask.clone() });
            }
        }
    }

    /// Answers an ask, after a round of a majority that began after it came.
    pub fn grant(&mut self, map: &SlotMap, ask: &Ask, now: u64) -> Option<Grant> {
        let leading = map.leading(ask.id);
        let is_target = || is_planted(Planted::TargetServesBeforeCommit) && self.is_target(map, ask.id);
        let Some(leading) = leading else { return is_target().then(|| grant_of(map, ask, ask.epoch + 1)) };
        let is_run = leading.run == ask.info.run || is_planted(Planted::NewRunKeepsLease);
        // Who does not know yet that slots were taken from it would serve them.
        let is_asked =
            ask.epoch >= leading.gave_up_at && ask.leads_since.is_some_and(|since| is_same_epoch(leading.since, since));
        if !is_run || !is_asked || self.busy.contains(&ask.id) {
            return None;
        }
        let run = ask.info.run;
        let before = self.granted.get(&ask.id).filter(|granted| granted.run == run).map_or(0, |granted| granted.number);
        self.granted.insert(ask.id, Granted { at: now, run, number: before.max(ask.number) });
        Some(grant_of(map, ask, leading.since))
    }

    fn is_target(&self, map: &SlotMap, id: NodeId) -> bool {
        map.followed_by(id).is_some_and(|primary| self.busy.contains(&primary))
    }

    /// What is to be changed by what was heard and not heard. Each change is to be proposed, and [`Leader::settled`].
    /// To be called some times in a quarter of a lease.
    pub fn look(&mut self, map: &SlotMap, now: u64) -> Vec<Change> {
        if now.saturating_sub(self.last_look) > STOOD_STILL_MICROS {
            self.awake_since = now;
        }
        self.last_look = now;
        let mut changes = self.news(map);
        let primaries = map.nodes.keys().filter_map(|id| map.leading(*id).map(|leading| (*id, leading)));
        for (id, leading) in primaries {
            if let Some(change) = self.succession(map, id, leading, now) {
                self.busy.insert(id);
                changes.push(change);
            }
        }
        if self.lease.0 != map.lease.ms {
            self.lease = (map.lease.ms, now);
        }
        let is_settled = map.lease.ms == map.lease.longest_ms;
        if !is_settled && now >= self.ready_at.max(self.lease.1).saturating_add(wait_micros(map)) {
            changes.push(Change::LeaseSettled { ms: map.lease.ms });
        }
        changes
    }

    /// What nodes say of themselves that is not known.
    fn news(&self, map: &SlotMap) -> Vec<Change> {
        let is_news =
            |(id, heard): &(&NodeId, &Heard)| map.nodes.get(id).is_some_and(|node| node.info != heard.ask.info);
        let news = self.heard.iter().filter(is_news);
        news.map(|(id, heard)| Change::Announce { id: *id, info: heard.ask.info.clone() }).collect()
    }

    /// Who is to lead instead of a primary that holds no lease any more.
    fn succession(&self, map: &SlotMap, id: NodeId, leading: &Leading, now: u64) -> Option<Change> {
        let heard = self.heard.get(&id);
        let is_there = heard.is_some_and(|heard| heard.ask.info.run == leading.run) && !self.is_silent(map, id, now);
        if is_there || self.busy.contains(&id) || !self.is_lease_over(map, id, now) {
            return None;
        }
        if let Some(to) = self.successor(map, id, leading, now) {
            let run = self.heard.get(&to)?.ask.info.run;
            return Some(Change::Promote { from: id, since: leading.since, to, run, is_forced: false });
        }
        let run = heard?.ask.info.run;
        let is_anew = run != leading.run && map.nodes.get(&id).is_some_and(|node| node.info.run == run);
        let may = leading.in_step.is_empty() && is_anew && !self.is_silent(map, id, now);
        may.then_some(Change::LeadAnew { id, since: leading.since, run, is_forced: false })
    }

    /// The replica that knows most of those that may take over and are heard of.
    fn successor(&self, map: &SlotMap, id: NodeId, leading: &Leading, now: u64) -> Option<NodeId> {
        let knows = |replica: &NodeId| {
            let heard = self.heard.get(replica).filter(|_| !self.is_silent(map, *replica, now))?;
            let Follows { progress, .. } = heard.ask.follows.filter(|follows| follows.since == leading.since)?;
            let is_it = leading.may_take_over(*replica, heard.ask.info.run);
            (is_it || is_planted(Planted::PromotesOutOfStep)).then_some(progress)
        };
        let candidates = map.replicas_of(id).filter_map(|(replica, _)| knows(&replica).map(|known| (known, replica)));
        candidates.max().map(|(_, replica)| replica)
    }

    /// Says whether what a node or an operator wishes may be proposed, and keeps the node from a lease meanwhile if so;
    /// then it is to be [`Leader::settled`].
    ///
    /// # Errors
    /// [`NotYet`]: it must not be proposed.
    pub fn permit(&mut self, map: &SlotMap, change: &mut Change, now: u64) -> Result<(), NotYet> {
        match change {
            Change::Promote { from, .. } => {
                self.may_be_replaced(map, *from, now)?;
                self.busy.insert(*from);
            }
            Change::LeadAnew { id, .. } => {
                self.may_be_replaced(map, *id, now)?;
                self.busy.insert(*id);
            }
            // Their owner has given its lease up before it proposes this.
            Change::DelSlots { by, lapsed, .. } => {
                if self.busy.contains(by) {
                    return Err(NotYet::Busy);
                }
                let is_over = |id: &&NodeId| self.is_lease_over(map, **id, now) && !self.busy.contains(*id);
                *lapsed = map.nodes.keys().filter(is_over).copied().collect();
                self.busy.extend(lapsed.iter().copied());
                self.busy.insert(*by);
            }
            // Until now it has served under a lease of its own.
            Change::Join { id, info, .. } => {
                self.granted.insert(*id, Granted { at: now, run: info.run, number: 0 });
            }
            _ => {}
        }
        Ok(())
    }

    fn may_be_replaced(&self, map: &SlotMap, id: NodeId, now: u64) -> Result<(), NotYet> {
        match () {
            () if self.busy.contains(&id) => Err(NotYet::Busy),
            () if !self.is_lease_over(map, id, now) => Err(NotYet::PrimaryIsUp),
            () => Ok(()),
        }
    }

    /// A primary hands its slots over: it serves no more, and what it was or is granted for asks up to `number` is
    /// worth nothing to it. Gives the change to propose, which is then to be [`Leader::settled`].
    ///
    /// # Errors
    /// [`NotYet`]: the primary was granted a lease since, or the replica cannot take over.
    pub fn hand_over(
        &mut self,
        map: &SlotMap,
        (from, since): (NodeId, u64),
        number: u64,
        to: NodeId,
        now: u64,
    ) -> Result<Change, NotYet> {
        if self.busy.contains(&from) {
            return Err(NotYet::Busy);
        }
        // Another process of the node counts its own asks.
        let leads = |granted: &&Granted| map.leading(from).is_some_and(|leading| leading.run == granted.run);
        if self.granted.get(&from).filter(leads).is_some_and(|granted| granted.number > number) {
            return Err(NotYet::LeaseHeld);
        }
        let heard = self.heard.get(&to).filter(|_| !self.is_silent(map, to, now)).ok_or(NotYet::Silent)?;
        self.busy.insert(from);
        Ok(Change::Promote { from, since, to, run: heard.ask.info.run, is_forced: false })
    }

    /// A change was committed or refused, or can be no more.
    pub fn settled(&mut self, change: &Change) {
        match change {
            Change::Promote { from, .. } => {
                self.busy.remove(from);
            }
            Change::LeadAnew { id, .. } => {
                self.busy.remove(id);
            }
            Change::DelSlots { by, lapsed, .. } => lapsed.iter().chain([by]).for_each(|id| {
                self.busy.remove(id);
            }),
            _ => {}
        }
    }

    /// Whether no lease that this node was granted, by whomever, holds any more.
    pub fn is_lease_over(&self, map: &SlotMap, id: NodeId, now: u64) -> bool {
        let began = if is_planted(Planted::NewLeaderDoesNotWait) { 0 } else { self.ready_at };
        let last = self.granted.get(&id).map_or(began, |granted| granted.at.max(began));
        now >= last.saturating_add(wait_micros(map))
    }

    /// Whether a node was not heard of for the length of a lease, though this leader has listened.
    pub fn is_silent(&self, map: &SlotMap, id: NodeId, now: u64) -> bool {
        let heard = self.heard.get(&id).map_or(0, |heard| heard.at);
        let since = heard.max(self.awake_since);
        now >= since.saturating_add(u64::from(map.lease.ms) * 1_000)
    }

    /// All such nodes.
    pub fn silent(&self, map: &SlotMap, now: u64) -> Vec<NodeId> {
        map.nodes.keys().filter(|id| self.is_silent(map, **id, now)).copied().collect()
    }
}

fn grant_of(map: &SlotMap, ask: &Ask, since: u64) -> Grant {
    Grant { number: ask.number, since, micros: u64::from(map.lease.ms) * 1_000 }
}
