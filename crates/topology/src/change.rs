//! What may change a slot map, and what comes of it.
//!
//! The problem: what a tool asked for, what a leader decided and what a node says of itself arrive late, twice, or when
//! something else has happened meanwhile. The idea: each is one value, which says under which circumstances it was
//! meant, and one function that makes the next map of it or names what is in its way. It reads nothing but the map and
//! the change, so that all nodes come to the same map.
//!
//! **Invariants:** a refused change changes nothing. A change that finds everything as it would have it is no error,
//! and the epoch stays.

use crate::id::{NodeId, RunId};
use crate::map::{Info, Leading, Lease, Node, Role, SlotMap};
use crate::planted::{Planted, is_planted};
use crate::slots::SlotSet;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// Something that a map may become otherwise by.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Change {
    /// A node joins with its slots, or begins a group of its own. One that is known says of itself what has changed.
    Join {
        /// The node.
        id: NodeId,
        /// What it says of itself.
        info: Info,
        /// The slots that it serves.
        slots: SlotSet,
        /// See [`Node::config_epoch`].
        config_epoch: u64,
    },
    /// What a known node says of itself is not what is known.
    Announce {
        /// The node.
        id: NodeId,
        /// What it says of itself.
        info: Info,
    },
    /// Slots that nobody has are a primary's from now on.
    AddSlots {
        /// The primary.
        id: NodeId,
        /// The slots.
        slots: SlotSet,
    },
    /// Slots are nobody's from now on, and what was counted in them is forgotten.
    DelSlots {
        /// Who says so: their owner, or anybody if the owner's lease has ended.
        by: NodeId,
        /// Owners whose lease has ended, by the leader's word.
        lapsed: BTreeSet<NodeId>,
        /// The slots.
        slots: SlotSet,
    },
    /// A node follows a primary from now on.
    Replicate {
        /// The node.
        id: NodeId,
        /// The primary.
        of: NodeId,
    },
    /// The replicas that a primary waits for.
    InStep {
        /// The primary.
        of: NodeId,
        /// Since when it has led, [`Leading::since`].
        since: u64,
        /// Rises with each word of this primary about them: one that was overtaken on its way is refused.
        number: u64,
        /// Those replicas, each as the process that it is.
        replicas: BTreeMap<NodeId, RunId>,
    },
    /// A replica takes over from its primary, which follows it from then on.
    Promote {
        /// The primary.
        from: NodeId,
        /// Since when that has led.
        since: u64,
        /// The replica.
        to: NodeId,
        /// The process that takes over.
        run: RunId,
        /// Whether an operator says that it need not hold all that the primary held.
        is_forced: bool,
    },
    /// A primary's new process leads on, from what it has kept.
    LeadAnew {
        /// The node.
        id: NodeId,
        /// Since when the process before it has led.
        since: u64,
        /// The new process.
        run: RunId,
        /// Whether an operator says that a replica in step need not take over instead.
        is_forced: bool,
    },
    /// A node that knows no other gets a configuration epoch.
    SetConfigEpoch {
        /// The node.
        id: NodeId,
        /// See [`Node::config_epoch`].
        epoch: u64,
    },
    /// A node's configuration epoch becomes the highest.
    BumpEpoch {
        /// The node.
        id: NodeId,
    },
    /// Leases are so long from now on.
    SetLease {
        /// Milliseconds.
        ms: u32,
    },
    /// Leases that were granted before the last [`Change::SetLease`] are over.
    LeaseSettled {
        /// What is granted, in milliseconds.
        ms: u32,
    },
}

/// What came of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Applied {
    /// The map's epoch now.
    pub epoch: u64,
    /// Whether anything is otherwise than before.
    pub is_changed: bool,
}

