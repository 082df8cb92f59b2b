//! What a run has done so far, for whoever watches it.
//!
//! Driver threads hand over what they counted about ten times a second; the progress bar takes it. Nothing here is
//! touched per call, so one lock serves all.

use crate::drive::Limit;
use crate::error::BenchError;
use crate::intervals::{Interval, Intervals};
use crate::latency::new_histogram;
use hdrhistogram::Histogram;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};

/// What a run is at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stage {
    /// Connecting, or rendering the calls: nothing is counted.
    Preparing,
    /// Every key is called once.
    TouchingKeys,
    /// Calls that are not measured.
    WarmingUp,
    /// The calls that the report is about.
    Measuring,
}

/// When a stage will be over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Goal {
    /// Nobody can tell.
    Unknown,
    /// After so many calls.
    Calls(u64),
    /// After so much time.
    Time(Duration),
}

impl From<Limit> for Goal {
    fn from(limit: Limit) -> Goal {
        match limit {
            Limit::Calls(calls) => Goal::Calls(calls),
            Limit::Time(time) => Goal::Time(time),
        }
    }
}

/// Counts of the stage that runs, shared between driver threads and the watcher.
#[derive(Debug)]
pub(crate) struct Live {
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// What the whole run is called, where there are several.
    label: String,
    stage: Stage,
    goal: Goal,
    began: Instant,
    calls: u64,
    /// Latencies since they were last taken.
    latency_nanos: Histogram<u64>,
    /// When the latencies were last taken, or the stage began.
    taken: Instant,
    /// Calls of the stage when the latencies were last taken.
    calls_taken: u64,
    /// Until when each thread has handed over what it did.
    handed_over: Vec<(ThreadId, Instant)>,
    intervals: Intervals,
}

/// A watcher's view of the stage that runs.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Look {
    /// What the whole run is called, where there are several.
    pub(crate) label: String,
    /// What the run is at.
    pub(crate) stage: Stage,
    /// When that will be over.
    pub(crate) goal: Goal,
    /// Since the stage began.
    pub(crate) elapsed: Duration,
    /// Calls of the stage.
    pub(crate) calls: u64,
    /// Calls a second since the last look.
    pub(crate) calls_per_second: f64,
    /// Median latency since the last look in microseconds; 0 if there was no call.
    pub(crate) p50_us: f64,
    /// The same for 99 % of the calls.
    pub(crate) p99_us: f64,
    /// The same for 99.9 % of the calls.
    pub(crate) p999_us: f64,
}

impl Live {
    /// Nothing has been counted yet.
    pub(crate) fn new() -> Result<Live, BenchError> {
        let latency_nanos = new_histogram()?;
        let now = Instant::now();
        let state = State {
            label: String::new(),
            stage: Stage::Preparing,
            goal: Goal::Unknown,
            began: now,
            calls: 0,
            latency_nanos,
            taken: now,
            calls_taken: 0,
            handed_over: Vec::new(),
            intervals: Intervals::default(),
        };
        Ok(Live { state: Mutex::new(state) })
    }

    /// Names the run whose stages follow.
    pub(crate) fn label(&self, label: String) {
        self.lock().label = label;
    }

    /// Begins a stage: its counts start at nothing, and when it measures, so do the intervals.
    pub(crate) fn begin(&self, stage: Stage, goal: Goal) {
        self.begin_at(stage, goal, Instant::now());
    }

    /// Adds what one thread did since it last called this: calls answered, and their latencies in nanoseconds.
    pub(crate) fn add(&self, calls: u64, latency_nanos: &Histogram<u64>) {
        self.add_at(thread::current().id(), calls, latency_nanos, Instant::now());
    }

    /// Calls answered since the stage began.
    #[cfg(test)]
    pub(crate) fn calls(&self) -> u64 {
        self.lock().calls
    }

    /// What happened since the last look.
    pub(crate) fn look(&self) -> Look {
        self.look_at(Instant::now())
    }

    /// Takes the intervals of the measured stage.
    pub(crate) fn take_intervals(&self) -> Vec<Interval> {
        std::mem::take(&mut self.lock().intervals).finish()
    }

    fn begin_at(&self, stage: Stage, goal: Goal, now: Instant) {
        let state = &mut *self.lock();
        if stage == Stage::Measuring {
            state.intervals = Intervals::default();
        }
        state.stage = stage;
        state.goal = goal;
        state.began = now;
        state.calls = 0;
        state.latency_nanos.reset();
        state.taken = now;
        state.calls_taken = 0;
        state.handed_over.clear();
    }

