//! The memory account is what a recount finds.

use super::{Checker, Fact, Scene};

/// Watches every recount.
pub(super) struct MemoryAccount;

impl Checker for MemoryAccount {
    fn name(&self) -> &'static str {
        "memory account"
    }

    fn see(&mut self, fact: &Fact, _scene: &Scene<'_>) -> Result<(), String> {
        match fact {
            Fact::Memory { core, used, recounted } if used != recounted => {
                Err(format!("core {core} holds {recounted} bytes and thinks {used}"))
            }
            _ => Ok(()),
        }
    }
}
