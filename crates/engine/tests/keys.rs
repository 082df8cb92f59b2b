//! DEL UNLINK EXISTS TYPE TTL PTTL SCAN KEYS DBSIZE FLUSHDB FLUSHALL, on one core and on several.

mod harness;

use harness::{MS, Node, S, T, check, node, node_of};
use std::collections::BTreeSet;

/// Makes `k0` to `k<count - 1>`.
fn fill(node: &mut Node, count: usize) {
    for number in 0..count {
        assert_eq!(node.run(&format!("RL.FIXED k{number} 10 1h")), "[1, 10, 9, 0, 3600000]");
    }
}

/// Walks with SCAN to the end: the keys in the order of their coming, and the steps it took.
fn walk(node: &mut Node, options: &str) -> (Vec<String>, usize) {
    let (mut cursor, mut keys, mut steps) = ("0".to_owned(), Vec::new(), 0);
    loop {
        let reply = node.value(&format!("SCAN {cursor}{options}"));
        let [next, found] = reply.elements() else { panic!("two elements: {reply}") };
        keys.extend(found.elements().iter().map(harness::value::Value::words));
        cursor = next.words();
        steps += 1;
        assert!(cursor.parse::<u32>().is_ok_and(|cursor| cursor < 1 << 31), "{cursor}");
        assert!(steps < 10_000, "the walk does not end");
        if cursor == "0" {
            return (keys, steps);
        }
    }
}

#[test]
fn plain_commands_answer_as_redis_does() {
    let table = [
        ("RL.SLIDE a 5 10", "[1, 5, 4, 0, 20000]"),
        ("RL.TOKEN b 5 1", "[1, 5, 4, 0, 1000]"),
        ("EXISTS a", "1"),
        ("EXISTS a a b none", "3"),
        ("TYPE a", "+rl.slide"),
        ("TYPE none", "+none"),
        ("PTTL a", "20000"),
        ("TTL a", "20"),
        ("PTTL none", "-2"),
        ("TTL none", "-2"),
        ("DBSIZE", "2"),
        ("DEL a a none", "1"),
        ("UNLINK b none", "1"),
        ("DBSIZE", "0"),
    ];
    check(&mut node(), &table);
}

#[test]
fn times_are_rounded_as_each_command_says() {
    let mut node = node();
    node.run("RL.TOKEN k 10 1 COST 10");
    for (elapsed, pttl, ttl) in [
        (0, "10000", "10"),
        (1, "10000", "10"),
        (999, "10000", "10"),
        (1_000, "9999", "10"),
        (501 * MS, "9499", "9"),
        (500 * MS, "9500", "10"),
        (10 * S - 1, "1", "0"),
        (10 * S, "-2", "-2"),
    ] {
        node.now = T + elapsed;
        assert_eq!((node.run("PTTL k"), node.run("TTL k")), (pttl.to_owned(), ttl.to_owned()), "after {elapsed} us");
        if elapsed > 9 * S {
            node.at(T, "RL.TOKEN k 10 1 COST 10");
        }
    }
}

#[test]
fn a_walk_returns_each_key_once_on_any_number_of_cores() {
    for cores in [1, 2, 3, 4, 7] {
        let mut node = node_of(cores);
        fill(&mut node, 500);
        let all: BTreeSet<String> = (0..500).map(|number| format!("k{number}")).collect();
        for options in ["", " COUNT 1", " COUNT 7", " COUNT 100000", " COUNT 9223372036854775807"] {
            let (keys, steps) = walk(&mut node, options);
            assert_eq!((keys.len(), keys.into_iter().collect::<BTreeSet<_>>()), (500, all.clone()), "{options}");
            let whole = options.len() > " COUNT 100".len();
            assert_eq!(steps == 1, whole, "{steps} steps on {cores} cores with{options}");
        }
        assert_eq!(walk(&mut node, " MATCH k1? COUNT 100").0.len(), 10);
        assert_eq!(walk(&mut node, " TYPE RL.FIXED COUNT 50").0.len(), 500);
        assert_eq!(walk(&mut node, " TYPE rl.slide").0, Vec::<String>::new());
        assert_eq!(node.value("KEYS k4?").elements().len(), 10);
        assert_eq!(node.value("KEYS *").elements().len(), 500);
        assert_eq!(node.run("DBSIZE"), "500");
    }
}

