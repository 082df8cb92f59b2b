//! One thread's connections, and the closed loop over them.
//!
//! Each connection has one batch on the way; when its last reply has come, the next batch leaves in the same turn.
//! A phase (touching keys, warming, measuring) ends when its budget is spent and every batch has been answered, so
//! between phases nothing is on the way and the server's CPU time can be read.

use crate::connection::{Connection, Counter};
use crate::error::BenchError;
use crate::live::Live;
use crate::open::Punctuality;
use crate::repair::Repair;
use crate::ring::Ring;
use crate::scan::Tally;
use hdrhistogram::Histogram;
use mio::{Events, Poll, Token};
use std::io;
use std::time::{Duration, Instant};

/// A server that says nothing for this long is given up.
pub(crate) const STALL_LIMIT: Duration = Duration::from_secs(60);

/// When a phase ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Limit {
    /// After exactly this many calls.
    Calls(u64),
    /// Once this much time has passed.
    Time(Duration),
}

/// The connections of one thread.
#[derive(Debug)]
pub(crate) struct Driver {
    pub(crate) poll: Poll,
    pub(crate) connections: Vec<Connection>,
    pub(crate) pipeline: usize,
    pub(crate) counter: Counter,
    pub(crate) repair: Repair,
    pub(crate) events: Option<Events>,
}

/// What a phase did.
#[derive(Debug)]
pub(crate) struct Phase {
    /// Counts of replies.
    pub(crate) tally: Tally,
    /// From the first batch sent to the last reply.
    pub(crate) elapsed: Duration,
    /// Nanoseconds to a batch's last reply: from sending it, or from when it was due in an open loop.
    pub(crate) batch_nanos: Histogram<u64>,
    /// How well an open loop kept its schedule.
    pub(crate) punctuality: Option<Punctuality>,
}

/// Calls that may still be sent in a phase.
#[derive(Debug)]
struct Budget {
    calls_left: u64,
    deadline: Option<Instant>,
}

impl Driver {
    /// Drives `connections`, which are registered with `poll` under their place in the list.
    pub(crate) fn new(
        poll: Poll,
        connections: Vec<Connection>,
        pipeline: usize,
        counter: Counter,
        repair: Repair,
    ) -> Driver {
        let events = Events::with_capacity(connections.len().saturating_add(1));
        Driver { poll, connections, pipeline, counter, repair, events: Some(events) }
    }

    /// Runs one phase in a closed loop. Every connection takes its batches from the ring of its index, or all from
    /// the only one.
    pub(crate) fn run_closed(
        &mut self,
        rings: &mut [Ring],
        limit: Limit,
        started: Instant,
        live: Option<&Live>,
    ) -> Result<Phase, BenchError> {
        self.begin_phase(live, started)?;
        let mut budget = Budget::new(limit, started);
        let mut busy = self.begin_all(rings, &mut budget, started)?;
        let mut ended = started;
        let mut events = self.events.take().unwrap_or_else(|| Events::with_capacity(1_024));
        while busy > 0 {
            self.wait(&mut events, busy)?;
            for event in &events {
                let place = event.token().0;
                if self.repair.is_lost(place) {
                    continue;
                }
                let Some(connection) = self.connections.get_mut(place) else { continue };
                let Some(ring) = ring_for(rings, connection) else { continue };
                if event.is_writable()
                    && let Err(error) = connection.send(ring)
                {
                    self.repair.lose(place, connection, ring, &mut self.counter, error)?;
                    continue;
                }
                if !event.is_readable() {
                    continue;
                }
                let progress = match connection.receive(ring, &mut self.counter, event.is_read_closed()) {
                    Ok(progress) if progress.completed == 0 => continue,
                    Ok(progress) => progress,
                    Err(error) => {
                        self.repair.lose(place, connection, ring, &mut self.counter, error)?;
                        continue;
                    }
                };
                let now = progress.at;
                ended = now;
                let sent = match budget.take(self.pipeline, now) {
                    0 => {
                        busy = busy.saturating_sub(1);
                        Ok(())
                    }
                    calls => connection.begin(ring, calls, now, now),
                };
                if let Some(error) = sent.err().or(progress.gone) {
                    self.repair.lose(place, connection, ring, &mut self.counter, error)?;
                }
                self.counter.latencies.tell(live, self.counter.tally.replies, now);
            }
            self.repair.load_script_if_missing(&self.counter.tally)?;
            if self.repair.is_needed() {
                busy = busy.saturating_sub(self.reopen_closed(rings, &mut budget)?);
            }
        }
        self.events = Some(events);
        Ok(self.end_phase(live, started, ended))
    }

