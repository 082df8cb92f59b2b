//! Every denial is justified: what is stored when a call is denied is what calls have left there and no more than they
//! were charged, it denies the call, and it says in whole milliseconds when to come again.

use super::{Checker, Duty, Fact, Outcome, Ran, Scene, against};
use crate::replicas::demand::Demand;
use crate::replicas::machine::RunId;
use crate::request::Group;
use crate::view::{alive, decision};
use std::collections::BTreeMap;
use tollgate_limits::{AMOUNT_MAX, Ask, Mode};

/// Watches every call.
#[derive(Default)]
pub(super) struct HonestDenial {
    /// By process: what calls have left of a key.
    left: BTreeMap<(RunId, usize), Option<Vec<u8>>>,
}

impl Checker for HonestDenial {
    fn name(&self) -> &'static str {
        "honest denial"
    }

    fn see(&mut self, fact: &Fact, scene: &Scene<'_>) -> Result<(), String> {
        if let Fact::Promoted { run, .. } = fact {
            // It may have served before, and has followed another since.
            self.left.retain(|(of, _), _| of != run);
        }
        let Fact::Ran(ran) = fact else { return Ok(()) };
        for key in &ran.lost {
            self.left.remove(&(ran.run, *key));
        }
        for (key, before, after) in &ran.sights {
            if let Some(left) = self.left.insert((ran.run, *key), after.record.clone()) {
                let (left, found) = (alive(left.as_ref(), ran.now), alive(before.record.as_ref(), ran.now));
                if left != found {
                    return Err(format!("no call has left key {key} so: {} before {ran}", against(found, left)));
                }
            }
        }
        if ran.has_evicted {
            return Ok(());
        }
        match (&*ran.demand, ran.duty) {
            (Demand::Limit(group, mode), Duty::Whole) => denied(ran, *group, *mode, scene),
            _ => Ok(()),
        }
    }
}

fn denied(ran: &Ran, group: Group, mode: Mode, scene: &Scene<'_>) -> Result<(), String> {
    let Outcome::Denied([_, _, _, retry_ms, _]) = ran.outcome(group.key) else { return Ok(()) };
    let Some((_, before, _)) = ran.sights.iter().find(|(key, ..)| *key == group.key) else { return Ok(()) };
    let policy = group.rule.policy();
    let ask = Ask { policy, cost: group.cost, mode };
    let admits = |micros: u64| {
        decision(before.record.as_ref(), &ask, ran.now + micros).is_some_and(|decision| decision.allowed > 0)
    };
    if admits(0) {
        return Err(format!("what is stored admits it: {ran}"));
    }
    if let Ok(retry_ms @ 1..) = u64::try_from(retry_ms)
        && (!admits(retry_ms * 1_000) || admits((retry_ms - 1) * 1_000))
    {
        return Err(format!("it is not in {retry_ms} ms that it is admitted: {ran}"));
    }
    let Some(charged) = scene.books.charged_at_most(group.key, ran.now) else { return Ok(()) };
    let look = Ask { policy: crate::view::with_room(&policy), cost: 0, mode: Mode::Peek };
    let remaining = decision(before.record.as_ref(), &look, ran.now).map_or(AMOUNT_MAX, |decision| decision.remaining);
    let used = AMOUNT_MAX - remaining;
    if used > charged {
        return Err(format!("{used} units are in use, and at most {charged} were charged: {ran}"));
    }
    Ok(())
}
