//! The run loop: a closed loop over all connections on one thread.
//!
//! Each connection has one batch on the way; when its last reply has come, the next batch leaves in the same turn.
//! A phase (touching keys, warming, measuring) ends when its budget is spent and every batch has been answered, so
//! between phases nothing is on the way and the server's CPU time can be read.

use crate::connection::{Connection, Counter, Progress};
use crate::error::BenchError;
use crate::live::Live;
use crate::ring::Ring;
use crate::scan::Tally;
use hdrhistogram::Histogram;
use mio::{Events, Poll};
use std::io;
use std::time::{Duration, Instant};

/// A server that says nothing for this long is given up.
const STALL_LIMIT: Duration = Duration::from_secs(60);

/// Batches that take longer than this are recorded as taking this long.
const LATENCY_NANOS_MAX: u64 = 60_000_000_000;

/// How often the watcher is told what was done.
const HANDOVER_EVERY: Duration = Duration::from_millis(100);

/// When a phase ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Limit {
    /// After exactly this many calls.
    Calls(u64),
    /// Once this much time has passed.
    Time(Duration),
}

/// All connections of a run.
#[derive(Debug)]
pub(crate) struct Driver {
    poll: Poll,
    connections: Vec<Connection>,
    pipeline: usize,
    counter: Counter,
}

/// What a phase did.
#[derive(Debug)]
pub(crate) struct Phase {
    /// Counts of replies.
    pub(crate) tally: Tally,
    /// From the first batch sent to the last reply.
    pub(crate) elapsed: Duration,
    /// Nanoseconds from sending a batch to its last reply.
    pub(crate) batch_nanos: Histogram<u64>,
}

/// Calls that may still be sent in a phase.
#[derive(Debug)]
struct Budget {
    calls_left: u64,
    deadline: Option<Instant>,
}

impl Driver {
    /// Drives `connections`, which are registered with `poll` under their place in the list.
    pub(crate) fn new(poll: Poll, connections: Vec<Connection>, pipeline: usize) -> Driver {
        Driver { poll, connections, pipeline, counter: Counter::new() }
    }

    /// Runs one phase. Every connection takes its batches from the ring of its index, or all from the only one.
    /// What it does is handed over to `live` on the way.
    pub(crate) fn run_phase(
        &mut self,
        rings: &mut [Ring],
        limit: Limit,
        live: Option<&Live>,
    ) -> Result<Phase, BenchError> {
        let mut handover = Handover::new(live)?;
        self.counter.tally = Tally::default();
        let mut batch_nanos = new_histogram()?;
        let started = Instant::now();
        let mut budget = Budget::new(limit, started);
        let mut busy = self.begin_all(rings, &mut budget, started)?;
        let mut ended = started;
        let mut events = Events::with_capacity(self.connections.len().max(1));
        while busy > 0 {
            self.wait(&mut events, busy)?;
            for event in &events {
                let Some(connection) = self.connections.get_mut(event.token().0) else { continue };
                let Some(ring) = ring_for(rings, connection) else { continue };
                if event.is_writable() {
                    connection.send(ring)?;
                }
                if !event.is_readable() || connection.receive(&mut self.counter)? == Progress::Waiting {
                    continue;
                }
                let now = Instant::now();
                let nanos = now.saturating_duration_since(connection.sent_at()).as_nanos();
                let nanos = u64::try_from(nanos).unwrap_or(LATENCY_NANOS_MAX);
                batch_nanos.saturating_record(nanos);
                if let Some(handover) = &mut handover {
                    handover.record(nanos, self.counter.tally.replies, now);
                }
                ended = now;
                match budget.take(self.pipeline, now) {
                    0 => busy = busy.saturating_sub(1),
                    calls => connection.begin(ring, calls, now)?,
                }
            }
        }
        let tally = std::mem::take(&mut self.counter.tally);
        if let Some(handover) = &mut handover {
            handover.give(tally.replies);
        }
        Ok(Phase { tally, elapsed: ended.saturating_duration_since(started), batch_nanos })
    }

