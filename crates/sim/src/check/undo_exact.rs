//! Undo is exact: at rest each key holds what was admitted and not given back, and an undo that meets its own charge
//! untouched puts the record back as it was.

use super::alike::{is_alike, used};
use super::{Checker, Fact, Scene};
use crate::answer::Part;
use crate::errand::{Duty, RequestId, Step, View};
use std::collections::BTreeMap;
use tollgate_limits::Micros;

/// Watches each charge until its undo, and every key at rest.
#[derive(Default)]
pub(super) struct UndoExact {
    charges: BTreeMap<(RequestId, usize), (View, View, Micros)>,
}

impl Checker for UndoExact {
    fn name(&self) -> &'static str {
        "undo exact"
    }

    fn see(&mut self, fact: &Fact, scene: &Scene<'_>) -> Result<(), String> {
        match fact {
            Fact::Done(step) if step.note.duty == Duty::Charge => self.remember(step),
            Fact::Done(step) if step.note.duty == Duty::Undo => return self.compare(step),
            Fact::Settled(id, _) => self.charges.retain(|(of, _), _| of != id),
            Fact::Rest(keys) => {
                for (key, now, view) in keys {
                    at_rest(*key, *now, view, scene)?;
                }
            }
            _ => {}
        }
        Ok(())
    }
}

impl UndoExact {
    fn remember(&mut self, step: &Step) {
        if step.evicted || !matches!(Part::read(&step.output), Some(Part::Charged(_))) {
            return;
        }
        for (key, sight) in step.note.keys.iter().zip(&step.sights) {
            if let Some(sight) = sight {
                let charge = (sight.before.clone(), sight.after.clone(), step.now);
                self.charges.insert((step.note.id, *key), charge);
            }
        }
    }

    fn compare(&self, step: &Step) -> Result<(), String> {
        for (key, sight) in step.note.keys.iter().zip(&step.sights) {
            let (Some(sight), Some(charge)) = (sight, self.charges.get(&(step.note.id, *key))) else { continue };
            let (before, after, charged_at) = charge;
            let is_untouched = sight.before.version == after.version && sight.before.record == after.record;
            // What drains is compared only where no time has passed, where nothing can have drained.
            if !is_untouched || *charged_at != step.now {
                continue;
            }
            let (was, is) = (before.alive(step.now), sight.after.alive(step.now));
            if !is_alike(was, is, step.now) {
                return Err(format!("key {key}: {is:?} after the undo instead of {was:?}"));
            }
        }
        Ok(())
    }
}

fn at_rest(key: usize, now: Micros, view: &View, scene: &Scene<'_>) -> Result<(), String> {
    let Some(account) = scene.books.account(key) else { return Ok(()) };
    if scene.books.is_open(key) {
        return Err(format!("key {key} has a charge that was never settled"));
    }
    let used = view.alive(now).map_or(Some(0), |record| used(record, now)).ok_or("a record cannot be read")?;
    let (lower, upper) = (account.lower(now), account.upper(now));
    if used < lower || (used > upper && account.is_exact()) {
        return Err(format!("key {key} holds {used} at {now}, between {lower} and {upper} were admitted: {view}"));
    }
    Ok(())
}