    /// Opens lost connections again and sends their next batches. Answers how many have no more to do.
    fn reopen_closed(&mut self, rings: &mut [Ring], budget: &mut Budget) -> Result<usize, BenchError> {
        let now = Instant::now();
        if budget.is_over(now) {
            return Ok(self.repair.leave());
        }
        let mut done: usize = 0;
        while let Some((place, was_busy)) = self.repair.reopen(&mut self.connections, &self.poll, now)? {
            if !was_busy {
                continue;
            }
            let Some(connection) = self.connections.get_mut(place) else { continue };
            let Some(ring) = ring_for(rings, connection) else { continue };
            match budget.take(self.pipeline, now) {
                0 => done = done.saturating_add(1),
                calls => {
                    if let Err(error) = connection.begin(ring, calls, now, now) {
                        self.repair.lose(place, connection, ring, &mut self.counter, error)?;
                        break;
                    }
                }
            }
        }
        Ok(done)
    }

    /// Nothing has been counted in this phase.
    pub(crate) fn begin_phase(&mut self, live: Option<&Live>, now: Instant) -> Result<(), BenchError> {
        self.counter.tally = Tally::default();
        self.counter.latencies.begin(live.is_some(), now)?;
        self.repair.begin_phase();
        Ok(())
    }

    /// What was counted.
    pub(crate) fn end_phase(&mut self, live: Option<&Live>, started: Instant, ended: Instant) -> Phase {
        let tally = std::mem::take(&mut self.counter.tally);
        let batch_nanos = self.counter.latencies.end(live, tally.replies, ended);
        Phase { tally, elapsed: ended.saturating_duration_since(started), batch_nanos, punctuality: None }
    }

    /// Sends every connection's first batch; returns how many connections got one.
    fn begin_all(&mut self, rings: &mut [Ring], budget: &mut Budget, now: Instant) -> Result<usize, BenchError> {
        let mut busy: usize = 0;
        for (place, connection) in self.connections.iter_mut().enumerate() {
            let calls = budget.take(self.pipeline, now);
            if calls == 0 {
                break;
            }
            if let Some(ring) = ring_for(rings, connection) {
                let now = Instant::now();
                busy = busy.saturating_add(1);
                if let Err(error) = connection.begin(ring, calls, now, now) {
                    self.repair.lose(place, connection, ring, &mut self.counter, error)?;
                }
            }
        }
        Ok(busy)
    }

    fn wait(&mut self, events: &mut Events, busy: usize) -> Result<(), BenchError> {
        let patience = self.repair.patience().unwrap_or(STALL_LIMIT);
        loop {
            match self.poll.poll(events, Some(patience)) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(BenchError::System { what: "waiting for replies failed", source: error }),
                Ok(()) if events.is_empty() && patience == STALL_LIMIT => {
                    return Err(BenchError::Stalled { seconds: STALL_LIMIT.as_secs(), outstanding: busy });
                }
                Ok(()) => return Ok(()),
            }
        }
    }
}

impl Budget {
    fn new(limit: Limit, started: Instant) -> Budget {
        match limit {
            Limit::Calls(calls) => Budget { calls_left: calls, deadline: None },
            Limit::Time(time) => Budget { calls_left: u64::MAX, deadline: started.checked_add(time) },
        }
    }

    /// Whether the phase is over.
    fn is_over(&self, now: Instant) -> bool {
        self.calls_left == 0 || self.deadline.is_some_and(|deadline| now >= deadline)
    }

    /// The size of the next batch; 0 if the phase is over.
    fn take(&mut self, pipeline: usize, now: Instant) -> usize {
        if self.is_over(now) {
            return 0;
        }
        let calls = usize::try_from(self.calls_left).unwrap_or(usize::MAX).min(pipeline);
        self.calls_left = self.calls_left.saturating_sub(u64::try_from(calls).unwrap_or(u64::MAX));
        calls
    }
}

/// The ring that a connection takes its calls from.
pub(crate) fn ring_for<'a>(rings: &'a mut [Ring], connection: &Connection) -> Option<&'a mut Ring> {
    match rings {
        [shared] => Some(shared),
        by_index => by_index.get_mut(connection.ring_index()),
    }
}

/// The token of a connection, by its place.
pub(crate) fn token(place: usize) -> Token {
    Token(place)
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
