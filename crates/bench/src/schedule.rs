//! When the batches of an open loop are due: fixed before anything is sent, whatever the server does.

use crate::arguments::Arrivals;
use crate::drive::Limit;
use crate::random::Random;
use std::time::{Duration, Instant};

const SECOND_NANOS: u128 = 1_000_000_000;

/// The rate of an open loop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Pace {
    /// Calls a second over all threads: 1 to 10^8.
    pub(crate) calls_per_second: u64,
    pub(crate) arrivals: Arrivals,
    pub(crate) seed: u64,
}

/// The batches of one thread of several that share a pace.
#[derive(Debug)]
pub(crate) struct Schedule {
    pace: Pace,
    pipeline: usize,
    thread: u64,
    threads: u64,
    started: Instant,
    ends: Option<Duration>,
    calls_left: u64,
    /// Of even arrivals in a time: the calls of all threads that are due in it.
    calls_due: u128,
    /// Batches handed out.
    batches: u64,
    /// Of arrivals at random: when the last batch was due, in nanoseconds after the start.
    due_nanos: f64,
    /// How long the batches that were handed out keep the rate.
    span: Duration,
    random: Random,
}

/// Calls that are due together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Due {
    pub(crate) at: Instant,
    pub(crate) calls: usize,
}

/// Calls that are due in a time at an even rate, the one at its beginning included.
pub(crate) fn calls_due(calls_per_second: u64, time: Duration) -> u128 {
    (time.as_nanos() * u128::from(calls_per_second)).div_ceil(SECOND_NANOS)
}

impl Schedule {
    /// Batches of `pipeline` calls for thread number `thread` of `threads`; `limit` is this thread's own.
    pub(crate) fn new(
        pace: Pace,
        pipeline: usize,
        (thread, threads): (u64, u64),
        limit: Limit,
        started: Instant,
    ) -> Schedule {
        let (ends, calls_left) = match limit {
            Limit::Calls(calls) => (None, calls),
            Limit::Time(time) => (Some(time), u64::MAX),
        };
        let calls_due = ends.map_or(u128::MAX, |time| calls_due(pace.calls_per_second, time));
        // A stream of its own for each thread: together they are again one process of independent callers.
        let random = Random::new(pace.seed ^ (thread + 1).wrapping_mul(0xa076_1d64_78bd_642f));
        let threads = threads.max(1);
        let (batches, due_nanos, span) = (0, 0.0, Duration::ZERO);
        Schedule {
            pace,
            pipeline,
            thread,
            threads,
            started,
            ends,
            calls_left,
            calls_due,
            batches,
            due_nanos,
            span,
            random,
        }
    }

    /// Calls a second over all threads.
    pub(crate) fn rate(&self) -> u64 {
        self.pace.calls_per_second
    }

    /// The time in which the batches that were handed out are due at the schedule's rate.
    pub(crate) fn span(&self) -> Duration {
        self.span
    }

    /// The next batch, none if there is no more.
    pub(crate) fn next(&mut self) -> Option<Due> {
        let calls = usize::try_from(self.calls_left).unwrap_or(usize::MAX).min(self.pipeline);
        if calls == 0 {
            return None;
        }
        let after = self.next_nanos();
        let calls = calls.min(self.calls_due_from_here());
        if calls == 0 || self.ends.is_some_and(|ends| after >= ends) {
            self.calls_left = 0;
            return None;
        }
        self.span = after + self.time_of(calls);
        self.batches += 1;
        self.calls_left = self.calls_left.saturating_sub(u64::try_from(calls).unwrap_or(u64::MAX));
        Some(Due { at: self.started + after, calls })
    }

    /// How many of the calls that are due in all are left for the next batch and those behind it.
    fn calls_due_from_here(&self) -> usize {
        if self.pace.arrivals == Arrivals::Poisson {
            return usize::MAX;
        }
        let number = u128::from(self.batches) * u128::from(self.threads) + u128::from(self.thread);
        let before = number * u128::try_from(self.pipeline).unwrap_or(1);
        usize::try_from(self.calls_due.saturating_sub(before)).unwrap_or(usize::MAX)
    }

    /// How long it takes until so many calls are due.
    fn time_of(&self, calls: usize) -> Duration {
        let nanos = u128::try_from(calls).unwrap_or(1) * SECOND_NANOS / u128::from(self.pace.calls_per_second.max(1));
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }

    fn next_nanos(&mut self) -> Duration {
        let batch_nanos = u128::try_from(self.pipeline).unwrap_or(1) * SECOND_NANOS;
        let rate = u128::from(self.pace.calls_per_second.max(1));
        let nanos = match self.pace.arrivals {
            // Threads take turns, so that together they are even too. From the start each time: no error adds up.
            Arrivals::Even => {
                let number = u128::from(self.batches) * u128::from(self.threads) + u128::from(self.thread);
                u64::try_from(number * batch_nanos / rate).unwrap_or(u64::MAX)
            }
            Arrivals::Poisson => {
                // Times of a run are far below 2^53 ns.
                let mean = batch_nanos as f64 * self.threads as f64 / rate as f64;
                self.due_nanos -= self.random.fraction().ln() * mean;
                self.due_nanos as u64
            }
        };
        Duration::from_nanos(nanos)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn due_micros(arrivals: Arrivals, rate: u64, pipeline: usize, thread: u64, limit: Limit) -> Vec<(u128, usize)> {
        let started = Instant::now();
        let pace = Pace { calls_per_second: rate, arrivals, seed: 7 };
        let mut schedule = Schedule::new(pace, pipeline, (thread, 2), limit, started);
        std::iter::from_fn(|| schedule.next()).map(|due| ((due.at - started).as_micros(), due.calls)).collect()
    }

    #[test]
    fn even_batches_of_two_threads_take_turns() {
        let limit = Limit::Time(Duration::from_millis(2));
        let first = due_micros(Arrivals::Even, 4_000, 2, 0, limit);
        let second = due_micros(Arrivals::Even, 4_000, 2, 1, limit);
        assert_eq!(first, [(0, 2), (1_000, 2)]);
        assert_eq!(second, [(500, 2), (1_500, 2)]);
        assert_eq!(due_micros(Arrivals::Even, 3, 2, 0, Limit::Calls(3)), [(0, 2), (1_333_333, 1)]);
    }

    #[test]
    fn batches_at_random_have_the_rate_and_the_spread_of_independent_callers() {
        let limit = Limit::Time(Duration::from_secs(20));
        let due = due_micros(Arrivals::Poisson, 2_000, 1, 0, limit);
        // Half of 2000 a second for 20 s: 20000, and a standard deviation of 141.
        assert!((19_400..20_600).contains(&due.len()), "{}", due.len());
        let gaps: Vec<f64> = due.windows(2).map(|pair| (pair[1].0 - pair[0].0) as f64).collect();
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        let variance = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / gaps.len() as f64;
        // Exponential gaps: the deviation is the mean.
        assert!((variance.sqrt() / mean - 1.0).abs() < 0.05, "{mean} {variance}");
        assert_ne!(due, due_micros(Arrivals::Poisson, 2_000, 1, 1, limit));
        assert_eq!(due, due_micros(Arrivals::Poisson, 2_000, 1, 0, limit));
    }
}
