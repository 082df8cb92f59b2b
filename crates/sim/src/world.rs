//! One simulated node: its cores, its links, its clients and its time, and the loop that lets events happen.

use crate::agenda::{Agenda, Event};
use crate::check::Fact;
use crate::client::{Client, Waiting};
use crate::clock::Clocks;
use crate::fault::{FAULT_PERMILLE, Fault};
use crate::link::{Links, Way};
use crate::observer::Observer;
use crate::plan::Plan;
use crate::random::Random;
use crate::view::{HASH_SEED, hasher};
use std::fmt;
use std::sync::Arc;
use tollgate_engine::bounds::{LOG_LIMIT_MAX_DEFAULT, VALUE_BYTES_MAX_DEFAULT};
use tollgate_engine::core::{Core, Parts};
use tollgate_engine::counters::Counters;
use tollgate_engine::dispatch::Dispatcher;
use tollgate_engine::settings::{Process, Settings};
use tollgate_engine::tunables::Tunables;
use tollgate_store::{Eviction, StoreConfig};

/// The longest pause between two batches of a client, in microseconds.
const PAUSE_MICROS_MAX: u64 = 4_000;
/// How often a core does its upkeep.
const TICK_MICROS: u64 = 5_000;
/// Records that one upkeep looks at.
const SWEEP_RECORDS: usize = 20;
/// Leaps of the clock between two phases, and sometimes within one, in microseconds.
const LEAPS_MICROS: [u64; 8] = [0, 400, 1_000, 7_777, 50_000, 500_000, 2_000_000, 61_000_000];

/// What a run that went well has seen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Requests answered.
    pub requests: u64,
    /// Facts that the checkers looked at.
    pub facts: u64,
    /// RL.ALL that were charged on several cores and taken back.
    pub undone: u64,
    /// Requests answered with BUSY.
    pub busy: u64,
    /// Requests answered with an error for want of memory.
    pub out_of_memory: u64,
    /// Keys dropped to make room.
    pub evicted: u64,
}

/// A run in which something did not hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The seed that shows it again.
    pub seed: u64,
    /// Which checker saw it.
    pub checker: &'static str,
    /// What it saw.
    pub text: String,
    /// What happened last, oldest first.
    pub last: Vec<String>,
}

impl fmt::Display for Failure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for line in &self.last {
            writeln!(formatter, "  {line}")?;
        }
        let Failure { seed, checker, text, .. } = self;
        write!(formatter, "seed {seed}, checker {checker:?}: {text}")
    }
}

impl std::error::Error for Failure {}

/// One run: a pure function of these.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// What decides everything else.
    pub seed: u64,
    /// A fault that is planted.
    pub fault: Option<Fault>,
    /// The one checker that watches, by its name; `None` for all of them.
    pub only: Option<&'static str>,
}

impl Run {
    /// The run of a seed: no fault is planted and all checkers watch.
    pub fn new(seed: u64) -> Run {
        Run { seed, fault: None, only: None }
    }

    /// Runs it.
    ///
    /// # Errors
    /// The first thing that a checker saw, with what happened before it.
    pub fn simulate(self) -> Result<Summary, Box<Failure>> {
        let mut random = Random::new(self.seed);
        let plan = Plan::new(&mut random);
        let mut world = World::new(plan, random, &self);
        world.run();
        match world.observer.found() {
            None => Ok(world.summary()),
            Some(found) => Err(Box::new(Failure {
                seed: self.seed,
                checker: found.checker,
                text: found.text.clone(),
                last: world.observer.last(),
            })),
        }
    }
}

/// One node and all that happens to it.
pub(crate) struct World {
    pub plan: Plan,
    pub random: Random,
    pub fault: Option<Fault>,
    pub agenda: Agenda<Event>,
    /// The simulation's own time; the limits' time is the clocks'.
    pub now_micros: u64,
    pub clocks: Clocks,
    pub links: Links,
    pub cores: Vec<Core>,
    pub dispatcher: Dispatcher,
    pub settings: Arc<Settings>,
    pub counters: Arc<[Arc<Counters>]>,
    pub clients: Vec<Client>,
    /// By sender and receiver: messages that were not answered, or whose room is held for an undo.
    pub outstanding: Vec<usize>,
    pub names: Vec<String>,
    /// By key: its slot, and the core that owns it.
    pub slots: Vec<u16>,
    pub owners: Vec<usize>,
    pub runs: u64,
    pub answered: u64,
    pub observer: Observer,
}

