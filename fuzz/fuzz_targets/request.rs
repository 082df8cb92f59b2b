//! The request parser against redis-protocol, and against itself with the input cut and moved. What must hold is
//! written down in the harness, which the tests on stable share.

#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../../crates/resp/tests/harness/mod.rs"]
mod harness;

fuzz_target!(|input: &[u8]| {
    // Where the input is cut depends on the input alone, so that a finding can be run again.
    let seed = input.iter().fold(0, |seed: u64, &byte| seed.wrapping_mul(31).wrapping_add(u64::from(byte)));
    harness::check(input, seed);
});
