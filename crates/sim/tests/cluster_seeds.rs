//! Whole clusters under a few hundred seeds: whatever goes wrong, every checker is content, and all comes right again.

#![allow(clippy::expect_used, reason = "what a test cannot read is a fault of the test")]

use tollgate_sim::clusters::{Run, Summary};

const SEEDS: u64 = 200;

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().map(|text| text.parse().expect("a seed or a count of seeds is a number"))
}

/// Seeds from `first` to before `end`.
fn hold(first: u64, end: u64) -> Summary {
    let mut sum = Summary::default();
    let mut failures = Vec::new();
    for seed in first..end {
        match Run::new(seed).simulate() {
            Ok(summary) => sum += summary,
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
    sum
}

/// `TOLLGATE_SIM_SEEDS` says how many seeds are run, `TOLLGATE_SIM_SEED` which is the first (and, alone, the only one).
/// With neither there are as many again in the test beside this, at the same time.
#[test]
fn every_seed_holds() {
    match (number("TOLLGATE_SIM_SEED"), number("TOLLGATE_SIM_SEEDS")) {
        (Some(seed), seeds) => drop(hold(seed, seed + seeds.unwrap_or(1))),
        (None, Some(seeds)) => drop(hold(0, seeds)),
        (None, None) => {
            // A simulation in which these never happen would prove nothing about them.
            let sum = hold(0, SEEDS / 2);
            assert!(sum.all_happened(), "{sum:?}");
        }
    }
}

#[test]
fn every_other_seed_holds() {
    if number("TOLLGATE_SIM_SEED").or(number("TOLLGATE_SIM_SEEDS")).is_none() {
        let sum = hold(SEEDS / 2, SEEDS);
        assert!(sum.all_happened(), "{sum:?}");
    }
}

/// A seed that fails must fail again: nothing but the seed decides.
#[test]
fn a_run_depends_on_its_seed_alone() {
    for seed in 0..6 {
        let run = Run::new(seed);
        assert_eq!(run.simulate(), run.simulate());
    }
}
