//! Who decides the slot map: a group of nodes that agree on one log of changes, and a leader that grants leases.
//!
//! The problem: some node must say who serves what, and no node can be relied on to be there, nor to know that it is
//! cut off. The idea: a majority agrees on a log of changes (Raft, by a library that nobody sees from outside); its
//! leader grants leases without writing anything, after a round of that majority; and all decisions are those of
//! `tollgate-topology`, which this crate gives a clock, a network and a disk.
//!
//! ```text
//! lib.rs       what the server sees: a handle to a thread
//! node.rs      the thread: the map as it comes, asks for leases, requests of other nodes
//! lead.rs      a leader: rounds, grants, proposals, who is gone
//! election.rs  when a node asks to lead    members.rs   who votes: pure
//! meet.rs      groups become one           failover.rs  a replica takes over because an operator says so
//! machine.rs   log -> map                  store.rs     log, vote, snapshot, who the node is: one redb file
//! raft.rs      the library                 wire.rs      what nodes say to one another
//! peer.rs      the way to other nodes      accept.rs    the peer port
//! frame.rs     frames                      hello.rs     who is there, and the proof
//! bounds.rs    every limit
//! ```
//!
//! **Invariants:** while a change that takes slots from a node may yet be committed, that node is granted nothing. What
//! a leader decided in one term is not done in another. Whoever joins another group serves under no lease of its own.

mod accept;
mod bounds;
mod election;
mod failover;
mod frame;
mod handle;
mod hello;
mod lead;
mod machine;
mod meet;
mod members;
mod node;
mod peer;
mod raft;
mod store;
#[cfg(test)]
mod store_suite;
mod wire;

pub use failover::{FailOverError, Failover};
pub use handle::{Cluster, Health, Host, ProposeError, Settings, StartError};
pub use meet::MeetError;
pub use store::{FILE_NAME, OpenError};
