//! The checkers: each watches one thing that must hold in every run, whatever the seed.

mod alike;
mod all_or_nothing;
mod as_stored;
mod expired_unseen;
mod honest_denial;
mod lane_bound;
mod limit_held;
mod memory_account;
mod nothing_changed;
mod others_kept;
mod reply_order;
mod undo_exact;

use crate::books::Books;
use crate::errand::{RequestId, Step, View, shown};
use crate::plan::Plan;
use crate::request::Request;
use std::fmt;
use std::rc::Rc;
use tollgate_limits::Micros;

/// Something that happened.
#[derive(Clone, Debug)]
pub enum Fact {
    /// A client asked something.
    Asked(RequestId, Rc<Request>),
    /// A core did a job.
    Done(Box<Step>),
    /// An RL.ALL over several cores ended: whether it is answered as admitted.
    Settled(RequestId, bool),
    /// A request's reply is complete.
    Made(RequestId, Vec<u8>),
    /// A client read this many bytes of replies; it is still there.
    Received(usize, Vec<u8>),
    /// A client went away: it reads nothing any more.
    Gone(usize),
    /// A key was dropped to make room.
    Lost(usize),
    /// A message was put on a lane, which now holds so many; a lane of requests, or the one of their answers.
    Queued {
        /// The sender.
        from: usize,
        /// The receiver.
        to: usize,
        /// Messages on the lane.
        messages: usize,
    },
    /// A core's account of its memory, and what a recount says.
    Memory {
        /// The core.
        core: usize,
        /// Its account, in bytes.
        used: u64,
        /// The recount, in bytes.
        recounted: u64,
    },
    /// Nothing is under way any more: each key, its core's time, and how it looks.
    Rest(Vec<(usize, Micros, View)>),
}

impl fmt::Display for Fact {
    /// One line for a person who reads what happened.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fact::Asked(id, request) => write!(formatter, "{id} asks {request}"),
            Fact::Done(step) => write!(formatter, "{step}"),
            Fact::Settled(id, admitted) => write!(formatter, "{id} settled, admitted: {admitted}"),
            Fact::Made(id, reply) => write!(formatter, "{id} is answered {}", shown(reply)),
            Fact::Received(client, bytes) => write!(formatter, "client {client} reads {} bytes", bytes.len()),
            Fact::Gone(client) => write!(formatter, "client {client} goes away"),
            Fact::Lost(key) => write!(formatter, "key {key} is dropped to make room"),
            Fact::Queued { from, to, messages } => write!(formatter, "from core {from} to {to}: {messages} messages"),
            Fact::Memory { core, used, recounted } => write!(formatter, "core {core}: {used} bytes, {recounted} found"),
            Fact::Rest(keys) => {
                write!(formatter, "rest:")?;
                keys.iter().try_for_each(|(key, now, view)| write!(formatter, " {key} at {now}: {view};"))
            }
        }
    }
}

/// What checkers may look at besides the fact itself. The fact is in the books already.
#[derive(Clone, Copy, Debug)]
pub struct Scene<'a> {
    /// The run's plan.
    pub plan: &'a Plan,
    /// What each key should hold.
    pub books: &'a Books,
    /// Admissions that this fact has shown to pass a limit.
    pub overdrafts: &'a [String],
}

/// Watches one thing.
pub trait Checker {
    /// Its name, for the report.
    fn name(&self) -> &'static str;

    /// Looks at a fact.
    ///
    /// # Errors
    /// What is wrong, in words.
    fn see(&mut self, fact: &Fact, scene: &Scene<'_>) -> Result<(), String>;
}

/// One of each.
pub fn all() -> Vec<Box<dyn Checker>> {
    vec![
        Box::new(limit_held::LimitHeld),
        Box::new(undo_exact::UndoExact::default()),
        Box::new(others_kept::OthersKept::default()),
        Box::new(nothing_changed::NothingChanged),
        Box::new(honest_denial::HonestDenial),
        Box::new(as_stored::AsStored),
        Box::new(all_or_nothing::AllOrNothing::default()),
        Box::new(reply_order::ReplyOrder::default()),
        Box::new(expired_unseen::ExpiredUnseen),
        Box::new(lane_bound::LaneBound),
        Box::new(memory_account::MemoryAccount),
    ]
}
