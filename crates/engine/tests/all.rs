//! RL.ALL where all keys lie on one core, and through the plan over several: the same replies, all or nothing.

mod harness;

use harness::{Node, S, Setup, T, check, node, node_of};
use tollgate_store::Eviction;

/// A node of so many cores at the start of a window of a minute, so that times are round.
fn on_the_minute(cores: u16) -> Node {
    let mut node = node_of(cores);
    node.now = T - T % (60 * S);
    node
}

#[test]
fn replies_are_the_same_on_any_number_of_cores() {
    let table = [
        ("RL.ALL a SLIDE 10 60 4", "[1, 0, [1, 10, 6, 0, 120000]]"),
        ("RL.ALL a slide 10 60 1 b token 5 1 2", "[1, 0, [1, 10, 5, 0, 120000], [1, 5, 3, 0, 2000]]"),
        // The least share is left of b, though a has fewer units.
        ("RL.ALL a SLIDE 10 60 1 b TOKEN 100 1 0", "[1, 0, [1, 10, 4, 0, 120000], [1, 100, 98, 0, 2000]]"),
        ("RL.ALL c FIXED 4 60 2 d LOG 2 60 1", "[1, 0, [1, 4, 2, 0, 60000], [1, 2, 1, 0, 60000]]"),
        // Denied by one: the others are as PEEK would answer, and nothing is taken.
        ("RL.ALL c FIXED 4 60 1 d LOG 2 60 2", "[0, 1, [1, 4, 2, 0, 60000], [0, 2, 1, 60000, 60000]]"),
        // Denied by two: the longer wait binds; never is the longest; ties go to the lowest.
        ("RL.ALL b TOKEN 5 1 5 d LOG 2 60 2", "[0, 1, [0, 5, 3, 2000, 2000], [0, 2, 1, 60000, 60000]]"),
        ("RL.ALL b TOKEN 5 1 6 d LOG 2 60 2", "[0, 0, [0, 5, 3, -1, 2000], [0, 2, 1, 60000, 60000]]"),
        ("RL.ALL c FIXED 4 60 3 d LOG 2 60 2", "[0, 0, [0, 4, 2, 60000, 60000], [0, 2, 1, 60000, 60000]]"),
        ("RL.ALL e LEAK 3 2 1 f LEAK 3 2 1", "[1, 0, [1, 3, 2, 0, 500], [1, 3, 2, 0, 500]]"),
        ("RL.ALL e LEAK 3 2 1 f LEAK 3 2 1", "[1, 0, [1, 3, 1, 500, 1000], [1, 3, 1, 500, 1000]]"),
        // A hold is no wait for being admitted: it does not bind.
        ("RL.ALL e LEAK 3 2 1 g FIXED 0 60 1", "[0, 1, [1, 3, 1, 1000, 1000], [0, 0, 0, -1, 0]]"),
        // Limit 0 counts as nothing left, and cost 0 is admitted there.
        ("RL.ALL h TOKEN 5 1 1 g FIXED 0 60 0", "[1, 1, [1, 5, 4, 0, 1000], [1, 0, 0, 0, 0]]"),
        ("RL.ALL a SLIDE 10 60 0 b TOKEN 5 1 0", "[1, 0, [1, 10, 4, 0, 120000], [1, 5, 3, 0, 2000]]"),
    ];
    for cores in [1, 2, 3, 5] {
        check(&mut on_the_minute(cores), &table);
        let mut resp3 = on_the_minute(cores);
        resp3.speak_resp3();
        check(&mut resp3, &table);
    }
}

