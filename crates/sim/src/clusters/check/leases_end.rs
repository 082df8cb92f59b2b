//! A lease never holds longer than the leader waits for: when a change is committed that has another process lead, no
//! lease of the one that led holds any more, by the simulation's own time.

use super::{Checker, Fact, Scene};
use std::collections::BTreeMap;
use std::rc::Rc;
use tollgate_topology::{Change, SlotMap};

/// Watches every lease and every change of who leads.
#[derive(Default)]
pub(super) struct LeasesEnd {
    /// By since when it leads: until when a process may serve.
    until: BTreeMap<u64, u64>,
    applied: usize,
    map: Option<Rc<SlotMap>>,
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
                let before = self.map.replace(map.clone());
                let ended = match &entry.change {
                    Some(Change::Promote { from: id, .. } | Change::LeadAnew { id, .. }) => Some(*id),
                    _ => None,
                };
                let since = |map: &SlotMap| Some(map.leading(ended?)?.since);
                let since = before.and_then(|before| since(&before)).filter(|before| since(map) != Some(*before));
                let left =
                    since.and_then(|since| self.until.get(&since)).map_or(0, |until| until.saturating_sub(scene.at));
                if left > 0 {
                    return Err(format!("who leads since {since:?} has a lease for {left} us more: {fact}"));
                }
            }
            _ => {}
        }
        Ok(())
    }
}
