//! The open loop: batches leave when they are due, whether the server keeps up or not.
//!
//! The problem: in a closed loop a server that stalls also stops the calls that would have seen the stall, so one slow
//! batch stands for the hundreds that real callers would have sent meanwhile. The idea: a schedule says beforehand when
//! each batch is due, and its latency is counted from then, also where it had to wait for a free connection.
//!
//! The client has its own delays, which must not be taken for the server's. A batch that could have left (a connection
//! was free) but left late was late by the client's fault; this is measured apart. To keep it small the thread sleeps
//! by a timer of the kernel's finest kind until shortly before a batch is due, and turns round without sleep for the
//! rest.

use crate::connection::Connection;
use crate::drive::{Driver, Limit, Phase, ring_for};
use crate::error::BenchError;
use crate::latency::{Latencies, new_histogram};
use crate::live::Live;
use crate::patience::{LOOK_EVERY, Patience, is_interrupted};
use crate::ring::Ring;
use crate::schedule::{Due, Schedule};
use hdrhistogram::Histogram;
use mio::event::Event;
use mio::unix::SourceFd;
use mio::{Events, Interest, Token};
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
};
use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::time::{Duration, Instant};

/// Batches on the way on one connection; one more has to wait.
const FLIGHTS_MAX: usize = 8;

/// This long before a batch is due the thread no longer sleeps: about what a wake by the kernel may take.
const SPIN: Duration = Duration::from_micros(40);

/// What was due is still sent for so long after the schedule's end, or for as long as it took if that is less.
const OVERTIME_MAX: Duration = Duration::from_secs(30);

/// Places are numbers of connections: this is none.
const TIMER: Token = Token(usize::MAX - 1);

/// How well the client kept its schedule.
#[derive(Debug)]
pub(crate) struct Punctuality {
    /// Nanoseconds by which batches left late although a connection was free.
    pub(crate) late_nanos: Histogram<u64>,
    /// Calls that were due.
    pub(crate) calls_due: u64,
    /// Calls that were due and never left: the server was too far behind.
    pub(crate) calls_unsent: u64,
    /// The time that the schedule took.
    pub(crate) scheduled: Duration,
    /// Calls a second that were asked for.
    pub(crate) rate: u64,
}

impl Punctuality {
    pub(crate) fn new(rate: u64) -> Result<Punctuality, BenchError> {
        let late_nanos = new_histogram()?;
        Ok(Punctuality { late_nanos, calls_due: 0, calls_unsent: 0, scheduled: Duration::ZERO, rate })
    }

    /// Adds another thread's.
    pub(crate) fn add(&mut self, other: &Punctuality) {
        // Equal bounds: nothing can be out of range.
        let _ = self.late_nanos.add(&other.late_nanos);
        self.calls_due = self.calls_due.saturating_add(other.calls_due);
        self.calls_unsent = self.calls_unsent.saturating_add(other.calls_unsent);
        self.scheduled = self.scheduled.max(other.scheduled);
    }
}

/// The state of one open loop.
struct Loop {
    started: Instant,
    schedule: Schedule,
    next: Option<Due>,
    /// Connections with nothing on the way, and since when: the one that has been free longest comes first.
    idle: VecDeque<(usize, Instant)>,
    /// Where the search for a connection that takes one more batch goes on.
    turn: usize,
    /// Batches on the way.
    flying: usize,
    /// When a batch was last completed.
    freed: Instant,
    /// The next batch waits for a connection.
    is_blocked: bool,
    /// Until when the client was busy opening connections, and could not have sent.
    mended: Instant,
    patience: Patience,
    /// When to give up what was due and has not left; known once the schedule's end is.
    last_departure: Instant,
    timer: OwnedFd,
    punctuality: Punctuality,
}

impl Driver {
    /// Runs one phase of a schedule; `limit` is the one that the schedule was made for.
    pub(crate) fn run_open(
        &mut self,
        rings: &mut [Ring],
        schedule: Schedule,
        limit: Limit,
        started: Instant,
        live: Option<&Live>,
    ) -> Result<Phase, BenchError> {
        self.begin_phase(live, started)?;
        let mut state = Loop::new(schedule, limit, started, self)?;
        let mut events = self.events.take().unwrap_or_else(|| Events::with_capacity(1_024));
        let (mut ended, mut unanswered) = (started, 0);
        loop {
            self.send_due(&mut state, rings)?;
            if state.next.is_none() && state.flying == 0 {
                break;
            }
            self.wait_open(&mut state, &mut events)?;
            for event in &events {
                if let Some(now) = self.handle(&mut state, rings, event)? {
                    ended = now;
                    self.counter.latencies.tell(live, self.counter.tally.replies, now);
                }
            }
            if is_interrupted() {
                state.stop(Instant::now());
            }
            if events.is_empty() {
                let now = Instant::now();
                self.counter.latencies.tell(live, self.counter.tally.replies, now);
                if state.patience.is_at_end(now) && (state.flying > 0 || state.is_blocked) {
                    state.give_up_all(now, &mut self.counter.latencies);
                    unanswered = self.leave_unanswered(rings, now)?;
                    ended = now;
                    break;
                }
            }
            self.mend(&mut state, live)?;
        }
        self.repair.leave();
        self.events = Some(events);
        let raw = state.timer.as_raw_fd();
        self.poll.registry().deregister(&mut SourceFd(&raw)).map_err(BenchError::system("the timer"))?;
        let mut phase = self.end_phase(live, started, ended.max(started + state.punctuality.scheduled));
        phase.punctuality = Some(state.punctuality);
        phase.unanswered = unanswered;
        Ok(phase)
    }

