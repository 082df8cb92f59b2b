//! A node of a cluster as its commands see it: which slots it serves, and whom it sends callers to for the others.
//!
//! The problem: who owns a slot is decided elsewhere and changes at any time, while a call has a few instructions for
//! the question. The idea: what was decided is a value, a [`View`], made once for each map. The shell puts it where all
//! cores find it; each keeps a share of it, and looks at the beginning of a batch whether there is another.
//!
//! ```text
//! bits.rs       a set of slots: one bit each
//! redirect.rs   whether a call may run here, and what it is answered if not
//! nodes.rs      CLUSTER NODES and its kin: the nodes, in words and as values
//! slot_keys.rs  the keys of one slot
//! wish.rs       what operators want changed, for the shell to carry out
//! ```
//!
//! **Invariants:** a call for a slot that this node does not serve changes nothing and makes no key. What MOVED names
//! is byte for byte what CLUSTER SLOTS names.

mod bits;
pub mod nodes;
pub mod redirect;
pub mod slot_keys;
pub mod wish;

pub use bits::SlotBits;

use std::fmt;
use std::sync::Arc;
use tollgate_topology::map::{Endpoint, Node};
use tollgate_topology::{NodeId, SlotMap};

/// The answer where there is no cluster, in the words that redis-cli looks for.
pub const NO_CLUSTER: &str = "ERR This instance has cluster support disabled";

/// How the nodes of a cluster are, as far as this one knows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Health {
    /// Whether this node hears who leads the cluster.
    pub has_leader: bool,
    /// Who leads the group that decides the map, as far as this node knows.
    pub leader: Option<NodeId>,
    /// How many nodes vote there.
    pub voters: usize,
    /// Nodes that the leader does not hear.
    pub silent: Vec<NodeId>,
}

/// A map, as the node `id` goes by it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct View {
    /// This node.
    pub id: NodeId,
    /// The map.
    pub map: Arc<SlotMap>,
    /// How the nodes are.
    pub health: Health,
    /// The slots that this node serves as a primary.
    mine: SlotBits,
    /// The slots of the primary that it follows.
    of_primary: SlotBits,
}

impl View {
    /// The view of the node `id`.
    pub fn new(id: NodeId, map: Arc<SlotMap>, health: Health) -> View {
        let slots_of = |id| map.slots_of(id).flat_map(|range| range.first..=range.last).collect();
        let of_primary = map.followed_by(id).map(slots_of).unwrap_or_default();
        View { mine: slots_of(id), of_primary, id, health, map }
    }

    /// Whether this node serves a slot as a primary.
    #[inline(always)]
    pub fn serves(&self, slot: u16) -> bool {
        self.mine.has(slot)
    }

    /// Whether this node serves all of these slots as a primary.
    #[inline(always)]
    pub fn serves_all(&self, slots: impl Iterator<Item = u16>) -> bool {
        self.mine.has_all(slots)
    }

    /// Whether it follows the primary of a slot.
    pub fn follows(&self, slot: u16) -> bool {
        self.of_primary.has(slot)
    }

    /// The primary that a slot's callers are sent to, if there is one.
    pub fn owner_of(&self, slot: u16) -> Option<(NodeId, &Node)> {
        let id = self.map.owner_of(slot)?;
        self.map.nodes.get(&id).map(|node| (id, node))
    }

    /// Whether the leader does not hear a node.
    pub fn is_silent(&self, id: NodeId) -> bool {
        self.health.silent.contains(&id)
    }

    /// Whether a replica holds what its primary holds, as far as the group has recorded.
    pub fn is_in_step(&self, id: NodeId) -> bool {
        let leading = self.map.followed_by(id).and_then(|primary| self.map.leading(primary));
        leading.is_some_and(|leading| leading.in_step.contains_key(&id))
    }
}

/// A node's address as clients are told it.
struct Address<'a>(&'a Endpoint);

impl fmt::Display for Address<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}:{}", self.0.host, self.0.port)
    }
}