#[test]
fn an_error_in_any_group_is_the_whole_reply() {
    let groups = "-ERR RL.ALL takes groups of five: key algorithm number number cost";
    let wrong_type = "-WRONGTYPE Operation against a key holding the wrong kind of value";
    let table = [
        ("RL.ALL a SLIDE 10 60 1 b", groups),
        ("RL.ALL a SLIDE 10 60 1 b SLIDE 10 60", groups),
        ("RL.ALL a SLIDE 10 60", "-ERR wrong number of arguments for 'rl.all' command"),
        ("RL.ALL a SLIDE 10 60 1 a TOKEN 5 1 1", "-ERR key 'a' is given twice"),
        (
            "RL.ALL a SLIDE 10 60 1 b WINDOW 5 1 1",
            "-ERR algorithm must be SLIDE, TOKEN, FIXED, LOG or LEAK, not 'WINDOW'",
        ),
        ("RL.ALL a SLIDE 10 60 1 b TOKEN 5 0 1", "-ERR rate must be at least 1 in 365d"),
        ("RL.ALL a SLIDE 10 60 1 b TOKEN x 1 1", "-ERR capacity must be a whole number from 0 to 1000000000000"),
        ("RL.ALL a SLIDE 10 60 1 b TOKEN 5 1 -1", "-ERR cost must be a whole number from 0 to 1000000000000"),
        ("RL.ALL a SLIDE 10 60 1 t TOKEN 5 1 1 b SLIDE 5 1 1", wrong_type),
        ("EXISTS a b", "0"),
        ("RL.TOKEN t 5 1 PEEK", "[0, 5, 0, 1000, 5000]"),
        ("TYPE t", "+rl.token"),
    ];
    for cores in [1, 2, 3] {
        let mut node = on_the_minute(cores);
        node.run("RL.TOKEN t 5 1 COST 5");
        // A group of another algorithm on t.
        let other = table.map(|(line, reply)| (line.replace("t TOKEN 5 1 1", "t FIXED 5 1 1"), reply));
        for (line, reply) in &other {
            assert_eq!(node.run(line), *reply, "{line}");
        }
    }
}

#[test]
fn there_are_at_most_sixty_four_groups() {
    let groups = |count: usize| -> String {
        let groups: Vec<_> = (0..count).map(|number| format!("k{number} FIXED 10 60 1")).collect();
        format!("RL.ALL {}", groups.join(" "))
    };
    for cores in [1, 2] {
        let mut node = on_the_minute(cores);
        assert_eq!(node.run(&groups(65)), "-ERR RL.ALL takes at most 64 groups");
        assert_eq!(node.run("DBSIZE"), "0");
        assert!(node.run(&groups(64)).starts_with("[1, 0, [1, 10, 9, 0, 60000]"));
        assert_eq!(node.run("DBSIZE"), "64");
    }
}

/// Fills a node's memory until no new key fits, however short.
fn fill(node: &mut Node) {
    let (mut refused, mut number) = (0, 0);
    while refused < 500 {
        // The largest first, so that what is left over at last is less than any key needs.
        let padding = "x".repeat(if refused < 50 { 500 } else { 1 });
        refused += usize::from(node.run(&format!("RL.FIXED fill-{number}-{padding} 10 1h")) == OUT_OF_MEMORY);
        number += 1;
        assert!(number < 50_000, "memory never runs out");
    }
}

/// A node whose memory is bounded.
fn bounded(cores: u16) -> Node {
    Node::new(Setup { cores, memory_max_bytes: 1_000_000 * u64::from(cores), ..Setup::default() })
}

const OUT_OF_MEMORY: &str = "-OOM command not allowed when used memory > 'maxmemory'.";

