//! The shell around the engine: threads, sockets, mailboxes between cores, config, admin endpoints.
//!
//! The problem: a single-threaded server answers from one processor however many there are, and locks around shared
//! keys cost more than the keys. The idea: a thread for each core, each with its own runtime, listener and share of the
//! slots; cores meet only through messages.
//!
//! ```text
//!   config -> run -> one thread a core: worker
//!                      accept -> connection -> batch -> engine (own keys)
//!                                           \-> parcel -> other core's postman -> engine -> back
//!   admin, logging, clock, facts stand beside
//! ```

mod accept;
pub mod admin;
pub mod affinity;
mod audit;
pub mod banner;
mod batch;
mod clock;
pub mod config;
mod connection;
pub mod directory;
mod facts;
mod flows;
mod following;
mod gate;
mod group;
mod hub;
mod huge_pages;
pub mod listen;
mod loading;
pub mod logging;
mod monitor;
mod origin;
mod outbox;
mod pause;
mod postman;
mod run;
mod saving;
mod slow;
mod spread;
mod stream;
mod tenure;
mod tickets;
mod transaction;
mod turn;
mod wire;
mod wishes;
mod worker;

pub use run::{StartError, in_process, run};

#[cfg(test)]
mod testing;
