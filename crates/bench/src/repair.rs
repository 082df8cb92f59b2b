//! What goes wrong while the clock runs and can be mended: a script that the server forgot, a connection it closed.
//!
//! Both are rare, so they are mended with the slow means of the preparation: a fresh connection that blocks. Calls that
//! failed meanwhile stay counted as errors.
//!
//! Where another server is to take over, connections are opened again there: not before it takes calls, as what a
//! replica answers to them says nothing.

use crate::connection::{Connection, Counter};
use crate::dialog::Dialog;
use crate::drive::token;
use crate::error::BenchError;
use crate::patience::STALL_LIMIT;
use crate::ring::Ring;
use crate::scan::Tally;
use crate::target::Target;
use crate::verify::{Origin, Transfer};
use mio::Poll;
use std::time::{Duration, Instant};

/// How often a connection that was lost, or a script, is tried again.
const RETRY: Duration = Duration::from_millis(20);

/// What is broken in one thread.
#[derive(Debug)]
pub(crate) struct Repair {
    target: Target,
    /// Who is called instead of the target where a connection to it was lost.
    failover: Option<Target>,
    transfer: Transfer,
    /// The script to load again where the server has forgotten it.
    script: Option<String>,
    /// Whether connections that were lost are opened again.
    reconnects: bool,
    /// Places of lost connections, and since when the calls of this phase wait that are to be made there.
    lost: Vec<(usize, Option<Instant>)>,
    /// Since when some connection has been lost.
    lost_since: Option<Instant>,
    next_attempt: Option<Instant>,
    /// Missing scripts of this phase that have been seen to.
    scripts_seen: u64,
}

impl Repair {
    /// For the connections of one thread.
    pub(crate) fn new(target: Target, failover: Option<Target>, script: Option<String>, reconnects: bool) -> Repair {
        Repair {
            target,
            failover,
            transfer: Transfer::default(),
            script,
            reconnects,
            lost: Vec::new(),
            lost_since: None,
            next_attempt: None,
            scripts_seen: 0,
        }
    }

    /// How connections were lost, in all phases.
    pub(crate) fn transfer(&self) -> Transfer {
        self.transfer
    }

    /// Where calls go on, and who that is.
    fn present_target(&self) -> (&Target, Origin) {
        match &self.failover {
            Some(failover) if self.transfer.lost_at.is_some() => (failover, Origin::Second),
            _ => (&self.target, Origin::First),
        }
    }

    /// The tally begins at nothing again.
    pub(crate) fn begin_phase(&mut self) {
        self.scripts_seen = 0;
    }

    /// Loads the script again if calls have failed for want of it since this was last asked; answers whether it did.
    #[inline]
    pub(crate) fn load_script_if_missing(&mut self, tally: &Tally) -> Result<bool, BenchError> {
        if tally.missing_scripts == self.scripts_seen {
            return Ok(false);
        }
        self.scripts_seen = tally.missing_scripts;
        if let Some(script) = &self.script {
            Dialog::open(self.present_target().0)?.load_script(script)?;
        }
        Ok(true)
    }

    /// A connection failed. What it has been answered is read, the rest of its batches is given up, and the number of
    /// both is answered; or the run ends with the error.
    /// `waiting` is since when a caller waits there who will try again.
    pub(crate) fn lose(
        &mut self,
        place: usize,
        connection: &mut Connection,
        ring: &Ring,
        counter: &mut Counter,
        error: BenchError,
        waiting: Option<Instant>,
    ) -> Result<usize, BenchError> {
        let is_mendable = matches!(error, BenchError::Closed { .. } | BenchError::System { .. });
        if !self.reconnects || !is_mendable {
            return Err(error);
        }
        let now = Instant::now();
        self.transfer.lost(now);
        let batches = connection.flights();
        if batches > 0 {
            // Where sending failed, replies may be there that nobody has read. That the end is behind them is known.
            let _ = connection.receive(ring, counter, true);
        }
        connection.give_up(ring, &error.to_string(), counter)?;
        match self.lost.iter_mut().find(|(other, _)| *other == place) {
            Some((_, since)) => *since = since.or(waiting),
            None => self.lost.push((place, waiting)),
        }
        self.lost_since.get_or_insert(now);
        Ok(batches)
    }

    /// Whether a connection is lost.
    #[inline]
    pub(crate) fn is_needed(&self) -> bool {
        !self.lost.is_empty()
    }

    /// Whether the connection at a place is lost, and cannot be used.
    pub(crate) fn is_lost(&self, place: usize) -> bool {
        self.lost.iter().any(|(other, _)| *other == place)
    }

