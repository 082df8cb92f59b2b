//! Bytes that are taken for records of keys or for a snapshot. What must hold is written down in the harness, which the
//! tests on stable share.

#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../../crates/replication/tests/harness/mod.rs"]
mod harness;

fuzz_target!(|input: &[u8]| harness::check(input));