impl World {
    fn new(plan: Plan, mut random: Random, run: &Run) -> World {
        let cores = usize::from(plan.cores);
        let mut clocks = Clocks::new(cores, plan.is_still, plan.lag_micros_max);
        let memory_max_bytes = plan.memory_max_bytes * u64::from(plan.cores);
        let settings = Arc::new(settings(memory_max_bytes, plan.eviction, "0".repeat(40)));
        let rows = tollgate_engine::registry::rows().len();
        let counters: Arc<[Arc<Counters>]> = (0..cores).map(|_| Arc::new(Counters::new(rows))).collect();
        let make = |index| {
            Core::new(Parts {
                settings: settings.clone(),
                counters: counters.clone(),
                store: store_config(&plan, index),
            })
        };
        let engines: Vec<Core> = (0..plan.cores).map(make).collect();
        let hasher = hasher();
        let names = plan.names();
        let slots: Vec<u16> = names.iter().map(|name| hasher.locate(name.as_bytes()).slot).collect();
        let owner = |slot: &u16| usize::from(tollgate_engine::route::owner(*slot, plan.cores));
        let client = |number: usize| Client::new(number, random.position(cores), clocks.read(0, 0, &mut random));
        World {
            clients: (0..plan.clients).map(client).collect(),
            owners: slots.iter().map(owner).collect(),
            observer: Observer::new(&plan, run),
            links: Links::new(cores, plan.delay_micros_max),
            outstanding: vec![0; cores * cores],
            dispatcher: Dispatcher::new(hasher, plan.cores),
            cores: engines,
            agenda: Agenda::default(),
            now_micros: 0,
            runs: 0,
            answered: 0,
            plan,
            random,
            fault: run.fault,
            clocks,
            settings,
            counters,
            names,
            slots,
        }
    }

    fn run(&mut self) {
        for _ in 0..self.plan.phases {
            self.begin_phase();
            while self.observer.found().is_none()
                && let Some((at_micros, event)) = self.agenda.next()
            {
                self.now_micros = at_micros;
                self.happen(event);
            }
            if self.observer.found().is_some() {
                return;
            }
            self.rest();
            self.leap();
        }
        // Once more after the last leap: what has run out must be gone, and what has not must be there.
        self.rest();
    }

