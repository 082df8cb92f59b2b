//! Once nothing is wrong any more and all has been told, every replica holds what the primary holds: slot by slot their
//! digests are equal, but for what has expired.

use super::{Checker, Fact, Records, Scene};
use crate::view::{digest, lasting, shown};
use std::collections::BTreeSet;
use tollgate_limits::Micros;

/// Watches every healing.
pub(super) struct Alike;

impl Checker for Alike {
    fn name(&self) -> &'static str {
        "alike"
    }

    fn see(&mut self, fact: &Fact, scene: &Scene<'_>) -> Result<(), String> {
        let Fact::Healed { now, held } = fact else { return Ok(()) };
        let Some(((_, primary), replicas)) = held.split_first() else { return Ok(()) };
        for slot in scene.slots.iter().copied().collect::<BTreeSet<u16>>() {
            let expected = of_slot(primary, slot, scene, *now);
            for (node, replica) in replicas {
                let found = of_slot(replica, slot, scene, *now);
                if digest(expected.iter()) != digest(found.iter()) {
                    let list = |records: &[Vec<u8>]| -> Vec<String> {
                        records.iter().map(|record| shown(Some(record))).collect()
                    };
                    let (expected, found) = (list(&expected), list(&found));
                    return Err(format!("slot {slot} of node {node} at {now}: {found:?} instead of {expected:?}"));
                }
            }
        }
        Ok(())
    }
}

fn of_slot(records: &Records, slot: u16, scene: &Scene<'_>, now: Micros) -> Vec<Vec<u8>> {
    let in_slot = records.iter().filter(|(key, _)| scene.slots.get(**key) == Some(&slot));
    in_slot.filter_map(|(_, record)| lasting(Some(record), now)).collect()
}
