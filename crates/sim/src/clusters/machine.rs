//! A machine of a cluster: its clocks, what it keeps, and the process that runs on it.

use super::follower::Following;
use super::leader::Lead;
use super::plan::Plan;
use super::primary::Reign;
use super::raft::{Raft, Stable};
use super::serve::Held;
use super::world::Event;
use crate::random::Random;
use crate::view::{HASH_SEED, hasher};
use crate::world::settings;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use tollgate_engine::core::{Core, Parts};
use tollgate_engine::counters::Counters;
use tollgate_engine::dispatch::Dispatcher;
use tollgate_limits::Micros;
use tollgate_replication::bound::Mark;
use tollgate_replication::snapshot::Stamp;
use tollgate_replication::timeline::Timeline;
use tollgate_store::{Eviction, StoreConfig};
use tollgate_topology::lease::Holder;
use tollgate_topology::map::{Endpoint, Info};
use tollgate_topology::{NodeId, RunId, SlotMap};

/// Where simulated time begins: some moment in 2025 that is the start of no window.
const START_MICROS: Micros = 1_751_540_412_345_678;
/// How far a machine's wall clock may be off: it is kept true by others.
const OFF_MICROS_MAX: u64 = 20_000;
/// How far a machine's clock may run fast or slow, in millionths.
const DRIFT_PPM_MAX: u64 = 200;
/// So that a table with few keys is several, and a walk comes through them in steps.
const SPLIT_LOAD: usize = 4;
/// The ports that nodes say they have begin there.
const PORT: u16 = 7_000;

/// A process on a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// The machine.
    pub node: usize,
    /// The process: each start of one is another.
    pub run: u64,
}

/// A snapshot.
#[derive(Clone, Debug)]
pub struct File {
    /// All records that were there.
    pub records: Vec<u8>,
    /// When.
    pub stamp: Stamp,
}

/// What a machine keeps when its process dies.
#[derive(Debug, Default)]
pub struct Disk {
    /// Term, vote and log.
    pub stable: Stable,
    /// The map, and which entries have made it.
    pub map: SlotMap,
    /// See `map`.
    pub applied: usize,
    /// The last snapshot.
    pub file: Option<File>,
}

/// A machine.
pub struct Machine {
    /// Its clock when the simulation began: it counts pauses.
    boot_start: u64,
    wall_offset: u64,
    drift_ppm: u64,
    /// Nothing happens on it before this.
    pub paused_until: u64,
    /// What was to happen meanwhile.
    pub(super) asleep: Vec<Event>,
    /// What it keeps.
    pub disk: Disk,
    /// What runs on it.
    pub process: Option<Process>,
}

impl Machine {
    /// One on which nothing runs.
    pub fn new(random: &mut Random) -> Machine {
        let boot_start = random.between(1_000_000, 90_000_000_000);
        let off = random.between(0, 2 * OFF_MICROS_MAX);
        Machine {
            boot_start,
            wall_offset: START_MICROS - OFF_MICROS_MAX + off - boot_start,
            drift_ppm: random.choose(&[0, DRIFT_PPM_MAX, 2 * DRIFT_PPM_MAX, 70, 290], 0),
            paused_until: 0,
            asleep: Vec::new(),
            disk: Disk::default(),
            process: None,
        }
    }

    /// Its clock when the simulation's own time is `now`.
    pub fn boot(&self, now: u64) -> u64 {
        self.boot_start + now - now * DRIFT_PPM_MAX / 1_000_000 + now * self.drift_ppm / 1_000_000
    }

    /// The simulation's time by which its clock has certainly come to `boot`.
    pub fn when(&self, boot: u64) -> u64 {
        let passed = boot.saturating_sub(self.boot_start);
        // The clock gains so many millionths: the true time is less by as many, to the first order and rounded up.
        let scale = 1_000_000 - DRIFT_PPM_MAX + self.drift_ppm;
        passed * 1_000_000 / scale + 1
    }

    /// Its wall clock.
    pub fn wall(&self, now: u64) -> Micros {
        self.boot(now) + self.wall_offset
    }
}

