//! RL.SLIDE, RL.TOKEN, RL.FIXED, RL.LOG, RL.LEAK, CL.THROTTLE and RL.GET as commands: replies, options, errors.

mod harness;

use harness::{MS, S, Setup, T, check, node};

const AMOUNT: &str = "must be a whole number from 0 to 1000000000000";
const LENGTH: &str = "must be a length of time such as 60, 0.5, 100ms or 1m (units: us ms s m h d w)";
const RATE: &str = "must be a rate such as 10, 0.5, 100/60 or 100/1m";
const WRONG_TYPE: &str = "-WRONGTYPE Operation against a key holding the wrong kind of value";

/// One row of the example table: what was done before (when, in microseconds from t), then calls and their replies.
type Example = (&'static [(u64, &'static str)], &'static [(u64, &'static str, &'static str)]);

const EXAMPLES: &[Example] = &[
    (
        &[
            (0, "RL.SLIDE k 100 1 COST 82"),
            (S, "RL.SLIDE k 100 1 COST 18 PARTIAL"),
            (S + 300 * MS, "RL.SLIDE k 100 1 COST 12"),
        ],
        &[(S + 400 * MS, "RL.SLIDE k 100 1", "[1, 100, 20, 0, 1600]")],
    ),
    (
        &[(0, "RL.SLIDE k 200 1 COST 82"), (S, "RL.SLIDE k 200 1 COST 55")],
        &[(S + 450 * MS, "RL.SLIDE k 100 1", "[0, 100, 0, 2, 1550]")],
    ),
    (
        &[(0, "RL.SLIDE k 100 1 COST 99")],
        &[(0, "RL.SLIDE k 100 1", "[1, 100, 0, 0, 2000]"), (0, "RL.SLIDE k 100 1", "[0, 100, 0, 1001, 2000]")],
    ),
    (&[(0, "RL.TOKEN k 20 10 COST 16")], &[(500 * MS, "RL.TOKEN k 20 10", "[1, 20, 8, 0, 1200]")]),
    (
        &[],
        &[
            (0, "RL.SLIDE k 2 10", "[1, 2, 1, 0, 20000]"),
            (S, "RL.SLIDE k 2 10", "[1, 2, 0, 0, 19000]"),
            (2 * S, "RL.SLIDE k 2 10", "[0, 2, 0, 8001, 18000]"),
            (12 * S, "RL.SLIDE k 2 10", "[1, 2, 0, 0, 18000]"),
        ],
    ),
    (
        &[],
        &[
            (0, "RL.TOKEN k 5 1 COST 3 PARTIAL", "[3, 5, 2, 0, 3000]"),
            (0, "RL.TOKEN k 5 1 COST 3 PARTIAL", "[2, 5, 0, 0, 5000]"),
            (0, "RL.TOKEN k 5 1 COST 3 PARTIAL", "[0, 5, 0, 1000, 5000]"),
        ],
    ),
    (
        &[],
        &[
            (0, "RL.LEAK k 3 2", "[1, 3, 2, 0, 500]"),
            (0, "RL.LEAK k 3 2", "[1, 3, 1, 500, 1000]"),
            (0, "RL.LEAK k 3 2", "[1, 3, 0, 1000, 1500]"),
            (0, "RL.LEAK k 3 2", "[0, 3, 0, 500, 1500]"),
        ],
    ),
    (
        &[(0, "RL.SLIDE k 10 10 COST 4"), (12 * S, "RL.SLIDE k 10 10 COST 3")],
        &[(12 * S, "RL.SLIDE k 10 10 COST 5 REFUND", "[5, 10, 9, 0, 8000]")],
    ),
    (
        &[(0, "RL.SLIDE k 100 1 COST 100")],
        &[
            (500 * MS, "RL.SLIDE k 100 3600", "[0, 100, 0, 501, 1500]"),
            (1500 * MS, "RL.SLIDE k 100 3600", "[1, 100, 49, 0, 7198500]"),
        ],
    ),
    (
        &[(0, "RL.TOKEN k 10 1 COST 8")],
        &[(0, "RL.TOKEN k 20 1 PEEK", "[1, 20, 12, 0, 8000]"), (0, "RL.TOKEN k 5 1", "[0, 5, 0, 4000, 8000]")],
    ),
    (
        &[],
        &[
            (0, "RL.ALL a SLIDE 1 60 1 c TOKEN 5 1 1", "[1, 0, [1, 1, 0, 0, 120000], [1, 5, 4, 0, 1000]]"),
            (0, "RL.ALL a SLIDE 1 60 1 c TOKEN 5 1 1", "[0, 0, [0, 1, 0, 60001, 120000], [1, 5, 4, 0, 1000]]"),
        ],
    ),
];

