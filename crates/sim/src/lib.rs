//! Seeded simulation of cores, links and clocks.
//!
//! The problem: what goes wrong between cores goes wrong once in a million runs, on somebody's machine, and is gone.
//! The idea: the engine is a machine without clock and sockets, so one thread can run several cores of it and decide
//! itself what arrives when. Each run is a pure function of its seed: a seed that fails fails again.
//!
//! ```text
//!   seed -> plan -> world: agenda of events -> clients -> cores (the real engine) <-> links
//!                                                  \           |
//!                                                   facts ---> books ---> checkers
//! ```
//!
//! `workload` says what clients ask, `serve` and `spread` carry it through the node as the server's connections do,
//! `work` lets a core do a job and looks at its keys before and after. What is seen is written down as facts; `books`
//! keep for each key what it should hold, and each checker in `check` watches one invariant. A [`Fault`] is planted in
//! the messages to prove that the checkers would see it. That is one node; [`replicas`] is a primary and those who
//! follow it, [`clusters`] whole clusters.
//!
//! **Invariant:** nothing here reads a clock or asks for chance but through the seed.

mod agenda;
mod answer;
mod books;
mod check;
mod client;
mod clock;
pub mod clusters;
mod errand;
mod fault;
mod link;
mod meter;
mod observer;
mod pipe;
mod plan;
mod random;
pub mod replicas;
mod request;
mod serve;
mod spread;
mod view;
mod work;
mod workload;
mod world;

pub use fault::Fault;
pub use world::{Failure, Run, Summary};
