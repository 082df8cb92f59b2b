//! `--verify`: every reply is held against the limit.
//!
//! The problem: the client does not know *when* the server decided a call, only that it was between the sending and the
//! reply; and while calls overlap, nobody can say in which order they were decided. So no reply by itself can be called
//! wrong. The idea: count what is certain. A set of calls that all began after one moment and were all answered by
//! another was decided between the two, whatever the order; if more of them were admitted than a window or a bucket
//! of that length may admit, the limit was broken. And a denial is honest only if the calls that *may* have been
//! admitted before it could have used the limit up. Both counts come from sorted times of beginnings and ends.
//!
//! ```text
//!   record   every call: key, sent, answered, what the reply said (32 bytes for each limit of a call)
//!   clock    how far the server's clock is from this one, as an interval: windows are aligned to the server's
//!   judge    calls sorted into keys by counting; each key's calls in the order of their ends, against a meter
//!   meters   aligned (SLIDE, FIXED), log, bucket (TOKEN, LEAK, THROTTLE): the least and the most that can be in use
//! ```
//!
//! What the bounds leave open is only what overlaps: the width of a call's interval, and the uncertainty of the clock.
//! Replies narrow it further, because a window's `reset` says how far its end is away: the interval is cut to the
//! moments at which that is true, and where there is none the reply contradicts itself.
//!
//! A call that failed may have been charged or not: it counts for neither side. So nothing here breaks where slots move
//! or a replica takes over; what a failover may cost is allowed for by `--overshoot-max`, and with `--failover` it is
//! counted over both servers.

mod aligned;
mod bucket;
mod clock;
mod failover;
mod findings;
mod judge;
mod log;
mod record;
mod times;

#[cfg(test)]
mod tests;

pub(crate) use clock::{ClockReading, TRIAL};
pub(crate) use failover::{Failover, Scrape, Transfer};
pub(crate) use findings::Verdict;
pub(crate) use record::{Capture, Origin, RECORDS_MAX, Recorder};

use crate::keys::KeyNames;
use crate::workload::Form;
use judge::judge;
use tollgate_limits::Policy;

/// Limits of one call at most.
pub(crate) const RULES_MAX: usize = 2;

/// An allowed overshoot that nothing can pass.
pub(crate) const ANY_OVERSHOOT: u64 = u64::MAX;

/// What is held against what.
#[derive(Debug, Clone)]
pub(crate) struct Watch {
    pub(crate) form: Form,
    /// The limits of keys below `first_denied`.
    pub(crate) admitted: Vec<Policy>,
    /// The limits of the others; as many.
    pub(crate) denied: Vec<Policy>,
    pub(crate) first_denied: u32,
    /// How keys are called in messages.
    pub(crate) names: KeyNames,
    /// Admissions beyond the limits that are allowed, over all keys; [`ANY_OVERSHOOT`] of any number.
    pub(crate) overshoot: u64,
    /// Whether another server may have taken over, whose clock is another.
    pub(crate) fails_over: bool,
    /// Whether remaining, retry and reset are checked too, not only who was admitted.
    pub(crate) checks_fields: bool,
}

impl Watch {
    /// Limits of one call: 1 to [`RULES_MAX`].
    pub(crate) fn rules(&self) -> usize {
        self.admitted.len()
    }

    /// The limits that a key is held against.
    pub(crate) fn policies(&self, key: u32) -> &[Policy] {
        if key < self.first_denied { &self.admitted } else { &self.denied }
    }

    /// Whether it matters how far the server's clock is from this one: windows are aligned to it.
    pub(crate) fn needs_clock(&self) -> bool {
        self.narrowest_window().is_some()
    }

    /// The narrowest window that is aligned to the server's clock, in microseconds; none if no limit has one.
    fn narrowest_window(&self) -> Option<i64> {
        let micros = |policy: &Policy| match policy {
            Policy::Slide { window, .. } | Policy::Fixed { window, .. } => Some(window.micros()),
            Policy::Log { .. } | Policy::Token { .. } | Policy::Leak { .. } => None,
        };
        let narrowest = self.admitted.iter().chain(&self.denied).filter_map(micros).min();
        narrowest.map(|micros| i64::try_from(micros).unwrap_or(i64::MAX))
    }

    /// Holds every call of a run against its limits, by the server's clock as it was read before and after.
    pub(crate) fn judge(
        &self,
        recorders: Vec<Recorder>,
        before: Option<ClockReading>,
        after: Option<ClockReading>,
    ) -> Verdict {
        let (offset, clock_doubt) = clock::put_together(self, before, after);
        Verdict { limits_checked: clock_doubt.is_none(), clock_doubt, ..judge(self, recorders, offset) }
    }
}