/// Why a change was refused. The words are Redis's where it has the same fault.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub enum Refused {
    /// Somebody has the slot.
    #[error("ERR Slot {0} is already busy")]
    SlotBusy(u16),
    /// The slot is served by another node.
    #[error("ERR Slot {0} belongs to another node, whose lease has not ended")]
    NotTheOwner(u16),
    /// No node is called so.
    #[error("ERR Unknown node {0}")]
    UnknownNode(NodeId),
    /// A node cannot follow itself.
    #[error("ERR Can't replicate myself")]
    Myself,
    /// A replica is not followed.
    #[error("ERR I can only replicate a master, not a replica.")]
    OfReplica,
    /// It has slots or keys, so that it cannot follow.
    #[error("ERR To set a master the node must be empty and without assigned slots.")]
    NotEmpty,
    /// Only a primary has slots.
    #[error("ERR Please use ADDSLOTS only with masters.")]
    SlotsOfReplica,
    /// It was meant for circumstances that are over.
    #[error("ERR The cluster has changed meanwhile")]
    Stale,
    /// The replica does not hold all that its primary held.
    #[error("ERR The replica is not in step with its primary")]
    NotInStep,
    /// A replica holds more than this process, and takes over.
    #[error("ERR A replica in step with this node takes over")]
    ReplicaTakesOver,
    /// It knows others.
    #[error("ERR The user can assign a config epoch only when the node does not know any other node.")]
    KnowsOthers,
    /// It has one.
    #[error("ERR Node config epoch is already non-zero")]
    HasConfigEpoch,
    /// Leases are not so long.
    #[error("ERR The node timeout is {LEASE_MS_MIN} to {LEASE_MS_MAX} milliseconds")]
    LeaseOutOfRange,
}

/// The shortest lease, in milliseconds: a node must be able to ask some times while it lasts.
pub const LEASE_MS_MIN: u32 = 100;
/// The longest, in milliseconds: nobody takes over sooner.
pub const LEASE_MS_MAX: u32 = 60_000;

impl SlotMap {
    /// Makes the next map.
    ///
    /// # Errors
    /// [`Refused`]: the map is as it was.
    pub fn apply(&mut self, change: &Change) -> Result<Applied, Refused> {
        let is_changed = match change {
            Change::Join { id, info, slots, config_epoch } => self.join(*id, info, slots, *config_epoch)?,
            Change::Announce { id, info } => self.announce(*id, info)?,
            Change::AddSlots { id, slots } => self.add_slots(*id, slots)?,
            Change::DelSlots { by, lapsed, slots } => self.del_slots(*by, lapsed, slots)?,
            Change::Replicate { id, of } => self.replicate(*id, *of)?,
            Change::InStep { of, since, number, replicas } => self.in_step(*of, *since, *number, replicas)?,
            Change::Promote { from, since, to, run, is_forced } => {
                self.promote(*from, *since, *to, *run, *is_forced)?
            }
            Change::LeadAnew { id, since, run, is_forced } => self.lead_anew(*id, *since, *run, *is_forced)?,
            Change::SetConfigEpoch { id, epoch } => self.set_config_epoch(*id, *epoch)?,
            Change::BumpEpoch { id } => self.bump_epoch(*id)?,
            Change::SetLease { ms } => self.set_lease(*ms)?,
            Change::LeaseSettled { ms } => self.lease_settled(*ms),
        };
        if is_changed {
            self.epoch = self.next_epoch();
        }
        Ok(Applied { epoch: self.epoch, is_changed })
    }

    fn next_epoch(&self) -> u64 {
        self.epoch.saturating_add(1)
    }

    fn node(&mut self, id: NodeId) -> Result<&mut Node, Refused> {
        self.nodes.get_mut(&id).ok_or(Refused::UnknownNode(id))
    }

    fn join(&mut self, id: NodeId, info: &Info, slots: &SlotSet, config_epoch: u64) -> Result<bool, Refused> {
        if self.nodes.contains_key(&id) {
            // It has asked before, and was not told; what it serves was settled then.
            return self.announce(id, info);
        }
        self.refuse_busy(id, slots)?;
        let leading = Leading::new(self.next_epoch(), info.run);
        let node = Node { info: info.clone(), role: Role::Primary(leading), config_epoch, shard: id };
        self.nodes.insert(id, node);
        self.slots.give(slots, Some(id));
        Ok(true)
    }

