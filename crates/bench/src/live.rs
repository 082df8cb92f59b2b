//! What a run has done so far, for whoever watches it.
//!
//! Driver threads hand over what they counted about ten times a second; the progress bar takes it. Nothing here is
//! touched per call.

#[cfg(test)]
use crate::error::BenchError;
#[cfg(test)]
use crate::latency::new_histogram;
use hdrhistogram::Histogram;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

/// Counts of the phase that runs, shared between driver threads and the watcher.
#[derive(Debug)]
pub(crate) struct Live {
    calls: AtomicU64,
    latency_nanos: Mutex<Histogram<u64>>,
}

impl Live {
    /// Nothing has happened yet.
    #[cfg(test)]
    pub(crate) fn new() -> Result<Live, BenchError> {
        Ok(Live { calls: AtomicU64::new(0), latency_nanos: Mutex::new(new_histogram()?) })
    }

    /// Adds what one thread did since it last called this: calls answered, and their latencies in nanoseconds.
    pub(crate) fn add(&self, calls: u64, latency_nanos: &Histogram<u64>) {
        self.calls.fetch_add(calls, Ordering::Relaxed);
        let mut sum = self.latency_nanos.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        // Both have the bounds of the run's histogram: nothing can be out of range.
        let _ = sum.add(latency_nanos);
    }

    /// Calls answered since the phase began.
    #[cfg(test)]
    pub(crate) fn calls(&self) -> u64 {
        self.calls.load(Ordering::Relaxed)
    }
}
