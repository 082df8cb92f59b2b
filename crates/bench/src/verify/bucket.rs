//! TOKEN, LEAK and THROTTLE: use that drains at a rate.
//!
//! The level is followed as if every call had been charged when its reply came. That is later than it was, by at most
//! the widest interval since the bucket was last empty; so the true level is lower by at most what drains in that time,
//! and this much is taken off for the least. For the most, calls that may have been charged meanwhile count whole: a
//! charge counts for most when it comes last.
//!
//! ```text
//!   a unit is D parts, N parts drain in a microsecond      rate N per D microseconds, in lowest terms: all is whole
//! ```

use super::judge::{Call, Fields, Meter, Range};
use super::record::Outcome;
use super::times::Times;
use tollgate_limits::Rate;

/// The meter of one limit, used for its keys in turn.
#[derive(Debug)]
pub(super) struct Bucket {
    capacity: i128,
    /// Parts of a unit.
    unit: i128,
    /// Parts that drain in a microsecond.
    drain: i128,
    /// Whether an admitted call is told how long to wait.
    holds: bool,
    /// The level after each admitted call, in the order of their ends.
    kept: Vec<Level>,
    /// The same with the calls that may have been admitted.
    possible: Vec<Level>,
    times: Times,
    /// The bounds of the last [`Meter::found`], in parts.
    least_parts: i128,
    most_parts: i128,
}

/// The level after a call had ended.
#[derive(Debug, Clone, Copy)]
struct Level {
    end: i64,
    parts: i128,
    /// The widest interval since the bucket was empty.
    widest: i64,
}

impl Bucket {
    /// Of `capacity` units that drain at `rate`.
    pub(super) fn new(capacity: u64, rate: Rate, holds: bool) -> Bucket {
        Bucket {
            capacity: i128::from(capacity),
            unit: i128::try_from(rate.micros()).unwrap_or(i128::MAX),
            drain: i128::from(rate.tokens()),
            holds,
            kept: Vec::new(),
            possible: Vec::new(),
            times: Times::default(),
            least_parts: 0,
            most_parts: 0,
        }
    }

    /// The level and the widest interval at `moment`, some time after `level`.
    fn at(&self, level: Option<&Level>, moment: i64) -> (i128, i64) {
        let Some(level) = level else { return (0, 0) };
        let passed = i128::from(moment.saturating_sub(level.end)).max(0);
        let parts = (level.parts - passed * self.drain).max(0);
        (parts, if parts == 0 { 0 } else { level.widest })
    }

    /// One more charge behind the last level of `levels`.
    fn charged(&self, levels: &[Level], call: &Call) -> Level {
        let (parts, widest) = self.at(levels.last(), call.end);
        Level { end: call.end, parts: parts + self.unit, widest: widest.max(call.end - call.start) }
    }

    fn units(&self, parts: i128) -> u64 {
        u64::try_from(divide_up(parts, self.unit)).unwrap_or(u64::MAX)
    }

    /// Microseconds in which so much drains.
    fn micros(&self, parts: i128) -> i64 {
        i64::try_from(divide_up(parts.max(0), self.drain)).unwrap_or(i64::MAX)
    }
}

fn divide_up(dividend: i128, divisor: i128) -> i128 {
    dividend.div_euclid(divisor) + i128::from(dividend.rem_euclid(divisor) != 0)
}

/// How many of `levels` had ended at `moment`.
fn ended_at(levels: &[Level], moment: i64) -> usize {
    // The calls that are asked about lie near the end of what is there, if not at it.
    let mut step = 1;
    let mut low = levels.len();
    while low > 0 && levels.get(low.saturating_sub(1)).is_some_and(|level| level.end > moment) {
        low = low.saturating_sub(step);
        step = step.saturating_mul(2);
    }
    let rest = levels.get(low..).unwrap_or_default();
    low.saturating_add(rest.partition_point(|level| level.end <= moment))
}

impl Meter for Bucket {
    fn begin(&mut self, calls: &[Call]) {
        self.kept.clear();
        self.possible.clear();
        let possible = calls.iter().filter(|call| matches!(call.outcome, Outcome::Admitted | Outcome::Unknown));
        self.times.fill(possible.map(|call| (call.start, call.end)));
        let mut next = std::mem::take(&mut self.possible);
        for call in calls.iter().filter(|call| matches!(call.outcome, Outcome::Admitted | Outcome::Unknown)) {
            let level = self.charged(&next, call);
            next.push(level);
        }
        self.possible = next;
    }

    fn least_through(&mut self, call: &Call) -> u64 {
        let level = self.charged(&self.kept, call);
        self.kept.push(level);
        self.units((level.parts - i128::from(level.widest) * self.drain).max(0))
    }

    fn forgive(&mut self, _call: &Call) {
        self.kept.pop();
    }

    fn found(&mut self, call: &Call) -> Range {
        let own = u64::from(call.outcome == Outcome::Admitted);
        let before = ended_at(&self.kept, call.start - 1);
        let (parts, widest) = self.at(before.checked_sub(1).and_then(|last| self.kept.get(last)), call.end);
        self.least_parts = (parts - i128::from(widest) * self.drain).max(0);
        let ended = self.times.ended(0, call.start);
        let pending = self.times.begun(0, call.end).saturating_sub(ended).saturating_sub(own);
        let last = usize::try_from(ended).ok().and_then(|ended| ended.checked_sub(1));
        let (parts, _) = self.at(last.and_then(|last| self.possible.get(last)), call.start);
        self.most_parts = parts + i128::from(pending) * self.unit;
        Range { least: self.units(self.least_parts), most: self.units(self.most_parts) }
    }

    fn fields(&mut self, call: &Call) -> Fields {
        let charged = if call.outcome == Outcome::Admitted { self.unit } else { 0 };
        let reset = Some((self.micros(self.least_parts + charged), self.micros(self.most_parts + charged)));
        let room = (self.capacity - 1) * self.unit;
        let retry = match call.outcome {
            Outcome::Denied => Some((1, self.micros(self.most_parts - room))),
            Outcome::Admitted if self.holds => Some((self.micros(self.least_parts), self.micros(self.most_parts))),
            _ => None,
        };
        Fields { reset, retry }
    }
}
