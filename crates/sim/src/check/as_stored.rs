//! An answer about a limit is what its record says: the decision is made on the record of that key, once.

use super::{Checker, Fact, Scene};
use crate::answer::{Answer, Five, Part};
use crate::errand::{Duty, Step, View};
use crate::request::{Group, Request};
use tollgate_limits::{Ask, Decision, Mode, Retry, decide};
use tollgate_store::Saved;

/// Watches the five integers of every limit that one job alone touched.
pub(super) struct AsStored;

impl Checker for AsStored {
    fn name(&self) -> &'static str {
        "as stored"
    }

    fn see(&mut self, fact: &Fact, _scene: &Scene<'_>) -> Result<(), String> {
        let Fact::Done(step) = fact else { return Ok(()) };
        if step.evicted {
            return Ok(());
        }
        let whole = Answer::whole(&step.output);
        let (fives, is_admitted) = match (&*step.note.request, step.note.duty) {
            (Request::Limit(_, mode), Duty::Whole) => {
                let Some(five) = whole.and_then(|answer| answer.five()) else { return Ok(()) };
                return with_mode(step, *mode, &[five], |sight_before, _| sight_before);
            }
            (Request::All(_), Duty::Whole) => match whole.and_then(|answer| answer.all()) {
                Some((is_admitted, _, fives)) => (fives, is_admitted),
                None => return Ok(()),
            },
            (Request::All(_), Duty::Charge) => match Part::read(&step.output) {
                Some(Part::Charged(fives)) => (fives, true),
                Some(Part::Denied(fives)) => (fives, false),
                _ => return Ok(()),
            },
            (Request::All(_), Duty::Undo) => match Part::read(&step.output) {
                Some(Part::Denied(fives)) => return with_mode(step, Mode::Peek, &fives, |_, after| after),
                Some(Part::Failed(text)) if text.starts_with("WRONGTYPE") && may_have_other_algorithm(step) => {
                    return Ok(());
                }
                _ => return Err(format!("an undo answers neither fives nor that a key is of another type: {step}")),
            },
            _ => return Ok(()),
        };
        let mode = if is_admitted { Mode::Charge } else { Mode::Peek };
        with_mode(step, mode, &fives, |before, _| before)
    }
}

/// Whether a key of the step is one of another algorithm by now, or may be: several jobs of one run touched it.
fn may_have_other_algorithm(step: &Step) -> bool {
    step.note.keys.iter().zip(&step.sights).any(|(key, sight)| {
        let Some(sight) = sight else { return true };
        let asked = step.note.request.group(*key).map(|group| group.rule.algorithm);
        sight.after.alive(step.now).is_some_and(|record| Some(record.policy().algorithm()) != asked)
    })
}

/// Compares each five with what the record of its key says in this mode, before the job or after it.
fn with_mode<'a>(
    step: &'a Step,
    mode: Mode,
    fives: &[Five],
    pick: impl Fn(&'a View, &'a View) -> &'a View,
) -> Result<(), String> {
    if fives.len() != step.note.keys.len() {
        return Err(format!("{} fives for {} keys: {step}", fives.len(), step.note.keys.len()));
    }
    for ((key, sight), five) in step.note.keys.iter().zip(&step.sights).zip(fives) {
        let (Some(sight), Some(group)) = (sight, step.note.request.group(*key)) else { continue };
        let record = pick(&sight.before, &sight.after).alive(step.now);
        match expected(record, group, mode, step.now) {
            Some(expected) if expected == *five => {}
            expected => return Err(format!("key {key}: {five:?} instead of {expected:?}: {step}")),
        }
    }
    Ok(())
}

fn expected(record: Option<&Saved>, group: Group, mode: Mode, now: u64) -> Option<Five> {
    let ask = Ask { policy: group.rule.policy(), cost: group.cost, mode };
    let stored = record.map(|record| (record.policy(), record.state()));
    decide(stored, &ask, now).map(|outcome| five(&outcome.decision))
}

fn five(decision: &Decision) -> Five {
    let number = |value: u64| i64::try_from(value).unwrap_or(i64::MAX);
    let retry_ms = match decision.retry {
        Retry::After(milliseconds) => number(milliseconds),
        Retry::Never => -1,
    };
    let Decision { allowed, limit, remaining, reset_ms, .. } = *decision;
    [number(allowed), number(limit), number(remaining), retry_ms, number(reset_ms)]
}
