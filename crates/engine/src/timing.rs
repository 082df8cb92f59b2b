//! How long commands take, at no cost to those that are fast.
//!
//! The problem: two looks at a clock around each call would cost more than many a call. The idea: commands that the
//! table flags as fast are not timed one by one unless an operator asks for times that only they can have
//! ([`Timing::times_fast`]); all others always are. Their rows have no function that is called directly
//! ([`Entry::run`]), so that the way of a fast command has no branch for it.
//!
//! A core times what it runs; who sent it is known only where the client's connection is. So a slow call waits
//! ([`Timing::pending`]), here or in the parcel that brings its reply back, until that connection signs it.

use crate::call::Call;
use crate::core::Core;
use crate::latency;
use crate::registry::Entry;
use crate::session::{Client, Session};
use crate::slowlog::{Author, SlowCall};
use crate::tunables::{Tunable, Tunables};
use tollgate_limits::Micros;
use tollgate_resp::{Args, Reply};

const MILLISECOND_MICROS: u64 = 1_000;
/// A transaction is not in the slow log, as in Redis: its commands are, each by itself.
const LOGGED_IN_PARTS: &str = "exec";

/// A core's stopwatch.
#[derive(Debug)]
pub struct Timing {
    clock: fn() -> u64,
    times_fast: bool,
    /// Slow calls that nobody has signed yet.
    pub pending: Vec<SlowCall>,
}

impl Timing {
    /// A stopwatch that stands still until a clock is lent.
    pub fn new(tunables: &Tunables) -> Timing {
        let mut timing = Timing { clock: || 0, times_fast: false, pending: Vec::new() };
        timing.follow(tunables);
        timing
    }

    /// Lends a clock, in microseconds from any start.
    pub fn set_clock(&mut self, clock: fn() -> u64) {
        self.clock = clock;
    }

    /// Takes over what the settings say now.
    pub fn follow(&mut self, tunables: &Tunables) {
        let slow = tunables.get(Tunable::SlowlogLogSlowerThan);
        let millisecond = i64::try_from(MILLISECOND_MICROS).unwrap_or(i64::MAX);
        self.times_fast = (0..millisecond).contains(&slow) || tunables.count(Tunable::LatencyMonitorThreshold) > 0;
    }

    /// Whether commands that are flagged as fast are timed too: the slow log's threshold is below a millisecond, or
    /// latency is monitored.
    #[inline]
    pub fn times_fast(&self) -> bool {
        self.times_fast
    }

    /// Whether this command is timed now.
    #[inline]
    pub fn times(&self, entry: &Entry) -> bool {
        entry.is_slow || self.times_fast
    }

    /// What the clock shows.
    pub fn read(&self) -> u64 {
        (self.clock)()
    }
}

impl Core {
    /// Takes over the settings that a core keeps at hand. Called on each core after a change and at each tick.
    pub fn follow_tunables(&mut self) {
        let tunables = &self.settings.tunables;
        self.store.set_memory_max(tunables.memory_max_bytes().div_ceil(u64::from(self.cores.max(1))));
        self.store.set_eviction(tunables.eviction());
        self.timing.follow(tunables);
        self.slowlog.keep(tunables.count(Tunable::SlowlogMaxLen));
    }

    /// [`Core::run_key`], timed whatever the command's flags are.
    #[inline(never)]
    pub fn run_key_timed(&mut self, entry: &Entry, call: &Call<'_>, reply: &mut Reply<'_>) {
        let begun = self.timing.read();
        self.run_key_untimed(entry, call, reply);
        self.took(entry, call.args, begun, call.now);
    }

    /// Notes that a command which began at `begun`, by the core's own stopwatch, has ended.
    pub fn took(&mut self, entry: &Entry, args: Args<'_>, begun: u64, now: Micros) {
        let micros = self.timing.read().saturating_sub(begun);
        if let Some(cell) = self.counters.command_micros.get(entry.index) {
            cell.add(micros);
        }
        let tunables = &self.settings.tunables;
        let millis = micros / MILLISECOND_MICROS;
        let latency_min = tunables.count(Tunable::LatencyMonitorThreshold);
        if latency_min > 0 && millis >= latency_min {
            let event = if entry.is_slow { latency::COMMAND } else { latency::FAST_COMMAND };
            self.latency.add(event, now, millis);
        }
        let slow_min = u64::try_from(tunables.get(Tunable::SlowlogLogSlowerThan));
        if slow_min.is_ok_and(|slow_min| micros >= slow_min) && entry.command.name != LOGGED_IN_PARTS {
            self.timing.pending.push(SlowCall::new(entry, args, micros, now));
        }
    }

    /// Runs a session's command with its time taken, where that is asked for.
    pub(crate) fn run_session_timed(
        &mut self,
        entry: &Entry,
        session: &mut Session,
        call: &Call<'_>,
        reply: &mut Reply<'_>,
    ) {
        let begun = self.timing.read();
        self.run_session_untimed(entry, session, call, reply);
        self.took(entry, call.args, begun, call.now);
    }

    /// Writes the calls that wait for it into the slow log, as this client's.
    pub fn sign_slow(&mut self, client: &Client) {
        if !self.timing.pending.is_empty() {
            self.sign_pending(client);
        }
    }

    #[cold]
    fn sign_pending(&mut self, client: &Client) {
        let author = Author { address: client.address.clone(), name: client.name.borrow().clone() };
        for call in std::mem::take(&mut self.timing.pending) {
            self.slowlog.add(self.settings.shared.next_slow_id(), call, author.clone());
        }
    }
}
