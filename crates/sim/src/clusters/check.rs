//! The checkers: each watches one thing that must hold in every run, whatever the seed.

mod group_agrees;
mod honest_denial;
mod leases_end;
mod limit_held;
mod little_forgotten;
mod one_serves;
mod same_maps;

use super::books::Books;
use super::machine::Place;
use super::plan::Plan;
use super::raft::Entry;
use crate::answer::Five;
use std::collections::BTreeMap;
use std::fmt;
use std::rc::Rc;
use tollgate_limits::Micros;
use tollgate_topology::SlotMap;

/// Records by key, those that have expired included.
pub type Records = BTreeMap<usize, Vec<u8>>;

/// A call that a core has run.
#[derive(Clone, Debug)]
pub struct Ran {
    /// The call.
    pub call: u64,
    /// The process.
    pub place: Place,
    /// The key.
    pub key: usize,
    /// What it asks for.
    pub cost: u64,
    /// The process's time.
    pub now: Micros,
    /// What was there before.
    pub before: Option<Vec<u8>>,
    /// The answer's five numbers.
    pub five: Five,
}

impl Ran {
    /// Units that it admitted.
    pub fn admitted(&self) -> u64 {
        if self.five[0] > 0 { self.cost } else { 0 }
    }
}

/// An answer that has left its node.
#[derive(Clone, Copy, Debug)]
pub struct Released {
    /// The call.
    pub call: u64,
    /// The process.
    pub place: Place,
    /// The key's slot.
    pub slot: u16,
    /// Since when the process leads by whose word it answers.
    pub since: u64,
    /// Its clock, and when its lease ends by that.
    pub boot: u64,
    /// See `boot`.
    pub until: u64,
    /// What a failover would forget from now on, as it says itself.
    pub overshoot: u64,
}

/// Something that happened.
#[derive(Clone, Debug)]
pub enum Fact {
    /// A node takes itself for the leader of a term.
    Leads { node: usize, term: u64 },
    /// A node has applied an entry of the log, and that made this map.
    Applied { node: usize, index: usize, entry: Entry, map: Rc<SlotMap> },
    /// Who leads since then may serve until then, by the simulation's time; 0: no more.
    Lease { since: u64, until: u64 },
    /// A process begins to lead, and holds this.
    Reigns { place: Place, since: u64, now: Micros, held: Records },
    /// A core ran a call.
    Ran(Box<Ran>),
    /// An answer has left.
    Released(Released),
    /// A client has got it, and still wanted it.
    Received { call: u64 },
    /// A client has given a call up: nobody knows what came of it.
    GivenUp { call: u64 },
    /// A process is gone.
    Died { place: Place },
    /// A process has started; whether it had a snapshot.
    Started { place: Place, has_file: bool },
    /// Something goes wrong.
    Trouble { what: String },
    /// All is as it should be, so long after the troubles.
    Healed { micros: u64 },
    /// The run is over.
    Over,
}

impl Fact {
    /// Whether it is none of the many about calls and leases.
    pub fn is_rare(&self) -> bool {
        match self {
            // Each entry once.
            Fact::Applied { node, .. } => *node == 0,
            Fact::Lease { .. } | Fact::Ran(_) | Fact::Released(_) | Fact::Received { .. } | Fact::GivenUp { .. } => {
                false
            }
            _ => true,
        }
    }
}

impl fmt::Display for Fact {
    /// One line for a person who reads what happened.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fact::Applied { node, index, entry, map } => {
                write!(formatter, "node {node} applies {index} of term {}: ", entry.term)?;
                match &entry.change {
                    None => write!(formatter, "a leader begins"),
                    Some(change) => write!(formatter, "{change:?} -> epoch {}", map.epoch),
                }
            }
            Fact::Reigns { place, since, now, held } => {
                write!(formatter, "{place:?} leads since {since}, at {now}, with {} records", held.len())
            }
            Fact::Ran(ran) => {
                let Ran { call, place, key, cost, now, five, .. } = &**ran;
                write!(formatter, "{place:?} at {now}: call {call} of {cost} on key {key} -> {five:?}")
            }
            Fact::Trouble { what } => write!(formatter, "{what}"),
            Fact::Started { place, has_file: true } => write!(formatter, "{place:?} starts from a snapshot"),
            Fact::Started { place, .. } => write!(formatter, "{place:?} starts with nothing"),
            Fact::GivenUp { call } => write!(formatter, "call {call} is given up"),
            Fact::Healed { micros } => write!(formatter, "all is well after {micros} us"),
            other => write!(formatter, "{other:?}"),
        }
    }
}

/// What checkers may look at besides the fact itself, which is in the books already.
#[derive(Clone, Copy, Debug)]
pub struct Scene<'a> {
    /// The run's plan.
    pub plan: &'a Plan,
    /// What was admitted and told, and who leads since when.
    pub books: &'a Books,
    /// The simulation's time.
    pub at: u64,
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
        Box::new(honest_denial::HonestDenial),
        Box::new(one_serves::OneServes::default()),
        Box::new(leases_end::LeasesEnd::default()),
        Box::new(same_maps::SameMaps::default()),
        Box::new(group_agrees::GroupAgrees::default()),
        Box::new(little_forgotten::LittleForgotten),
    ]
}
