//! However a sample is cut into reads, it says the same.

#![allow(clippy::unwrap_used, reason = "an unwrap that fails is a test that fails")]

#[path = "harness/corpus.rs"]
mod corpus;
mod harness;

use corpus::CORPUS;
use harness::{TIGHT, check, run};
use tollgate_resp::RequestLimits;

#[test]
fn every_split_point_gives_the_same_result() {
    for input in CORPUS {
        for limits in [RequestLimits::AUTHENTICATED, RequestLimits::UNAUTHENTICATED, TIGHT] {
            let whole = run(input, limits, &[input.len()]);
            for first in 0..=input.len() {
                let cut = run(input, limits, &[first, input.len() - first]);
                assert_eq!(cut, whole, "cut at {first}: {}", input.escape_ascii());
            }
            let by_bytes = run(input, limits, &vec![1; input.len()]);
            assert_eq!(by_bytes, whole, "byte by byte: {}", input.escape_ascii());
        }
    }
}

#[test]
fn every_three_way_split_of_short_samples_gives_the_same_result() {
    for input in CORPUS.iter().filter(|input| input.len() <= 60) {
        let whole = run(input, TIGHT, &[input.len()]);
        for first in 0..=input.len() {
            for second in 0..=input.len() - first {
                let chunks = [first, second, input.len() - first - second];
                assert_eq!(run(input, TIGHT, &chunks), whole, "cut into {chunks:?}: {}", input.escape_ascii());
            }
        }
    }
}

#[test]
fn every_sample_keeps_every_promise() {
    for input in CORPUS {
        for seed in 0..20 {
            check(input, seed);
        }
    }
}
