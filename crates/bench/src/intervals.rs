//! How a run went over time: its rate and its latencies in equal intervals.
//!
//! Calls are handed over in portions that do not end where intervals do, so each portion is spread evenly over the time
//! in which it was made. When a run is long, two intervals become one, so that any run keeps a bounded number.

use hdrhistogram::Histogram;
use serde::Serialize;
use std::time::Duration;

/// The width that intervals begin with.
const WIDTH: Duration = Duration::from_millis(250);

/// More intervals than this are joined in pairs; a chart shows no more of them either.
const INTERVALS_MAX: usize = 480;

/// Intervals whose latencies may still come.
const OPEN_MAX: usize = 2;

/// Rate and latencies between two moments of the measured time.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Interval {
    /// Since the measuring began.
    pub(crate) from_seconds: f64,
    /// Since the measuring began.
    pub(crate) to_seconds: f64,
    /// Calls answered, a second.
    pub(crate) calls_per_second: f64,
    /// Median latency; none if no batch ended. In joined intervals the larger.
    pub(crate) p50_us: Option<f64>,
    /// The same for 99 % of the calls.
    pub(crate) p99_us: Option<f64>,
    /// The same for 99.9 % of the calls.
    pub(crate) p999_us: Option<f64>,
}

/// Intervals as they fill.
#[derive(Debug)]
pub(crate) struct Intervals {
    width: Duration,
    filled: Vec<Filled>,
    /// Latencies in nanoseconds of the two latest intervals, by their places: portions of several threads do not come
    /// in the order of their middles.
    open: Vec<(usize, Histogram<u64>)>,
    /// The end of the last portion.
    until: Duration,
}

#[derive(Debug, Clone, Copy, Default)]
struct Filled {
    calls: f64,
    /// p50, p99 and p99.9 in microseconds; 0 if no batch ended.
    latencies_us: [f64; 3],
}

impl Default for Intervals {
    fn default() -> Intervals {
        Intervals { width: WIDTH, filled: Vec::new(), open: Vec::new(), until: Duration::ZERO }
    }
}

impl Intervals {
    /// Adds what one thread did between two moments, counted from the beginning of the measuring: its calls, and their
    /// latencies in nanoseconds, which count for the interval in which the middle lies.
    pub(crate) fn add(&mut self, calls: u64, latency_nanos: &Histogram<u64>, from: Duration, until: Duration) {
        self.add_calls(calls, from, until);
        if latency_nanos.is_empty() {
            return;
        }
        let place = self.place_of(from.saturating_add(until.saturating_sub(from) / 2));
        if let Some((_, open)) = self.open.iter_mut().find(|(other, _)| *other == place) {
            // All histograms of a program have the same bounds.
            let _ = open.add(latency_nanos);
            return;
        }
        if self.open.len() >= OPEN_MAX {
            self.close_first();
        }
        self.open.push((place, latency_nanos.clone()));
        self.open.sort_by_key(|(place, _)| *place);
    }

    fn add_calls(&mut self, calls: u64, from: Duration, until: Duration) {
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

    /// Sums the latencies of the earliest open interval up.
    fn close_first(&mut self) {
        if self.open.is_empty() {
            return;
        }
        let (place, nanos) = self.open.remove(0);
        let latencies_us = [0.5, 0.99, 0.999].map(|quantile| nanos.value_at_quantile(quantile) as f64 / 1_000.0);
        if let Some(filled) = self.filled.get_mut(place) {
            filled.latencies_us = largest(filled.latencies_us, latencies_us);
        }
    }

    /// All intervals up to the last call. The last is shorter than the others; a very short one is part of the one
    /// before, as its rate would mean nothing.
    pub(crate) fn finish(mut self) -> Vec<Interval> {
        while !self.open.is_empty() {
            self.close_first();
        }
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
        while !self.open.is_empty() {
            self.close_first();
        }
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
        let [p50_us, p99_us, p999_us] = self.latencies_us.map(|micros| (micros > 0.0).then_some(micros));
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
            .finish()
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

    fn of_micros(values: &[u64]) -> Histogram<u64> {
        let mut histogram = Histogram::new_with_bounds(1_000, 60_000_000_000, 3).unwrap();
        values.iter().for_each(|micros| histogram.record(micros * 1_000).unwrap());
        histogram
    }

    /// Portions of two threads as a latency in microseconds, from and until in milliseconds.
    #[test]
    fn latencies_count_where_the_middle_of_a_portion_lies() {
        let mut intervals = Intervals::default();
        let portions = [
            (10, 0, 100),
            (20, 50, 150),
            (30, 200, 310),
            (70, 190, 290),
            (40, 400, 460),
            (50, 550, 650),
            (60, 650, 750),
        ];
        for (micros, from, until) in portions {
            intervals.add(1, &of_micros(&[micros]), Duration::from_millis(from), Duration::from_millis(until));
        }
        let worst: Vec<u64> =
            intervals.finish().iter().map(|interval| interval.p999_us.unwrap().round() as u64).collect();
        assert_eq!(worst, [70, 40, 60]);
    }

    #[test]
    fn a_long_run_keeps_a_bounded_number() {
        let mut intervals = Intervals::default();
        for second in 0..600 {
            let from = Duration::from_secs(second);
            let until = from + Duration::from_secs(1);
            intervals.add(1_000, &of_micros(&[5, if second == 77 { 900 } else { 6 }]), from, until);
        }
        let finished = intervals.finish();
        assert!(finished.len() <= INTERVALS_MAX && finished.len() >= INTERVALS_MAX / 2, "{}", finished.len());
        assert!(finished.iter().all(|interval| (interval.calls_per_second - 1_000.0).abs() < 1.0));
        let stalls: Vec<&Interval> = finished.iter().filter(|interval| interval.p999_us.unwrap() > 100.0).collect();
        assert_eq!(stalls.len(), 1);
        assert!(stalls[0].from_seconds <= 77.5 && stalls[0].to_seconds > 77.5, "{stalls:?}");
    }
}
