//! Time goes on: never back, but where a copy of something else begins; as fast as the true one; on a replica as on its
//! primary, whatever the clocks of the machines say; and so after a promotion.

use super::{Checker, Fact, Scene};
use crate::replicas::machine::RunId;
use std::collections::BTreeMap;
use tollgate_limits::Micros;

/// How far a replica's time may be ahead of its primary's, in microseconds: what two clocks drift apart in a run.
const AHEAD_MICROS_MAX: u64 = 4_000;
/// How far it may be behind: as long as the quickest message since its links are open took.
const BEHIND_MICROS_MAX: u64 = 450_000;
/// How much a clock gains or loses, in millionths, and what is lost in whole numbers.
const DRIFT_PPM: u64 = 250;

/// Watches the time of every process.
#[derive(Default)]
pub(super) struct TimeGoesOn {
    /// The last true time and time of each.
    last: BTreeMap<RunId, (u64, Micros)>,
    /// Whom each node follows since it was told to.
    followed: BTreeMap<usize, RunId>,
    /// The process of each node.
    runs: BTreeMap<usize, RunId>,
}

impl Checker for TimeGoesOn {
    fn name(&self) -> &'static str {
        "time goes on"
    }

    fn see(&mut self, fact: &Fact, _scene: &Scene<'_>) -> Result<(), String> {
        let Fact::Time { node, run, at, now, primary } = fact else {
            match fact {
                Fact::Started { node, run, .. } => drop(self.runs.insert(*node, *run)),
                Fact::Ordered { node, .. } => drop(self.followed.remove(node)),
                // What begins now may have another time; what goes on where it was has not.
                Fact::Opened { node, run } if self.followed.insert(*node, *run) != Some(*run) => {
                    self.runs.get(node).map(|run| self.last.remove(run));
                }
                _ => {}
            }
            return Ok(());
        };
        if let Some((last_at, last)) = self.last.insert(*run, (*at, *now)) {
            let passed = at - last_at;
            let least = last + passed - passed * DRIFT_PPM / 1_000_000 - 1;
            if *now < least {
                return Err(format!("node {node} is at {now}, and {passed} us before it was at {last}"));
            }
        }
        match primary {
            Some(primary) if *now > primary + AHEAD_MICROS_MAX => {
                Err(format!("node {node} is at {now}, and its primary at {primary}"))
            }
            Some(primary) if *now + BEHIND_MICROS_MAX < *primary => {
                Err(format!("node {node} is at {now}, and its primary at {primary}"))
            }
            _ => Ok(()),
        }
    }
}
