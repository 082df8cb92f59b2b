//! No limit is passed beyond what was stated: added up from the answers that clients have received, whoever gave them,
//! units above the limits are at most what failovers said that they may forget, and what was lost with snapshots.

use super::{Checker, Fact, Scene};

/// Adds up at the end of the run.
pub(super) struct LimitHeld;

impl Checker for LimitHeld {
    fn name(&self) -> &'static str {
        "limit held"
    }

    fn see(&mut self, fact: &Fact, scene: &Scene<'_>) -> Result<(), String> {
        let Fact::Over = fact else { return Ok(()) };
        let passed = scene.books.passed();
        let (sum, allowed) = (passed.iter().map(|(_, units)| units).sum::<u64>(), scene.books.may_be_passed());
        if sum > allowed {
            return Err(format!("limits were passed by {sum} units, of which {allowed} were stated: {passed:?}"));
        }
        Ok(())
    }
}
