//! What a core counts. One writer for each set (its core), any reader: INFO and /metrics on whatever thread.
//!
//! Each counter is an atomic that only its core writes, by a plain load and a plain store, so that counting costs no
//! locked instruction; readers see each value whole and at most a moment late.

use crate::command::{Command, Flags};
use crate::registry::rows;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use tollgate_limits::Algorithm;

/// A number that one core writes and anyone reads.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Adds `amount`. Only by the owning core.
    #[inline]
    pub fn add(&self, amount: u64) {
        self.0.store(self.0.load(Ordering::Relaxed).wrapping_add(amount), Ordering::Relaxed);
    }

    /// Sets a gauge. Only by the owning core.
    #[inline]
    pub fn set(&self, value: u64) {
        self.0.store(value, Ordering::Relaxed);
    }

    /// The value.
    #[inline]
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// How values of several cores become one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Counts up; summed.
    Counter,
    /// Goes up and down; summed.
    Gauge,
    /// Goes up and down; the largest counts.
    Largest,
}

macro_rules! counters {
    ($($(#[doc = $help:literal])+ $field:ident: $kind:ident,)+) => {
        /// The counters of one core.
        #[derive(Debug)]
        pub struct Counters {
            $($(#[doc = $help])+ pub $field: Counter,)+
            /// Admitted calls by algorithm.
            pub allowed: [Counter; 5],
            /// Denied calls by algorithm.
            pub denied: [Counter; 5],
            /// Calls by command, in the order of [`crate::registry::rows`].
            pub commands: Box<[Counter]>,
            /// Microseconds by command, of the calls that were timed.
            pub command_micros: Box<[Counter]>,
            /// Calls by command that were answered with an error.
            pub commands_failed: Box<[Counter]>,
            /// Calls by command that were refused before they ran.
            pub commands_rejected: Box<[Counter]>,
            /// Error replies by code, in the order of [`ERROR_CODES`].
            pub errors: [Counter; ERROR_CODES.len()],
            /// Units that no failover forgets, of those admitted; all of them before there is a replica, and where
            /// `failover_overshoot_noted` says what one forgets.
            pub units_safe: Counter,
        }

        impl Counters {
            /// All zero, for a table of `commands` commands.
            pub fn new(commands: usize) -> Counters {
                let each_command = || (0..commands).map(|_| Counter::default()).collect();
                Counters {
                    $($field: Counter::default(),)+
                    allowed: Default::default(),
                    denied: Default::default(),
                    commands: each_command(),
                    command_micros: each_command(),
                    commands_failed: each_command(),
                    commands_rejected: each_command(),
                    errors: Default::default(),
                    units_safe: Counter(AtomicU64::new(u64::MAX)),
                }
            }

            /// Sets everything to zero but the gauges. Only by the owning core.
            pub fn reset(&self) {
                self.units_before_reset.set(self.units_admitted());
                $(if Kind::$kind != Kind::Gauge {
                    self.$field.set(0);
                })+
                let arrays = [&self.allowed[..], &self.denied, &self.errors];
                let by_command = [&self.commands, &self.command_micros, &self.commands_failed, &self.commands_rejected];
                let cells = arrays.into_iter().chain(by_command.into_iter().map(|cells| &cells[..])).flatten();
                cells.for_each(|cell| cell.set(0));
            }

            /// Name, help, kind and value of each plain counter, in the order of their declaration.
            pub fn each(&self) -> impl Iterator<Item = (&'static str, &'static str, Kind, u64)> + '_ {
                [$((stringify!($field), concat!($($help),+).trim_ascii(), Kind::$kind, self.$field.get()),)+]
                    .into_iter()
            }
        }
    };
}

counters! {
    /// Connections accepted since start.
    connections_accepted: Counter,
    /// Connections refused since start: too many clients, or not from this machine in protected mode.
    connections_rejected: Counter,
    /// Connections open now.
    connections: Gauge,
    /// Connections that wait for the end of CLIENT PAUSE now.
    blocked_clients: Gauge,
    /// Fresh connections handed to another core.
    connections_handed_on: Counter,
    /// Batches run: one read of a socket, or one message of another core.
    batches: Counter,
    /// Bytes read from clients.
    net_input_bytes: Counter,
    /// Bytes written to clients.
    net_output_bytes: Counter,
    /// Error replies given.
    error_replies: Counter,
    /// Protocol errors, each of which ended a connection.
    protocol_errors: Counter,
    /// Refused AUTH and HELLO AUTH attempts.
    auth_failures: Counter,
    /// Connections ended because their unread output passed its bound.
    output_limit_disconnections: Counter,
    /// Connections ended because a command or AUTH took too long to arrive.
    slow_disconnections: Counter,
    /// Commands sent to another core.
    hops: Counter,
    /// Messages sent to other cores.
    messages_sent: Counter,
    /// Wakes of other cores.
    wakes_sent: Counter,
    /// Commands answered with BUSY because a lane stayed full.
    busy_replies: Counter,
    /// Lines of MONITOR that were not shown because somebody who asked for them reads too slowly.
    monitor_lines_lost: Counter,
    /// Charges of RL.ALL taken back because another core refused.
    undone_charges: Counter,
    /// Writes refused for memory.
    oom_replies: Counter,
    /// Look-ups that found a key.
    keyspace_hits: Counter,
    /// Look-ups that found none.
    keyspace_misses: Counter,
    /// Keys held, with those that have expired and wait for the cursor.
    keys: Gauge,
    /// Keys held that do not expire.
    keys_lasting: Gauge,
    /// Bytes of memory that keys hold.
    memory_used_bytes: Gauge,
    /// Expired keys taken away.
    expired_keys: Counter,
    /// Keys dropped by the policy evict-least.
    evicted_keys: Counter,
    /// Units of use that dropped keys may have freed.
    evicted_units: Counter,
    /// Units admitted beyond one for each admitted call.
    units_beyond_calls: Counter,
    /// Units admitted up to the last CONFIG RESETSTAT.
    units_before_reset: Gauge,
    /// Units that a failover may forget, when each core last looked.
    failover_overshoot_noted: Gauge,
    /// The most units that a failover might have forgotten of each core since the start.
    failover_overshoot_peak: Gauge,
    /// Writes of anything but limits that were answered and are not known to every replica that is in step.
    failover_overshoot_writes: Gauge,
    /// Records of changes that replicas were told, each once however many replicas there are.
    replication_records: Counter,
    /// Bytes that all replicas were told.
    replication_bytes: Counter,
    /// Answers that are kept back now until replicas know what they promise.
    answers_waiting: Gauge,
    /// Answers that were kept back until replicas knew what they promise.
    answers_kept_back: Counter,
    /// Changes of all slots since the start: what a snapshot is compared by. Never less than there were.
    slot_changes: Gauge,
    /// The longest single step of upkeep in the store, in microseconds.
    store_longest_step_us: Largest,
}

/// The codes of error replies that are counted each by itself; the last stands for all others.
pub const ERROR_CODES: [&str; 17] = [
    "ERR",
    "WRONGTYPE",
    "OOM",
    "BUSY",
    "NOAUTH",
    "WRONGPASS",
    "NOPROTO",
    "NOPERM",
    "EXECABORT",
    "CROSSSLOT",
    "READONLY",
    "NOREPLICAS",
    "MOVED",
    "CLUSTERDOWN",
    "DENIED",
    "LOADING",
    "other",
];

impl Counters {
    /// Counts an error reply by its text or its code.
    #[cold]
    pub fn replied_error(&self, text: &[u8]) {
        self.error_replies.add(1);
        let code = text.split(|byte| *byte == b' ').next().unwrap_or_default();
        let place = ERROR_CODES.iter().position(|known| known.as_bytes() == code).unwrap_or(ERROR_CODES.len() - 1);
        if let Some(counter) = self.errors.get(place) {
            counter.add(1);
        }
    }

    /// Counts a command in row `index` that ran and was answered with an error of this text or code.
    #[cold]
    pub fn failed(&self, index: usize, text: &[u8]) {
        self.replied_error(text);
        if let Some(counter) = self.commands_failed.get(index) {
            counter.add(1);
        }
    }

    /// Counts a command in row `index` that was refused, with this text, before it ran.
    #[cold]
    pub fn rejected(&self, index: usize, text: &str) {
        self.replied_error(text.as_bytes());
        if let Some(counter) = self.commands_rejected.get(index) {
            counter.add(1);
        }
    }

    /// Counts a decision.
    #[inline]
    pub fn decided(&self, algorithm: Algorithm, allowed: bool) {
        let by_algorithm = if allowed { &self.allowed } else { &self.denied };
        if let Some(counter) = by_algorithm.get(algorithm_index(algorithm)) {
            counter.add(1);
        }
    }

    /// Counts admitted calls.
    #[inline]
    pub fn admitted(&self, algorithm: Algorithm, calls: u64) {
        if let Some(counter) = self.allowed.get(algorithm_index(algorithm)) {
            counter.add(calls);
        }
    }

    /// Counts what an admitted call took beyond one unit.
    #[inline]
    pub fn took(&self, units: u64) {
        if units > 1 {
            self.units_beyond_calls.add(units - 1);
        }
    }

    /// Counts units that a call took which is no decision of a limit.
    #[inline]
    pub fn took_all(&self, units: u64) {
        self.units_beyond_calls.add(units);
    }

    /// Units admitted since the start, by limits; a call that cost nothing counts as one.
    pub fn units_admitted(&self) -> u64 {
        let calls = self.allowed.iter().map(Counter::get).fold(0, u64::wrapping_add);
        calls.wrapping_add(self.units_beyond_calls.get()).wrapping_add(self.units_before_reset.get())
    }

    /// Commands run that may change what is no limit.
    pub fn plain_writes(&self) -> u64 {
        static PLAIN: OnceLock<Vec<usize>> = OnceLock::new();
        let is_limit = |name: &str| name.starts_with("rl.") || ["cl.throttle", "throttle", "increx"].contains(&name);
        let is_plain = |command: &Command| command.flags.has(Flags::WRITE) && !is_limit(command.name);
        let plain = PLAIN.get_or_init(|| {
            rows().iter().enumerate().filter(|(_, command)| is_plain(command)).map(|(index, _)| index).collect()
        });
        plain.iter().filter_map(|index| self.commands.get(*index)).map(Counter::get).fold(0, u64::wrapping_add)
    }

    /// Units that a failover may forget: admitted, and not known to every replica that is in step. None are counted
    /// before there is a replica.
    ///
    /// What a core noted is late by as long as it has not looked, in which it may have admitted much: whoever asks is
    /// to be told at least what was admitted in answers that had left. So it is reckoned when it is asked for.
    pub fn failover_overshoot(&self) -> u64 {
        match self.units_safe.get() {
            u64::MAX => self.failover_overshoot_noted.get(),
            safe => {
                // Counts begin at 0 again when they overflow.
                let ahead = self.units_admitted().wrapping_sub(safe);
                if ahead > u64::MAX / 2 { 0 } else { ahead }
            }
        }
    }

    /// Counts a look at a key, as Redis counts reads.
    #[inline]
    pub fn looked_up(&self, found: bool) {
        let looked_up = if found { &self.keyspace_hits } else { &self.keyspace_misses };
        looked_up.add(1);
    }

    /// Commands run. They are counted by command only, as each call pays for a counter.
    pub fn commands_processed(&self) -> u64 {
        self.commands.iter().map(Counter::get).fold(0, u64::wrapping_add)
    }

    /// Counts a run of the command in row `index`.
    #[inline]
    pub fn ran(&self, index: usize) {
        self.ran_times(index, 1);
    }

    /// Counts calls of one command.
    #[inline]
    pub fn ran_times(&self, index: usize, calls: u64) {
        if let Some(counter) = self.commands.get(index) {
            counter.add(calls);
        }
    }
}

/// The algorithms in the order of [`Counters::allowed`].
pub const ALGORITHMS: [Algorithm; 5] =
    [Algorithm::Slide, Algorithm::Token, Algorithm::Fixed, Algorithm::Log, Algorithm::Leak];

const fn algorithm_index(algorithm: Algorithm) -> usize {
    match algorithm {
        Algorithm::Slide => 0,
        Algorithm::Token => 1,
        Algorithm::Fixed => 2,
        Algorithm::Log => 3,
        Algorithm::Leak => 4,
    }
}

/// The counters of all cores, read as one.
#[derive(Clone, Copy)]
pub struct Merged<'a>(pub &'a [std::sync::Arc<Counters>]);

impl Merged<'_> {
    /// The sum of one counter over the cores.
    pub fn sum(&self, of: impl Fn(&Counters) -> &Counter) -> u64 {
        self.0.iter().map(|core| of(core).get()).fold(0, u64::wrapping_add)
    }

    /// Commands that all cores ran.
    pub fn commands_processed(&self) -> u64 {
        self.0.iter().map(|core| core.commands_processed()).fold(0, u64::wrapping_add)
    }

    /// Units that a failover may forget, of all cores.
    pub fn failover_overshoot(&self) -> u64 {
        self.0.iter().map(|core| core.failover_overshoot()).fold(0, u64::wrapping_add)
    }

    /// The most that those of each core were, added up; never less than they are now.
    pub fn failover_overshoot_peak(&self) -> u64 {
        let peak = |core: &Counters| core.failover_overshoot_peak.get().max(core.failover_overshoot());
        self.0.iter().map(|core| peak(core)).fold(0, u64::wrapping_add)
    }

    /// The largest value of one counter over the cores.
    pub fn largest(&self, of: impl Fn(&Counters) -> &Counter) -> u64 {
        self.0.iter().map(|core| of(core).get()).max().unwrap_or(0)
    }

    /// All counters in Prometheus's text exposition format, each name with the prefix `tollgate_`.
    pub fn exposition(&self, rows: &[&'static Command]) -> String {
        use std::fmt::Write;
        let mut text = String::new();
        let per_core: Vec<Vec<_>> = self.0.iter().map(|core| core.each().collect()).collect();
        for (position, (name, help, kind, first)) in per_core.first().into_iter().flatten().enumerate() {
            let values = per_core.iter().filter_map(|core| core.get(position)).map(|(_, _, _, value)| *value);
            let value = match kind {
                Kind::Largest => values.max().unwrap_or(*first),
                Kind::Counter | Kind::Gauge => values.fold(0, u64::wrapping_add),
            };
            let (suffix, word) = if *kind == Kind::Counter { ("_total", "counter") } else { ("", "gauge") };
            let _ = writeln!(text, "# HELP tollgate_{name}{suffix} {help}");
            let _ = writeln!(text, "# TYPE tollgate_{name}{suffix} {word}");
            let _ = writeln!(text, "tollgate_{name}{suffix} {value}");
        }
        let _ = writeln!(text, "# HELP tollgate_commands_processed_total Commands run, on the core that ran them.");
        let _ = writeln!(text, "# TYPE tollgate_commands_processed_total counter");
        let _ = writeln!(text, "tollgate_commands_processed_total {}", self.commands_processed());
        let _ = writeln!(text, "# HELP tollgate_failover_overshoot Units that a failover may forget now.");
        let _ = writeln!(text, "# TYPE tollgate_failover_overshoot gauge");
        let _ = writeln!(text, "tollgate_failover_overshoot {}", self.failover_overshoot());
        let _ = writeln!(text, "# HELP tollgate_decisions_total Decisions by algorithm and outcome.");
        let _ = writeln!(text, "# TYPE tollgate_decisions_total counter");
        for (index, algorithm) in ALGORITHMS.iter().enumerate() {
            let word = algorithm.word().to_ascii_lowercase();
            for (outcome, of) in [("allowed", true), ("denied", false)] {
                let cells = |core: &Counters| {
                    let cells = if of { &core.allowed } else { &core.denied };
                    cells.get(index).map_or(0, Counter::get)
                };
                let value = self.0.iter().map(|core| cells(core)).fold(0, u64::wrapping_add);
                let _ =
                    writeln!(text, "tollgate_decisions_total{{algorithm=\"{word}\",outcome=\"{outcome}\"}} {value}");
            }
        }
        let _ = writeln!(text, "# HELP tollgate_command_calls_total Commands run, by command.");
        let _ = writeln!(text, "# TYPE tollgate_command_calls_total counter");
        for (index, command) in rows.iter().enumerate() {
            let value = self.0.iter().map(|core| core.commands.get(index).map_or(0, Counter::get)).sum::<u64>();
            if value > 0 {
                let _ = writeln!(text, "tollgate_command_calls_total{{command=\"{}\"}} {value}", command.name);
            }
        }
        text
    }
}