#[test]
fn the_examples_hold_in_both_protocols() {
    for (before, calls) in EXAMPLES {
        for resp3 in [false, true] {
            let mut node = node();
            before.iter().for_each(|(at, line)| drop(node.at(T + at, line)));
            if resp3 {
                node.speak_resp3();
            }
            for (at, line, expected) in *calls {
                assert_eq!(node.at(T + at, line), *expected, "{line} at t + {at} us after {before:?}");
            }
        }
    }
}

#[test]
fn options_come_in_any_order_and_case_and_once() {
    let table = [
        ("rl.slide k 10 60 cost 3", "[1, 10, 7, 0, 120000]"),
        ("Rl.Slide k 10 60 PEEK COST 8", "[0, 10, 7, 60001, 120000]"),
        ("RL.SLIDE k 10 60 cOsT 8 pArTiAl", "[7, 10, 0, 0, 120000]"),
        ("RL.SLIDE k 10 60 REFUND COST 2", "[2, 10, 2, 0, 120000]"),
        ("RL.SLIDE k 10 60 COST 0", "[1, 10, 2, 0, 120000]"),
        ("RL.SLIDE k 10 60 COST 0 PARTIAL", "[0, 10, 2, 0, 120000]"),
        ("RL.SLIDE k 10 60 COST 0 REFUND", "[0, 10, 2, 0, 120000]"),
        ("RL.SLIDE k 10 60 COST", "-ERR syntax error: COST needs a number"),
        ("RL.SLIDE k 10 60 COST 1 COST 1", "-ERR syntax error: COST is given twice"),
        ("RL.SLIDE k 10 60 PEEK PEEK", "-ERR syntax error: PEEK is given twice"),
        ("RL.SLIDE k 10 60 PEEK REFUND", "-ERR syntax error: PEEK and REFUND exclude each other"),
        ("RL.SLIDE k 10 60 NX", "-ERR syntax error: 'NX' is no option of RL.SLIDE (COST n, PEEK | PARTIAL | REFUND)"),
        ("RL.LEAK k 10 60 PARTIAL", "-ERR syntax error: 'PARTIAL' is no option of RL.LEAK (COST n, PEEK)"),
        ("RL.LEAK k 10 60 REFUND", "-ERR syntax error: 'REFUND' is no option of RL.LEAK (COST n, PEEK)"),
        ("RL.SLIDE k 10 60 COST -1", &format!("-ERR cost {AMOUNT}")),
        ("RL.SLIDE k 10 60 PEEK", "[1, 10, 2, 0, 120000]"),
    ];
    let mut node = node();
    node.now = T - T % (60 * S);
    check(&mut node, &table);
}

#[test]
fn a_wrong_number_is_named_and_makes_no_key() {
    let mut node = node();
    for command in ["RL.SLIDE", "RL.FIXED", "RL.LOG"] {
        for (limit, window, expected) in [
            ("-1", "1", format!("limit {AMOUNT}")),
            ("1e3", "1", format!("limit {AMOUNT}")),
            ("010", "1", format!("limit {AMOUNT}")),
            ("1000000000001", "1", format!("limit {AMOUNT}")),
            ("1", "0", "window must be at least 1ms".to_owned()),
            ("1", "999us", "window must be at least 1ms".to_owned()),
            ("1", "0.0000001", "window must be a whole number of microseconds".to_owned()),
            ("1", "3651d", "window must be at most 3650d".to_owned()),
            ("1", "1M", format!("window {LENGTH}")),
            ("1", "nan", format!("window {LENGTH}")),
            ("1", "+1", format!("window {LENGTH}")),
            ("1", "1234567890123456789", "window must have at most 18 digits".to_owned()),
        ] {
            assert_eq!(node.run(&format!("{command} k {limit} {window}")), format!("-ERR {expected}"), "{command}");
        }
    }
    for command in ["RL.TOKEN", "RL.LEAK"] {
        for (capacity, rate, expected) in [
            ("x", "1", format!("capacity {AMOUNT}")),
            ("1000000000001", "1", format!("capacity {AMOUNT}")),
            ("1", "0", "rate must be at least 1 in 365d".to_owned()),
            ("1", "1/366d", "rate must be at least 1 in 365d".to_owned()),
            ("1", "1000000001", "rate must be at most 1000000000 a second".to_owned()),
            ("1", "1/0s", format!("rate {RATE}")),
            ("1", "inf", format!("rate {RATE}")),
            ("1", "0x10", format!("rate {RATE}")),
        ] {
            assert_eq!(node.run(&format!("{command} k {capacity} {rate}")), format!("-ERR {expected}"), "{command}");
        }
    }
    assert_eq!(node.run("EXISTS k"), "0");
}

