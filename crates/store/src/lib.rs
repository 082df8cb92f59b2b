//! The keys of one core: slot tables, records, lazy expiry, memory account.
//!
//! The problem: millions of small counters, each asked for at random, so that a call costs what its cache misses cost
//! and memory costs what its headers cost; and no step may ever be long, neither for growth nor for expiry. The idea:
//! records of a few words in pages, found by 32-bit numbers through small tables, one (or a growing set) for each slot.
//!
//! ```text
//! key -> Located -> Slot -> Index -> record number -> Slab: header, state, key -> Policies
//!        locate.rs  slots.rs index.rs, table.rs     slab.rs, record.rs, records.rs  policies.rs
//!
//! store.rs   find, limit, apply, insert, remove          room.rs   the memory bound and eviction
//! charge.rs  one call on one limit in one pass           need.rs   what a change adds    gather.rs  whole pages back
//! changes.rs what a copy elsewhere must be told            piece.rs  the end of a log instead of all of it
//! values.rs  plain values in records or bodies             content.rs, watch.rs   what a key holds, whether it changed
//! sweep.rs   expiry by a cursor, flush (grave.rs), soonest.rs   scan.rs   SCAN, KEYS      saved.rs   exact undo
//! ```
//!
//! **Invariant:** this crate knows no clock, no socket and no async.

mod arena;
mod body;
mod changes;
mod charge;
mod content;
mod gather;
mod grave;
mod index;
mod key_words;
mod locate;
mod need;
mod pick;
mod piece;
mod policies;
mod prefetch;
mod record;
mod records;
mod region;
mod removals;
mod reserve;
mod room;
mod saved;
mod scan;
mod slab;
mod slot;
mod slots;
mod soonest;
mod stats;
mod store;
mod sweep;
mod table;
mod values;
mod watch;
mod wide;

pub use changes::{KeyChange, TooManyChanges};
pub use charge::{ChargeError, Charged, Sighting, Spell};
pub use content::{Content, Holding};
pub use locate::{Hasher, Located};
pub use record::KEY_BYTES_MAX;
pub use region::HugeRegion;
pub use saved::Saved;
pub use scan::{cursor_slot, slot_cursor};
pub use slot::{SLOTS, slot_of};
pub use slots::SlotState;
pub use stats::StoreStats;
pub use store::{Eviction, OutOfMemory, RecordId, Store, StoreConfig};
pub use sweep::Swept;
pub use values::Value;
pub use watch::Watch;
pub use wide::{Lanes, Narrow, Wide, Work};
