//! FIXED: units counted in aligned windows, each from zero.
//!
//! The cheapest limit and the roughest: around an edge twice the limit can pass in one window's length. It is here
//! because quotas ("a million a day, from midnight") mean exactly that.

use crate::ask::{Call, Change, Outcome, Retry, Under, Verdict, ms_until};
use crate::{Micros, Window};

const INDEX_MAX: u64 = (1 << 48) - 1;
const COUNT_MAX: u64 = (1 << 40) - 1;

/// A FIXED's state: which window it is in, and the units of that window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fixed {
    /// The window's index, its start divided by its length: less than 2^48.
    pub index: u64,
    /// Units in that window: less than 2^40.
    pub count: u64,
}

impl Fixed {
    /// The state in two words. A larger value is kept as the largest.
    #[inline]
    pub fn pack(self) -> [u64; 2] {
        [self.index.min(INDEX_MAX), self.count.min(COUNT_MAX)]
    }

    /// The state that [`Fixed::pack`] wrote. Any two words are a state.
    #[inline]
    pub fn unpack(words: [u64; 2]) -> Fixed {
        let [index, count] = words;
        Fixed { index: index.min(INDEX_MAX), count: count.min(COUNT_MAX) }
    }

    /// The end of the window, `u64::MAX` if beyond; 0 if nothing is counted.
    #[inline]
    pub(crate) fn expires_at(self, window: Window) -> Micros {
        if self.count == 0 {
            return 0;
        }
        self.index.saturating_add(1).saturating_mul(window.micros())
    }

    /// Takes back `units` that were charged at `at` in windows of this length, if that window is still the current one.
    pub(crate) fn take_off(self, window: Window, at: Micros, units: u64) -> Fixed {
        if at / window.micros() != self.index {
            return self;
        }
        Fixed { count: self.count.saturating_sub(units), ..self }
    }
}

/// Decides one call on `stored` (its window and state), as asked under `window`.
#[inline]
pub(crate) fn decide(stored: Option<(Window, Fixed)>, window: Window, call: Call, now: Micros) -> Outcome {
    let untouched = (window, Fixed { index: now / window.micros(), count: 0 });
    // A window that has not begun (from another timeline, or damaged) counts like the current one: over-stated.
    let (kept, state) = stored.filter(|(kept, state)| state.expires_at(*kept) > now).unwrap_or(untouched);
    let used = state.count;
    let end = state.expires_at(kept);
    match call.judge(used) {
        Verdict::Free(allowed) => call.keep(allowed, used, 0, ms_until(end, now)),
        Verdict::Peek => call.keep(1, used, 0, ms_until(end, now)),
        Verdict::Deny(wanted) => call.refusal(wanted, used, ms_until(end, now), || ms_until(end, now)),
        Verdict::Take(units) => {
            // Under another window, what counted is taken over as use of the new current window.
            let index = if kept == window { state.index } else { now / window.micros() };
            let charged = Fixed { index, count: used + units };
            let reset_ms = ms_until(charged.expires_at(window), now);
            let decision = call.answer(call.allowed(units), charged.count, Retry::After(0), reset_ms);
            Outcome { decision, change: Change::Fixed(Under::Asked, charged) }
        }
        Verdict::GiveBack(units) => {
            let given = units.min(used);
            let left = Fixed { count: used - given, ..state };
            let mut outcome = call.keep(given, left.count, 0, ms_until(left.expires_at(kept), now));
            if given > 0 {
                outcome.change = if left.count == 0 { Change::Remove } else { Change::Fixed(Under::Stored, left) };
            }
            outcome
        }
    }
}
