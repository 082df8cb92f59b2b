//! No key is ever over its limit: what was admitted fits the exact model, window by window and moment by moment.

use super::{Checker, Fact, Scene};

/// Watches keys whose limit never changes.
pub(super) struct LimitHeld;

impl Checker for LimitHeld {
    fn name(&self) -> &'static str {
        "limit held"
    }

    fn see(&mut self, _fact: &Fact, scene: &Scene<'_>) -> Result<(), String> {
        scene.overdrafts.first().map_or(Ok(()), |overdraft| Err(overdraft.clone()))
    }
}