#[test]
fn a_log_has_a_configured_top() {
    let mut node = harness::Node::new(Setup { log_limit_max: 5, ..Setup::default() });
    let refused = "-ERR limit must be at most 5 for a sliding log, which keeps an entry for each call";
    let table = [
        ("RL.LOG k 6 1", refused),
        ("RL.ALL k LOG 6 1 1", refused),
        ("RL.LOG k 5 1 COST 5", "[1, 5, 0, 0, 1000]"),
        ("RL.SLIDE s 6 1", "[1, 6, 5, 0, 2000]"),
    ];
    check(&mut node, &table);
}

#[test]
fn denied_refused_and_looking_calls_make_no_key() {
    let mut node = node();
    for line in [
        "RL.SLIDE k 0 1",
        "RL.SLIDE k 5 1 COST 6",
        "RL.SLIDE k 5 1 PEEK",
        "RL.SLIDE k 5 1 COST 0",
        "RL.SLIDE k 5 1 COST 3 REFUND",
        "RL.TOKEN k 5 1 COST 6",
        "RL.TOKEN k 0 1 COST 3 PARTIAL",
        "RL.FIXED k 5 1 PEEK",
        "RL.LOG k 5 1 REFUND",
        "RL.LEAK k 5 1 PEEK",
        "RL.LEAK k 5 1 COST 6",
        "CL.THROTTLE k 4 1 1 6",
        "CL.THROTTLE k 4 1 1 0",
        "RL.ALL k SLIDE 5 1 1 other SLIDE 0 1 1",
        "RL.ALL k SLIDE 5 1 0",
    ] {
        let reply = node.run(line);
        assert!(reply.starts_with('['), "{line}: {reply}");
        assert_eq!(node.run("EXISTS k other"), "0", "{line}");
    }
    let table = [
        ("RL.SLIDE k 0 1", "[0, 0, 0, -1, 0]"),
        ("RL.SLIDE k 0 1 COST 0", "[1, 0, 0, 0, 0]"),
        ("RL.SLIDE k 5 1 COST 6", "[0, 5, 5, -1, 0]"),
        ("RL.SLIDE k 5 1 COST 3 REFUND", "[0, 5, 5, 0, 0]"),
    ];
    check(&mut node, &table);
}

#[test]
fn another_algorithm_on_a_key_touches_nothing() {
    let makers = [
        ("RL.SLIDE k 10 60 COST 4", "rl.slide"),
        ("RL.TOKEN k 10 1 COST 4", "rl.token"),
        ("RL.FIXED k 10 60 COST 4", "rl.fixed"),
        ("RL.LOG k 10 60 COST 4", "rl.log"),
        ("RL.LEAK k 10 1 COST 4", "rl.leak"),
    ];
    for (maker, kind) in makers {
        let mut node = node();
        node.run(maker);
        let (before, expiry) = (node.run("RL.GET k"), node.run("PTTL k"));
        for (other, _) in makers.iter().filter(|(other, _)| other != &maker) {
            for option in ["", " PEEK", " COST 0"] {
                let line = other.replace(" COST 4", option);
                assert_eq!(node.run(&line), WRONG_TYPE, "{line} on {kind}");
            }
        }
        let throttle = node.run("CL.THROTTLE k 9 1 1");
        assert_eq!(throttle == WRONG_TYPE, kind != "rl.token", "{kind}: {throttle}");
        if kind != "rl.token" {
            assert_eq!((node.run("RL.GET k"), node.run("PTTL k")), (before, expiry));
        }
        assert_eq!(node.run("TYPE k"), format!("+{kind}"));
    }
}

