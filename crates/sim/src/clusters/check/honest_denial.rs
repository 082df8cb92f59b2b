//! Every denial is justified: what is in use when a call is denied is no more than what was ever charged by anybody, be
//! it for a call whose answer nobody knows, and it denies the call.

use super::{Checker, Fact, Scene};
use crate::view::{decision, with_room};
use tollgate_limits::{AMOUNT_MAX, Ask, Mode};

/// Watches every call.
pub(super) struct HonestDenial;

impl Checker for HonestDenial {
    fn name(&self) -> &'static str {
        "honest denial"
    }

    fn see(&mut self, fact: &Fact, scene: &Scene<'_>) -> Result<(), String> {
        let Fact::Ran(ran) = fact else { return Ok(()) };
        if ran.five[0] > 0 {
            return Ok(());
        }
        let Some(plan) = scene.plan.keys.get(ran.key) else { return Ok(()) };
        let policy = plan.rule.policy();
        let ask = Ask { policy, cost: ran.cost, mode: Mode::Charge };
        if decision(ran.before.as_ref(), &ask, ran.now).is_some_and(|decision| decision.allowed > 0) {
            return Err(format!("what is stored admits it: {fact}"));
        }
        let look = Ask { policy: with_room(&policy), cost: 0, mode: Mode::Peek };
        let remaining = decision(ran.before.as_ref(), &look, ran.now).map_or(AMOUNT_MAX, |found| found.remaining);
        let (used, charged) = (AMOUNT_MAX - remaining, scene.books.charged_at_most(ran.key, ran.now));
        if used > charged {
            return Err(format!("{used} units are in use, and at most {charged} were charged: {fact}"));
        }
        Ok(())
    }
}