#[test]
fn what_memory_refuses_is_rolled_back() {
    for cores in [1, 2] {
        let mut node = bounded(cores);
        for line in ["SLIDE s 9 60", "TOKEN t 9 1", "FIXED f 9 60", "LOG l 9 60", "LEAK q 9 1"] {
            let reply = node.run(&format!("RL.{line} COST 2"));
            assert!(reply.starts_with("[1, 9, 7"), "{reply}");
        }
        fill(&mut node);
        let padding = "y".repeat(500);
        let questions = ["RL.GET s", "RL.GET t", "RL.GET f", "RL.GET l", "RL.GET q", "DBSIZE", "PTTL s", "PTTL t"];
        let before = questions.map(|question| node.run(question));
        let refused = format!(
            "RL.ALL s SLIDE 20 1 3 t TOKEN 20 2 3 f FIXED 20 5 3 l LOG 20 5 3 q LEAK 20 2 3 new1{padding} FIXED 9 60 1 \
             new2{padding} SLIDE 9 60 1 new3{padding} LOG 9 60 1"
        );
        assert_eq!(node.run(&refused), OUT_OF_MEMORY, "{cores} cores");
        assert_eq!(questions.map(|question| node.run(question)), before, "{cores} cores");
        // Without new keys the same call goes on.
        assert!(node.run("RL.ALL s SLIDE 20 60 3 t TOKEN 20 1 3 f FIXED 20 60 3").starts_with("[1, "));
    }
}

#[test]
fn at_the_bound_looking_giving_back_and_old_keys_go_on() {
    let mut node = bounded(1);
    fill(&mut node);
    let key = format!("fill-0-{}", "x".repeat(500));
    let new = "n".repeat(500);
    for (line, expected) in [
        (format!("RL.FIXED {new} 10 1h"), OUT_OF_MEMORY),
        (format!("RL.FIXED {new} 10 1h PEEK"), "[1, 10, 10, 0, 0]"),
        (format!("RL.FIXED {new} 10 1h COST 3 REFUND"), "[0, 10, 10, 0, 0]"),
        (format!("CL.THROTTLE {new} 4 1 1"), OUT_OF_MEMORY),
        (format!("RL.FIXED {key} 10 1h"), "[1, 10, 8, 0, 3600000]"),
        (format!("RL.FIXED {key} 10 1h COST 2 REFUND"), "[2, 10, 10, 0, 0]"),
    ] {
        assert_eq!(node.run(&line), expected, "{}", &line[..20]);
    }
    let counted = node.cores[0].counters.oom_replies.get();
    assert!(counted >= 2, "{counted}");
}

#[test]
fn evict_least_makes_room_and_says_what_it_dropped() {
    let setup = Setup { memory_max_bytes: 2_000_000, eviction: Eviction::EvictLeast, ..Setup::default() };
    let mut node = Node::new(setup);
    for number in 0..10_000 {
        let reply = node.run(&format!("RL.ALL a{number}{} FIXED 10 60 1 b{number} TOKEN 10 1 1", "x".repeat(200)));
        assert!(reply.starts_with("[1, 0, "), "{reply}");
    }
    node.cores[0].publish();
    let (keys, units) = (node.cores[0].counters.evicted_keys.get(), node.cores[0].counters.evicted_units.get());
    assert!(keys > 1_000 && units >= keys, "{keys} keys with {units} units");
    assert!(node.cores[0].store.memory_used() <= 2_000_000);
}

#[test]
fn time_of_one_group_does_not_stand_in_for_another() {
    let mut node = node();
    let line = "RL.ALL a SLIDE 2 10 1 b TOKEN 2 1 1 c LOG 3 10 1 d LEAK 9 9 1";
    for (elapsed, decided, fives) in [
        (0, "1, 0", ["1, 2, 1, 0, 20000", "1, 2, 1, 0, 1000", "1, 3, 2, 0, 10000", "1, 9, 8, 0, 112"]),
        (0, "1, 0", ["1, 2, 0, 0, 20000", "1, 2, 0, 0, 2000", "1, 3, 1, 0, 10000", "1, 9, 7, 112, 223"]),
        (S, "0, 0", ["0, 2, 0, 9001, 19000", "1, 2, 1, 0, 1000", "1, 3, 1, 0, 9000", "1, 9, 9, 0, 0"]),
    ] {
        let expected = format!("[{decided}, [{}]]", fives.join("], ["));
        assert_eq!(node.at(T + elapsed, line), expected, "after {elapsed} us");
    }
}
