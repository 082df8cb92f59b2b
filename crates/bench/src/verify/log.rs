//! LOG: the window ends at each call and reaches back by its length; nothing is aligned.

use super::judge::{Call, Fields, Meter, Range};
use super::record::Outcome;
use super::times::Times;

/// The meter of one limit, used for its keys in turn.
#[derive(Debug)]
pub(super) struct Exact {
    window: i64,
    /// Calls that were admitted.
    kept: Times,
    /// Of these, the ones that broke the limit and were allowed for or told: they no longer count.
    forgiven: Times,
    /// Calls that may have been admitted.
    possible: Times,
}

impl Exact {
    /// A window of `window` microseconds.
    pub(super) fn new(window: u64) -> Exact {
        let window = i64::try_from(window).unwrap_or(i64::MAX).max(1);
        Exact { window, kept: Times::default(), forgiven: Times::default(), possible: Times::default() }
    }

    /// Calls that had ended at `end` and still count at `moment`: at least so many.
    fn least(&mut self, kind: usize, end: i64, moment: i64) -> u64 {
        let from = moment - self.window;
        let ended = self.kept.ended(kind, end).saturating_sub(self.forgiven.ended(kind, end));
        let gone = self.kept.begun(kind, from).saturating_sub(self.forgiven.begun(kind, from));
        ended.saturating_sub(gone)
    }
}

impl Meter for Exact {
    fn begin(&mut self, calls: &[Call]) {
        let times = |call: &Call| (call.start, call.end);
        let admitted = calls.iter().filter(|call| call.outcome == Outcome::Admitted);
        self.kept.fill(admitted.map(times));
        let possible = calls.iter().filter(|call| matches!(call.outcome, Outcome::Admitted | Outcome::Unknown));
        self.possible.fill(possible.map(times));
        self.forgiven.fill(std::iter::empty());
    }

    fn least_through(&mut self, call: &Call) -> u64 {
        self.least(0, call.end, call.end)
    }

    fn forgive(&mut self, call: &Call) {
        self.forgiven.insert(call.start, call.end);
    }

    fn found(&mut self, call: &Call) -> Range {
        let own = u64::from(call.outcome == Outcome::Admitted);
        let begun = self.possible.begun(0, call.end).saturating_sub(own);
        let most = begun.saturating_sub(self.possible.ended(0, call.start - self.window));
        Range { least: self.least(1, call.start - 1, call.end), most }
    }

    fn fields(&mut self, call: &Call) -> Fields {
        let reset = match call.outcome {
            Outcome::Admitted => Some((self.window, self.window)),
            // The newest entry was made after the newest call that had surely been admitted had begun, and before now.
            Outcome::Denied => {
                let ended = self.kept.ended(2, call.start - 1);
                let newest = self.kept.start_of(ended).unwrap_or(call.start - self.window);
                Some((newest + self.window - call.end, self.window + call.end - call.start))
            }
            Outcome::Passed | Outcome::Unknown => None,
        };
        Fields { reset, retry: None }
    }
}
