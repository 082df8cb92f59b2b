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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::books::Books;
    use crate::plan::Plan;
    use crate::random::Random;

    #[test]
    fn a_difference_is_seen() {
        let plan = Plan::new(&mut Random::new(1));
        let books = Books::new(&plan);
        let scene = Scene { plan: &plan, books: &books, overdrafts: &[] };
        for (used, recounted, is_right) in [(0, 0, true), (70_000, 70_000, true), (70_000, 69_999, false)] {
            let fact = Fact::Memory { core: 0, used, recounted };
            assert_eq!(MemoryAccount.see(&fact, &scene).is_ok(), is_right);
        }
    }
}
