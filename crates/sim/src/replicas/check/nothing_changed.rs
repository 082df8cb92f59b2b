//! A call that was denied or refused has changed nothing: no record, no expiry, and not the version of its slot, by
//! which replicas are told of changes.

use super::{Checker, Fact, Scene};
use crate::view::lasting;

/// Watches every call that was denied or refused.
pub(super) struct NothingChanged;

impl Checker for NothingChanged {
    fn name(&self) -> &'static str {
        "nothing changed"
    }

    fn see(&mut self, fact: &Fact, _scene: &Scene<'_>) -> Result<(), String> {
        let Fact::Ran(ran) = fact else { return Ok(()) };
        if !ran.is_refused() || ran.has_evicted {
            return Ok(());
        }
        for (key, before, after) in &ran.sights {
            let is_same = lasting(before.record.as_ref(), ran.now) == lasting(after.record.as_ref(), ran.now);
            // For want of memory an RL.ALL may have charged some of its groups and have taken that back.
            let is_untouched = before.version == after.version || ran.sights.len() > 1;
            if !is_same || !is_untouched {
                return Err(format!("key {key} is another after a refusal: {before} -> {after}: {ran}"));
            }
        }
        Ok(())
    }
}
