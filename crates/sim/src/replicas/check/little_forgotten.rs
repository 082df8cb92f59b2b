//! A failover forgets no more than was stated: of what clients were told, a replica that is promoted knows all but as
//! many units as its primary said when it died, or as the bound says where there is one.

use super::{Checker, Fact, Scene};

/// Watches every promotion.
pub(super) struct LittleForgotten;

impl Checker for LittleForgotten {
    fn name(&self) -> &'static str {
        "little forgotten"
    }

    fn see(&mut self, fact: &Fact, scene: &Scene<'_>) -> Result<(), String> {
        let Fact::Promoted { node, now, held, .. } = fact else { return Ok(()) };
        let Some(missing) = scene.books.missing(*node, held, *now) else { return Ok(()) };
        let sum: u64 = missing.units.iter().map(|(_, units)| units).sum();
        if sum > missing.allowed {
            return Err(format!("node {node} has forgotten {sum} units: {missing:?}"));
        }
        Ok(())
    }
}
