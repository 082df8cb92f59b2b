//! What two records have in common, for whoever comes next.

use tollgate_limits::{AMOUNT_MAX, Ask, Log, Micros, Mode, Policy, StateRef, Window, decide};
use tollgate_store::Saved;

/// Whether two records say the same of every future call: `None` is a key without use.
pub(super) fn is_alike(one: Option<&Saved>, other: Option<&Saved>, now: Micros) -> bool {
    let (Some(one), Some(other)) = (one, other) else { return one.is_none() && other.is_none() };
    match (one.policy(), one.state(), other.state()) {
        // A log may have dropped what no longer counts: that never comes back, under no window.
        (Policy::Log { window, .. }, StateRef::Log(entries), StateRef::Log(other_entries)) => {
            let is_same_use = counting(entries, *window, now).eq(counting(other_entries, *window, now));
            one.policy() == other.policy() && is_same_use
        }
        _ => one == other,
    }
}

/// Units in use: what is missing to the largest limit that can be asked for.
pub(super) fn used(record: &Saved, now: Micros) -> Option<u64> {
    let ask = Ask { policy: with_room(record.policy()), cost: 0, mode: Mode::Peek };
    let outcome = decide(Some((record.policy(), record.state())), &ask, now)?;
    Some(AMOUNT_MAX - outcome.decision.remaining)
}

/// The same window or rate, with the largest limit there is.
pub(super) fn with_room(policy: &Policy) -> Policy {
    let limit = AMOUNT_MAX;
    match *policy {
        Policy::Slide { window, .. } => Policy::Slide { limit, window },
        Policy::Fixed { window, .. } => Policy::Fixed { limit, window },
        Policy::Log { window, .. } => Policy::Log { limit, window },
        Policy::Token { rate, .. } => Policy::Token { capacity: limit, rate },
        Policy::Leak { rate, .. } => Policy::Leak { capacity: limit, rate },
    }
}

/// Times and units of the charges that still count.
fn counting(log: &Log, window: Window, now: Micros) -> impl Iterator<Item = (Micros, u64)> + '_ {
    let through = now.saturating_sub(window.micros());
    log.entries().filter(move |(at, _)| *at > through)
}