    fn add_at(&self, thread: ThreadId, calls: u64, latency_nanos: &Histogram<u64>, now: Instant) {
        let state = &mut *self.lock();
        state.calls = state.calls.saturating_add(calls);
        // Both have the same bounds; where they had not, the watcher would miss latencies and the report none.
        let _ = state.latency_nanos.add(latency_nanos);
        let since = match state.handed_over.iter_mut().find(|(other, _)| *other == thread) {
            Some((_, until)) => std::mem::replace(until, now),
            None => {
                state.handed_over.push((thread, now));
                state.began
            }
        };
        if state.stage == Stage::Measuring {
            let from = since.saturating_duration_since(state.began);
            state.intervals.add(calls, latency_nanos, from, now.saturating_duration_since(state.began));
        }
    }

    fn look_at(&self, now: Instant) -> Look {
        self.lock().look(now)
    }

    /// Nothing that can panic happens under the lock, and counts are worth showing in any case.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn look(&mut self, now: Instant) -> Look {
        let seconds = now.saturating_duration_since(self.taken).as_secs_f64();
        let calls = self.calls.saturating_sub(self.calls_taken);
        let micros = |quantile| self.latency_nanos.value_at_quantile(quantile) as f64 / 1_000.0;
        let [p50_us, p99_us, p999_us] = [0.5, 0.99, 0.999].map(micros);
        let look = Look {
            label: self.label.clone(),
            stage: self.stage,
            goal: self.goal,
            elapsed: now.saturating_duration_since(self.began),
            calls: self.calls,
            calls_per_second: if seconds > 0.0 { calls as f64 / seconds } else { 0.0 },
            p50_us,
            p99_us,
            p999_us,
        };
        self.latency_nanos.reset();
        self.taken = now;
        self.calls_taken = self.calls;
        look
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of_micros(values: &[u64]) -> Histogram<u64> {
        let mut histogram = new_histogram().unwrap();
        values.iter().for_each(|micros| histogram.record(micros * 1_000).unwrap());
        histogram
    }

    #[test]
    fn a_stage_begins_at_nothing_and_a_look_takes_what_came() {
        let live = Live::new().unwrap();
        let start = Instant::now();
        let thread = thread::current().id();
        let after = |milliseconds| start + Duration::from_millis(milliseconds);
        live.label("round 1".to_owned());
        live.begin_at(Stage::WarmingUp, Goal::Time(Duration::from_secs(1)), start);
        live.add_at(thread, 50, &of_micros(&[100, 100, 900]), after(100));
        let look = live.look_at(after(200));
        assert_eq!((look.label.as_str(), look.stage, look.calls), ("round 1", Stage::WarmingUp, 50));
        assert_eq!((look.elapsed, look.goal), (Duration::from_millis(200), Goal::Time(Duration::from_secs(1))));
        assert!((look.calls_per_second - 250.0).abs() < 0.001, "{look:?}");
        assert!((look.p50_us - 100.0).abs() < 1.0 && (look.p99_us - 900.0).abs() < 1.0, "{look:?}");
        let quiet = live.look_at(after(300));
        assert_eq!((quiet.calls, quiet.p50_us, quiet.calls_per_second), (50, 0.0, 0.0));
        live.begin_at(Stage::Measuring, Goal::Calls(9), after(300));
        assert_eq!(live.calls(), 0);
    }

    /// Two threads that hand over at different moments make an even rate all the same.
    #[test]
    fn calls_are_spread_over_the_time_in_which_they_were_made() {
        let live = Live::new().unwrap();
        let start = Instant::now();
        let after = |milliseconds| start + Duration::from_millis(milliseconds);
        let first = thread::current().id();
        let second = thread::spawn(|| thread::current().id()).join().unwrap();
        live.begin_at(Stage::Measuring, Goal::Unknown, start);
        for step in 1..=10 {
            live.add_at(first, 100, &of_micros(&[100]), after(step * 100));
            live.add_at(second, 200, &of_micros(&[200]), after(step * 100 - 70));
            live.look_at(after(step * 100 + 10));
        }
        live.add_at(second, 467, &of_micros(&[]), after(1_000));
        let rates: Vec<f64> = live.take_intervals().iter().map(|interval| interval.calls_per_second).collect();
        assert_eq!(rates.len(), 4);
        let sum: f64 = rates.iter().map(|rate| rate * 0.25).sum();
        assert!((sum - 3_467.0).abs() < 0.5, "{rates:?}");
        assert!(rates[1..3].iter().all(|rate| (rate - 3_000.0).abs() < 1.0), "{rates:?}");
    }
}
