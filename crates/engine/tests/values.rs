//! Plain values on one core: what is refused for memory, what wall times become, and what a limit's key does not do.

#![allow(clippy::expect_used, reason = "what is missing is a test that fails")]

mod harness;

use harness::{MS, Node, S, Setup, T, check, node};

/// The node's time in whole seconds of the wall clock, with the offset of the test below.
const WALL_SECONDS: u64 = T / S - 3_600;

#[test]
fn wall_times_are_converted_with_the_offset_of_the_moment() {
    // The wall clock was set back by an hour since the start.
    let mut node = Node::new(Setup { wall_offset_micros: -3_600_000_000, ..Setup::default() });
    let soon = WALL_SECONDS + 100;
    for line in [
        format!("SET k v EXAT {soon}"),
        format!("SET k v PXAT {soon}000"),
        format!("GETEX k EXAT {soon}"),
        format!("GETEX k PXAT {soon}000"),
        format!("EXPIREAT k {soon}"),
        format!("PEXPIREAT k {soon}000"),
        format!("INCREX n EXAT {soon}"),
        format!("INCREX n PXAT {soon}000"),
    ] {
        let key = if line.starts_with("INCREX") { "n" } else { "k" };
        assert!(!node.run(&line).starts_with('-'), "{line}");
        assert_eq!(node.run(&format!("PTTL {key}")), "100000", "{line}");
        assert_eq!(node.run(&format!("EXPIRETIME {key}")), soon.to_string(), "{line}");
        assert_eq!(node.run(&format!("PEXPIRETIME {key}")), format!("{soon}000"), "{line}");
        node.run("SET k v");
        node.run("SET n 1");
    }
    check(&mut node, &[("SET k v EX 100", "+OK")]);
    assert_eq!(node.run("PEXPIRETIME k"), format!("{soon}000"));
    // What has passed for the wall clock has passed, though the node's time is an hour ahead of it.
    let past = format!("EXPIREAT k {WALL_SECONDS}");
    assert_eq!((node.run(&past), node.run("EXISTS k")), ("1".to_owned(), "0".to_owned()));
}

#[test]
fn times_are_compared_in_the_milliseconds_that_are_answered() {
    let mut node = node();
    for (beyond_micros, nearest_ms) in [(1, 0), (499, 0), (500, 1), (999, 1)] {
        node.now = T + beyond_micros;
        check(&mut node, &[("SET k v PX 5000", "+OK"), ("PTTL k", "5000")]);
        let end = node.run("PEXPIRETIME k");
        assert_eq!(end, ((T + 5 * S) / MS + nearest_ms).to_string(), "the nearest millisecond");
        for condition in ["GT", "LT"] {
            assert_eq!(node.run(&format!("PEXPIREAT k {end} {condition}")), "0", "{condition}");
        }
    }
    assert_eq!(node.at(T + 5 * S + 998, "GET k"), "\"v\"", "kept to the microsecond");
    assert_eq!(node.at(T + 5 * S + 999, "GET k"), "nil");
}

#[test]
fn a_time_beyond_what_can_be_counted_is_kept_as_the_largest() {
    let mut node = node();
    let largest = (i64::MAX.unsigned_abs() / 1_000 - T / S - 1).to_string();
    for line in
        [format!("SET k v EX {largest}"), format!("EXPIRE k {largest}"), "PEXPIREAT k 9223372036854775807".into()]
    {
        assert!(!node.run(&line).starts_with('-'), "{line}");
        let life_ms: u64 = node.run("PTTL k").parse().expect("a number");
        assert_eq!(life_ms, (u64::MAX - 1 - T).div_ceil(MS), "{line}");
    }
    let too_large = (largest.parse::<u64>().expect("a number") + 2).to_string();
    check(
        &mut node,
        &[
            (&format!("SET k v EX {too_large}"), "-ERR invalid expire time in 'set' command"),
            (&format!("EXPIRE k {too_large}"), "-ERR invalid expire time in 'expire' command"),
        ],
    );
}

/// Every command that must not touch a limit's key.
const WRITERS: [&str; 28] = [
    "GET k",
    "SET k 0",
    "SET k 0 NX",
    "SET k 0 XX",
    "SET k 0 GET",
    "SET k 0 EXAT 1",
    "SETNX k 0",
    "SETEX k 1 0",
    "PSETEX k 1 0",
    "GETSET k 0",
    "GETDEL k",
    "GETEX k",
    "GETEX k PERSIST",
    "STRLEN k",
    "APPEND k 0",
    "INCR k",
    "DECR k",
    "INCRBY k 5",
    "DECRBY k 5",
    "INCRBYFLOAT k 1",
    "INCREX k",
    "INCREX k EXAT 1",
    "EXPIRE k 1",
    "PEXPIRE k 1",
    "EXPIREAT k 1",
    "PEXPIREAT k 1",
    "EXPIRE k 1 XX",
    "PERSIST k",
];

