//! SLIDE and FIXED: windows that begin at multiples of their length on the server's clock.
//!
//! With `c` units that surely lie in the window of a moment and `t` that lie in it or in the one before, SLIDE's
//! estimate is at least `c + (t - c) * left / w`: whichever of the two windows a call at the boundary lies in, it
//! counts for at least the part that still shows. The most is the same sum over all calls that may have been admitted.
//! FIXED counts `c`.

use super::judge::{Call, Fields, Meter, Range};
use super::record::Outcome;
use super::times::Times;

/// A moment that may lie in more windows than this says nothing about any of them.
const WINDOWS_MAX: i64 = 2;

/// The meter of one limit, used for its keys in turn.
#[derive(Debug)]
pub(super) struct Aligned {
    window: i64,
    slides: bool,
    /// Calls that were admitted.
    kept: Times,
    /// Of these, the ones that broke the limit and were allowed for or told: they no longer count.
    forgiven: Times,
    /// Calls that may have been admitted.
    possible: Times,
}

impl Aligned {
    /// Windows of `window` microseconds.
    pub(super) fn new(window: u64, slides: bool) -> Aligned {
        let window = i64::try_from(window).unwrap_or(i64::MAX).max(1);
        let (kept, forgiven, possible) = (Times::default(), Times::default(), Times::default());
        Aligned { window, slides, kept, forgiven, possible }
    }

    /// Calls that were admitted, had ended at `end` and began at `from` or later: at least so many.
    fn kept_within(&mut self, kind: usize, from: i64, end: i64) -> u64 {
        let ended = self.kept.ended(kind, end).saturating_sub(self.forgiven.ended(kind, end));
        let before = self.kept.begun(kind, from - 1).saturating_sub(self.forgiven.begun(kind, from - 1));
        ended.saturating_sub(before)
    }

    /// Least estimate at `moment`, from what had ended at `end`.
    fn least(&mut self, kind: usize, end: i64, moment: i64) -> u64 {
        let start = moment.div_euclid(self.window) * self.window;
        let current = self.kept_within(kind, start, end);
        if !self.slides {
            return current;
        }
        let both = self.kept_within(kind + 1, start - self.window, end).max(current);
        self.estimate(current, both, moment - start)
    }

    /// Most that can be found between `first` and `last`, two moments of one window.
    fn most(&mut self, first: i64, last: i64, own: u64) -> u64 {
        let start = first.div_euclid(self.window) * self.window;
        let begun = self.possible.begun(0, last).saturating_sub(own);
        let current = begun.saturating_sub(self.possible.ended(1, start - 1));
        if !self.slides {
            return current;
        }
        let both = begun.saturating_sub(self.possible.ended(2, start - self.window - 1));
        self.estimate(current, both.max(current), first - start)
    }

    fn estimate(&self, current: u64, both: u64, elapsed: i64) -> u64 {
        let left = i128::from(self.window - elapsed);
        let fading = i128::from(both - current) * left / i128::from(self.window);
        current.saturating_add(u64::try_from(fading).unwrap_or(u64::MAX))
    }
}

impl Meter for Aligned {
    fn begin(&mut self, calls: &[Call]) {
        let times = |call: &Call| (call.start, call.end);
        let admitted = calls.iter().filter(|call| call.outcome == Outcome::Admitted);
        self.kept.fill(admitted.map(times));
        let possible = calls.iter().filter(|call| matches!(call.outcome, Outcome::Admitted | Outcome::Unknown));
        self.possible.fill(possible.map(times));
        self.forgiven.fill(std::iter::empty());
    }

    fn narrow(&self, call: &mut Call, unit_micros: i64) -> bool {
        let Ok(reset) = i64::try_from(call.reset) else { return true };
        if call.outcome == Outcome::Unknown || reset == 0 {
            return true;
        }
        // The decision lies before the end of some window by more than `least` and at most `most`.
        let most = reset.saturating_mul(unit_micros);
        let least = most - unit_micros + 1;
        let window = self.window;
        let first_end = (call.start.saturating_add(least)).div_euclid(window) * window;
        let first_end = if first_end < call.start.saturating_add(least) { first_end + window } else { first_end };
        let last_end = call.end.saturating_add(most).div_euclid(window) * window;
        let start = call.start.max(first_end - most);
        let end = call.end.min(last_end - least);
        if start > end {
            return false;
        }
        (call.start, call.end) = (start, end);
        true
    }

    fn least_through(&mut self, call: &Call) -> u64 {
        self.least(0, call.end, call.end)
    }

    fn forgive(&mut self, call: &Call) {
        self.forgiven.insert(call.start, call.end);
    }

    fn found(&mut self, call: &Call) -> Range {
        let own = u64::from(call.outcome == Outcome::Admitted);
        let (first, last) = (call.start.div_euclid(self.window), call.end.div_euclid(self.window));
        if last - first >= WINDOWS_MAX {
            return Range { least: 0, most: u64::MAX };
        }
        let mut range = Range { least: u64::MAX, most: 0 };
        for index in first..=last {
            let start = call.start.max(index * self.window);
            let end = call.end.min(index * self.window + self.window - 1);
            range.least = range.least.min(self.least(1, call.start - 1, end));
            range.most = range.most.max(self.most(start, end, own));
        }
        range
    }

    fn fields(&mut self, call: &Call) -> Fields {
        let index = call.start.div_euclid(self.window);
        if index != call.end.div_euclid(self.window) {
            return Fields::default();
        }
        let next = (index + 1) * self.window;
        let (first_end, last_end) = match (self.slides, call.outcome) {
            (false, _) => (next, next),
            (true, Outcome::Admitted) => (next + self.window, next + self.window),
            (true, _) => (next, next + self.window),
        };
        let reset = Some((first_end - call.end, last_end - call.start));
        let retry = if self.slides { None } else { reset };
        Fields { reset, retry: retry.filter(|_| call.outcome == Outcome::Denied) }
    }
}
