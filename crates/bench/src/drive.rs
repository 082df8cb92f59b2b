//! One thread's connections, and the closed loop over them.
//!
//! Each connection has one batch on the way; when its last reply has come, the next batch leaves in the same turn.
//! A phase (touching keys, warming, measuring) ends when its budget is spent and every batch has been answered, so
//! between phases nothing is on the way and the server's CPU time can be read.

use crate::connection::{Connection, Counter};
use crate::error::BenchError;
use crate::live::Live;
use crate::open::Punctuality;
use crate::patience::{LOOK_EVERY, Patience, is_interrupted};
use crate::repair::Repair;
use crate::ring::Ring;
use crate::scan::Tally;
use hdrhistogram::Histogram;
use mio::event::Event;
use mio::{Events, Poll, Token};
use std::io;
use std::time::{Duration, Instant};

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
    /// Of a closed loop: the longest time in which a thread got no reply.
    pub(crate) longest_silence: Option<Duration>,
    /// Connections on which calls were given up, as no reply came for too long: nothing can follow this phase.
    pub(crate) unanswered: usize,
}

/// The state of one closed loop.
#[derive(Debug)]
struct Closed {
    budget: Budget,
    patience: Patience,
    /// Connections with a batch on the way, or lost with one.
    busy: usize,
    /// The last reply, or the end of the time in which lost connections were tried.
    ended: Instant,
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
        let budget = Budget::new(limit, started);
        let patience = Patience::new(started, budget.deadline);
        let mut state = Closed { budget, patience, busy: 0, ended: started };
        self.begin_all(&mut state, rings, started)?;
        let mut events = self.events.take().unwrap_or_else(|| Events::with_capacity(1_024));
        let mut unanswered = 0;
        while state.busy > 0 {
            self.wait(&mut events)?;
            for event in &events {
                if let Some(now) = self.handle_closed(&mut state, rings, event)? {
                    state.ended = now;
                    self.counter.latencies.tell(live, self.counter.tally.replies, now);
                }
            }
            if is_interrupted() {
                state.budget.spend();
                state.patience.is_over(Instant::now());
            }
            if events.is_empty() {
                let now = Instant::now();
                self.counter.latencies.tell(live, self.counter.tally.replies, now);
                if state.patience.is_at_end(now) {
                    unanswered = self.leave_unanswered(rings, now)?;
                    state.ended = now;
                    break;
                }
            }
            self.repair.load_script_if_missing(&self.counter.tally)?;
            if self.repair.is_needed() {
                self.reopen_closed(&mut state, rings, live)?;
            }
        }
        self.events = Some(events);
        let mut phase = self.end_phase(live, started, state.ended);
        phase.unanswered = unanswered;
        phase.longest_silence = Some(state.patience.longest_silence(state.ended));
        Ok(phase)
    }

    /// Reads and writes one connection, and sends its next batch; answers when, if one was completed.
    fn handle_closed(
        &mut self,
        state: &mut Closed,
        rings: &mut [Ring],
        event: &Event,
    ) -> Result<Option<Instant>, BenchError> {
        let place = event.token().0;
        // Replies may have come before a connection was lost at sending.
        let Some(connection) = self.connections.get_mut(place).filter(|one| !one.is_gone()) else { return Ok(None) };
        let Some(ring) = ring_for(rings, connection) else { return Ok(None) };
        let sent = if event.is_writable() { connection.send(ring) } else { Ok(()) };
        let received = match sent {
            Ok(()) if event.is_readable() => connection.receive(ring, &mut self.counter, event.is_read_closed()),
            Ok(()) => return Ok(None),
            Err(error) => Err(error),
        };
        let progress = match received {
            Ok(progress) => progress,
            Err(error) => {
                let waiting = connection.waiting_since();
                self.repair.lose(place, connection, ring, &mut self.counter, error, waiting)?;
                return Ok(None);
            }
        };
        if progress.replies > 0 {
            state.patience.replied(progress.at);
        }
        if progress.completed == 0 {
            return Ok(None);
        }
        let now = progress.at;
        if state.budget.is_over(now) {
            state.busy = state.busy.saturating_sub(1);
            if let Some(error) = progress.gone {
                self.repair.lose(place, connection, ring, &mut self.counter, error, None)?;
            }
            return Ok(Some(now));
        }
        let failed = match progress.gone {
            Some(error) => Some(error),
            None => connection.begin(ring, state.budget.take(self.pipeline, now), now, now).err(),
        };
        if let Some(error) = failed {
            self.repair.lose(place, connection, ring, &mut self.counter, error, Some(now))?;
        }
        Ok(Some(now))
    }

    /// Opens lost connections again and sends their next batches. What was lost there counts on in their latency: a
    /// caller that tries again has waited since its first try.
    fn reopen_closed(&mut self, state: &mut Closed, rings: &mut [Ring], live: Option<&Live>) -> Result<(), BenchError> {
        let now = Instant::now();
        if state.budget.is_over(now) {
            for since in self.repair.leave() {
                self.counter.latencies.record(now.saturating_duration_since(since));
                state.busy = state.busy.saturating_sub(1);
                // The time until the end was measured too, though nothing came of it.
                state.ended = state.ended.max(state.budget.end(now));
            }
            return Ok(());
        }
        // Opening may take long, and what came before it came before.
        self.counter.latencies.tell_now(live, self.counter.tally.replies, now);
        while let Some((place, waiting)) = self.repair.reopen(&mut self.connections, &self.poll, now)? {
            let Some(since) = waiting else { continue };
            let Some(connection) = self.connections.get_mut(place) else { continue };
            let Some(ring) = ring_for(rings, connection) else { continue };
            let now = Instant::now();
            match state.budget.take(self.pipeline, now) {
                0 => {
                    self.counter.latencies.record(now.saturating_duration_since(since));
                    state.busy = state.busy.saturating_sub(1);
                    state.ended = state.ended.max(state.budget.end(now));
                }
                calls => {
                    if let Err(error) = connection.begin(ring, calls, since, now) {
                        self.repair.lose(place, connection, ring, &mut self.counter, error, Some(since))?;
                        break;
                    }
                }
            }
        }
        Ok(())
    }

    /// Ends a phase whose last replies do not come. Answers how many connections were waiting for some.
    pub(crate) fn leave_unanswered(&mut self, rings: &mut [Ring], now: Instant) -> Result<usize, BenchError> {
        let mut waiting: usize = 0;
        for connection in &mut self.connections {
            let Some(ring) = ring_for(rings, connection) else { continue };
            if connection.flights() > 0 {
                waiting = waiting.saturating_add(1);
                connection.leave_unanswered(ring, now, &mut self.counter)?;
            }
        }
        for since in self.repair.leave() {
            waiting = waiting.saturating_add(1);
            self.counter.latencies.record(now.saturating_duration_since(since));
        }
        Ok(waiting)
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
        let elapsed = ended.saturating_duration_since(started);
        Phase { tally, elapsed, batch_nanos, punctuality: None, longest_silence: None, unanswered: 0 }
    }

    /// Sends every connection's first batch.
    fn begin_all(&mut self, state: &mut Closed, rings: &mut [Ring], now: Instant) -> Result<(), BenchError> {
        for (place, connection) in self.connections.iter_mut().enumerate() {
            let calls = state.budget.take(self.pipeline, now);
            if calls == 0 {
                break;
            }
            if let Some(ring) = ring_for(rings, connection) {
                let now = Instant::now();
                state.busy = state.busy.saturating_add(1);
                if self.repair.wait_for(place, now) {
                    continue;
                }
                if let Err(error) = connection.begin(ring, calls, now, now) {
                    self.repair.lose(place, connection, ring, &mut self.counter, error, Some(now))?;
                }
            }
        }
        Ok(())
    }

    fn wait(&mut self, events: &mut Events) -> Result<(), BenchError> {
        match self.poll.poll(events, Some(self.repair.patience().unwrap_or(LOOK_EVERY))) {
            Err(error) if error.kind() != io::ErrorKind::Interrupted => {
                Err(BenchError::System { what: "waiting for replies failed", source: error })
            }
            _ => Ok(()),
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

    /// Nothing more may be sent.
    fn spend(&mut self) {
        self.calls_left = 0;
    }

    /// Whether the phase is over.
    fn is_over(&self, now: Instant) -> bool {
        self.calls_left == 0 || self.deadline.is_some_and(|deadline| now >= deadline)
    }

    /// When a phase that is over at `now` ended.
    fn end(&self, now: Instant) -> Instant {
        self.deadline.map_or(now, |deadline| deadline.min(now))
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
