//! Seeded simulation of a primary and its replicas.
//!
//! The problem: a link that breaks in the middle of a copy, a replica that is promoted while changes are on their way,
//! a primary that comes back and knows less: each is a matter of milliseconds that no test of processes meets twice.
//! The idea: machines are made of the real cores, the real flows and the real snapshots; what stands for the server's
//! shell here does the same with simulated links, clocks and disks, in one thread, from a seed.
//!
//! ```text
//!   plan -> world: agenda of events -> calls -> machine: cores ── primary: Outflow ──> wire ──> follower: Inflow
//!                        │                         │      │                                       └─> cores
//!                     operator                  saving   gate
//!                        └───────────── facts ────────────────> books ──> check/
//! ```
//!
//! `primary`, `follower` and `saving` follow the server's `flows`, `following`, `saving` and `loading` step by step.
//! `operator` is what goes wrong and what people do about it. `books` add up what clients were told.

mod books;
mod calls;
mod check;
mod demand;
mod follower;
mod gate;
mod machine;
mod operator;
mod plan;
mod primary;
mod saving;
mod wire;
mod world;

use crate::random::Random;
use crate::world::Failure;
use plan::Plan;
use std::ops::AddAssign;
use tollgate_replication::planted::{Planted, plant};
use world::World;

/// What a run that went well has seen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Calls answered.
    pub calls: u64,
    /// Facts that the checkers looked at.
    pub facts: u64,
    /// Answers that were kept back for a while.
    pub held: u64,
    /// Replicas that became primaries.
    pub promotions: u64,
    /// Processes that were started again.
    pub restarts: u64,
    /// Keys dropped to make room.
    pub evicted: u64,
    /// How often all nodes came to hold the same.
    pub healed: u64,
}

impl Summary {
    /// Whether each of what a run may see was seen.
    pub fn all_happened(&self) -> bool {
        let Summary { calls, facts, held, promotions, restarts, evicted, healed } = *self;
        [calls, facts, held, promotions, restarts, evicted, healed].iter().all(|count| *count > 0)
    }
}

impl AddAssign for Summary {
    fn add_assign(&mut self, other: Summary) {
        self.calls += other.calls;
        self.facts += other.facts;
        self.held += other.held;
        self.promotions += other.promotions;
        self.restarts += other.restarts;
        self.evicted += other.evicted;
        self.healed += other.healed;
    }
}

/// One run: a pure function of these.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// What decides everything else.
    pub seed: u64,
    /// A fault that is planted, where the crate was built to let one be.
    pub fault: Option<Planted>,
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
        plant(self.fault);
        let mut random = Random::new(self.seed);
        let plan = Plan::new(&mut random);
        let mut world = World::new(plan, random, &self);
        let found = world.run();
        plant(None);
        match found {
            None => Ok(world.summary.clone()),
            Some((checker, text)) => Err(Box::new(Failure { seed: self.seed, checker, text, last: world.last() })),
        }
    }
}
