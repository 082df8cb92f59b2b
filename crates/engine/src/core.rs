//! One core: its keys, its clients, its counters. A state machine that is given the time and never asks for it.

use crate::cluster::View;
use crate::command::Handler;
use crate::counters::Counters;
use crate::failure::Failure;
use crate::latency::Latency;
use crate::policy_memo::PolicyMemo;
use crate::registry::{Entry, Registry, registry};
use crate::session::{Client, Session};
use crate::settings::Settings;
use crate::slowlog::Slowlog;
use crate::timing::Timing;
use crate::top::TopKeys;
use crate::tunables::Tunable;
use crate::{call::Call, effect::Effect};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use tollgate_limits::{Algorithm, Ask, Decision, Micros, Mode};
use tollgate_resp::Reply;
use tollgate_store::{ChargeError, Charged, Located, Store, StoreConfig, Watch, Wide};

/// What a core is made of.
pub struct Parts {
    /// Shared by all cores of the process.
    pub settings: Arc<Settings>,
    /// The counters of all cores, this one's among them.
    pub counters: Arc<[Arc<Counters>]>,
    /// The store's configuration; its `core` and `cores` are this core's.
    pub store: StoreConfig,
}

/// One core.
pub struct Core {
    /// The keys.
    pub store: Store,
    /// What all cores share.
    pub settings: Arc<Settings>,
    /// The counters of all cores.
    pub all_counters: Arc<[Arc<Counters>]>,
    /// This core's own.
    pub counters: Arc<Counters>,
    /// The clients whose connections this core serves.
    pub clients: BTreeMap<u64, Rc<Client>>,
    /// What the shell must do before it goes on with the next command.
    pub effects: Vec<Effect>,
    /// This core's number.
    pub index: u16,
    /// How many cores there are.
    pub cores: u16,
    /// The policies that calls named last.
    pub memo: PolicyMemo,
    /// How long commands take.
    pub timing: Timing,
    /// The slow log of this core's clients.
    pub slowlog: Slowlog,
    /// Latency samples of what this core ran.
    pub latency: Latency,
    /// The busiest keys.
    pub top: TopKeys,
    /// Keys that were renamed or copied since a snapshot's walk through this core began, which may have passed the
    /// place where they are now and not yet come to where they were. `None`: there is no walk.
    pub moved_here: Option<Vec<Box<[u8]>>>,
    /// What this core goes by in a cluster. `None`: there is none.
    pub view: Option<Arc<View>>,
    /// Which of the views it is.
    pub(crate) view_version: u64,
    /// What the store's changes stood at when the gauges were last brought up to date.
    published: u64,
    /// What the CPU has.
    pub(crate) wide: Option<Wide>,
    registry: &'static Registry,
}

impl Core {
    /// A core without keys and clients.
    pub fn new(parts: Parts) -> Core {
        let (index, cores) = (parts.store.core, parts.store.cores);
        let registry = registry();
        let top = TopKeys::new(parts.settings.top_keys, parts.store.random_seed);
        let counters = parts.counters.get(usize::from(index)).cloned();
        let timing = Timing::new(&parts.settings.tunables);
        let slowlog = Slowlog::new(parts.settings.tunables.count(Tunable::SlowlogMaxLen));
        let (view_version, view) = parts.settings.shared.view();
        let view = parts.settings.cluster.then_some(view);
        if parts.settings.cluster {
            parts.settings.shared.join_cluster();
        }
        Core {
            store: Store::new(parts.store),
            settings: parts.settings,
            all_counters: parts.counters,
            // A set of its own where the caller gave too few: nothing is lost but the sums.
            counters: counters.unwrap_or_else(|| Arc::new(Counters::new(crate::registry::rows().len()))),
            clients: BTreeMap::new(),
            effects: Vec::new(),
            index,
            cores,
            memo: PolicyMemo::default(),
            timing,
            slowlog,
            latency: Latency::default(),
            top,
            moved_here: None,
            view,
            view_version,
            published: 0,
            wide: Wide::detect(),
            registry,
        }
    }

