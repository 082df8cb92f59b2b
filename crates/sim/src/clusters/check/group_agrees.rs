//! The group's log is one: a term has one leader, and an entry that was committed stays.

use super::{Checker, Fact, Scene};
use crate::clusters::raft::Entry;
use std::collections::BTreeMap;

/// Watches leaders and entries.
#[derive(Default)]
pub(super) struct GroupAgrees {
    leaders: BTreeMap<u64, usize>,
    entries: BTreeMap<usize, Entry>,
}

impl Checker for GroupAgrees {
    fn name(&self) -> &'static str {
        "group agrees"
    }

    fn see(&mut self, fact: &Fact, _scene: &Scene<'_>) -> Result<(), String> {
        match fact {
            Fact::Leads { node, term } => {
                let first = self.leaders.entry(*term).or_insert(*node);
                if first != node {
                    return Err(format!("node {first} leads in this term too: {fact}"));
                }
            }
            Fact::Applied { index, entry, .. } => {
                let first = self.entries.entry(*index).or_insert_with(|| entry.clone());
                if first != entry {
                    return Err(format!("{first:?} was committed there before: {fact}"));
                }
            }
            _ => {}
        }
        Ok(())
    }
}