    fn announce(&mut self, id: NodeId, info: &Info) -> Result<bool, Refused> {
        let node = self.node(id)?;
        if node.info == *info {
            return Ok(false);
        }
        let is_new_run = node.info.run != info.run;
        node.info = info.clone();
        if is_new_run {
            self.forget_in_step(id);
        }
        Ok(true)
    }

    /// A replica is another process now, or follows another: nobody may count on what it held.
    fn forget_in_step(&mut self, id: NodeId) {
        for node in self.nodes.values_mut() {
            if let Role::Primary(leading) = &mut node.role {
                leading.in_step.remove(&id);
                leading.heirs.remove(&id);
            }
        }
    }

    fn refuse_busy(&self, id: NodeId, slots: &SlotSet) -> Result<(), Refused> {
        let is_busy = |slot: &u16| self.owner_of(*slot).is_some_and(|owner| owner != id);
        slots.iter().find(is_busy).map_or(Ok(()), |slot| Err(Refused::SlotBusy(slot)))
    }

    fn add_slots(&mut self, id: NodeId, slots: &SlotSet) -> Result<bool, Refused> {
        if matches!(self.node(id)?.role, Role::Replica { .. }) {
            return Err(Refused::SlotsOfReplica);
        }
        self.refuse_busy(id, slots)?;
        let is_new = slots.iter().any(|slot| self.owner_of(slot).is_none());
        self.slots.give(slots, Some(id));
        Ok(is_new)
    }

    fn del_slots(&mut self, by: NodeId, lapsed: &BTreeSet<NodeId>, slots: &SlotSet) -> Result<bool, Refused> {
        let is_others = |slot: &u16| self.owner_of(*slot).is_some_and(|owner| owner != by && !lapsed.contains(&owner));
        if let Some(slot) = slots.iter().find(is_others) {
            return Err(Refused::NotTheOwner(slot));
        }
        let owners: BTreeSet<NodeId> = slots.iter().filter_map(|slot| self.owner_of(slot)).collect();
        let next = self.next_epoch();
        for owner in &owners {
            if let Role::Primary(leading) = &mut self.node(*owner)?.role {
                leading.gave_up_at = next;
            }
        }
        self.slots.give(slots, None);
        Ok(!owners.is_empty())
    }

    fn replicate(&mut self, id: NodeId, of: NodeId) -> Result<bool, Refused> {
        self.node(id)?;
        self.node(of)?;
        if id == of {
            return Err(Refused::Myself);
        }
        if self.leading(of).is_none() {
            return Err(Refused::OfReplica);
        }
        if self.followed_by(id) == Some(of) {
            return Ok(false);
        }
        if self.owns_any(id) {
            return Err(Refused::NotEmpty);
        }
        self.forget_in_step(id);
        self.follow_instead(id, of);
        let shard = self.node(of)?.shard;
        let node = self.node(id)?;
        (node.role, node.shard) = (Role::Replica { of }, shard);
        Ok(true)
    }

    /// Who follows `one` follows `other` from now on.
    fn follow_instead(&mut self, one: NodeId, other: NodeId) {
        let followers: Vec<NodeId> = self.replicas_of(one).map(|(id, _)| id).collect();
        let shard = self.nodes.get(&other).map(|node| node.shard);
        for id in followers.into_iter().filter(|id| *id != other) {
            if let (Some(node), Some(shard)) = (self.nodes.get_mut(&id), shard) {
                (node.role, node.shard) = (Role::Replica { of: other }, shard);
            }
        }
    }

    fn in_step(
        &mut self,
        of: NodeId,
        since: u64,
        number: u64,
        replicas: &BTreeMap<NodeId, RunId>,
    ) -> Result<bool, Refused> {
        // One that has restarted or follows another since is left out: the fewer may take over, the safer.
        let follows = |(id, run): &(&NodeId, &RunId)| {
            self.followed_by(**id) == Some(of) && self.nodes.get(id).is_some_and(|node| node.info.run == **run)
        };
        let replicas = replicas.iter().filter(follows).map(|(id, run)| (*id, *run)).collect();
        match &mut self.node(of)?.role {
            Role::Primary(leading) if is_same_epoch(leading.since, since) && leading.in_step_number < number => {
                leading.in_step_number = number;
                leading.in_step = replicas;
                if !leading.in_step.is_empty() {
                    leading.heirs.clear();
                }
                Ok(true)
            }
            _ => Err(Refused::Stale),
        }
    }

