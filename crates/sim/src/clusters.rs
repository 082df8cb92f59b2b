//! Seeded simulation of whole clusters.
//!
//! The problem: that two nodes never admit for one key must hold whatever is paused, cut off, slow, dead or deposed,
//! and in whatever order that comes together, which no test of processes meets twice. The idea: what decides is pure
//! ([`tollgate_topology`]), and runs here as it runs in nodes: over simulated clocks that drift, ways that lose and
//! delay, and a small Raft that stands for the group's log. Cores, flows, the gate and the bound are the real ones.
//!
//! ```text
//!  plan -> world: agenda of events -> clients ──net──> node: serve ─> core ─> gate, lease ─> answer
//!                    │                                   │ primary: Outflow ──pipe──> follower: Inflow
//!                 trouble                   leader <─net─┘ node: asks, map, raft
//!                    └───────────────────── facts ──────────────────> books ──> check/
//! ```
//!
//! `raft` is the group's log, `leader` what a node does while it leads it, `node` its part in it. `primary` and
//! `follower` are replication with one core a node (several are in [`crate::replicas`]); a primary has the group record
//! who is in step. `trouble` is what goes wrong, what operators do, and how all must come right again.
//!
//! Wall clocks of machines are kept within some milliseconds of each other here: what a clock that is far off does to
//! the group's time is not asked.

mod books;
mod check;
mod clients;
mod follower;
mod leader;
mod machine;
mod net;
mod node;
mod plan;
mod primary;
mod raft;
mod serve;
mod trouble;
mod world;

use crate::random::Random;
use crate::world::Failure;
use plan::Plan;
use std::ops::AddAssign;
use tollgate_topology::planted::{Planted, plant};
use world::World;

/// What a run that went well has seen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Answers that left a node.
    pub answers: u64,
    /// Facts that the checkers looked at.
    pub facts: u64,
    /// Answers that were kept back for a while.
    pub held: u64,
    /// Calls that were sent on, told that nobody serves, and given up.
    pub moved: u64,
    /// See `moved`.
    pub down: u64,
    /// See `moved`.
    pub unknown: u64,
    /// Leaders of the group.
    pub leaders: u64,
    /// Processes that began to lead.
    pub reigns: u64,
    /// Replicas with slots that took over because they were in step.
    pub promotions: u64,
    /// Nodes with slots that went on from what they had kept, or were forced to take over.
    pub anew: u64,
    /// Processes that died, nodes that were paused, ways that were cut, failovers that were asked for.
    pub kills: u64,
    /// See `kills`.
    pub pauses: u64,
    /// See `kills`.
    pub cuts: u64,
    /// See `kills`.
    pub hand_overs: u64,
    /// How often all came right.
    pub healed: u64,
    /// How long that took at most, in microseconds.
    pub healed_micros_max: u64,
}

impl Summary {
    /// Whether each of what a run may see was seen.
    pub fn all_happened(&self) -> bool {
        let happened = [
            self.answers,
            self.held,
            self.moved,
            self.down,
            self.unknown,
            self.leaders,
            self.reigns,
            self.promotions,
            self.anew,
            self.kills,
            self.pauses,
            self.cuts,
            self.hand_overs,
            self.healed,
        ];
        happened.iter().all(|count| *count > 0)
    }
}

impl AddAssign for Summary {
    fn add_assign(&mut self, other: Summary) {
        self.answers += other.answers;
        self.facts += other.facts;
        self.held += other.held;
        self.moved += other.moved;
        self.down += other.down;
        self.unknown += other.unknown;
        self.leaders += other.leaders;
        self.reigns += other.reigns;
        self.promotions += other.promotions;
        self.anew += other.anew;
        self.kills += other.kills;
        self.pauses += other.pauses;
        self.cuts += other.cuts;
        self.hand_overs += other.hand_overs;
        self.healed += other.healed;
        self.healed_micros_max = self.healed_micros_max.max(other.healed_micros_max);
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
