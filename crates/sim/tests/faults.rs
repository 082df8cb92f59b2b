//! What the checkers are worth: each planted fault is seen by some of the first seeds, and by the checker that is there
//! for it.

use tollgate_sim::{Fault, simulate};

const SEEDS: u64 = 200;

/// Plants a fault in one seed after another until `checker` sees it.
fn is_seen_by(fault: Fault, checker: &str) {
    let mut others = Vec::new();
    for seed in 0..SEEDS {
        match simulate(seed, Some(fault)) {
            Err(failure) if failure.checker == checker => return,
            Err(failure) => others.push((seed, failure.checker)),
            Ok(_) => {}
        }
    }
    panic!("{fault:?} is not seen by {checker:?}, but by {others:?}");
}

#[test]
fn a_dropped_undo() {
    is_seen_by(Fault::UndoDropped, "undo exact");
}

#[test]
fn an_undo_that_is_done_twice() {
    is_seen_by(Fault::UndoTwice, "undo exact");
    is_seen_by(Fault::UndoTwice, "limit held");
}

#[test]
fn a_charge_though_it_was_refused() {
    is_seen_by(Fault::ChargedThoughRefused, "nothing changed");
    is_seen_by(Fault::ChargedThoughRefused, "honest denial");
}

#[test]
fn swapped_replies() {
    is_seen_by(Fault::RepliesSwapped, "reply order");
}

#[test]
fn a_lost_reply() {
    is_seen_by(Fault::ReplyLost, "reply order");
}

#[test]
fn a_clock_that_runs_behind() {
    is_seen_by(Fault::ClockBehind, "as stored");
    is_seen_by(Fault::ClockBehind, "expired unseen");
}

#[test]
fn a_refusal_that_is_not_heard() {
    is_seen_by(Fault::RefusalIgnored, "all or nothing");
}

#[test]
fn use_that_is_forgotten_after_a_refusal() {
    is_seen_by(Fault::ForgottenAfterRefusal, "nothing changed");
    is_seen_by(Fault::ForgottenAfterRefusal, "limit held");
}