    /// Whether the connection at a place is lost; a caller then waits there since `now`.
    pub(crate) fn wait_for(&mut self, place: usize, now: Instant) -> bool {
        let lost = self.lost.iter_mut().find(|(other, _)| *other == place);
        lost.map(|(_, waiting)| waiting.get_or_insert(now)).is_some()
    }

    /// How long to wait for events at most while a connection is lost.
    pub(crate) fn patience(&self) -> Option<Duration> {
        self.is_needed().then_some(RETRY)
    }

    /// Leaves lost connections to the next phase. Answers since when callers of this one have waited there.
    pub(crate) fn leave(&mut self) -> Vec<Instant> {
        self.lost_since = None;
        self.lost.iter_mut().filter_map(|(_, waiting)| waiting.take()).collect()
    }

    /// Tries to open one lost connection again; none if there is none, or it is not time, or the server is not there.
    /// Answers its place, and since when a caller of this phase waits there.
    pub(crate) fn reopen(
        &mut self,
        connections: &mut [Connection],
        poll: &Poll,
        now: Instant,
    ) -> Result<Option<(usize, Option<Instant>)>, BenchError> {
        if self.next_attempt.is_some_and(|next| now < next) {
            return Ok(None);
        }
        let Some((place, waiting)) = self.lost.last().copied() else { return Ok(None) };
        let Some(connection) = connections.get_mut(place) else { return Ok(None) };
        let (target, server) = self.present_target();
        match open(target, server) {
            Ok(dialog) => {
                let socket = dialog.into_socket();
                let replaced = connection.replace(socket, server, poll.registry(), token(place));
                replaced.map_err(BenchError::system("a connection cannot be watched"))?;
                self.lost.pop();
                self.next_attempt = None;
                if self.lost.is_empty() {
                    self.lost_since = None;
                }
                Ok(Some((place, waiting)))
            }
            Err(error) if self.lost_since.is_some_and(|since| now.saturating_duration_since(since) > STALL_LIMIT) => {
                Err(error)
            }
            Err(_) => {
                self.next_attempt = now.checked_add(RETRY);
                Ok(None)
            }
        }
    }
}

/// A connection to who takes calls; a server that is to take over says so itself.
fn open(target: &Target, server: Origin) -> Result<Dialog, BenchError> {
    let mut dialog = Dialog::open(target)?;
    if server == Origin::Second {
        dialog.refuse_replica()?;
    }
    Ok(dialog)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys::KeyNames;
    use crate::ring::{Rendered, Wording};
    use crate::scan::Denial;
    use crate::template::Template;
    use mio::Events;
    use std::io::{Read, Write};
    use std::net::TcpListener;
    use std::sync::Arc;

    /// A ring of calls on one key.
    fn ring() -> Ring {
        let template = || Template::parse("RL.FIXED {key} 9 60", None, 1).unwrap();
        let names = KeyNames::new("", 1, 1, false).unwrap();
        let wording = Wording { names, admitted: template(), denied: template(), first_denied: 1 };
        Ring::new(Arc::new(Rendered::new(&wording, &[0], 3)), 0)
    }

    /// Units that a caller was told are his count, also where he learns of the end by what he sends next.
    #[test]
    fn what_was_answered_before_the_end_is_read_though_sending_failed() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let target = Target::parse("--target", &listener.local_addr().unwrap().to_string()).unwrap();
        let mut poll = Poll::new().unwrap();
        let socket = target.connect().unwrap();
        let registry = poll.registry();
        let mut connection = Connection::new(socket, 0, Denial::FirstIsZero, None, registry, token(0)).unwrap();
        let (mut ring, mut counter) = (ring(), Counter::new(None).unwrap());
        let now = Instant::now();
        connection.begin(&mut ring, 3, now, now).unwrap();
        let (mut server, _) = listener.accept().unwrap();
        // What it does not read makes it end by a reset, which sending sees first.
        server.read_exact(&mut [0]).unwrap();
        server.write_all(b"*1\r\n:1\r\n*1\r\n:0\r\n").unwrap();
        drop(server);
        let mut events = Events::with_capacity(8);
        let is_over = (0..100).any(|_| {
            poll.poll(&mut events, Some(Duration::from_millis(100))).unwrap();
            events.iter().any(|event| event.is_error() || event.is_read_closed())
        });
        assert!(is_over);
        let error = connection.begin(&mut ring, 3, now, now).unwrap_err();
        let mut repair = Repair::new(target, None, None, true);
        assert_eq!(repair.lose(0, &mut connection, &ring, &mut counter, error, None).unwrap(), 2);
        let tally = &counter.tally;
        assert_eq!((tally.replies, tally.denied, tally.lost, tally.errors), (6, 1, 4, 4));
        let transfer = repair.transfer();
        assert_eq!((transfer.connections_lost, transfer.lost_at.is_some()), (1, true));
    }
}