    /// From here on as on a CPU that has nothing new, for tests of that.
    pub fn forget_wide(&mut self) {
        self.wide = None;
    }

    /// The command registry.
    pub fn registry(&self) -> &'static Registry {
        self.registry
    }

    /// Runs a command that travels to its key, on the core that owns it.
    #[inline(always)]
    pub fn run_key(&mut self, entry: &Entry, call: &Call<'_>, reply: &mut Reply<'_>) {
        match entry.run {
            Some(run) => {
                self.counters.ran(entry.index);
                run(self, call, reply);
                if reply.has_error() {
                    self.counters.failed(entry.index, reply.error_code());
                }
            }
            None => self.run_uncommon(entry, call, reply),
        }
    }

    /// Runs what [`Core::run_key`] does not call directly: it is timed if its flags or the settings say so.
    #[inline(never)]
    fn run_uncommon(&mut self, entry: &Entry, call: &Call<'_>, reply: &mut Reply<'_>) {
        if self.timing.times(entry) {
            self.run_key_timed(entry, call, reply);
        } else {
            self.run_key_untimed(entry, call, reply);
        }
    }

    /// Runs and counts a command on its keys' core.
    pub(crate) fn run_key_untimed(&mut self, entry: &Entry, call: &Call<'_>, reply: &mut Reply<'_>) {
        self.counters.ran(entry.index);
        self.run_whole(entry, call, reply);
        if reply.has_error() {
            self.counters.failed(entry.index, reply.error_code());
        }
    }

    /// Runs a command for several keys that all lie on this core.
    fn run_whole(&mut self, entry: &Entry, call: &Call<'_>, reply: &mut Reply<'_>) {
        match entry.command.handler {
            Handler::Key(run) => run(self, call, reply),
            Handler::All => crate::all::run_here(self, call, reply),
            Handler::Spread(part, merge) => {
                let mut fragment = Vec::new();
                part(self, call, &mut fragment);
                merge(&[&fragment], call, reply);
            }
            Handler::Steps(plan) | Handler::StepsOrParts(plan, ..) => crate::steps::run_here(self, plan, call, reply),
            Handler::Session(_) | Handler::Transaction(_) | Handler::Container => {
                reply.error("ERR internal error: command took a wrong route");
            }
        }
    }

    /// Runs a command that needs no key, with the session that sent it.
    pub fn run_session(&mut self, entry: &Entry, session: &mut Session, call: &Call<'_>, reply: &mut Reply<'_>) {
        if self.timing.times(entry) {
            self.run_session_timed(entry, session, call, reply);
        } else {
            self.run_session_untimed(entry, session, call, reply);
        }
    }

    /// Runs and counts a session's command.
    pub(crate) fn run_session_untimed(
        &mut self,
        entry: &Entry,
        session: &mut Session,
        call: &Call<'_>,
        reply: &mut Reply<'_>,
    ) {
        self.counters.ran(entry.index);
        match entry.command.handler {
            Handler::Session(run) => run(self, session, call, reply),
            _ => reply.error("ERR internal error: command took a wrong route"),
        }
        if reply.has_error() {
            self.counters.failed(entry.index, reply.error_code());
        }
    }

    /// Begins to watch the keys of a WATCH that all lie on this core.
    pub fn watch(&mut self, call: &Call<'_>) -> Vec<Watch> {
        let hasher = self.store.hasher();
        call.args.iter().skip(1).map(|key| self.store.watch(hasher.locate(key), key, call.now)).collect()
    }

    /// Whether none of these keys, which lie on this core, changed since.
    pub fn is_unchanged(&mut self, watches: &[Watch], now: Micros) -> bool {
        watches.iter().all(|watch| self.store.is_unchanged(watch, now))
    }

    /// One call on one limit: read, compute and write in one uninterrupted step.
    pub fn limit(&mut self, at: Located, key: &[u8], ask: &Ask, now: Micros) -> Result<Decision, Failure> {
        if self.top.is_watched() {
            return self.limit_watched(at, key, ask, now);
        }
        let charged = self.store.charge(at, key, ask, now);
        self.counted(ask, charged)
    }

    /// As [`Core::limit`], for what is known not to be the common call.
    pub fn limit_uncommon(&mut self, at: Located, key: &[u8], now: Micros, ask: &Ask) -> Result<Decision, Failure> {
        if self.top.is_watched() {
            return self.limit_watched(at, key, ask, now);
        }
        let charged = self.store.charge_uncommon(at, key, ask, now);
        self.counted(ask, charged)
    }

    /// As [`Core::limit`], for a call that the busiest keys count.
    #[inline(never)]
    fn limit_watched(&mut self, at: Located, key: &[u8], ask: &Ask, now: Micros) -> Result<Decision, Failure> {
        if self.top.is_due() && asks(ask) {
            self.top.count(at, key, now);
        }
        // Seldom the common call: that one is counted before it runs, and does not come here.
        let charged = self.store.charge_uncommon(at, key, ask, now);
        let decision = self.counted(ask, charged)?;
        if asks(ask) && !is_allowed(ask, &decision) {
            self.top.count_denied(at, key);
        }
        Ok(decision)
    }

    /// Counts what a call that asks to be admitted came to, decided in place and counted before if it was due among the
    /// busiest keys.
    pub(crate) fn count_settled(&mut self, algorithm: Algorithm, at: Located, key: &[u8], decision: &Decision) {
        let is_allowed = decision.allowed > 0;
        self.counters.keyspace_hits.add(1);
        self.counters.decided(algorithm, is_allowed);
        if !is_allowed && self.top.is_watched() {
            self.top.count_denied(at, key);
        }
        self.top.pass();
    }

    /// Counts what a call came to.
    #[inline]
    fn counted(&mut self, ask: &Ask, charged: Result<Charged, ChargeError>) -> Result<Decision, Failure> {
        // A key of another algorithm was found, and one that is refused for memory was not.
        let hit = charged.map_or_else(|error| error == ChargeError::WrongType, |charged| charged.hit);
        self.counters.looked_up(hit);
        if asks(ask) {
            self.top.pass();
        }
        let decision = charged?.decision;
        if asks(ask) {
            self.counters.decided(ask.policy.algorithm(), is_allowed(ask, &decision));
            self.counters.took(match ask.mode {
                Mode::Partial => decision.allowed,
                _ if decision.allowed > 0 => ask.cost,
                _ => 0,
            });
        }
        Ok(decision)
    }

    /// Brings the gauges up to date if something changed that they show: once a batch.
    #[inline]
    pub fn publish_changes(&mut self) {
        if self.store.changes() != self.published {
            self.publish();
        }
    }

    /// Brings the gauges up to date: at each tick, and where they are about to be read.
    #[inline(never)]
    pub fn publish(&mut self) {
        self.published = self.store.changes();
        let stats = self.store.stats();
        self.counters.keys.set(self.store.len());
        self.counters.keys_lasting.set(stats.lasting);
        self.counters.memory_used_bytes.set(self.store.memory_used());
        self.counters.expired_keys.set(stats.expired);
        self.counters.evicted_keys.set(stats.evicted_keys);
        self.counters.evicted_units.set(stats.evicted_units);
        self.counters.store_longest_step_us.set(stats.longest_step_us);
    }
}

/// Whether a call asks to be admitted. A look and a refund decide nothing about anybody.
#[inline]
fn asks(ask: &Ask) -> bool {
    matches!(ask.mode, Mode::Charge | Mode::Partial)
}

#[inline]
fn is_allowed(ask: &Ask, decision: &Decision) -> bool {
    decision.allowed > 0 || ask.cost == 0
}
