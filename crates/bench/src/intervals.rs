//! How a run went over time: its rate and its latencies in equal intervals.
//!
//! Calls are handed over in portions that do not end where intervals do, so each portion is spread evenly over the time
//! in which it was made. When a run is long, two intervals become one, so that any run keeps a bounded number.

use serde::Serialize;
use std::time::Duration;

/// The width that intervals begin with.
const WIDTH: Duration = Duration::from_millis(250);

/// More intervals than this are joined in pairs; a chart shows no more of them either.
const INTERVALS_MAX: usize = 480;

/// Rate and latencies between two moments of the measured time.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Interval {
    /// Since the measuring began.
    pub(crate) from_seconds: f64,
    /// Since the measuring began.
    pub(crate) to_seconds: f64,
    /// Calls answered, a second.
    pub(crate) calls_per_second: f64,
    /// Median latency; 0 if none is known. In joined intervals the larger.
    pub(crate) p50_us: f64,
    /// The same for 99 % of the calls.
    pub(crate) p99_us: f64,
    /// The same for 99.9 % of the calls.
    pub(crate) p999_us: f64,
}

/// Intervals as they fill.
#[derive(Debug)]
pub(crate) struct Intervals {
    width: Duration,
    filled: Vec<Filled>,
    /// The end of the last portion.
    until: Duration,
}

#[derive(Debug, Clone, Copy, Default)]
struct Filled {
    calls: f64,
    /// p50, p99 and p99.9 in microseconds.
    latencies_us: [f64; 3],
}

impl Default for Intervals {
    fn default() -> Intervals {
        Intervals { width: WIDTH, filled: Vec::new(), until: Duration::ZERO }
    }
}

impl Intervals {
    /// Adds calls that were made between two moments, counted from the beginning of the measuring.
    pub(crate) fn add_calls(&mut self, calls: u64, from: Duration, until: Duration) {
        self.until = self.until.max(until);
        let whole = until.saturating_sub(from).as_secs_f64();
        // The later one first: it may join intervals, and then places change.
        let last = self.place_of(until);
        let mut place = self.place_of(from);
        while place <= last {
            let width = self.width.as_secs_f64();
            let begin = width * place as f64;
            let overlap = until.as_secs_f64().min(begin + width) - from.as_secs_f64().max(begin);
            let share = if whole > 0.0 { (overlap / whole).clamp(0.0, 1.0) } else { 1.0 };
            if let Some(filled) = self.filled.get_mut(place) {
                filled.calls += calls as f64 * share;
            }
            place = place.saturating_add(1);
        }
    }

    /// Adds the p50, p99 and p99.9 in microseconds of what was handed over between two moments.
    pub(crate) fn add_latencies(&mut self, latencies_us: [f64; 3], from: Duration, until: Duration) {
        let middle = from.saturating_add(until.saturating_sub(from) / 2);
        let place = self.place_of(middle);
        if let Some(filled) = self.filled.get_mut(place) {
            filled.latencies_us = largest(filled.latencies_us, latencies_us);
        }
    }

    /// All intervals up to the last call. The last is shorter than the others; a very short one is part of the one
    /// before, as its rate would mean nothing.
    pub(crate) fn finished(&self) -> Vec<Interval> {
        let width = self.width.as_secs_f64();
        let until = self.until.as_secs_f64();
        let mut finished: Vec<Interval> = Vec::with_capacity(self.filled.len());
        let mut previous = Filled::default();
        for (place, filled) in self.filled.iter().enumerate() {
            let from = width * place as f64;
            let to = (from + width).min(until);
            let is_short = to - from < width / 2.0;
            match finished.last_mut() {
                Some(before) if is_short => {
                    let joined = Filled { calls: previous.calls + filled.calls, ..previous };
                    *before = joined.between(before.from_seconds, to.max(before.to_seconds));
                }
                _ => finished.push(filled.between(from, to)),
            }
            previous = *filled;
        }
        finished
    }

