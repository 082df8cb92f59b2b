//! The same calls to several servers, in turn and again and again.
//!
//! Two runs that are made one after the other differ by what else the machine did meanwhile. Here each round measures
//! every server, and figures are compared within a round only: what slows a round slows all of it. Which server is
//! first moves on with each round. What counts is the median of the rounds' ratios, and how far they lie apart says
//! what it is worth.

mod present;
mod spread;

use crate::arguments::Arguments;
use crate::drive::Limit;
use crate::error::BenchError;
use crate::live::Live;
use crate::plan::Plan;
use crate::process::{self, Process, Sighting};
use crate::report::{Machine, Report};
use crate::run;
use crate::template::SHA_HOLE;
use std::path::PathBuf;
use std::time::Duration;

/// Short names of the servers, in the order in which they were given. More are no comparison any more.
const LETTERS: [&str; 8] = ["A", "B", "C", "D", "E", "F", "G", "H"];

/// More rounds than this would take days.
const ROUNDS_MAX: usize = 1_000;

/// All rounds of a comparison.
#[derive(Debug)]
pub(crate) struct Comparison {
    rivals: Vec<Rival>,
    /// How many are made; if it was stopped, how many were finished.
    rounds: usize,
    rounds_asked: usize,
    /// Why not all rounds were made.
    stopped: Option<String>,
    /// The command that was given and the machine, for a report in a file.
    pub(crate) full: Option<(String, Machine)>,
}

/// One of the servers that are compared.
#[derive(Debug)]
struct Rival {
    /// Its short name.
    letter: &'static str,
    plan: Plan,
    sighting: Sighting,
    /// What making the keys took.
    touched: Option<Report>,
    /// One report a round.
    reports: Vec<Report>,
    /// In which place of its round each report was made, from 0.
    turns: Vec<usize>,
}

impl Comparison {
    /// Checks the arguments for every server.
    pub(crate) fn check(arguments: &Arguments) -> Result<Comparison, BenchError> {
        let refuse = |text: String| Err(BenchError::Arguments(text));
        let (targets, rounds) = (&arguments.output.compare, arguments.output.rounds);
        if targets.len() < 2 || targets.len() > LETTERS.len() {
            return refuse(format!("--compare was given {} times: it takes 2 to {}", targets.len(), LETTERS.len()));
        }
        if rounds == 0 || rounds > ROUNDS_MAX {
            return refuse(format!("--rounds {rounds} is not between 1 and {ROUNDS_MAX}"));
        }
        if arguments.requests == Some(0) {
            return refuse("--requests 0 leaves nothing to compare".to_owned());
        }
        if arguments.verify {
            return refuse("--verify needs keys that nobody has called: it does not go with --compare".to_owned());
        }
        let mut rivals = Vec::with_capacity(targets.len());
        let works = works(arguments)?;
        for ((target, letter), (command, script)) in targets.iter().zip(LETTERS).zip(works) {
            let plan = Plan::check(Arguments { target: target.clone(), command, script, ..arguments.clone() })?;
            let sighting = Sighting::Unseen { reason: String::new() };
            rivals.push(Rival { letter, plan, sighting, touched: None, reports: Vec::new(), turns: Vec::new() });
        }
        Ok(Comparison { rivals, rounds, rounds_asked: rounds, stopped: None, full: None })
    }

    /// Calls every key of every server once, then measures them round after round. What is finished when it fails is
    /// kept.
    pub(crate) fn run(&mut self, live: Option<&Live>) -> Result<(), BenchError> {
        let outcome = self.run_rounds(live);
        if let Err(error) = &outcome {
            self.rounds = self.rivals.iter().map(|rival| rival.reports.len()).min().unwrap_or_default();
            self.rivals.iter_mut().for_each(|rival| rival.reports.truncate(self.rounds));
            self.stopped = Some(match error {
                BenchError::Interrupted => "it was interrupted".to_owned(),
                other => other.to_string(),
            });
        }
        outcome
    }

    /// Whether every server was measured at least once.
    pub(crate) fn has_rounds(&self) -> bool {
        self.rounds > 0
    }

    fn run_rounds(&mut self, live: Option<&Live>) -> Result<(), BenchError> {
        for rival in &mut self.rivals {
            rival.prepare(live)?;
        }
        for round in 0..self.rounds {
            for turn in 0..self.rivals.len() {
                let place = order(round, turn, self.rivals.len());
                if let Some(rival) = self.rivals.get_mut(place) {
                    rival.measure(round, turn, self.rounds, live)?;
                }
            }
        }
        Ok(())
    }

