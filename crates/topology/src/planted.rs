//! Faults that are planted on purpose, to prove that the simulation of clusters would see them.
//!
//! The problem: a simulation that finds nothing may be one that looks at nothing. The idea: where the code does what
//! matters, a test can have it done wrong. Without the feature `planted-faults`, which only tests turn on, nothing is
//! ever planted, and the question costs nothing.

/// What is done wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Planted {
    /// A lease begins when it is granted instead of when it was asked for.
    LeaseFromGrantTime,
    /// The lease is looked at when a command runs, and not when its answer leaves.
    LeaseNotCheckedAtRelease,
    /// A lease is granted without a round of a majority.
    RenewalWithoutMajority,
    /// A new leader does not wait until what others have granted is over.
    NewLeaderDoesNotWait,
    /// A replica that is not in step is promoted.
    PromotesOutOfStep,
    /// A process that restarted goes on under the lease of the one before.
    NewRunKeepsLease,
    /// Who is to take over serves before that is committed.
    TargetServesBeforeCommit,
    /// What was decided for one epoch is taken for the next.
    EpochOffByOne,
}

impl Planted {
    /// All of them.
    pub const ALL: [Planted; 8] = [
        Planted::LeaseFromGrantTime,
        Planted::LeaseNotCheckedAtRelease,
        Planted::RenewalWithoutMajority,
        Planted::NewLeaderDoesNotWait,
        Planted::PromotesOutOfStep,
        Planted::NewRunKeepsLease,
        Planted::TargetServesBeforeCommit,
        Planted::EpochOffByOne,
    ];
}

#[cfg(feature = "planted-faults")]
mod planting {
    use super::Planted;
    use std::cell::Cell;

    thread_local! {
        static PLANTED: Cell<Option<Planted>> = const { Cell::new(None) };
    }

    /// Plants a fault for this thread, or none.
    pub fn plant(fault: Option<Planted>) {
        PLANTED.set(fault);
    }

    /// Whether this fault is planted.
    pub fn is_planted(fault: Planted) -> bool {
        PLANTED.get() == Some(fault)
    }
}

#[cfg(not(feature = "planted-faults"))]
mod planting {
    use super::Planted;

    /// Plants nothing: the feature `planted-faults` is off.
    pub fn plant(_fault: Option<Planted>) {}

    /// Whether this fault is planted: it never is.
    #[inline(always)]
    pub fn is_planted(_fault: Planted) -> bool {
        false
    }
}

pub use planting::{is_planted, plant};