    /// Sends every connection's first batch; returns how many connections got one.
    fn begin_all(&mut self, rings: &mut [Ring], budget: &mut Budget, now: Instant) -> Result<usize, BenchError> {
        let mut busy: usize = 0;
        for connection in &mut self.connections {
            let calls = budget.take(self.pipeline, now);
            if calls == 0 {
                break;
            }
            if let Some(ring) = ring_for(rings, connection) {
                connection.begin(ring, calls, Instant::now())?;
                busy = busy.saturating_add(1);
            }
        }
        Ok(busy)
    }

    fn wait(&mut self, events: &mut Events, busy: usize) -> Result<(), BenchError> {
        loop {
            match self.poll.poll(events, Some(STALL_LIMIT)) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(BenchError::System { what: "waiting for replies failed", source: error }),
                Ok(()) if events.is_empty() => {
                    return Err(BenchError::Stalled { seconds: STALL_LIMIT.as_secs(), outstanding: busy });
                }
                Ok(()) => return Ok(()),
            }
        }
    }
}

/// What this thread has done since it last told the watcher.
#[derive(Debug)]
struct Handover<'a> {
    live: &'a Live,
    latency_nanos: Histogram<u64>,
    replies_given: u64,
    due: Instant,
}

impl<'a> Handover<'a> {
    fn new(live: Option<&'a Live>) -> Result<Option<Handover<'a>>, BenchError> {
        let Some(live) = live else { return Ok(None) };
        let due = Instant::now().checked_add(HANDOVER_EVERY).unwrap_or_else(Instant::now);
        Ok(Some(Handover { live, latency_nanos: new_histogram()?, replies_given: 0, due }))
    }

    fn record(&mut self, nanos: u64, replies: u64, now: Instant) {
        self.latency_nanos.saturating_record(nanos);
        if now >= self.due {
            self.due = now.checked_add(HANDOVER_EVERY).unwrap_or(now);
            self.give(replies);
        }
    }

    fn give(&mut self, replies: u64) {
        self.live.add(replies.saturating_sub(self.replies_given), &self.latency_nanos);
        self.replies_given = replies;
        self.latency_nanos.reset();
    }
}

impl Budget {
    fn new(limit: Limit, started: Instant) -> Budget {
        match limit {
            Limit::Calls(calls) => Budget { calls_left: calls, deadline: None },
            Limit::Time(time) => Budget { calls_left: u64::MAX, deadline: started.checked_add(time) },
        }
    }

    /// The size of the next batch; 0 if the phase is over.
    fn take(&mut self, pipeline: usize, now: Instant) -> usize {
        if self.deadline.is_some_and(|deadline| now >= deadline) {
            return 0;
        }
        let calls = usize::try_from(self.calls_left).unwrap_or(usize::MAX).min(pipeline);
        self.calls_left = self.calls_left.saturating_sub(u64::try_from(calls).unwrap_or(u64::MAX));
        calls
    }
}

fn ring_for<'a>(rings: &'a mut [Ring], connection: &Connection) -> Option<&'a mut Ring> {
    match rings {
        [shared] => Some(shared),
        by_index => by_index.get_mut(connection.ring_index()),
    }
}

/// Three significant digits from a microsecond up.
fn new_histogram() -> Result<Histogram<u64>, BenchError> {
    Histogram::new_with_bounds(1_000, LATENCY_NANOS_MAX, 3)
        .map_err(|error| BenchError::System { what: "no latency histogram", source: io::Error::other(error) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_of_calls_is_spent_exactly() {
        let now = Instant::now();
        let mut budget = Budget::new(Limit::Calls(37), now);
        let batches: Vec<usize> =
            std::iter::from_fn(|| Some(budget.take(16, now)).filter(|calls| *calls > 0)).collect();
        assert_eq!(batches, [16, 16, 5]);
        assert_eq!(Budget::new(Limit::Calls(0), now).take(16, now), 0);
    }

    #[test]
    fn a_budget_of_time_ends_at_its_deadline() {
        let start = Instant::now();
        let mut budget = Budget::new(Limit::Time(Duration::from_secs(1)), start);
        assert_eq!(budget.take(4, start), 4);
        assert_eq!(budget.take(4, start + Duration::from_millis(999)), 4);
        assert_eq!(budget.take(4, start + Duration::from_secs(1)), 0);
    }
}
