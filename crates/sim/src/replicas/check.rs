//! The checkers: each watches one thing that must hold in every run, whatever the seed.

mod alike;
mod as_told;
mod honest_denial;
mod limit_held;
mod little_forgotten;
mod loaded_whole;
mod nothing_changed;
mod same_run;
mod time_goes_on;

use super::books::Books;
use super::demand::Demand;
use super::machine::RunId;
use super::plan::Plan;
use crate::answer::{Answer, Five, Part};
use crate::view::{View, shown};
use std::collections::BTreeMap;
use std::fmt;
use std::rc::Rc;
use tollgate_limits::Micros;

/// Records by key, those that have expired included.
pub type Records = BTreeMap<usize, Vec<u8>>;

/// What a core did of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Duty {
    /// All of it, or its part of a FLUSHALL.
    Whole,
    /// It charged its groups of an RL.ALL.
    Charge,
    /// It took that back.
    Undo,
}

/// One job of one core of a primary.
#[derive(Clone, Debug)]
pub struct Ran {
    /// The call.
    pub call: u64,
    /// The process.
    pub run: RunId,
    /// The core.
    pub core: usize,
    /// Its time.
    pub now: Micros,
    /// What was asked.
    pub demand: Rc<Demand>,
    /// What the core did of it.
    pub duty: Duty,
    /// Each key of the job before and after.
    pub sights: Vec<(usize, View, View)>,
    /// A reply or a fragment.
    pub output: Vec<u8>,
    /// Other keys that were dropped to make room.
    pub lost: Vec<usize>,
    /// Whether anything was dropped.
    pub has_evicted: bool,
}

/// What a job came to for a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// So many units were admitted.
    Admitted(u64),
    /// So many were given back.
    GivenBack(u64),
    /// It was denied: the answer's five numbers.
    Denied(Five),
    /// Nothing: it was a look, or failed.
    Nothing,
}

impl Ran {
    /// What the job came to for a key.
    pub fn outcome(&self, key: usize) -> Outcome {
        let units = |number: i64| u64::try_from(number).unwrap_or(0);
        match (&*self.demand, self.duty) {
            (Demand::Limit(group, mode), _) => {
                let Some(five) = Answer::whole(&self.output).and_then(|answer| answer.five()) else {
                    return Outcome::Nothing;
                };
                match mode {
                    tollgate_limits::Mode::Peek => Outcome::Nothing,
                    tollgate_limits::Mode::Refund => Outcome::GivenBack(units(five[0])),
                    _ if five[0] == 0 && group.cost > 0 => Outcome::Denied(five),
                    tollgate_limits::Mode::Partial => Outcome::Admitted(units(five[0])),
                    tollgate_limits::Mode::Charge => Outcome::Admitted(group.cost),
                }
            }
            (Demand::All(groups), Duty::Whole) => {
                let all = Answer::whole(&self.output).and_then(|answer| answer.all());
                match (all, groups.iter().find(|group| group.key == key)) {
                    (Some((true, ..)), Some(group)) => Outcome::Admitted(group.cost),
                    _ => Outcome::Nothing,
                }
            }
            (Demand::All(_), Duty::Charge) => match (Part::read(&self.output), self.demand.group(key)) {
                (Some(Part::Charged(_)), Some(group)) => Outcome::Admitted(group.cost),
                _ => Outcome::Nothing,
            },
            _ => Outcome::Nothing,
        }
    }

    /// Whether the job is known to have been refused, so that it must not have changed anything.
    pub fn is_refused(&self) -> bool {
        match (&*self.demand, self.duty) {
            (_, Duty::Undo) => false,
            (_, Duty::Charge) => !matches!(Part::read(&self.output), Some(Part::Charged(_))),
            (Demand::Limit(group, _), _) => {
                self.output.first() == Some(&b'-') || matches!(self.outcome(group.key), Outcome::Denied(_))
            }
            (Demand::All(_), _) => {
                let all = Answer::whole(&self.output).and_then(|answer| answer.all());
                !matches!(all, Some((true, ..)))
            }
            _ => self.output.first() == Some(&b'-'),
        }
    }
}