    fn begin_phase(&mut self) {
        for client in 0..self.clients.len() {
            let at_micros = self.now_micros + self.random.between(1, PAUSE_MICROS_MAX);
            let vanishes = self.random.chance(100);
            if let Some(client) = self.clients.get_mut(client) {
                client.batches_left = self.plan.batches;
                client.is_gone = false;
            }
            self.schedule(at_micros, Event::Read { client });
            if vanishes {
                let at_micros = at_micros + self.random.below(self.plan.batches * PAUSE_MICROS_MAX);
                self.schedule(at_micros, Event::Vanish { client });
            }
        }
        for core in 0..self.cores.len() {
            self.schedule(self.now_micros + TICK_MICROS, Event::Tick { core });
        }
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Read { client } => self.read(client),
            Event::Arrive { from, to, is_answer: false } => self.arrive(from, to),
            Event::Arrive { from, to, is_answer: true } => {
                if let Some(message) = self.links.take(Way { from, to, is_answer: true }) {
                    self.come_back(from, message);
                }
            }
            Event::Impatient { client, wait } => self.lose_patience(client, wait),
            Event::Vanish { client } => {
                if let Some(client) = self.clients.get_mut(client) {
                    client.is_gone = true;
                }
                self.note(Fact::Gone(client));
            }
            Event::Tick { core } => self.tick(core),
        }
    }

    fn tick(&mut self, core: usize) {
        let now = self.clocks.read(core, self.now_micros, &mut self.random);
        if let Some(engine) = self.cores.get_mut(core) {
            engine.store.sweep(now, SWEEP_RECORDS);
            engine.publish();
        }
        self.recount(core);
        if !self.plan.is_still && self.random.chance(200) {
            self.leap();
        }
        let goes_on = self.clients.iter().any(|client| client.batches_left > 0 && !client.is_gone);
        if goes_on {
            self.schedule(self.now_micros + TICK_MICROS, Event::Tick { core });
        }
    }

    fn leap(&mut self) {
        let micros = self.random.choose(&LEAPS_MICROS, 0);
        self.clocks.leap(micros);
    }

    /// Nothing is under way: what every key holds is compared with what it should hold.
    fn rest(&mut self) {
        let is_idle = self.clients.iter().all(|client| matches!(client.waiting, Waiting::No));
        let is_free = self.outstanding.iter().all(|messages| *messages == 0);
        assert!(is_idle && is_free && self.links.are_empty(), "the agenda is empty and something is under way");
        let mut views = Vec::new();
        for (key, core) in self.owners.clone().into_iter().enumerate() {
            let now = self.clocks.read(core, self.now_micros, &mut self.random);
            views.push((key, now, self.view(core, key)));
        }
        self.note(Fact::Rest(views));
        (0..self.cores.len()).for_each(|core| self.recount(core));
    }

    pub(crate) fn schedule(&mut self, at_micros: u64, event: Event) {
        self.agenda.add(&mut self.random, at_micros, event);
    }

    pub(crate) fn note(&mut self, fact: Fact) {
        self.observer.note(&self.plan, fact);
    }

    /// Whether this fault is planted and strikes now.
    pub(crate) fn strikes(&mut self, fault: Fault) -> bool {
        self.fault == Some(fault) && self.random.chance(FAULT_PERMILLE)
    }

    fn summary(&self) -> Summary {
        let sum = |of: fn(&Counters) -> u64| self.counters.iter().map(|core| of(core)).sum();
        Summary {
            requests: self.answered,
            facts: self.observer.seen(),
            undone: sum(|core| core.undone_charges.get()),
            busy: sum(|core| core.busy_replies.get()),
            out_of_memory: self.cores.iter().map(|core| core.store.stats().oom_refusals).sum(),
            evicted: self.cores.iter().map(|core| core.store.stats().evicted_keys).sum(),
        }
    }
}

fn store_config(plan: &Plan, core: u16) -> StoreConfig {
    StoreConfig {
        hash_seed: HASH_SEED,
        core,
        cores: plan.cores,
        memory_max_bytes: plan.memory_max_bytes,
        eviction: plan.eviction,
        random_seed: u64::from(core) + 1,
    }
}

/// The settings of a simulated process: the memory of all its cores in bytes, what happens there, and its run id.
pub(crate) fn settings(memory_max_bytes: u64, eviction: Eviction, run_id: String) -> Settings {
    let tunables = Tunables::default();
    tunables.set_memory_max_bytes(memory_max_bytes);
    tunables.set_eviction(eviction);
    Settings {
        password: None,
        parameters: Vec::new(),
        log_limit_max: LOG_LIMIT_MAX_DEFAULT,
        value_bytes_max: VALUE_BYTES_MAX_DEFAULT,
        test_clock: false,
        tunables,
        shared: Default::default(),
        top_keys: true,
        cluster: false,
        clients_max: 10_000,
        port: 6379,
        run_id,
        process_id: 1,
        config_file: String::new(),
        process: Box::new(Nowhere),
    }
}

/// A process that does not exist.
struct Nowhere;

impl Process for Nowhere {
    fn resident_bytes(&self) -> u64 {
        0
    }

    fn cpu_micros(&self) -> (u64, u64) {
        (0, 0)
    }

    fn uptime_seconds(&self) -> u64 {
        0
    }

    fn clock_steps(&self) -> u64 {
        0
    }

    fn wall_offset_micros(&self) -> i64 {
        0
    }

    fn operating_system(&self) -> String {
        "simulated".to_owned()
    }
}
