//! A replica that has put all up to a flush, its copy included, holds what the core held when that flush was made, but
//! for what has expired.

use super::{Checker, Fact, Records, Scene, against};
use crate::replicas::machine::RunId;
use crate::view::lasting;
use std::collections::BTreeMap;
use std::rc::Rc;
use tollgate_limits::Micros;

/// Flushes of a core that are remembered.
const REMEMBERED: usize = 400;

/// By flush: when it was, and what the core held.
type Told = BTreeMap<u32, (Micros, Rc<Records>)>;

/// Watches every acknowledgement of a whole copy.
#[derive(Default)]
pub(super) struct AsTold {
    /// By core of a process.
    told: BTreeMap<(RunId, usize), Told>,
}

impl Checker for AsTold {
    fn name(&self) -> &'static str {
        "as told"
    }

    fn see(&mut self, fact: &Fact, _scene: &Scene<'_>) -> Result<(), String> {
        match fact {
            Fact::Flushed { run, core, number, now, records } => {
                let told = self.told.entry((*run, *core)).or_default();
                // A flush that tells nothing has the number of the one before; numbers begin anew with no link left.
                while told.last_key_value().is_some_and(|(last, _)| last > number) {
                    told.pop_last();
                }
                told.insert(*number, (*now, records.clone()));
                if told.len() > REMEMBERED {
                    told.pop_first();
                }
                Ok(())
            }
            Fact::Put { node, run, core, number, now, records } => {
                let Some((then, told)) = self.told.get(&(*run, *core)).and_then(|told| told.get(number)) else {
                    return Ok(());
                };
                if told == records {
                    return Ok(());
                }
                let now = (*now).max(*then);
                for key in told.keys().chain(records.keys()) {
                    let (expected, found) = (lasting(told.get(key), now), lasting(records.get(key), now));
                    if expected != found {
                        let difference = against(found.as_ref(), expected.as_ref());
                        return Err(format!(
                            "node {node} after flush {number} of core {core}: key {key}: {difference}"
                        ));
                    }
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }
}
