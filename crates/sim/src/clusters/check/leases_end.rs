//! A lease never holds longer than the leader waits for: when a change is committed that has another process lead, no
//! lease of the one that led holds any more, by the simulation's own time.

use super::{Checker, Fact, Scene};
use std::collections::BTreeMap;
use tollgate_topology::Change;

/// Watches every lease and every change of who leads.
#[derive(Default)]
pub(super) struct LeasesEnd {
    /// By since when it leads: until when a process may serve.
    until: BTreeMap<u64, u64>,
    applied: usize,
}

impl Checker for LeasesEnd {
    fn name(&self) -> &'static str {
        "leases end"
    }

    fn see(&mut self, fact: &Fact, scene: &Scene<'_>) -> Result<(), String> {
        match fact {
            Fact::Lease { since, until, .. } => drop(self.until.insert(*since, *until)),
            Fact::Died { place } => {
                let ended = scene.books.reigns_of(*place);
                self.until.retain(|since, _| !ended.contains(since));
            }
            Fact::Applied { index, entry, map, .. } if *index > self.applied => {
                self.applied = *index;
                let leads =
                    |since: &u64| map.nodes.keys().filter_map(|id| map.leading(*id)).any(|of| of.since == *since);
                // Who has no slots may follow another at any time.
                let is_other = matches!(entry.change, Some(Change::Promote { .. } | Change::LeadAnew { .. }));
                for (since, until) in self.until.iter().filter(|_| is_other) {
                    if !leads(since) && *until > scene.at {
                        let left = *until - scene.at;
                        return Err(format!("who leads since {since} has a lease for {left} us more: {fact}"));
                    }
                }
                self.until.retain(|since, _| leads(since));
            }
            _ => {}
        }
        Ok(())
    }
}
