//! No lane ever holds more than its bound: what is put on a full one would be lost.

use super::{Checker, Fact, Scene};

/// Watches every message that is put on a lane.
pub(super) struct LaneBound;

impl Checker for LaneBound {
    fn name(&self) -> &'static str {
        "lane bound"
    }

    fn see(&mut self, fact: &Fact, scene: &Scene<'_>) -> Result<(), String> {
        match fact {
            Fact::Queued { from, to, messages } if *messages > scene.plan.lane_capacity => {
                Err(format!("{messages} messages from core {from} to core {to}, of {}", scene.plan.lane_capacity))
            }
            _ => Ok(()),
        }
    }
}
