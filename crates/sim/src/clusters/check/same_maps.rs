//! Maps of one epoch are equal on all nodes.

use super::{Checker, Fact, Scene};
use std::collections::BTreeMap;
use std::rc::Rc;
use tollgate_topology::SlotMap;

/// Watches every map.
#[derive(Default)]
pub(super) struct SameMaps {
    maps: BTreeMap<u64, Rc<SlotMap>>,
}

impl Checker for SameMaps {
    fn name(&self) -> &'static str {
        "same maps"
    }

    fn see(&mut self, fact: &Fact, _scene: &Scene<'_>) -> Result<(), String> {
        let Fact::Applied { map, .. } = fact else { return Ok(()) };
        let first = self.maps.entry(map.epoch).or_insert_with(|| map.clone());
        if first != map {
            return Err(format!("{map:?} is another than {first:?}: {fact}"));
        }
        Ok(())
    }
}