    /// The interval of a moment, which is made if there is none yet.
    fn place_of(&mut self, moment: Duration) -> usize {
        loop {
            let place = usize::try_from(moment.as_nanos() / self.width.as_nanos().max(1)).unwrap_or(usize::MAX);
            if place < INTERVALS_MAX {
                if place >= self.filled.len() {
                    self.filled.resize(place.saturating_add(1), Filled::default());
                }
                return place;
            }
            self.join_pairs();
        }
    }

    fn join_pairs(&mut self) {
        self.width = self.width.saturating_mul(2);
        let joined = self.filled.chunks(2).map(|pair| match pair {
            [first, second] => Filled {
                calls: first.calls + second.calls,
                latencies_us: largest(first.latencies_us, second.latencies_us),
            },
            _ => pair.first().copied().unwrap_or_default(),
        });
        self.filled = joined.collect();
    }
}

impl Filled {
    fn between(self, from_seconds: f64, to_seconds: f64) -> Interval {
        let seconds = to_seconds - from_seconds;
        let [p50_us, p99_us, p999_us] = self.latencies_us;
        let calls_per_second = if seconds > 0.0 { (self.calls / seconds).round() } else { 0.0 };
        Interval { from_seconds, to_seconds, calls_per_second, p50_us, p99_us, p999_us }
    }
}

fn largest(first: [f64; 3], second: [f64; 3]) -> [f64; 3] {
    let [a, b, c] = first;
    let [d, e, f] = second;
    [a.max(d), b.max(e), c.max(f)]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Portions as calls, from and until in milliseconds, to the intervals as from, to (ms) and calls a second.
    fn check(portions: &[(u64, u64, u64)], expected: &[(u64, u64, f64)]) {
        let mut intervals = Intervals::default();
        for (calls, from, until) in portions {
            intervals.add_calls(*calls, Duration::from_millis(*from), Duration::from_millis(*until));
        }
        let found: Vec<(u64, u64, f64)> = intervals
            .finished()
            .iter()
            .map(|interval| {
                let milliseconds = |seconds: f64| (seconds * 1_000.0).round() as u64;
                let ends = (milliseconds(interval.from_seconds), milliseconds(interval.to_seconds));
                (ends.0, ends.1, interval.calls_per_second)
            })
            .collect();
        assert_eq!(found, expected, "{portions:?}");
    }

    #[test]
    fn portions_are_spread_over_the_intervals() {
        check(&[], &[]);
        check(&[(100, 0, 200)], &[(0, 200, 500.0)]);
        check(&[(100, 0, 500)], &[(0, 250, 200.0), (250, 500, 200.0)]);
        check(&[(300, 100, 400)], &[(0, 250, 600.0), (250, 400, 1_000.0)]);
        check(&[(10, 0, 100), (10, 100, 200), (40, 200, 400)], &[(0, 250, 120.0), (250, 400, 200.0)]);
        check(&[(250, 0, 250), (50, 250, 300)], &[(0, 300, 1_000.0)]);
        check(&[(50, 0, 50)], &[(0, 50, 1_000.0)]);
        check(&[(7, 100, 100), (1, 100, 250)], &[(0, 250, 32.0)]);
    }

    #[test]
    fn a_long_run_keeps_a_bounded_number() {
        let mut intervals = Intervals::default();
        for second in 0..600 {
            let from = Duration::from_secs(second);
            let until = from + Duration::from_secs(1);
            intervals.add_calls(1_000, from, until);
            intervals.add_latencies([1.0, 2.0, if second == 77 { 900.0 } else { 3.0 }], from, until);
        }
        let finished = intervals.finished();
        assert!(finished.len() <= INTERVALS_MAX && finished.len() >= INTERVALS_MAX / 2, "{}", finished.len());
        assert!(finished.iter().all(|interval| (interval.calls_per_second - 1_000.0).abs() < 1.0));
        let stalls: Vec<&Interval> = finished.iter().filter(|interval| interval.p999_us > 100.0).collect();
        assert_eq!(stalls.len(), 1);
        assert!(stalls[0].from_seconds <= 77.5 && stalls[0].to_seconds > 77.5, "{stalls:?}");
    }
}