#[test]
fn a_limit_is_neither_freed_nor_frozen_by_commands_on_values() {
    let wrong_type = "-WRONGTYPE Operation against a key holding the wrong kind of value";
    let makers = ["RL.SLIDE k 1 60", "RL.TOKEN k 5 1", "RL.FIXED k 5 60", "RL.LOG k 5 60", "RL.LEAK k 5 1"];
    for maker in makers {
        for writer in WRITERS {
            let (mut node, mut untouched) = (node(), node());
            for node in [&mut node, &mut untouched] {
                node.run(maker);
            }
            assert_eq!(node.run(writer), wrong_type, "{writer} after {maker}");
            for look in ["RL.GET k", "PTTL k", "PEXPIRETIME k", "TYPE k", "EXISTS k", "TOUCH k"] {
                assert_eq!(node.run(look), untouched.run(look), "{look} after {writer}");
            }
        }
        let mut node = node();
        node.run("SET k 5 EX 100");
        assert_eq!(node.run(maker), wrong_type, "{maker} on a value");
        check(&mut node, &[("GET k", "\"5\""), ("TTL k", "100")]);
    }
}

#[test]
fn a_refusal_for_memory_changes_nothing_and_what_needs_none_goes_on() {
    let mut node = Node::new(Setup { memory_max_bytes: 1_000_000, ..Setup::default() });
    let long = "v".repeat(2_000);
    check(
        &mut node,
        &[("SET n 5 EX 100", "+OK"), ("SET s text EX 100", "+OK"), ("RL.SLIDE l 5 60", "[1, 5, 4, 0, 120000]")],
    );
    let mut number = 0;
    while !node.run(&format!("SET filler{number} {long}")).starts_with("-OOM") {
        number += 1;
        assert!(number < 5_000, "memory is bounded");
    }
    let long = "v".repeat(60_000);
    let refused = "-OOM command not allowed when used memory > 'maxmemory'.";
    for line in [
        format!("SET s {long}"),
        format!("SET new {long}"),
        format!("SET s {long} GET"),
        format!("GETSET s {long}"),
        format!("APPEND s {long}"),
        format!("SETEX s 5 {long}"),
    ] {
        assert_eq!(node.run(&line), refused, "{line:.20}");
    }
    check(
        &mut node,
        &[
            ("GET s", "\"text\""),
            ("TTL s", "100"),
            ("EXISTS new", "0"),
            ("INCR n", "6"),
            ("INCREX n BYINT 4 EX 50", "[10, 4]"),
            ("SET n 7 KEEPTTL", "+OK"),
            ("TTL n", "50"),
            ("EXPIRE s 10", "1"),
            ("PERSIST s", "1"),
            ("GETEX s EX 5", "\"text\""),
            ("RL.SLIDE l 5 60", "[1, 5, 3, 0, 120000]"),
            ("GETDEL s", "\"text\""),
            ("DEL n", "1"),
        ],
    );
}

#[test]
fn a_key_drawn_at_random_is_there() {
    for cores in [1, 3] {
        let mut node = Node::new(Setup { cores, ..Setup::default() });
        assert_eq!(node.run("RANDOMKEY"), "nil");
        for number in 0..100 {
            node.run(&format!("SET short{number} v PX 1000"));
        }
        check(&mut node, &[("SET a v", "+OK"), ("RL.SLIDE b 5 60", "[1, 5, 4, 0, 120000]")]);
        let mut drawn = std::collections::BTreeSet::new();
        for _ in 0..1_500 {
            drawn.insert(node.run("RANDOMKEY"));
        }
        assert!(drawn.len() > 90, "{} of 102 keys in 1,500 draws", drawn.len());
        // What has expired is never drawn, even where hardly anything else is left.
        node.now += S;
        for _ in 0..20 {
            let key = node.run("RANDOMKEY");
            assert!(key == "\"a\"" || key == "\"b\"", "{key}");
        }
        node.run("DEL a b");
        assert_eq!(node.run("RANDOMKEY"), "nil");
    }
}