    fn promote(&mut self, from: NodeId, since: u64, to: NodeId, run: RunId, is_forced: bool) -> Result<bool, Refused> {
        let leading = self.leading(from).filter(|leading| is_same_epoch(leading.since, since)).ok_or(Refused::Stale)?;
        let is_in_step = leading.may_take_over(to, run) || is_planted(Planted::PromotesOutOfStep);
        let mut heirs = leading.in_step.clone();
        heirs.remove(&to);
        heirs.insert(from, leading.run);
        let follows = self.followed_by(to) == Some(from) && self.node(to)?.info.run == run;
        if !follows {
            return Err(Refused::Stale);
        }
        if !is_in_step && !is_forced {
            return Err(Refused::NotInStep);
        }
        let (since, config_epoch) = (self.next_epoch(), self.config_epoch_max().saturating_add(1));
        let node = self.node(to)?;
        node.role = Role::Primary(Leading { heirs, ..Leading::new(since, run) });
        node.config_epoch = config_epoch;
        self.follow_instead(from, to);
        self.node(from)?.role = Role::Replica { of: to };
        self.slots.give_all(from, to);
        Ok(true)
    }

    fn lead_anew(&mut self, id: NodeId, since: u64, run: RunId, is_forced: bool) -> Result<bool, Refused> {
        let next = self.next_epoch();
        let node = self.node(id)?;
        let is_known = node.info.run == run;
        let Role::Primary(leading) = &mut node.role else { return Err(Refused::Stale) };
        if leading.run == run {
            return Ok(false);
        }
        if leading.since != since || !is_known {
            return Err(Refused::Stale);
        }
        if !leading.in_step.is_empty() && !is_forced {
            return Err(Refused::ReplicaTakesOver);
        }
        *leading = Leading::new(next, run);
        Ok(true)
    }

    fn set_config_epoch(&mut self, id: NodeId, epoch: u64) -> Result<bool, Refused> {
        let is_alone = self.nodes.len() <= 1;
        let node = self.node(id)?;
        match node.config_epoch {
            same if same == epoch => return Ok(false),
            _ if !is_alone => return Err(Refused::KnowsOthers),
            0 => node.config_epoch = epoch,
            _ => return Err(Refused::HasConfigEpoch),
        }
        Ok(true)
    }

    fn bump_epoch(&mut self, id: NodeId) -> Result<bool, Refused> {
        let highest = self.config_epoch_max();
        let is_alone_there = self.nodes.values().filter(|node| node.config_epoch == highest).count() == 1;
        let node = self.node(id)?;
        if node.config_epoch == highest && highest > 0 && is_alone_there {
            return Ok(false);
        }
        node.config_epoch = highest.saturating_add(1);
        Ok(true)
    }

    fn set_lease(&mut self, ms: u32) -> Result<bool, Refused> {
        if !(LEASE_MS_MIN..=LEASE_MS_MAX).contains(&ms) {
            return Err(Refused::LeaseOutOfRange);
        }
        let before = self.lease;
        if before.ms != ms {
            self.lease = Lease { ms, longest_ms: before.longest_ms.max(ms) };
        }
        Ok(before != self.lease)
    }

    fn lease_settled(&mut self, ms: u32) -> bool {
        let is_due = self.lease.ms == ms && self.lease.longest_ms != ms;
        if is_due {
            self.lease.longest_ms = ms;
        }
        is_due
    }
}

/// Whether something is meant for the time that began at this epoch.
pub(crate) fn is_same_epoch(is: u64, meant: u64) -> bool {
    is == meant || is_planted(Planted::EpochOffByOne) && meant.abs_diff(is) == 1
}