#[test]
fn throttle_answers_as_redis_cell_does() {
    let wrong_count = "-ERR count must be at least 1: a rate of 0 never lets anything through";
    let table = [
        ("CL.THROTTLE k 4 5 5", "[0, 5, 4, -1, 1]"),
        ("CL.THROTTLE k 4 5 5 4", "[0, 5, 0, -1, 5]"),
        ("CL.THROTTLE k 4 5 5", "[1, 5, 0, 1, 5]"),
        ("CL.THROTTLE k 4 5 5 3", "[1, 5, 0, 3, 5]"),
        ("CL.THROTTLE k 4 5 5 6", "[1, 5, 0, -1, 5]"),
        ("CL.THROTTLE k 4 5 5 0", "[0, 5, 0, -1, 5]"),
        ("RL.TOKEN k 5 1 PEEK", "[0, 5, 0, 1000, 5000]"),
        ("TYPE k", "+rl.token"),
        ("CL.THROTTLE new 4 0 5", wrong_count),
        ("CL.THROTTLE new 4 5 0", "-ERR period must be at least 1ms"),
        ("CL.THROTTLE new 4 5 1.5", &format!("-ERR period {AMOUNT}")),
        ("CL.THROTTLE new 4 5 5m", &format!("-ERR period {AMOUNT}")),
        ("CL.THROTTLE new 4 5 5 x", &format!("-ERR quantity {AMOUNT}")),
        ("CL.THROTTLE new -1 5 5", &format!("-ERR max_burst {AMOUNT}")),
        ("CL.THROTTLE new 1000000000000 5 5", "-ERR max_burst must be below 1000000000000"),
        ("CL.THROTTLE new 4 5 5 1 1", "-ERR wrong number of arguments for 'cl.throttle' command"),
        ("CL.THROTTLE new 4 5", "-ERR wrong number of arguments for 'cl.throttle' command"),
        ("EXISTS new", "0"),
        ("CL.THROTTLE big 999999999999 1 1", "[0, 1000000000000, 999999999999, -1, 1]"),
    ];
    check(&mut node(), &table);
}

#[test]
fn get_says_what_is_stored_and_changes_nothing() {
    let mut node = node();
    node.run("RL.SLIDE k 10 60 COST 4");
    let (first, second) = (node.value("RL.GET k"), node.value("RL.GET k"));
    assert_eq!(first, second);
    for (field, part) in [
        ("algorithm", "RL.SLIDE"),
        ("limit", "10 in 60 s"),
        ("use", "4 of 10 units used, 6 left"),
        ("arithmetic", "current 4"),
        ("next", "up to 6 units"),
    ] {
        let words = first.field(field).map(|value| value.words()).unwrap_or_default();
        assert!(words.contains(part), "{field}: {words:?}");
    }
    assert_eq!(node.run("RL.GET none"), "nil");
    node.run("RL.TOKEN slow 2 1/60");
    let field = |node: &mut harness::Node, name: &str| node.value("RL.GET slow").field(name).map(|value| value.words());
    assert_eq!(field(&mut node, "limit").as_deref(), Some("2 at once, 1 in 60 s after that"));
    assert_eq!(field(&mut node, "next").as_deref(), Some("calls of up to 1 unit in all are admitted"));
    node.speak_resp3();
    assert_eq!(node.value("RL.GET k").pairs(), first.pairs());
    assert!(matches!(node.value("RL.GET k"), harness::value::Value::Map(_)));
}

#[test]
fn an_expired_key_is_none_for_every_command() {
    let table = [
        ("RL.FIXED k 5 10 COST 5", 10 * S),
        ("RL.SLIDE k 5 10 COST 5", 20 * S),
        ("RL.LOG k 5 10 COST 5", 10 * S),
        ("RL.TOKEN k 5 1 COST 5", 5 * S),
        ("RL.LEAK k 5 1 COST 5", 5 * S),
    ];
    for (line, lifetime) in table {
        for question in ["EXISTS k", "TYPE k", "PTTL k", "TTL k", "RL.GET k", "DEL k", "KEYS *", "SCAN 0 COUNT 100"] {
            let mut node = node();
            let nothing = node.run(question);
            node.run(line);
            assert_ne!(node.at(T + lifetime - 1, question), nothing, "{question} just before {line} expires");
            node.at(T, "FLUSHALL");
            node.run(line);
            assert_eq!(node.at(T + lifetime, question), nothing, "{question} when {line} expires");
        }
    }
}
