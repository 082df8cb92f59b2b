//! What a seed makes of a run: nodes and shards, keys under limits, how bad network, machines and operators are.

use crate::random::Random;
use crate::request::Rule;
use tollgate_limits::Algorithm;
use tollgate_store::{SLOTS, slot_of};

/// One key.
#[derive(Clone, Debug)]
pub struct KeyPlan {
    /// Its name.
    pub name: String,
    /// Its limit, which never changes.
    pub rule: Rule,
    /// The shard whose it is.
    pub shard: usize,
}

/// Nodes with one copy of the same slots.
#[derive(Clone, Debug)]
pub struct Shard {
    /// Who serves at first.
    pub primary: usize,
    /// Who follows.
    pub replicas: Vec<usize>,
    /// Its slots, the first and the last.
    pub slots: (u16, u16),
}

/// What a run is made of. Times are in microseconds.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Nodes, the one that comes late included.
    pub nodes: usize,
    /// The first so many of them vote.
    pub voters: usize,
    /// Who has which slots.
    pub shards: Vec<Shard>,
    /// A node that joins later, and follows a primary of this shard.
    pub late: Option<(usize, usize)>,
    /// The keys.
    pub keys: Vec<KeyPlan>,
    /// Clients.
    pub clients: usize,
    /// The longest pause of a client between its calls.
    pub pause_micros_max: u64,
    /// The longest time on a way that nothing is wrong with.
    pub delay_micros_max: u64,
    /// How long a lease is, in milliseconds.
    pub lease_ms: u32,
    /// What a failover may forget, in units; `None`: as much as it is.
    pub overshoot_max: Option<u64>,
    /// How long a replica may take to acknowledge.
    pub replica_timeout_micros: u64,
    /// For how long things go wrong.
    pub trouble_micros: u64,
    /// The longest pause between two troubles.
    pub trouble_pause_micros_max: u64,
    /// Keys that the walk of a link goes on by at each flush.
    pub copy_keys: usize,
}

const NODES_MAX: usize = 7;
const KEYS_PER_SHARD: usize = 3;
const ALGORITHMS: [Algorithm; 4] = [Algorithm::Slide, Algorithm::Token, Algorithm::Fixed, Algorithm::Log];
const WINDOWS: [&str; 4] = ["0.5", "2", "10", "1m"];
const RATES: [&str; 4] = ["10", "3", "7/3s", "20/1m"];
const LIMITS: [u64; 4] = [5, 12, 30, 60];

impl Plan {
    /// The plan of a seed.
    pub fn new(random: &mut Random) -> Plan {
        let (shards, mut nodes) = shards(random);
        nodes = nodes.max(3);
        let late = (nodes < NODES_MAX && random.chance(300)).then(|| (nodes, random.position(shards.len())));
        let voters = if nodes % 2 == 1 { nodes } else { nodes - 1 };
        let keys = (0..shards.len()).flat_map(|shard| keys_of(shard, &shards, random)).collect();
        Plan {
            nodes: nodes + usize::from(late.is_some()),
            voters,
            shards,
            late,
            keys,
            clients: random.position(3) + 3,
            pause_micros_max: random.choose(&[10_000, 20_000, 40_000], 20_000),
            delay_micros_max: random.choose(&[500, 2_000, 8_000], 2_000),
            lease_ms: random.choose(&[100, 200, 500, 500], 500),
            overshoot_max: random.choose(&[None, Some(0), Some(0), Some(3), Some(10)], None),
            replica_timeout_micros: random.choose(&[60_000, 150_000, 400_000], 150_000),
            trouble_micros: random.choose(&[1_500_000, 3_000_000, 4_000_000], 3_000_000),
            trouble_pause_micros_max: random.choose(&[200_000, 500_000, 1_200_000], 500_000),
            copy_keys: random.choose(&[1, 3, 50], 3),
        }
    }
}

fn shards(random: &mut Random) -> (Vec<Shard>, usize) {
    let count = random.position(3) + 1;
    let width = SLOTS / u16::try_from(count).unwrap_or(1);
    let (mut shards, mut nodes) = (Vec::new(), 0);
    for (number, shard) in (0u16..).zip(0..count) {
        let room = (NODES_MAX - nodes).saturating_sub(count - shard);
        let replicas = random.choose(&[0, 1, 1, 1, 2, 2], 1).min(room);
        let is_last = shard + 1 == count;
        let slots = (number * width, if is_last { SLOTS - 1 } else { (number + 1) * width - 1 });
        shards.push(Shard { primary: nodes, replicas: (nodes + 1..=nodes + replicas).collect(), slots });
        nodes += 1 + replicas;
    }
    (shards, nodes)
}

fn keys_of(shard: usize, shards: &[Shard], random: &mut Random) -> Vec<KeyPlan> {
    let is_own = |name: &String| {
        let slot = slot_of(name.as_bytes());
        shards.get(shard).is_some_and(|shard| (shard.slots.0..=shard.slots.1).contains(&slot))
    };
    let names = (random.below(1_000)..).map(|number| format!("key:{number}")).filter(is_own);
    names.take(KEYS_PER_SHARD).map(|name| KeyPlan { name, rule: rule(random), shard }).collect()
}

fn rule(random: &mut Random) -> Rule {
    let algorithm = random.choose(&ALGORITHMS, Algorithm::Slide);
    let width = match algorithm {
        Algorithm::Token => random.choose(&RATES, "10"),
        _ => random.choose(&WINDOWS, "2"),
    };
    Rule { algorithm, limit: random.choose(&LIMITS, 12), width }
}
