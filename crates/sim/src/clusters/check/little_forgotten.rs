//! A failover forgets no more than was stated: of what has left its primaries in answers, a replica that takes over
//! knows all but what they said that it may lack, or as the bound says where there is one; and the group had recorded
//! that it may take over.

use super::{Checker, Fact, Scene};

/// Watches every process that begins to lead.
pub(super) struct LittleForgotten;

impl Checker for LittleForgotten {
    fn name(&self) -> &'static str {
        "little forgotten"
    }

    fn see(&mut self, fact: &Fact, scene: &Scene<'_>) -> Result<(), String> {
        let Fact::Reigns { since, now, held, .. } = fact else { return Ok(()) };
        let Some(missing) = scene.books.missing(*since, held, *now) else { return Ok(()) };
        if !missing.is_recorded {
            return Err(format!("it was not in step by the group's word: {fact}"));
        }
        let sum: u64 = missing.units.iter().map(|(_, units)| units).sum();
        if sum > missing.allowed {
            return Err(format!("{sum} units are forgotten: {missing:?}, {fact}"));
        }
        Ok(())
    }
}