    /// Whether every call to every server was answered as it should be.
    pub(crate) fn is_clean(&self) -> bool {
        self.rivals.iter().all(|rival| rival.reports.iter().all(Report::is_clean))
    }
}

/// A server's own command and script; either may be none.
type Own = (Vec<String>, Vec<PathBuf>);

/// Deals the commands among the servers, one for all or one each, and the scripts among the commands that name one.
fn works(arguments: &Arguments) -> Result<Vec<Own>, BenchError> {
    let servers = arguments.output.compare.len();
    let commands = dealt("--command", &arguments.command, servers, "the servers")?;
    let names_script = |command: &Option<String>| command.as_ref().is_some_and(|line| line.contains(SHA_HOLE));
    let calling = commands.iter().filter(|command| names_script(command)).count();
    if calling == 0 {
        // Nothing names it: each plan says what it makes of it.
        return Ok(commands.into_iter().map(|own| (own.into_iter().collect(), arguments.script.clone())).collect());
    }
    let mut scripts = dealt("--script", &arguments.script, calling, "the commands with {sha}")?.into_iter();
    let with_script = |command: Option<String>| {
        let script = if names_script(&command) { scripts.next().flatten() } else { None };
        (command.into_iter().collect(), script.into_iter().collect())
    };
    Ok(commands.into_iter().map(with_script).collect())
}

/// What was given for each of `places`: nothing, one for all, or one each.
fn dealt<Value: Clone>(flag: &str, given: &[Value], places: usize, of: &str) -> Result<Vec<Option<Value>>, BenchError> {
    match given {
        [] => Ok(vec![None; places]),
        [one] => Ok(vec![Some(one.clone()); places]),
        several if several.len() == places => Ok(several.iter().cloned().map(Some).collect()),
        several => {
            let text = format!("{flag} was given {} times: give one for all of {of}, or {places}", several.len());
            Err(BenchError::Arguments(text))
        }
    }
}

impl Rival {
    fn prepare(&mut self, live: Option<&Live>) -> Result<(), BenchError> {
        self.sighting = process::sight(None, &self.plan.target);
        self.plan.pid = self.sighting.pid();
        if let Some(live) = live {
            live.label(self.letter.to_owned());
        }
        self.plan.warm_keys = true;
        let touching = Plan { limit: Limit::Calls(0), warmup: Duration::ZERO, ..self.plan.clone() };
        self.touched = Some(run::run(&touching, live).map_err(|error| self.stopped("touching the keys", error))?);
        self.plan.warm_keys = false;
        Ok(())
    }

    fn measure(&mut self, round: usize, turn: usize, rounds: usize, live: Option<&Live>) -> Result<(), BenchError> {
        let stage = format!("round {} of {rounds}", round.saturating_add(1));
        if let Some(live) = live {
            live.label(format!("{stage}, {}", self.letter));
        }
        if let Some(ended) = self.ended() {
            return Err(self.stopped(&stage, ended));
        }
        let mut report = run::run(&self.plan, live).map_err(|error| self.stopped(&stage, error))?;
        if report.interrupted {
            return Err(BenchError::Interrupted);
        }
        report.tell_server(&self.sighting);
        if let Some(touched) = &self.touched {
            report.take_memory_per_key(touched);
        }
        self.reports.push(report);
        self.turns.push(turn);
        Ok(())
    }

    /// The error of a server whose process is gone; none if it is there, or was never seen.
    fn ended(&self) -> Option<BenchError> {
        match &self.sighting {
            Sighting::Seen { pid, name, .. } if Process::open(*pid).is_err() => {
                Some(BenchError::Ended { pid: *pid, name: name.clone() })
            }
            _ => None,
        }
    }

    fn stopped(&self, stage: &str, source: BenchError) -> BenchError {
        if matches!(source, BenchError::Interrupted) {
            return source;
        }
        let source = self.ended().unwrap_or(source);
        let target = self.plan.target.to_string();
        BenchError::Compared { target, stage: stage.to_owned(), source: Box::new(source) }
    }
}

/// Which server has a turn of a round: each round begins one further on.
fn order(round: usize, turn: usize, servers: usize) -> usize {
    round.wrapping_add(turn) % servers.max(1)
}

#[cfg(test)]
mod tests;
