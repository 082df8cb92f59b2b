//! A call that is denied, refused, malformed or only a question changes nothing: no state, no policy, no version.

use super::alike::is_alike;
use super::{Checker, Fact, Scene};
use crate::answer::{Answer, Part};
use crate::errand::{Duty, Sight, Step};
use crate::request::Request;
use tollgate_limits::Mode;

/// Watches every job that may not change anything.
pub(super) struct NothingChanged;

impl Checker for NothingChanged {
    fn name(&self) -> &'static str {
        "nothing changed"
    }

    fn see(&mut self, fact: &Fact, _scene: &Scene<'_>) -> Result<(), String> {
        let Fact::Done(step) = fact else { return Ok(()) };
        if step.evicted || may_change(step) {
            return Ok(());
        }
        // A charge that failed half way was put back, which raises versions but leaves the state as it was.
        let was_put_back = output_text(step).is_some_and(|text| text.starts_with("OOM"));
        for (key, sight) in step.note.keys.iter().zip(&step.sights) {
            let Some(sight) = sight else { continue };
            let is_same_version = sight.before.version == sight.after.version;
            if sight.alone_in_slot && !is_same_version && !was_put_back {
                return Err(format!("key {key}: the slot's version went up without a reason: {step}"));
            }
            if !is_same_record(step, sight, was_put_back) {
                return Err(format!("key {key} was changed without a reason: {step}"));
            }
        }
        Ok(())
    }
}

/// A record may go if it has expired, and may not change otherwise. One that was put back may have lost what no longer
/// counts.
fn is_same_record(step: &Step, sight: &Sight, was_put_back: bool) -> bool {
    let (before, after) = (sight.before.alive(step.now), sight.after.alive(step.now));
    if was_put_back {
        return is_alike(before, after, step.now);
    }
    before == after && (sight.after.record.is_none() || sight.after.record == sight.before.record)
}

fn may_change(step: &Step) -> bool {
    let answer = Answer::whole(&step.output);
    match (&*step.note.request, step.note.duty) {
        (_, Duty::Undo) => true,
        (_, Duty::Charge) => matches!(Part::read(&step.output), Some(Part::Charged(_))),
        (Request::Limit(group, mode), _) => {
            let allowed = answer.and_then(|answer| answer.five()).map_or(0, |five| five[0]);
            allowed > 0 && *mode != Mode::Peek && group.cost > 0
        }
        (Request::All(_), _) => answer.and_then(|answer| answer.all()).is_some_and(|(admitted, ..)| admitted),
        (Request::Delete(_), _) => true,
        _ => false,
    }
}

fn output_text(step: &Step) -> Option<String> {
    match step.note.duty {
        Duty::Charge => match Part::read(&step.output)? {
            Part::Failed(text) => Some(text),
            _ => None,
        },
        _ => match Answer::whole(&step.output)? {
            Answer::Error(text) => Some(text),
            _ => None,
        },
    }
}
