//! What a seed makes of a run: how many nodes, which keys under which limits, how bad the network and the machines are.

use crate::random::Random;
use crate::request::Rule;
use tollgate_limits::Algorithm;
use tollgate_store::Eviction;

/// What a key is used for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Use {
    /// A limit that never changes, so that what clients are told can be added up.
    Steady(Rule),
    /// Limits that change, of any algorithm.
    Wild(Vec<Rule>),
    /// A plain value.
    Value,
}

/// One key.
#[derive(Clone, Debug)]
pub struct KeyPlan {
    /// Its name.
    pub name: String,
    /// What for.
    pub r#use: Use,
    /// Whether units are given back.
    pub refunds: bool,
}

impl KeyPlan {
    /// The limit, if it never changes.
    pub fn steady(&self) -> Option<Rule> {
        if let Use::Steady(rule) = &self.r#use { Some(*rule) } else { None }
    }
}

/// What a run is made of. Times are in microseconds.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Machines, of which one is the primary at a time.
    pub nodes: usize,
    /// The keys.
    pub keys: Vec<KeyPlan>,
    /// Clients.
    pub callers: usize,
    /// The longest pause of a client between its calls.
    pub pause_micros_max: u64,
    /// The longest time on a link that nothing is wrong with.
    pub delay_micros_max: u64,
    /// The longest time from a replica's link to one of its cores.
    pub hop_micros_max: u64,
    /// Keys that the walk of a link goes on by at each flush.
    pub copy_keys: usize,
    /// Bytes that wait for a link at which it is ended.
    pub link_bytes_max: usize,
    /// The bound on a core's memory in bytes, 0 for none.
    pub memory_max_bytes: u64,
    /// What happens at the bound.
    pub eviction: Eviction,
    /// Keys are deleted now and then, this often of a thousand calls.
    pub delete_permille: u64,
    /// Phases: after each of them everything heals and is compared.
    pub phases: u64,
    /// How long troubles last in each.
    pub phase_micros: u64,
    /// The longest pause between two troubles.
    pub trouble_micros_max: u64,
    /// What a failover may forget in units, all cores together; `None`: as much as it is.
    pub overshoot_max: Option<u64>,
    /// How long a replica may take to acknowledge before it is waited for no longer.
    pub replica_timeout_micros: u64,
}

const WINDOWS: [&str; 6] = ["0.02", "0.1", "0.5", "2", "10", "1m"];
const RATES: [&str; 5] = ["200", "50/1s", "10", "7/3s", "100/1m"];
const LIMITS: [u64; 5] = [3, 8, 25, 60, 200];
const ALGORITHMS: [Algorithm; 5] =
    [Algorithm::Slide, Algorithm::Token, Algorithm::Fixed, Algorithm::Log, Algorithm::Leak];
/// Keys that are there only to fill memory.
const FILLERS: usize = 24;
/// One page of records and a few headers of slots: so that new keys are refused soon.
const MEMORY_BYTES_MIN: u64 = 76_000;
const MEMORY_BYTES_MAX: u64 = 200_000;

impl Plan {
    /// The plan of a seed.
    pub fn new(random: &mut Random) -> Plan {
        let has_bound = random.chance(250);
        let evicts = random.chance(500);
        let keys = random.between(4, 12);
        let mut plan = Plan {
            nodes: random.position(3) + 2,
            keys: (0..keys).map(|number| key(random, number)).collect(),
            callers: random.position(3) + 2,
            pause_micros_max: random.choose(&[2_000, 5_000, 10_000], 5_000),
            delay_micros_max: random.choose(&[200, 2_000, 12_000], 2_000),
            hop_micros_max: random.choose(&[50, 500, 4_000, 8_000], 500),
            copy_keys: random.choose(&[1, 2, 5, 50], 5),
            link_bytes_max: random.choose(&[1_500, 20_000, 1_000_000], 20_000),
            memory_max_bytes: if has_bound { random.between(MEMORY_BYTES_MIN, MEMORY_BYTES_MAX) } else { 0 },
            eviction: if evicts { Eviction::EvictLeast } else { Eviction::NoEviction },
            delete_permille: random.choose(&[0, 20, 80], 20),
            phases: random.between(1, 2),
            phase_micros: random.choose(&[150_000, 250_000, 450_000], 250_000),
            trouble_micros_max: random.choose(&[30_000, 80_000, 200_000], 80_000),
            overshoot_max: random.choose(&[None, None, Some(0), Some(3), Some(20)], None),
            replica_timeout_micros: random.choose(&[30_000, 100_000, 400_000], 100_000),
        };
        if has_bound {
            plan.keys.extend((0..FILLERS).map(|number| filler(random, number)));
        }
        plan
    }
}

fn key(random: &mut Random, number: u64) -> KeyPlan {
    // Some keys share a slot, and so a core and a table.
    let name = if random.chance(350) { format!("{{tag}}{number}") } else { format!("key:{number}") };
    let first = rule(random);
    let r#use = match random.below(10) {
        0..7 => Use::Steady(first),
        7 => Use::Wild(vec![first, Rule { limit: limit(random), ..first }, rule(random)]),
        _ => Use::Value,
    };
    KeyPlan { name, r#use, refunds: random.chance(400) }
}

fn rule(random: &mut Random) -> Rule {
    let algorithm = random.choose(&ALGORITHMS, Algorithm::Slide);
    let width = match algorithm {
        Algorithm::Token | Algorithm::Leak => random.choose(&RATES, "10"),
        _ => random.choose(&WINDOWS, "1"),
    };
    Rule { algorithm, limit: limit(random), width }
}

fn limit(random: &mut Random) -> u64 {
    random.choose(&LIMITS, 8)
}

fn filler(random: &mut Random, number: usize) -> KeyPlan {
    // Long and short names, so that records of several sizes want pages of their own.
    let name = format!("filler:{number}:{}", "x".repeat(random.position(60)));
    KeyPlan {
        name,
        r#use: Use::Steady(Rule { algorithm: Algorithm::Fixed, limit: 1_000, width: "10" }),
        refunds: false,
    }
}
