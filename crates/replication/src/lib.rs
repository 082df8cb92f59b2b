//! What a key holds, as it goes to replicas and into snapshots.
//!
//! The problem: a command that is run again elsewhere is decided by another clock on another state, so that use is
//! forgotten or counted twice. The idea: only states travel, never commands. A record says what a key holds after
//! whatever happened to it, or that it holds nothing; to receive one twice is as good as once.
//!
//! ```text
//! record.rs     one key and what it holds <-> bytes
//! transfer.rs   a store -> records -> a store
//! part.rs       the frame of all that follows
//! snapshot.rs   records <-> a file
//! outflow.rs    a store's changes and a copy of it -> what replicas are told
//! flow.rs       what they are told and say back <-> bytes
//! followed.rs   whom a replica follows, and what it has of it
//! in_step.rs    which replicas count, and what all of them know
//! bound.rs      which answers may leave before they know
//! timeline.rs   the time by which a replica, and who has loaded a snapshot, goes on
//! ```
//!
//! **Invariant:** bytes from outside make nothing panic, and nothing is allocated by a length that was only declared.

pub mod bound;
pub mod flow;
pub mod followed;
pub mod in_step;
pub mod outflow;
mod part;
pub mod planted;
mod record;
pub mod snapshot;
pub mod timeline;
mod transfer;

pub use record::{Damaged, Record, VERSION, write, write_piece};
pub use transfer::{Export, NotImported, export_keys, import};
