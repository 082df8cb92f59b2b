//! Runs of whole clusters that once showed a fault, by name: each fault is mended, and its seeds hold.

use tollgate_sim::clusters::Run;

/// Every checker is content with the run of this seed.
fn holds(seed: u64) {
    assert_eq!(Run::new(seed).simulate().map_err(|failure| failure.to_string()).err(), None, "seed {seed}");
}

/// A primary that had said something newer about its replicas forgot whom an older word had named, which was taken up.
#[test]
fn a_word_that_may_be_taken_up_is_kept_in_mind() {
    [5, 15, 43, 54, 86, 1271].into_iter().for_each(holds);
}

/// The answer to a round of an older term was taken for one to a round of this term, and a lease was granted for it.
#[test]
fn a_round_of_an_older_term_says_nothing() {
    holds(129);
}