    /// Loads a script that was forgotten, and opens connections that were lost.
    fn mend(&mut self, state: &mut Loop, live: Option<&Live>) -> Result<(), BenchError> {
        if self.repair.load_script_if_missing(&self.counter.tally)? {
            state.mended = Instant::now();
        }
        if !self.repair.is_needed() {
            return Ok(());
        }
        let now = Instant::now();
        // Opening may take long, and what came before it came before.
        self.counter.latencies.tell_now(live, self.counter.tally.replies, now);
        while let Some((place, _)) = self.repair.reopen(&mut self.connections, &self.poll, now)? {
            state.free(place, Instant::now());
        }
        // Nothing could be sent meanwhile, and it is the server that made it necessary.
        state.mended = Instant::now();
        Ok(())
    }

    /// Sends what is due and finds a connection.
    fn send_due(&mut self, state: &mut Loop, rings: &mut [Ring]) -> Result<(), BenchError> {
        while let Some(due) = state.next {
            let now = Instant::now();
            if due.at > now {
                return Ok(());
            }
            let Some((place, free_since)) = state.place(&self.connections) else {
                state.is_blocked = true;
                if now < state.last_departure {
                    return Ok(());
                }
                state.give_up(due, now, &mut self.counter.latencies);
                continue;
            };
            let Some(connection) = self.connections.get_mut(place) else { continue };
            let Some(ring) = ring_for(rings, connection) else { continue };
            state.departs(due, free_since, now);
            if let Err(error) = connection.begin(ring, due.calls, due.at, now) {
                let lost = self.repair.lose(place, connection, ring, &mut self.counter, error, None)?;
                state.lost(place, lost);
            }
        }
        Ok(())
    }

    /// Waits for replies until the next batch is due.
    fn wait_open(&mut self, state: &mut Loop, events: &mut Events) -> Result<(), BenchError> {
        let gap = match state.next {
            Some(due) if !state.is_blocked => Some(due.at.saturating_duration_since(Instant::now())),
            _ => None,
        };
        let patience = match gap {
            Some(gap) if gap <= SPIN => Duration::ZERO,
            Some(gap) => {
                state.arm(gap.saturating_sub(SPIN))?;
                LOOK_EVERY
            }
            None if state.next.is_some() => {
                // A batch waits for a connection, but not for ever.
                let left = state.last_departure.saturating_duration_since(Instant::now());
                LOOK_EVERY.min(left + Duration::from_millis(1))
            }
            None => LOOK_EVERY,
        };
        let patience = self.repair.patience().map_or(patience, |retry| retry.min(patience));
        match self.poll.poll(events, Some(patience)) {
            Err(error) if error.kind() != io::ErrorKind::Interrupted => {
                Err(BenchError::System { what: "waiting for replies failed", source: error })
            }
            _ => Ok(()),
        }
    }

    /// Reads and writes one connection; answers when, if batches were completed.
    fn handle(&mut self, state: &mut Loop, rings: &mut [Ring], event: &Event) -> Result<Option<Instant>, BenchError> {
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
        match received {
            Ok(progress) if progress.completed == 0 => {
                if progress.replies > 0 {
                    state.patience.replied(progress.at);
                }
                Ok(None)
            }
            Ok(progress) => {
                state.patience.replied(progress.at);
                state.flying = state.flying.saturating_sub(progress.completed);
                if connection.flights() == 0 {
                    state.free(place, progress.at);
                }
                state.freed = progress.at;
                state.is_blocked = false;
                if let Some(error) = progress.gone {
                    let lost = self.repair.lose(place, connection, ring, &mut self.counter, error, None)?;
                    state.lost(place, lost);
                }
                Ok(Some(progress.at))
            }
            Err(error) => {
                let lost = self.repair.lose(place, connection, ring, &mut self.counter, error, None)?;
                state.lost(place, lost);
                Ok(None)
            }
        }
    }
}

