//! What the simulation of clusters is worth: each planted fault is seen by some of the first seeds, and by the checker
//! that is there for it.
//!
//! One cannot be seen: what was decided for one epoch and is taken for the next concerns two times of one node as a
//! primary, and those are at least two epochs apart, because in between another takes over or a new process is
//! announced.

use tollgate_sim::clusters::Run;
use tollgate_topology::planted::Planted;

const SEEDS: u64 = 300;

/// Plants a fault in one seed after another until `checker`, which watches alone, sees it.
fn is_seen_by(fault: Planted, checker: &'static str) {
    let is_seen = |seed: &u64| Run { fault: Some(fault), only: Some(checker), ..Run::new(*seed) }.simulate().is_err();
    let first = (0..SEEDS).find(is_seen);
    println!("{fault:?} by {checker:?}: {first:?}");
    assert!(first.is_some(), "{fault:?} is not seen by {checker:?}");
}

#[test]
fn without_a_fault_there_is_nothing_to_see() {
    for fault in [None, Some(Planted::EpochOffByOne)] {
        let failed = (0..20).find(|seed| Run { fault, ..Run::new(*seed) }.simulate().is_err());
        assert_eq!(failed, None, "{fault:?}");
    }
}

/// Limits alone, as clients see them.
#[test]
fn what_clients_can_see_of_it() {
    is_seen_by(Planted::NewRunKeepsLease, "limit held");
}

#[test]
fn a_lease_from_when_it_was_granted() {
    is_seen_by(Planted::LeaseFromGrantTime, "leases end");
}

#[test]
fn a_lease_that_is_not_looked_at_when_an_answer_leaves() {
    is_seen_by(Planted::LeaseNotCheckedAtRelease, "one serves");
}

#[test]
fn a_renewal_without_a_majority() {
    is_seen_by(Planted::RenewalWithoutMajority, "leases end");
}

#[test]
fn a_new_leader_that_does_not_wait() {
    is_seen_by(Planted::NewLeaderDoesNotWait, "leases end");
}

#[test]
fn a_replica_out_of_step_that_is_promoted() {
    is_seen_by(Planted::PromotesOutOfStep, "little forgotten");
}

#[test]
fn a_new_run_that_keeps_its_lease() {
    is_seen_by(Planted::NewRunKeepsLease, "one serves");
}

#[test]
fn a_target_that_serves_before_that_is_committed() {
    is_seen_by(Planted::TargetServesBeforeCommit, "one serves");
}
