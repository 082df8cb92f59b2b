//! Whether this process may serve now what is its own.
//!
//! In a cluster a node serves under a lease (tollgate_topology::lease says why and for how long). The cluster's thread
//! says here when the lease ends, the cores compare it with a fresh reading of the clock: before a batch runs, and
//! again when its answers leave. Outside a cluster the lease never ends, and no clock is read.

use crate::clock::boot_micros;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use tollgate_engine::shared::Standing;

const ALWAYS: u64 = u64::MAX;

/// The lease of a process.
#[derive(Debug)]
pub struct Tenure {
    /// In boot time; 0: there is none.
    until_micros: AtomicU64,
    /// Whether slots are this node's, so that who asks for them is to wait for the lease.
    owns_slots: AtomicBool,
}

impl Tenure {
    /// Of a process that serves at all times, or else only under a lease, of which it has none yet.
    pub fn new(is_clustered: bool) -> Tenure {
        let until = if is_clustered { 0 } else { ALWAYS };
        Tenure { until_micros: AtomicU64::new(until), owns_slots: AtomicBool::new(false) }
    }

    /// Whether answers may leave that tell what was done to keys.
    #[inline]
    pub fn holds(&self) -> bool {
        let until = self.until_micros.load(Ordering::Acquire);
        until == ALWAYS || boot_micros() < until
    }

    /// What that adds to what keeps this process from running every command.
    pub fn standing(&self) -> Standing {
        self.standing_at(boot_micros())
    }

    /// The same at a time in boot time that was just read.
    #[inline]
    pub fn standing_at(&self, boot: u64) -> Standing {
        let holds = boot < self.until_micros.load(Ordering::Acquire);
        if holds || !self.owns_slots.load(Ordering::Relaxed) { Standing::default() } else { Standing::FENCED }
    }

    /// The lease ends at this time, in microseconds of boot time; 0: there is none.
    pub fn set_until(&self, micros: u64) {
        self.until_micros.store(micros, Ordering::Release);
    }

    /// Says whether slots are this node's.
    pub fn set_owns_slots(&self, owns: bool) {
        self.owns_slots.store(owns, Ordering::Relaxed);
    }

    /// How much is left of it, in microseconds. `None`: this is no node of a cluster.
    pub fn left_micros(&self) -> Option<u64> {
        let until = self.until_micros.load(Ordering::Acquire);
        (until != ALWAYS).then(|| until.saturating_sub(boot_micros()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_of_a_cluster_serves_while_its_lease_lasts() {
        let alone = Tenure::new(false);
        assert!(alone.holds() && alone.left_micros().is_none());
        let node = Tenure::new(true);
        assert!(!node.holds() && node.standing() == Standing::default(), "nothing is its own");
        node.set_owns_slots(true);
        assert!(node.standing().has(Standing::FENCED));
        node.set_until(boot_micros() + 60_000_000);
        assert!(node.holds() && node.standing() == Standing::default());
        assert!(node.left_micros().is_some_and(|left| left > 50_000_000));
        node.set_until(boot_micros());
        assert!(!node.holds() && node.left_micros() == Some(0));
    }
}
