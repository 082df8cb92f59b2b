//! A process that starts from a snapshot holds all that was written into it, but for what has expired, or does not
//! start from it.

use super::{Checker, Fact, Scene, against};
use crate::view::alive;
use std::collections::BTreeMap;
use tollgate_replication::{Record, write};

/// Watches every start.
pub(super) struct LoadedWhole;

impl Checker for LoadedWhole {
    fn name(&self) -> &'static str {
        "loaded whole"
    }

    fn see(&mut self, fact: &Fact, scene: &Scene<'_>) -> Result<(), String> {
        let Fact::Loaded { node, now, records, held } = fact else { return Ok(()) };
        let mut written = BTreeMap::new();
        let mut rest = records.as_slice();
        while !rest.is_empty() {
            let Ok(Record { key, content, .. }) = Record::read(&mut rest) else { return Err("no record".to_owned()) };
            let mut record = Vec::new();
            write(&mut record, key, content.as_ref().map(|content| content.holding()));
            let key = scene.plan.keys.iter().position(|of| of.name.as_bytes() == key);
            written.extend(key.map(|key| (key, record)));
        }
        for key in 0..scene.plan.keys.len() {
            let (expected, found) = (alive(written.get(&key), *now), alive(held.get(&key), *now));
            if expected != found {
                let difference = against(found, expected);
                return Err(format!("node {node} has loaded something else for key {key}: {difference}"));
            }
        }
        Ok(())
    }
}
