//! A key that has expired does not exist for any command, and one that has not does.

use super::{Checker, Fact, Scene};
use crate::answer::{Answer, split_count};
use crate::errand::{Duty, Step};
use crate::request::Request;
use std::collections::BTreeSet;

/// Watches the commands that say whether a key exists. (What limits make of an expired record is watched elsewhere.)
pub(super) struct ExpiredUnseen;

impl Checker for ExpiredUnseen {
    fn name(&self) -> &'static str {
        "expired unseen"
    }

    fn see(&mut self, fact: &Fact, scene: &Scene<'_>) -> Result<(), String> {
        let Fact::Done(step) = fact else { return Ok(()) };
        if step.evicted {
            // Another job of the same run dropped keys: whether before or after this one cannot be told.
            return Ok(());
        }
        let is_right = match &*step.note.request {
            Request::Exists(_) => counted(step).zip(alive(step, false)).is_none_or(|(count, alive)| count == alive),
            Request::Delete(_) => counted(step).zip(alive(step, true)).is_none_or(|(count, alive)| count == alive),
            Request::Type(_) => {
                let is_none = Answer::whole(&step.output) == Some(Answer::Text("none".to_owned()));
                alive(step, true).is_none_or(|alive| (alive == 0) == is_none)
            }
            Request::Pttl(_) => {
                let left = Answer::whole(&step.output).and_then(|answer| answer.number());
                let is_alive = |left: i64| left > 0 && left != -2;
                alive(step, true).is_none_or(|alive| left.is_some_and(|left| (alive == 1) == is_alive(left)))
            }
            Request::Keys => listed(step, scene) == Some(step.alive.iter().copied().collect()),
            _ => true,
        };
        if is_right { Ok(()) } else { Err(format!("an answer does not fit the keys that exist: {step}")) }
    }
}

/// How many of the step's keys existed before it, if that is known of all. DEL counts a key that comes twice once.
fn alive(step: &Step, once: bool) -> Option<u64> {
    let mut seen = BTreeSet::new();
    let mut count = 0;
    for (key, sight) in step.note.keys.iter().zip(&step.sights) {
        let is_alive = sight.as_ref()?.before.alive(step.now).is_some();
        if is_alive && (seen.insert(*key) || !once) {
            count += 1;
        }
    }
    Some(count)
}

fn counted(step: &Step) -> Option<u64> {
    match step.note.duty {
        Duty::Part => split_count(&step.output).map(|(count, _)| count),
        _ => Answer::whole(&step.output)?.number().and_then(|number| u64::try_from(number).ok()),
    }
}

fn listed(step: &Step, scene: &Scene<'_>) -> Option<BTreeSet<usize>> {
    let (_, mut rest) = split_count(&step.output)?;
    let mut keys = BTreeSet::new();
    while !rest.is_empty() {
        let (Answer::Text(name), behind) = Answer::read(rest)? else { return None };
        rest = behind;
        // A key that comes twice is as wrong as one that should not be there.
        let key = scene.plan.keys.iter().position(|key| key.name == name)?;
        if !keys.insert(key) {
            return None;
        }
    }
    Some(keys)
}
