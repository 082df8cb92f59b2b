//! A machine: its clocks, its disk, and the process that runs on it.

use super::follower::{Delivery, Following};
use super::plan::Plan;
use super::primary::Told;
use super::saving::{Disk, Save};
use crate::random::Random;
use crate::view::{HASH_SEED, hasher};
use crate::world::settings;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use tollgate_engine::core::{Core, Parts};
use tollgate_engine::counters::Counters;
use tollgate_engine::dispatch::Dispatcher;
use tollgate_engine::settings::Settings;
use tollgate_limits::Micros;
use tollgate_replication::bound::Gate;
use tollgate_replication::flow::{Hello, RUN_ID_BYTES};
use tollgate_replication::in_step::LinkId;
use tollgate_replication::outflow::Outflow;
use tollgate_replication::snapshot::Stamp;
use tollgate_replication::timeline::Timeline;
use tollgate_replication::{VERSION, planted};
use tollgate_store::StoreConfig;

/// Names a process: each start of one is another.
pub type RunId = u64;

/// Where simulated time begins: some moment in 2025 that is the start of no window.
const START_MICROS: Micros = 1_751_540_412_345_678;
/// How far a machine's wall clock may be off.
const OFF_MICROS_MAX: u64 = 3_600_000_000;
/// How far a machine's clock may run fast or slow, in millionths.
const DRIFT_PPM_MAX: u64 = 200;
/// The most cores of a process.
const CORES_MAX: u64 = 3;
/// So that a table with few keys is several, and a walk comes through them in steps.
const SPLIT_LOAD: usize = 4;

/// A machine.
pub struct Machine {
    /// Its steady clock when the simulation began.
    steady_start: u64,
    /// The wall clock minus the steady clock.
    wall_offset: u64,
    drift_ppm: u64,
    /// What it keeps.
    pub disk: Disk,
    /// What runs on it.
    pub process: Option<Process>,
}

impl Machine {
    /// One on which nothing runs.
    pub fn new(random: &mut Random) -> Machine {
        let steady_start = random.between(1_000_000, 90_000_000_000);
        let off = if random.chance(700) { random.between(0, 2 * OFF_MICROS_MAX) } else { OFF_MICROS_MAX };
        Machine {
            steady_start,
            wall_offset: START_MICROS - OFF_MICROS_MAX + off - steady_start,
            drift_ppm: random.between(0, 2 * DRIFT_PPM_MAX),
            disk: Disk::default(),
            process: None,
        }
    }

    /// Its steady clock when the simulation's own time is `now`.
    pub fn steady(&self, now: u64) -> u64 {
        self.steady_start + now - now * DRIFT_PPM_MAX / 1_000_000 + now * self.drift_ppm / 1_000_000
    }

    /// Its wall clock.
    pub fn wall(&self, now: u64) -> Micros {
        self.steady(now) + self.wall_offset
    }

    /// The time that its process decides by. With no process, its wall clock.
    pub fn time(&self, now: u64) -> Micros {
        self.process.as_ref().map_or(self.wall(now), |process| process.timeline.now(self.steady(now)))
    }

    /// The time by which its process lets records expire.
    pub fn expiry_time(&self, now: u64) -> Micros {
        let is_replica = self.process.as_ref().is_some_and(|process| process.is_replica());
        if is_replica && planted::is_planted(planted::Planted::ExpiresByOwnClock) {
            return self.wall(now);
        }
        self.time(now)
    }
}

/// What one core tells its replicas.
#[derive(Default)]
pub struct Flows {
    /// From the first link on.
    pub outflow: Option<Outflow>,
    /// What waits for each.
    pub links: BTreeMap<LinkId, Told>,
    /// Whether nothing had changed at the last flush.
    pub is_quiet: bool,
    /// The last flush of which the checkers were told what the core held.
    pub last_noted: Option<u32>,
}

/// A process.
pub struct Process {
    /// Which.
    pub run: RunId,
    /// Its cores.
    pub cores: Vec<Core>,
    /// What each tells.
    pub flows: Vec<Flows>,
    /// Calls whose answers each keeps back.
    pub gates: Vec<Gate<u64>>,
    /// What waits for each to be taken over.
    pub inboxes: Vec<VecDeque<Delivery>>,
    /// Where commands go.
    pub dispatcher: Dispatcher,
    /// Shared by the cores.
    pub settings: Arc<Settings>,
    /// Its time.
    pub timeline: Timeline,
    /// Whom it follows.
    pub following: Option<Following>,
    /// The snapshot that it writes.
    pub save: Option<Save>,
}

impl Process {
    /// An empty one that starts now; `last` is when the snapshot was written that it will load.
    pub fn new(
        run: RunId,
        plan: &Plan,
        wall: Micros,
        steady: u64,
        last: Option<Stamp>,
        random: &mut Random,
    ) -> Process {
        let cores = u16::try_from(random.between(1, CORES_MAX)).unwrap_or(1);
        let memory = plan.memory_max_bytes * u64::from(cores);
        let settings = Arc::new(settings(memory, plan.eviction, format!("{run:040}")));
        let rows = tollgate_engine::registry::rows().len();
        let counters: Arc<[Arc<Counters>]> = (0..cores).map(|_| Arc::new(Counters::new(rows))).collect();
        let core = |core: u16| {
            let store = StoreConfig {
                hash_seed: HASH_SEED,
                core,
                cores,
                memory_max_bytes: plan.memory_max_bytes,
                eviction: plan.eviction,
                random_seed: run + u64::from(core) + 1,
            };
            let mut core = Core::new(Parts { settings: settings.clone(), counters: counters.clone(), store });
            core.store.set_split_load(SPLIT_LOAD);
            core
        };
        let bound = plan.overshoot_max.map(|units| units / u64::from(cores));
        Process {
            run,
            cores: (0..cores).map(core).collect(),
            flows: (0..cores).map(|_| Flows::default()).collect(),
            gates: (0..cores).map(|_| Gate::new(bound)).collect(),
            inboxes: (0..cores).map(|_| VecDeque::new()).collect(),
            dispatcher: Dispatcher::new(hasher(), cores),
            settings,
            timeline: Timeline::new(wall, steady, last),
            following: None,
            save: None,
        }
    }

    /// Whether it follows another.
    pub fn is_replica(&self) -> bool {
        self.settings.shared.is_replica()
    }

    /// How its flows begin.
    pub fn hello(&self, core: usize) -> Hello {
        let mut run_id = [0; RUN_ID_BYTES];
        run_id.iter_mut().zip(self.settings.run_id.bytes()).for_each(|(place, byte)| *place = byte);
        let number = |count: usize| u16::try_from(count).unwrap_or(u16::MAX);
        let (core, cores) = (number(core), number(self.cores.len()));
        Hello { version: VERSION, run_id, core, cores, telling: 0, continues: None, resumes: false }
    }

    /// What a failover would forget, as it says itself.
    pub fn overshoot(&self) -> u64 {
        let of = |((flows, core), gate): ((&Flows, &Core), &Gate<u64>)| {
            let units = core.counters.units_admitted();
            flows.outflow.as_ref().map_or(0, |outflow| gate.overshoot(units, &outflow.in_step))
        };
        self.flows.iter().zip(&self.cores).zip(&self.gates).map(of).sum()
    }
}

/// The process that a run id names.
pub fn run_of(run_id: &[u8; RUN_ID_BYTES]) -> RunId {
    std::str::from_utf8(run_id).ok().and_then(|text| text.parse().ok()).unwrap_or(0)
}
