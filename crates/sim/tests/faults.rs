//! What the checkers are worth: each planted fault is seen by some of the first seeds, and by the checker that is there
//! for it.

use tollgate_sim::{Fault, Run};

const SEEDS: u64 = 200;

/// Plants a fault in one seed after another until `checker`, which watches alone, sees it.
fn is_seen_by(fault: Fault, checker: &'static str) {
    let is_seen = |seed| Run { fault: Some(fault), only: Some(checker), ..Run::new(seed) }.simulate().is_err();
    assert!((0..SEEDS).any(is_seen), "{fault:?} is not seen by {checker:?}");
}

#[test]
fn a_dropped_undo() {
    is_seen_by(Fault::UndoDropped, "undo exact");
    is_seen_by(Fault::UndoDropped, "honest denial");
    is_seen_by(Fault::UndoDropped, "all or nothing");
}

#[test]
fn an_undo_that_is_done_twice() {
    is_seen_by(Fault::UndoTwice, "undo exact");
    is_seen_by(Fault::UndoTwice, "limit held");
    is_seen_by(Fault::UndoTwice, "others kept");
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
    is_seen_by(Fault::ClockBehind, "undo exact");
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

#[test]
fn room_that_is_gone_when_it_is_taken() {
    is_seen_by(Fault::RoomAskedInPart, "lane bound");
}
