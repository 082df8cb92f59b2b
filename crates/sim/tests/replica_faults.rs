//! What the simulation of a primary and its replicas is worth: each planted fault is seen by some of the first seeds,
//! and by the checker that is there for it.

use tollgate_replication::planted::Planted;
use tollgate_sim::replicas::Run;

const SEEDS: u64 = 200;
/// Where it takes a kill at the worst moment, on keys that are just used up.
const MORE_SEEDS: u64 = 500;

/// Plants a fault in one seed after another until `checker`, which watches alone, sees it.
fn is_seen_by(fault: Planted, checker: &'static str) {
    is_seen_in(SEEDS, fault, checker);
}

fn is_seen_in(seeds: u64, fault: Planted, checker: &'static str) {
    let is_seen = |seed: &u64| Run { fault: Some(fault), only: Some(checker), ..Run::new(*seed) }.simulate().is_err();
    let first = (0..seeds).find(is_seen);
    println!("{fault:?} by {checker:?}: {first:?}");
    assert!(first.is_some(), "{fault:?} is not seen by {checker:?}");
}

#[test]
fn what_is_acknowledged_before_it_is_put() {
    is_seen_by(Planted::AcknowledgesBeforeApplying, "little forgotten");
}

#[test]
fn a_command_that_is_run_again() {
    is_seen_by(Planted::ShipsTheCommand, "alike");
}

#[test]
fn a_slot_whose_version_is_dropped() {
    is_seen_by(Planted::DropsTheSlotVersion, "alike");
}

#[test]
fn a_delete_that_creates() {
    is_seen_by(Planted::DeleteRecreates, "alike");
}

#[test]
fn expiry_by_the_own_clock() {
    is_seen_by(Planted::ExpiresByOwnClock, "as told");
}

#[test]
fn a_time_floor_that_clamps() {
    is_seen_by(Planted::TimeFloorClamps, "time goes on");
}

#[test]
fn a_copy_that_misses_changes() {
    is_seen_by(Planted::CopyMissesChanges, "alike");
}

#[test]
fn a_resume_that_skips_a_slot() {
    is_seen_by(Planted::ResumeSkipsASlot, "alike");
}

#[test]
fn an_overshoot_that_counts_flushes() {
    is_seen_by(Planted::OvershootPerFlush, "little forgotten");
}

#[test]
fn an_overshoot_that_the_first_releases() {
    is_seen_by(Planted::OvershootReleasedByFirst, "little forgotten");
}

#[test]
fn a_reply_that_does_not_wait() {
    is_seen_by(Planted::ReplyBeforeGate, "little forgotten");
}

#[test]
fn an_undo_that_is_not_told() {
    is_seen_by(Planted::UndoNotTold, "alike");
    is_seen_by(Planted::UndoNotTold, "honest denial");
}

#[test]
fn a_log_that_is_doubled() {
    is_seen_by(Planted::LogDoubled, "alike");
    is_seen_by(Planted::LogDoubled, "honest denial");
}

#[test]
fn a_refund_below_zero() {
    is_seen_by(Planted::RefundBelowZero, "alike");
    is_seen_by(Planted::RefundBelowZero, "little forgotten");
}

#[test]
fn an_older_run_that_is_accepted() {
    is_seen_by(Planted::OlderRunAccepted, "same run");
}

#[test]
fn a_snapshot_that_is_cut() {
    is_seen_by(Planted::CutSnapshotAccepted, "loaded whole");
}

/// What is there when all is said: units that clients were told of, above the limits.
#[test]
fn what_clients_can_see_of_it() {
    is_seen_in(MORE_SEEDS, Planted::ReplyBeforeGate, "limit held");
}
