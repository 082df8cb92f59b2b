//! Who serves what in a cluster: the slot map, what may change it, and the leases that it is served under.
//!
//! The problem: whatever is paused, cut off, slow or dead, two nodes must never admit for one key, and somebody should
//! soon admit again. The idea: all that decides about that is here, as values and functions of them, and is given the
//! time. Nodes and their leader run it over real sockets and a log that a majority agrees on (`tollgate-cluster`), the
//! simulation over thousands of broken ones.
//!
//! ```text
//! id.rs       what nodes and processes are called
//! slots.rs    sets of slots, and who owns which
//! map.rs      the map: slots, nodes, who follows whom, who may take over
//! change.rs   map + change -> the next map
//! lease.rs    a node: may it serve now?
//! leader.rs   the leader: who may, and who takes over
//! ```
//!
//! **Invariants:** no clock is read here, nothing is sent. A node that holds a lease is the only one that can be
//! granted one for its slots until that has ended by any clock that runs as true as [`leader::DRIFT_ONE_IN`] says.

pub mod change;
pub mod id;
pub mod leader;
pub mod lease;
pub mod map;
pub mod planted;
pub mod slots;

pub use change::{Applied, Change, Refused};
pub use id::{NodeId, RunId};
pub use map::SlotMap;
