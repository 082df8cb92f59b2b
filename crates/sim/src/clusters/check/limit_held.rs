//! No limit is passed beyond what was stated: added up from the answers that clients have received, whoever gave them,
//! units above the limits are at most what failovers may forget, and what was lost where no copy was left.

use super::{Checker, Fact, Scene};

/// Adds up at the end of the run.
pub(super) struct LimitHeld;

impl Checker for LimitHeld {
    fn name(&self) -> &'static str {
        "limit held"
    }

    fn see(&mut self, fact: &Fact, scene: &Scene<'_>) -> Result<(), String> {
        let Fact::Over = fact else { return Ok(()) };
        for shard in 0..scene.plan.shards.len() {
            let passed = scene.books.passed(shard);
            let (sum, allowed) = (passed.iter().map(|(_, units)| units).sum::<u64>(), scene.books.allowed(shard));
            if sum > allowed {
                return Err(format!("limits were passed by {sum} units, of which {allowed} were stated: {passed:?}"));
            }
        }
        Ok(())
    }
}
