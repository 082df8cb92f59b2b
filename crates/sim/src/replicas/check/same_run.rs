//! A process that was started again never replaces what replicas hold that know more: a replica follows the process
//! that it has followed since an operator told it whom to follow, and no other.

use super::{Checker, Fact, Scene};
use crate::replicas::machine::RunId;
use std::collections::BTreeMap;

/// Watches whom replicas follow.
#[derive(Default)]
pub(super) struct SameRun {
    followed: BTreeMap<usize, RunId>,
}

impl Checker for SameRun {
    fn name(&self) -> &'static str {
        "same run"
    }

    fn see(&mut self, fact: &Fact, _scene: &Scene<'_>) -> Result<(), String> {
        match fact {
            Fact::Ordered { node, .. } | Fact::Died { node, .. } => drop(self.followed.remove(node)),
            Fact::Opened { node, run } => {
                let followed = *self.followed.entry(*node).or_insert(*run);
                if followed != *run {
                    return Err(format!(
                        "node {node} has followed run {followed}, and takes over what run {run} holds"
                    ));
                }
            }
            _ => {}
        }
        Ok(())
    }
}
