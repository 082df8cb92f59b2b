//! Random runs: whatever the seed, every checker is content.

#![allow(clippy::expect_used, reason = "what a test cannot read is a fault of the test")]

use tollgate_sim::{Run, Summary};

const SEEDS: u64 = 200;

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().map(|text| text.parse().expect("a seed or a count of seeds is a number"))
}

/// `TOLLGATE_SIM_SEEDS` says how many seeds are run, `TOLLGATE_SIM_SEED` which is the first (and, alone, the only one).
#[test]
fn every_seed_holds() {
    let (first, end) = match number("TOLLGATE_SIM_SEED") {
        Some(seed) => (seed, seed + number("TOLLGATE_SIM_SEEDS").unwrap_or(1)),
        None => (0, number("TOLLGATE_SIM_SEEDS").unwrap_or(SEEDS)),
    };
    let mut sum = Summary::default();
    let mut failures = Vec::new();
    for seed in first..end {
        match Run::new(seed).simulate() {
            Ok(summary) => {
                sum.requests += summary.requests;
                sum.facts += summary.facts;
                sum.undone += summary.undone;
                sum.busy += summary.busy;
                sum.out_of_memory += summary.out_of_memory;
                sum.evicted += summary.evicted;
            }
            Err(failure) => {
                if failures.is_empty() {
                    eprintln!("{failure}");
                }
                failures.push((seed, failure.checker));
            }
        }
    }
    println!("{sum:?}");
    assert!(failures.is_empty(), "{} of {} seeds failed: {failures:?}", failures.len(), end - first);
    // A simulation in which these never happen would prove nothing about them.
    if end - first >= SEEDS {
        let all_happened = [sum.undone, sum.busy, sum.out_of_memory, sum.evicted].iter().all(|count| *count > 0);
        assert!(all_happened, "{sum:?}");
    }
}

/// A seed that fails must fail again: nothing but the seed decides.
#[test]
fn a_run_depends_on_its_seed_alone() {
    for seed in 0..20 {
        let run = Run::new(seed);
        assert_eq!(run.simulate(), run.simulate());
    }
}