#[test]
fn keys_that_stay_are_met_while_others_come_and_go() {
    let mut node = node_of(2);
    fill(&mut node, 200);
    let (mut cursor, mut met, mut step) = ("0".to_owned(), BTreeSet::new(), 0);
    loop {
        let reply = node.value(&format!("SCAN {cursor} COUNT 5"));
        met.extend(reply.elements()[1].elements().iter().map(harness::value::Value::words));
        cursor = reply.elements()[0].words();
        if cursor == "0" {
            break;
        }
        for number in 0..20 {
            node.run(&format!("RL.FIXED new{step}-{number} 10 1h"));
        }
        node.run(&format!("DEL k{}", 100 + step % 100));
        step += 1;
    }
    for number in 0..100 {
        assert!(met.contains(&format!("k{number}")), "k{number}");
    }
}

#[test]
fn scan_refuses_what_redis_refuses() {
    let table = [
        ("SCAN x", "-ERR invalid cursor"),
        ("SCAN -1", "-ERR invalid cursor"),
        ("SCAN 0 COUNT 0", "-ERR syntax error"),
        ("SCAN 0 COUNT -5", "-ERR syntax error"),
        ("SCAN 0 COUNT x", "-ERR value is not an integer or out of range"),
        ("SCAN 0 COUNT 01", "-ERR value is not an integer or out of range"),
        ("SCAN 0 COUNT +1", "-ERR value is not an integer or out of range"),
        ("SCAN 0 COUNT", "-ERR syntax error"),
        ("SCAN 0 LIMIT 5", "-ERR syntax error"),
        ("SCAN 0", "[\"0\", []]"),
        ("SCAN 18446744073709551615", "[\"0\", []]"),
        ("KEYS *", "[]"),
    ];
    for cores in [1, 2] {
        check(&mut node_of(cores), &table);
    }
    let long = "x".repeat(1025);
    let refused = "-ERR pattern is longer than 1024 bytes";
    assert_eq!(node().run(&format!("SCAN 0 MATCH {long}")), refused);
    assert_eq!(node().run(&format!("KEYS {long}")), refused);
}

#[test]
fn only_a_whole_flush_command_flushes() {
    for cores in [1, 2] {
        for command in ["FLUSHDB", "FLUSHALL"] {
            for (mode, expected) in [
                ("", "+OK"),
                (" ASYNC", "+OK"),
                (" sync", "+OK"),
                (" NOW", "-ERR syntax error"),
                (" ASYNC SYNC", "-ERR syntax error"),
                (" ASYNC x", "-ERR syntax error"),
            ] {
                let mut node = node_of(cores);
                fill(&mut node, 20);
                assert_eq!(node.run(&format!("{command}{mode}")), expected, "{command}{mode}");
                let left = if expected == "+OK" { "0" } else { "20" };
                assert_eq!(node.run("DBSIZE"), left, "{command}{mode}");
            }
        }
    }
}

#[test]
fn keys_of_several_cores_are_counted_together() {
    for cores in [1, 2, 4] {
        let mut node = node_of(cores);
        fill(&mut node, 40);
        let names: Vec<String> = (0..40).map(|number| format!("k{number}")).collect();
        let line = names.join(" ");
        assert_eq!(node.run(&format!("EXISTS {line} none k0")), "41");
        assert_eq!(node.run(&format!("DEL {line} k1 none")), "40");
        assert_eq!(node.run(&format!("EXISTS {line}")), "0");
    }
}
