//! Latencies of batches: a histogram for the report, and what a watcher has not been told yet.

use crate::error::BenchError;
use crate::live::Live;
use hdrhistogram::Histogram;
use std::io;
use std::time::{Duration, Instant};

/// Batches that take longer than this are recorded as taking this long.
pub(crate) const LATENCY_NANOS_MAX: u64 = 60_000_000_000;

/// How often a watcher is told.
const TELLING: Duration = Duration::from_millis(100);

/// What one thread measured in a phase.
#[derive(Debug)]
pub(crate) struct Latencies {
    nanos: Histogram<u64>,
    /// What the watcher does not know yet; only where there is one.
    untold: Option<Untold>,
}

#[derive(Debug)]
struct Untold {
    nanos: Histogram<u64>,
    /// Calls of this phase that the watcher knows.
    told_calls: u64,
    next_telling: Instant,
}

impl Latencies {
    /// Nothing measured yet.
    pub(crate) fn new() -> Result<Latencies, BenchError> {
        Ok(Latencies { nanos: new_histogram()?, untold: None })
    }

    /// Begins a phase; it is now `now`.
    pub(crate) fn begin(&mut self, watched: bool, now: Instant) -> Result<(), BenchError> {
        self.nanos.reset();
        self.untold = match watched {
            true => Some(Untold { nanos: new_histogram()?, told_calls: 0, next_telling: now + TELLING }),
            false => None,
        };
        Ok(())
    }

    /// One batch.
    pub(crate) fn record(&mut self, latency: Duration) {
        let nanos = u64::try_from(latency.as_nanos()).unwrap_or(LATENCY_NANOS_MAX);
        match &mut self.untold {
            None => self.nanos.saturating_record(nanos),
            Some(untold) => untold.nanos.saturating_record(nanos),
        }
    }

    /// Tells the watcher if it is time; `calls` were answered in this phase.
    #[inline]
    pub(crate) fn tell(&mut self, live: Option<&Live>, calls: u64, now: Instant) {
        if self.untold.as_ref().is_some_and(|untold| now >= untold.next_telling) {
            self.tell_now(live, calls, now);
        }
    }

    /// Ends the phase: what was measured in it.
    pub(crate) fn end(&mut self, live: Option<&Live>, calls: u64, now: Instant) -> Histogram<u64> {
        self.tell_now(live, calls, now);
        self.nanos.clone()
    }

    /// Tells the watcher, whatever the time.
    pub(crate) fn tell_now(&mut self, live: Option<&Live>, calls: u64, now: Instant) {
        let Some(untold) = &mut self.untold else { return };
        if let Some(live) = live {
            live.add(calls.saturating_sub(untold.told_calls), &untold.nanos);
        }
        // Equal bounds: nothing can be out of range.
        let _ = self.nanos.add(&untold.nanos);
        untold.nanos.reset();
        untold.told_calls = calls;
        untold.next_telling = now + TELLING;
    }
}

/// Three significant digits from a microsecond up.
pub(crate) fn new_histogram() -> Result<Histogram<u64>, BenchError> {
    Histogram::new_with_bounds(1_000, LATENCY_NANOS_MAX, 3)
        .map_err(|error| BenchError::System { what: "no latency histogram", source: io::Error::other(error) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_watcher_is_told_what_it_does_not_know() {
        let (live, start) = (Live::new().unwrap(), Instant::now());
        let mut latencies = Latencies::new().unwrap();
        latencies.begin(true, start).unwrap();
        latencies.record(Duration::from_millis(1));
        latencies.tell(Some(&live), 5, start + TELLING / 2);
        assert_eq!(live.calls(), 0);
        latencies.tell(Some(&live), 7, start + TELLING);
        assert_eq!(live.calls(), 7);
        latencies.record(Duration::from_millis(3));
        let all = latencies.end(Some(&live), 9, start + TELLING);
        assert_eq!((live.calls(), all.len()), (9, 2));
    }

    #[test]
    fn without_a_watcher_nothing_is_kept_apart() {
        let mut latencies = Latencies::new().unwrap();
        let now = Instant::now();
        latencies.begin(false, now).unwrap();
        latencies.record(Duration::from_secs(90));
        assert_eq!(latencies.end(None, 1, now).len(), 1);
        latencies.begin(false, now).unwrap();
        assert_eq!(latencies.end(None, 0, now).len(), 0);
    }
}
