//! One command's course through a node, as the simulation knows it: who asked what, and which part of it a core runs.

use crate::answer::{Answer, Part};
use crate::request::Request;
use std::fmt;
use std::rc::Rc;
use tollgate_limits::Micros;
use tollgate_store::Saved;

/// Names a request: whose, and which of that client's, in the order of asking.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId {
    /// The client.
    pub client: usize,
    /// Its requests are numbered from 0.
    pub number: u64,
}

/// What a core does with a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Duty {
    /// All of it.
    Whole,
    /// Its part of a command for several cores.
    Part,
    /// Charges its groups of an RL.ALL.
    Charge,
    /// Takes that charge back.
    Undo,
}

/// One job of one core.
#[derive(Clone, Debug)]
pub struct Note {
    /// The request.
    pub id: RequestId,
    /// What it asks.
    pub request: Rc<Request>,
    /// What the core does with it.
    pub duty: Duty,
    /// The keys that this job concerns.
    pub keys: Vec<usize>,
}

/// What a key held at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct View {
    /// The version of its slot.
    pub version: u64,
    /// The record, one that has expired included.
    pub record: Option<Saved>,
}

impl View {
    /// The record, unless it has expired.
    pub fn alive(&self, now: Micros) -> Option<&Saved> {
        let record = self.record.as_ref()?;
        (tollgate_limits::expires_at(record.policy(), record.state()) > now).then_some(record)
    }
}

/// A key's views around a step that alone touched it.
#[derive(Clone, Debug)]
pub struct Sight {
    /// Before.
    pub before: View,
    /// After.
    pub after: View,
    /// Whether nothing else in that step touched the key's slot.
    pub alone_in_slot: bool,
}

/// One job that a core has done.
#[derive(Clone, Debug)]
pub struct Step {
    /// The core.
    pub core: usize,
    /// The core's time.
    pub now: Micros,
    /// The job.
    pub note: Note,
    /// What it wrote: a reply or a fragment.
    pub output: Vec<u8>,
    /// For each key of the note: how it looked before and after, if that can be told.
    pub sights: Vec<Option<Sight>>,
    /// Keys that existed on this core before and after; only for KEYS, else empty.
    pub alive: Vec<usize>,
    /// Whether records were dropped to make room meanwhile.
    pub evicted: bool,
}

impl fmt::Display for RequestId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "client {} request {}", self.client, self.number)
    }
}

impl fmt::Display for View {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.record {
            None => write!(formatter, "nothing, version {}", self.version),
            Some(record) => write!(formatter, "{:?} {:?}, version {}", record.policy(), record.state(), self.version),
        }
    }
}

impl fmt::Display for Step {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Step { core, now, note, output, sights, .. } = self;
        let Note { id, request, duty, keys } = note;
        write!(formatter, "core {core} at {now}: {id} {duty:?} of {request}, keys {keys:?} -> {}", shown(output))?;
        for (key, sight) in keys.iter().zip(sights) {
            match sight {
                Some(Sight { before, after, .. }) => write!(formatter, "\n      {key}: {before} -> {after}")?,
                None => write!(formatter, "\n      {key}: touched by several jobs")?,
            }
        }
        Ok(())
    }
}

/// A reply or a fragment for a person to read.
pub fn shown(output: &[u8]) -> String {
    match (Answer::whole(output), Part::read(output)) {
        (Some(answer), _) => answer.to_string(),
        (None, Some(part)) => format!("{part:?}"),
        (None, None) => String::from_utf8_lossy(output).into_owned(),
    }
}
