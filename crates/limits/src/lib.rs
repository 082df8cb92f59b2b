//! The arithmetic of each limit. Pure: (state, policy asked for, cost, now) in, decision and change out.
//!
//! The problem: a limiter that rounds, overflows or depends on how often it is called admits requests that it should
//! not. The idea: every limit is written in whole numbers of exact units, each decision is one function of values, and
//! nothing here knows of clocks, keys, sockets or storage. What must be kept afterwards is returned as a [`Change`],
//! so that "denied changes nothing" can be read off the types.
//!
//! **Invariant:** this crate never reads a clock, never panics, and allocates nowhere but in [`Log::apply`]
//! and [`Log::of`].
//!
//! ```text
//! number.rs   what a command wrote -> amounts, windows, rates        policy.rs   the limit as it is compared and kept
//! ask.rs      decide: one call -> answer and change                  undo.rs     one charge taken back off
//! slide.rs  fixed.rs  log.rs  bucket.rs    the state of each limit, and its arithmetic
//! ```

mod ask;
mod bucket;
mod fixed;
mod log;
mod number;
mod policy;
mod slide;
mod undo;

pub use ask::{
    Ask, Change, Decision, Mode, Outcome, Retry, StateRef, Under, decide, expires_at, remaining_now, reset_ms,
};
pub use bucket::Bucket;
pub use fixed::Fixed;
pub use log::{Log, LogChange};
pub use number::{NumberError, NumberKind, parse_amount, parse_duration, parse_instant, parse_rate, parse_window};
pub use policy::{Algorithm, Policy, Rate, Window};
pub use slide::{Slide, charge_slide};
pub use undo::{Charge, undo};

/// Microseconds since the Unix epoch on the timeline of the core that asks.
pub type Micros = u64;

/// The largest limit, capacity or cost: 10^12 units.
pub const AMOUNT_MAX: u64 = 1_000_000_000_000;
/// The shortest window: 1 ms.
pub const WINDOW_MICROS_MIN: u64 = 1_000;
/// The longest window: 3650 days.
pub const WINDOW_MICROS_MAX: u64 = 3_650 * 86_400 * 1_000_000;
/// The longest time that a reply states, in milliseconds: the largest integer that a double holds exactly.
pub const REPLY_MS_MAX: u64 = (1 << 53) - 1;
/// The last microsecond that is told apart, in the year 10889: later ones count as this one, so that time stands still
/// rather than wrap. It is what a window's index of 48 bits reaches with the shortest window.
pub const NOW_MICROS_MAX: Micros = (1 << 48) * WINDOW_MICROS_MIN - 1;

// What the packed forms rely on.
const _: () = assert!(AMOUNT_MAX + 1 < 1 << 40);
const _: () = assert!(NOW_MICROS_MAX / WINDOW_MICROS_MIN < 1 << 48);
