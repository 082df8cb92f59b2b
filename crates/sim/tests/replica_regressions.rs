//! Runs of a primary and its replicas that once showed a fault, by name: each fault is mended, and its seeds hold.

use tollgate_sim::replicas::Run;

/// Every checker is content with the run of this seed.
fn holds(seed: u64) {
    assert_eq!(Run::new(seed).simulate().map_err(|failure| failure.to_string()).err(), None, "seed {seed}");
}

/// A link that was made anew with the same process took the time of its first part for the primary's, however late that
/// had come: a replica's time went back, and with it that of who was promoted then.
#[test]
fn time_does_not_go_back_where_a_link_goes_on() {
    [1, 26, 27, 31, 37].into_iter().for_each(holds);
}

/// An undo that its primary's death forgets, and a key that was deleted while a snapshot was written: checkers took
/// what came of them for faults.
#[test]
fn what_looks_like_a_fault_and_is_none() {
    [41, 246].into_iter().for_each(holds);
}
