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
pub mod bounds;
pub mod call;
pub mod command;
mod config_commands;
mod connection;
pub mod core;
pub mod counters;
pub mod dispatch;
pub mod docs;
pub mod effect;
mod explain;
pub mod failure;
mod fragment;
pub mod glob;
mod info;
mod introspect;
pub mod keys;
pub mod latency;
mod later;
mod limit_commands;
mod memory_commands;
mod object;
pub mod parcel;
pub mod policy_memo;
pub mod registry;
pub mod route;
mod server_commands;
pub mod session;
pub mod settings;
pub mod shared;
pub mod slowlog;
mod table;
mod throttle;
pub mod timing;
pub mod tunables;
