//! How one core hands work to another: bounded lanes, and a handshake that wakes a core only when it sleeps.
//!
//! The problem: waking a thread costs a lock and a write to an eventfd, several times the price of the request that it
//! is woken for; but a wake that is left out when it was needed leaves a client without an answer. The idea: a core
//! says that it is about to sleep, then looks at its lanes once more; a sender puts its message down, then looks
//! whether the core said so. One of the two must see the other ([`wake::WakeFlag`]), which loom checks in
//! tests/wake.rs.
//!
//! ```text
//!            requests (0 -> 1)                 every ordered pair of cores has two lanes of its own,
//!   core 0 ---------------------> core 1       each with one sender and one receiver. A reply lane is as
//!          <---------------------              large as what its owner may have outstanding, so replying
//!            replies  (1 -> 0)                 never fails and no core ever waits for another.
//! ```

pub mod wake;

#[cfg(not(feature = "loom"))]
mod lanes;
#[cfg(not(feature = "loom"))]
pub use lanes::{Mesh, Refused};