/// Something that happened.
#[derive(Clone, Debug)]
pub enum Fact {
    /// A core did a job.
    Ran(Box<Ran>),
    /// An answer has left for its client.
    Answered { call: u64, reply: Vec<u8> },
    /// A core took its changes; what it holds is what replicas hold that have put them.
    Flushed { run: RunId, core: usize, number: u32, now: Micros, records: Rc<Records> },
    /// A replica whose copy of a core is whole has put all up to a flush, and holds this of that core's keys.
    Put { node: usize, run: RunId, core: usize, number: u32, now: Micros, records: Rc<Records> },
    /// An operator says whom a machine is to follow.
    Ordered { node: usize, primary: usize },
    /// A replica has links to all cores of a process, and takes over what it holds.
    Opened { node: usize, run: RunId },
    /// It has all of it.
    Whole { node: usize, run: RunId },
    /// A process is gone, which would have had a failover forget so many units; replicas in step with it.
    Died { node: usize, run: RunId, overshoot: u64, in_step: Vec<usize> },
    /// A process starts, from a snapshot of that process which was begun when so much had happened.
    Started { node: usize, run: RunId, from: Option<(RunId, u64)> },
    /// It has loaded that snapshot, which has these records, and holds this now.
    Loaded { node: usize, now: Micros, records: Vec<u8>, held: Records },
    /// A process that was started serves clients from now on.
    Serves { run: RunId },
    /// A replica serves clients from now on, with this.
    Promoted { node: usize, run: RunId, now: Micros, held: Records },
    /// The time of a process, and of the one that it holds all of.
    Time { node: usize, run: RunId, at: u64, now: Micros, primary: Option<Micros> },
    /// Nothing is wrong any more, and all has been told: by node, what it holds. The first one is the primary.
    Healed { now: Micros, held: Vec<(usize, Records)> },
    /// The run is over.
    Over,
}

impl fmt::Display for Fact {
    /// One line for a person who reads what happened.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fact::Ran(ran) => write!(formatter, "{ran}"),
            Fact::Answered { call, reply } => {
                write!(formatter, "call {call} is answered {}", crate::errand::shown(reply))
            }
            Fact::Flushed { run, core, number, now, records } => {
                write!(formatter, "run {run} core {core} at {now}: flush {number}, {} records", records.len())
            }
            Fact::Put { node, run, core, number, now, .. } => {
                write!(formatter, "node {node} at {now} has put flush {number} of run {run} core {core}")
            }
            Fact::Ordered { node, primary } => write!(formatter, "node {node} is to follow node {primary}"),
            Fact::Started { node, run, from: None } => {
                write!(formatter, "node {node} starts as run {run} with nothing")
            }
            Fact::Started { node, run, from: Some((of, number)) } => {
                write!(formatter, "node {node} starts as run {run} from what run {of} held at {number}")
            }
            Fact::Died { node, run, overshoot, in_step } => {
                write!(formatter, "node {node}: run {run} dies, overshoot {overshoot}, in step {in_step:?}")
            }
            Fact::Loaded { node, now, held, .. } => write!(formatter, "node {node} at {now} loads {}", held.len()),
            Fact::Promoted { node, run, now, .. } => write!(formatter, "node {node} at {now}: run {run} is promoted"),
            Fact::Healed { now, .. } => write!(formatter, "healed at {now}"),
            other => write!(formatter, "{other:?}"),
        }
    }
}

impl fmt::Display for Ran {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Ran { call, run, core, now, demand, duty, sights, output, .. } = self;
        let output = crate::errand::shown(output);
        write!(formatter, "run {run} core {core} at {now}: call {call} {duty:?} of {demand} -> {output}")?;
        for (key, before, after) in sights.iter().filter(|(_, before, after)| before != after) {
            write!(formatter, "\n      {key}: {before} -> {after}")?;
        }
        Ok(())
    }
}

/// What checkers may look at besides the fact itself. The fact is in the books already, but a promotion is not.
#[derive(Clone, Copy, Debug)]
pub struct Scene<'a> {
    /// The run's plan.
    pub plan: &'a Plan,
    /// What was admitted, by whom, and who knows of it.
    pub books: &'a Books,
    /// By key: its slot.
    pub slots: &'a [u16],
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
        Box::new(little_forgotten::LittleForgotten),
        Box::new(honest_denial::HonestDenial::default()),
        Box::new(nothing_changed::NothingChanged),
        Box::new(as_told::AsTold::default()),
        Box::new(alike::Alike),
        Box::new(same_run::SameRun::default()),
        Box::new(loaded_whole::LoadedWhole),
        Box::new(time_goes_on::TimeGoesOn::default()),
    ]
}

/// Two records for a report.
fn against(one: Option<&Vec<u8>>, other: Option<&Vec<u8>>) -> String {
    format!("{} against {}", shown(one), shown(other))
}
