//! Nobody answers for a slot who may not: not when its lease has ended at the moment at which the answer leaves, not
//! after another has answered by the word of a newer map, and not by the word of a map that was never committed.

use super::{Checker, Fact, Scene};
use std::collections::BTreeMap;

/// Watches every answer that leaves.
#[derive(Default)]
pub(super) struct OneServes {
    /// By slot: since when the one leads that has answered by the newest map.
    newest: BTreeMap<u16, u64>,
}

impl Checker for OneServes {
    fn name(&self) -> &'static str {
        "one serves"
    }

    fn see(&mut self, fact: &Fact, scene: &Scene<'_>) -> Result<(), String> {
        let Fact::Released(released) = fact else { return Ok(()) };
        if released.boot >= released.until {
            return Err(format!("its lease had ended {} us before: {fact}", released.boot - released.until));
        }
        if !scene.books.leads(released.place, released.since, released.slot) {
            return Err(format!("no committed map says that it serves this slot: {fact}"));
        }
        let newest = self.newest.entry(released.slot).or_insert(released.since);
        if *newest > released.since {
            return Err(format!("who leads since {newest} has answered before: {fact}"));
        }
        *newest = released.since;
        Ok(())
    }
}