/// A process.
pub struct Process {
    /// Which.
    pub run: u64,
    /// What it says of itself.
    pub info: Info,
    /// Its only core.
    pub core: Core,
    /// Where commands go.
    pub dispatcher: Dispatcher,
    /// Its time.
    pub timeline: Timeline,
    /// Its part in the group.
    pub raft: Raft,
    /// The map as far as it knows, and which entries have made it.
    pub map: SlotMap,
    /// See `map`.
    pub applied: usize,
    /// What it does as the leader.
    pub lead: Option<Lead>,
    /// Its lease.
    pub holder: Holder,
    /// When it asks next.
    pub ask_at: u64,
    /// When it says next that it is there, if the group does not know it.
    pub join_at: u64,
    /// What it is as a primary.
    pub reign: Option<Reign>,
    /// Whom it follows, and how that goes.
    pub following: Option<Following>,
    /// Calls that wait for a lease, and until when.
    pub waiting: VecDeque<(u64, u64)>,
    /// Answers that are about to leave.
    pub ready: BTreeMap<u64, (Mark, Held)>,
    /// Since when it holds no lease.
    pub fenced_since: Option<u64>,
    /// Until when it serves what it is to take over, and since when, if that fault is planted.
    pub early: Option<(u64, u64)>,
}

impl Process {
    /// An empty one that starts now on a machine.
    pub fn new(place: Place, plan: &Plan, machine: &mut Machine, now: u64) -> Process {
        let Place { node, run } = place;
        let settings = Arc::new(settings(0, Eviction::NoEviction, format!("{run:040}")));
        let rows = tollgate_engine::registry::rows().len();
        let counters: Arc<[Arc<Counters>]> = Arc::new([Arc::new(Counters::new(rows))]);
        let store = StoreConfig {
            hash_seed: HASH_SEED,
            core: 0,
            cores: 1,
            memory_max_bytes: 0,
            eviction: Eviction::NoEviction,
            random_seed: run + 1,
        };
        let mut core = Core::new(Parts { settings, counters, store });
        core.store.set_split_load(SPLIT_LOAD);
        let disk = &mut machine.disk;
        let (stable, map, applied) = (std::mem::take(&mut disk.stable), std::mem::take(&mut disk.map), disk.applied);
        let stamp = disk.file.as_ref().map(|file| file.stamp);
        let (boot, wall) = (machine.boot(now), machine.wall(now));
        let voters: BTreeSet<usize> = (0..plan.voters).collect();
        Process {
            run,
            info: info(node, run),
            core,
            dispatcher: Dispatcher::new(hasher(), 1),
            timeline: Timeline::new(wall, boot, stamp),
            raft: Raft::new(node, plan.nodes, &voters, stable, applied, boot),
            map,
            applied,
            lead: None,
            holder: Holder::default(),
            ask_at: 0,
            join_at: 0,
            reign: None,
            following: None,
            waiting: VecDeque::new(),
            ready: BTreeMap::new(),
            fenced_since: None,
            early: None,
        }
    }

    /// It is gone: what the machine keeps of it.
    pub fn end(self, disk: &mut Disk) {
        (disk.stable, disk.map, disk.applied) = (self.raft.stable, self.map, self.applied);
    }
}

/// What a process says of itself.
pub fn info(node: usize, run: u64) -> Info {
    let number = u16::try_from(node).unwrap_or(0);
    let endpoint = Endpoint { host: "127.0.0.1".to_owned(), port: PORT + number, peer_port: PORT + 10_000 + number };
    Info { run: run_id(run), endpoint, cores: 1, core_ports: Vec::new() }
}

/// What a node is called.
pub fn node_id(node: usize) -> NodeId {
    NodeId([u8::try_from(node + 1).unwrap_or(0); 20])
}

/// The node that is called so.
pub fn node_of(id: NodeId) -> usize {
    usize::from(id.0[0]).saturating_sub(1)
}

/// What a process is called.
pub fn run_id(run: u64) -> RunId {
    let mut id = [0; 20];
    id.iter_mut().zip(run.to_be_bytes()).for_each(|(place, byte)| *place = byte);
    RunId(id)
}

/// The process that is called so.
pub fn run_of(id: RunId) -> u64 {
    id.0.first_chunk().map_or(0, |bytes| u64::from_be_bytes(*bytes))
}
