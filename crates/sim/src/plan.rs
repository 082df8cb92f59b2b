//! What a seed makes of a run: how many cores, which keys under which limits, how long links take.

use crate::random::Random;
use crate::request::Rule;
use tollgate_limits::Algorithm;
use tollgate_store::Eviction;

/// How a key's limit changes from call to call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Habit {
    /// It does not. Its use can be told exactly, and never passes the limit.
    Steady,
    /// Its limit changes, its window or rate does not. Its use can be told exactly.
    VariedLimit,
    /// Anything changes, the algorithm too.
    Wild,
}

/// One key.
#[derive(Clone, Debug)]
pub struct KeyPlan {
    /// Its name.
    pub name: String,
    /// How its limit changes.
    pub habit: Habit,
    /// The limits that are asked of it; one if it is steady.
    pub rules: Vec<Rule>,
    /// Whether units are given back.
    pub refunds: bool,
}

/// What a run is made of.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Cores of the node.
    pub cores: u16,
    /// Clients, spread over the cores.
    pub clients: usize,
    /// The keys.
    pub keys: Vec<KeyPlan>,
    /// Messages that may be outstanding from one core to another.
    pub lane_capacity: usize,
    /// The longest time on a link, in microseconds.
    pub delay_micros_max: u64,
    /// Whether the time of the limits stands still while anything is under way.
    pub is_still: bool,
    /// How far a core's time may lie behind the true one, in microseconds.
    pub lag_micros_max: u64,
    /// The bound on a core's memory in bytes, 0 for none.
    pub memory_max_bytes: u64,
    /// What happens at the bound.
    pub eviction: Eviction,
    /// Whether keys are deleted.
    pub deletes: bool,
    /// Batches that each client sends in each phase.
    pub batches: u64,
    /// Phases: between two of them everything comes to rest.
    pub phases: u64,
}

const WINDOWS: [&str; 6] = ["0.001", "0.003", "0.01", "0.05", "1", "1m"];
const RATES: [&str; 6] = ["1000", "200/1s", "10", "0.5", "7/3s", "100/1m"];
const ALGORITHMS: [Algorithm; 5] =
    [Algorithm::Slide, Algorithm::Token, Algorithm::Fixed, Algorithm::Log, Algorithm::Leak];
/// Keys that are there only to fill memory.
const FILLERS: usize = 60;
/// One page of records and a few headers of slots: so that new keys are refused soon.
const MEMORY_BYTES_MIN: u64 = 76_000;
const MEMORY_BYTES_MAX: u64 = 230_000;

impl Plan {
    /// The plan of a seed.
    pub fn new(random: &mut Random) -> Plan {
        let is_still = random.chance(500);
        let has_bound = random.chance(300);
        let evicts = random.chance(500);
        let keys = random.between(2, 16);
        let mut plan = Plan {
            cores: u16::try_from(random.between(1, 8)).unwrap_or(1),
            clients: random.position(9) + 1,
            keys: (0..keys).map(|number| key(random, number)).collect(),
            lane_capacity: random.position(6) + 1,
            delay_micros_max: random.choose(&[10, 300, 3_000, 20_000], 300),
            is_still,
            lag_micros_max: random.choose(&[0, 50, 2_000], 0),
            memory_max_bytes: if has_bound { random.between(MEMORY_BYTES_MIN, MEMORY_BYTES_MAX) } else { 0 },
            eviction: if evicts { Eviction::EvictLeast } else { Eviction::NoEviction },
            deletes: random.chance(400),
            batches: random.between(2, 9),
            phases: random.between(1, 4),
        };
        if has_bound {
            plan.keys.extend((0..FILLERS).map(|number| filler(random, number)));
        }
        plan
    }

    /// The keys' names.
    pub fn names(&self) -> Vec<String> {
        self.keys.iter().map(|key| key.name.clone()).collect()
    }

    /// Whether use may be forgotten to make room.
    pub fn evicts(&self) -> bool {
        self.memory_max_bytes > 0 && self.eviction == Eviction::EvictLeast
    }
}

fn key(random: &mut Random, number: u64) -> KeyPlan {
    let habit = random.choose(&[Habit::Steady, Habit::Steady, Habit::VariedLimit, Habit::Wild], Habit::Steady);
    // Some keys share a slot, and so a core.
    let name = if random.chance(300) { format!("{{tag}}{number}") } else { format!("key:{number}") };
    let first = rule(random);
    let rules =
        match habit {
            Habit::Steady => vec![first],
            Habit::VariedLimit => (0..3).map(|_| Rule { limit: limit(random), ..first }).collect(),
            Habit::Wild => (0..4)
                .map(|at| {
                    if at < 2 { Rule { algorithm: first.algorithm, ..rule_like(random, first) } } else { rule(random) }
                })
                .collect(),
        };
    KeyPlan { name, habit, rules, refunds: random.chance(300) }
}

/// A rule of the same algorithm with another limit and width.
fn rule_like(random: &mut Random, first: Rule) -> Rule {
    Rule { algorithm: first.algorithm, limit: limit(random), width: width(random, first.algorithm) }
}

fn rule(random: &mut Random) -> Rule {
    let algorithm = random.choose(&ALGORITHMS, Algorithm::Slide);
    Rule { algorithm, limit: limit(random), width: width(random, algorithm) }
}

fn limit(random: &mut Random) -> u64 {
    if random.chance(50) { 0 } else { random.between(1, 12) }
}

fn width(random: &mut Random, algorithm: Algorithm) -> &'static str {
    match algorithm {
        Algorithm::Token | Algorithm::Leak => random.choose(&RATES, "1"),
        _ => random.choose(&WINDOWS, "1"),
    }
}

fn filler(random: &mut Random, number: usize) -> KeyPlan {
    // Long and short names, so that records of several sizes want pages of their own.
    let name = format!("filler:{number}:{}", "x".repeat(random.position(60)));
    let rule = Rule { algorithm: Algorithm::Fixed, limit: 1_000, width: "1m" };
    KeyPlan { name, habit: Habit::Steady, rules: vec![rule], refunds: false }
}
