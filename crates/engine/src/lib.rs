//! The command table and one core's state machine: request and time in, reply and effects out.
//!
//! The problem: a server whose commands reach into sockets, clocks and other threads cannot be tested but by running
//! it. The idea: a [`core::Core`] is a value that is given parsed commands and the time, and answers with bytes and a
//! list of effects; the same code runs under the server, under the tests and under the seeded simulation.
//!
//! ```text
//!   args -> dispatch (which row, which core) -> core.run_* -> reply bytes
//!                                    \-> parcel -> another core's run_parcel -> reply bytes
//! ```
//!
//! **Invariant:** nothing here knows of tokio, sockets or a clock; a test of the workspace checks that.

mod acl;
pub mod all;
mod arguments;
pub mod asker;
pub mod bounds;
pub mod call;
mod client_commands;
pub mod client_state;
pub mod cluster;
pub mod command;
mod config_commands;
mod connection;
pub mod core;
pub mod counters;
mod deadline;
pub mod dispatch;
pub mod docs;
pub mod effect;
mod expiry;
mod explain;
mod extended;
mod extended_text;
pub mod failure;
mod fragment;
pub mod glob;
mod increx;
mod increx_options;
mod info;
mod introspect;
pub mod keys;
pub mod latency;
mod limit_commands;
mod memory_commands;
mod moving;
mod numbers;
mod object;
pub mod parcel;
mod persistence;
pub mod plain;
pub mod policy_memo;
mod random_key;
pub mod redact;
pub mod registry;
pub mod replication;
pub mod route;
mod server_commands;
pub mod session;
mod set;
pub mod settings;
mod several;
pub mod shared;
pub mod slowlog;
pub mod steps;
mod table;
mod throttle;
pub mod timing;
pub mod top;
mod top_command;
pub mod transaction;
pub mod tunables;
mod values;

pub use connection::protocol_behind_hello;
