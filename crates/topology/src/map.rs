//! The slot map: which node serves which slots, who follows whom, and which replicas may take over.
//!
//! The problem: nodes that each hold an opinion of who owns a slot come to admit twice for one key. The idea: there is
//! one map, a whole value with an epoch, and one log of changes that makes it ([`crate::change`]). A node applies a map
//! or it does not; nothing is merged.
//!
//! **Invariant:** two maps of one group with the same epoch are equal.

use crate::id::{NodeId, RunId};
use crate::slots::{Range, Slots};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The lease of a group that was told no other, in milliseconds.
pub const LEASE_MS_DEFAULT: u32 = 500;

/// Where a node is reached.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Endpoint {
    /// What clients and nodes are told: an address or a name, never empty.
    pub host: String,
    /// For clients.
    pub port: u16,
    /// For nodes.
    pub peer_port: u16,
}

/// What a process says of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Info {
    /// Which process it is.
    pub run: RunId,
    /// Where it is reached.
    pub endpoint: Endpoint,
    /// How many cores it has.
    pub cores: u16,
    /// The ports of its cores, if they have ports of their own.
    pub core_ports: Vec<u16>,
}

/// A node of a cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Node {
    /// What its last process has said.
    pub info: Info,
    /// What it is there for.
    pub role: Role,
    /// Redis's configuration epoch, which tools show: it rises as a node takes over.
    pub config_epoch: u64,
    /// What the nodes with one copy of the same slots are called together.
    pub shard: NodeId,
}

/// What a node is there for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Role {
    /// It may serve slots.
    Primary(Leading),
    /// It follows a primary.
    Replica {
        /// That one.
        of: NodeId,
    },
}

/// One process's time as a primary.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Leading {
    /// The epoch at which it began: no other has it.
    pub since: u64,
    /// The process. Another of the same node has no part in it.
    pub run: RunId,
    /// The replicas that may take over, each as the process that it is: the primary waits for all of them.
    pub in_step: BTreeMap<NodeId, RunId>,
    /// The last of this primary's words about them, [`crate::change::Change::InStep`].
    pub in_step_number: u64,
    /// The last epoch at which slots were taken from it while it led: who does not know of that serves them still.
    #[serde(default)]
    pub gave_up_at: u64,
    /// Who held all that there was when it took over: the primary before it, and that one's replicas in step. While
    /// none is in step with this one, whoever of them is there takes over rather than a process that knows less.
    #[serde(default)]
    pub heirs: BTreeMap<NodeId, RunId>,
}

impl Leading {
    /// Whether this process of this replica may take over by itself.
    pub fn may_take_over(&self, id: NodeId, run: RunId) -> bool {
        let among = if self.in_step.is_empty() { &self.heirs } else { &self.in_step };
        among.get(&id) == Some(&run)
    }

    /// A process that leads since this epoch, with nobody who may take over.
    pub fn new(since: u64, run: RunId) -> Leading {
        Leading { since, run, in_step: BTreeMap::new(), in_step_number: 0, gave_up_at: 0, heirs: BTreeMap::new() }
    }
}

/// Digits of the name of a state.
pub const STATE_NAME_BYTES: usize = 40;
/// So many of them tell the process.
const RUN_DIGITS: usize = 24;

impl Leading {
    /// What the state that it makes is called: forty hexadecimal digits that every node finds alike from the map.
    pub fn state_name(&self) -> [u8; STATE_NAME_BYTES] {
        let run = self.run.to_string();
        let text = format!("{}{:016x}", run.get(..RUN_DIGITS).unwrap_or_default(), self.since);
        let mut name = [b'0'; STATE_NAME_BYTES];
        name.iter_mut().zip(text.bytes()).for_each(|(place, digit)| *place = digit);
        name
    }
}

/// How long leases are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lease {
    /// What is granted, in milliseconds.
    pub ms: u32,
    /// The longest that may have been granted and not have ended yet.
    pub longest_ms: u32,
}

impl Default for Lease {
    fn default() -> Lease {
        Lease { ms: LEASE_MS_DEFAULT, longest_ms: LEASE_MS_DEFAULT }
    }
}

/// A whole map.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SlotMap {
    /// How many changes have made it.
    pub epoch: u64,
    /// The nodes.
    pub nodes: BTreeMap<NodeId, Node>,
    /// Who owns which slots.
    pub slots: Slots,
    /// How long a primary may serve without asking.
    pub lease: Lease,
}

impl SlotMap {
    /// The node that owns a slot.
    pub fn owner_of(&self, slot: u16) -> Option<NodeId> {
        self.slots.owner_of(slot)
    }

    /// The slots of a node, in order.
    pub fn slots_of(&self, id: NodeId) -> impl Iterator<Item = Range> {
        self.slots.ranges().iter().filter(move |range| range.owner == id).copied()
    }

    /// Whether a node owns a slot.
    pub fn owns_any(&self, id: NodeId) -> bool {
        self.slots_of(id).next().is_some()
    }

    /// What a primary leads as; `None`: it is none, or unknown.
    pub fn leading(&self, id: NodeId) -> Option<&Leading> {
        match &self.nodes.get(&id)?.role {
            Role::Primary(leading) => Some(leading),
            Role::Replica { .. } => None,
        }
    }

    /// The primary that a replica follows; `None`: it is none, or unknown.
    pub fn followed_by(&self, id: NodeId) -> Option<NodeId> {
        match self.nodes.get(&id)?.role {
            Role::Replica { of } => Some(of),
            Role::Primary(_) => None,
        }
    }

    /// The replicas of a primary, in order.
    pub fn replicas_of(&self, id: NodeId) -> impl Iterator<Item = (NodeId, &Node)> {
        let follows = move |node: &Node| matches!(node.role, Role::Replica { of } if of == id);
        self.nodes.iter().filter(move |(_, node)| follows(node)).map(|(id, node)| (*id, node))
    }

    /// The primary whose slots a node has: itself, or the one that it follows.
    pub fn primary_of(&self, id: NodeId) -> NodeId {
        self.followed_by(id).unwrap_or(id)
    }

    /// The highest configuration epoch of all.
    pub fn config_epoch_max(&self) -> u64 {
        self.nodes.values().map(|node| node.config_epoch).max().unwrap_or(0)
    }

    /// Nodes with slots.
    pub fn primaries_with_slots(&self) -> usize {
        self.nodes.keys().filter(|id| self.owns_any(**id)).count()
    }
}
