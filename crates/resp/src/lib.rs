//! RESP on the wire: a bounded request parser and a reply writer.
//!
//! The server trusts nothing that a socket brings. A general RESP decoder builds a tree of frames, allocates by what
//! the client declares and recurses as deep as the client likes. A request needs none of that: it is one flat array
//! of byte strings, or one line of words. So [`Parser`] reads exactly these two shapes, copies nothing, and names
//! every bound it enforces in [`RequestLimits`]. What it yields are [`Span`]s into the caller's buffer, seen through
//! [`Args`]. [`Reply`] is the way back: plain pushes onto a byte vector, in RESP2 or RESP3.
//!
//! ```text
//! socket -> buffer: [done][*3 $8 RL.SLIDE $3 key ...][unfinished]
//!                          \__ step() -> Command, spans -> Args      step() -> Incomplete, progress kept
//! reply bytes <- Reply <- the command's answer
//! ```
//!
//! **Invariants.** No input makes this crate panic, recurse, or allocate by a length that was merely declared. A
//! command gives the same result however its bytes are cut into reads. The crate knows no sockets and no clock.

mod count;
mod decimal;
mod error;
mod header;
mod inline;
mod likeness;
mod limits;
mod number;
mod parser;
mod printable;
mod reply;
mod shape;
mod short;
mod span;

pub use count::count_replies;
pub use decimal::{Admitted, Replies};
pub use error::ProtocolError;
pub use likeness::{Alike, Likeness};
pub use limits::RequestLimits;
pub use parser::{Parser, Step};
pub use printable::printable;
pub use reply::{Protocol, Reply};
pub use short::BUFFER_BYTES_MAX;
pub use span::{Args, OwnedArgs, Span, Stretch};