impl Loop {
    fn new(mut schedule: Schedule, limit: Limit, started: Instant, driver: &Driver) -> Result<Loop, BenchError> {
        let system = |error: rustix::io::Errno| BenchError::System { what: "no timer", source: error.into() };
        let timer = timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC)
            .map_err(system)?;
        let raw = timer.as_raw_fd();
        let registry = driver.poll.registry();
        registry.register(&mut SourceFd(&raw), TIMER, Interest::READABLE).map_err(BenchError::system("no timer"))?;
        let mut punctuality = Punctuality::new(schedule.rate())?;
        let overtime = match limit {
            Limit::Time(time) => {
                punctuality.scheduled = time;
                time + time.min(OVERTIME_MAX)
            }
            // As long as replies come the calls are made, however late.
            Limit::Calls(_) => Duration::from_secs(365 * 86_400),
        };
        let over = matches!(limit, Limit::Time(_)).then(|| started + punctuality.scheduled);
        let idle = (0..driver.connections.len()).filter(|place| !driver.repair.is_lost(*place));
        Ok(Loop {
            next: schedule.next(),
            started,
            schedule,
            idle: idle.map(|place| (place, started)).collect(),
            turn: 0,
            flying: 0,
            freed: started,
            is_blocked: false,
            mended: started,
            patience: Patience::new(started, over),
            last_departure: started + overtime,
            timer,
            punctuality,
        })
    }

    /// A connection for the next batch, and since when it could have had it: one that is idle, else the next in turn
    /// that has room.
    fn place(&mut self, connections: &[Connection]) -> Option<(usize, Instant)> {
        if let Some(idle) = self.idle.pop_front() {
            return Some(idle);
        }
        let count = connections.len();
        if self.flying >= count.saturating_mul(FLIGHTS_MAX) {
            return None;
        }
        for step in 0..count {
            let place = self.turn.saturating_add(step) % count;
            // A connection with nothing on the way that is not idle is lost.
            if connections.get(place).is_some_and(|one| (1..FLIGHTS_MAX).contains(&one.flights())) {
                self.turn = place.saturating_add(1);
                return Some((place, self.freed));
            }
        }
        None
    }

    /// A batch leaves now: by the client's fault late since it was due and there was a connection for it.
    fn departs(&mut self, due: Due, free_since: Instant, now: Instant) {
        let late = now.saturating_duration_since(due.at.max(free_since).max(self.mended));
        self.punctuality.late_nanos.saturating_record(u64::try_from(late.as_nanos()).unwrap_or(u64::MAX));
        if self.flying == 0 {
            self.patience.asks(now);
        }
        self.flying = self.flying.saturating_add(1);
        self.advance(due);
    }

    /// A batch that could not leave in time: how long it has waited is the least that its latency would have been.
    fn give_up(&mut self, due: Due, now: Instant, latencies: &mut Latencies) {
        latencies.record(now.saturating_duration_since(due.at));
        let calls = u64::try_from(due.calls).unwrap_or(u64::MAX);
        self.punctuality.calls_unsent = self.punctuality.calls_unsent.saturating_add(calls);
        self.advance(due);
    }

    fn advance(&mut self, due: Due) {
        let calls = u64::try_from(due.calls).unwrap_or(u64::MAX);
        self.punctuality.calls_due = self.punctuality.calls_due.saturating_add(calls);
        self.next = self.schedule.next();
        if self.next.is_none() {
            if self.punctuality.scheduled.is_zero() {
                self.punctuality.scheduled = self.schedule.span();
            }
            self.patience.is_over(self.started + self.punctuality.scheduled);
        }
    }

    /// Ends the schedule now.
    fn stop(&mut self, now: Instant) {
        if self.next.take().is_some() {
            self.punctuality.scheduled = now.saturating_duration_since(self.started);
            self.patience.is_over(now);
        }
        self.is_blocked = false;
    }

    /// Nothing that is due will leave any more.
    fn give_up_all(&mut self, now: Instant, latencies: &mut Latencies) {
        while let Some(due) = self.next.filter(|due| due.at <= now) {
            self.give_up(due, now, latencies);
        }
        self.stop(now);
    }

    /// A connection has nothing on the way.
    fn free(&mut self, place: usize, now: Instant) {
        self.idle.push_back((place, now));
        self.is_blocked = false;
    }

    /// A connection is gone, and so many batches with it.
    fn lost(&mut self, place: usize, batches: usize) {
        self.idle.retain(|(idle, _)| *idle != place);
        self.flying = self.flying.saturating_sub(batches);
    }

    fn arm(&self, after: Duration) -> Result<(), BenchError> {
        let none = Timespec { tv_sec: 0, tv_nsec: 0 };
        let after = after.max(Duration::from_nanos(1));
        let value = Timespec::try_from(after).unwrap_or(Timespec { tv_sec: 1, tv_nsec: 0 });
        let spec = Itimerspec { it_interval: none, it_value: value };
        timerfd_settime(&self.timer, TimerfdTimerFlags::empty(), &spec)
            .map(|_| ())
            .map_err(|error| BenchError::System { what: "the timer", source: error.into() })
    }
}
