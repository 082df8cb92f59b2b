//! Commands for several keys at the memory bound: many that ask at once, what is promised and called off, what moves.

#![allow(clippy::expect_used, reason = "what is missing is a test that fails")]

mod harness;

use harness::{Node, Setup, T, node_of};
use std::collections::BTreeMap;
use tollgate_engine::call::Call;
use tollgate_engine::command::{Handler, MergeFn, PartFn};
use tollgate_engine::registry::rows;
use tollgate_engine::steps::{Order, PlanFn, Steps, run_order};
use tollgate_resp::{OwnedArgs, Protocol, Reply};
use tollgate_store::Eviction;

const OUT_OF_MEMORY: &str = "-OOM command not allowed when used memory > 'maxmemory'.\r\n";

fn mset() -> (PlanFn, PartFn, MergeFn) {
    match rows().into_iter().find(|row| row.name == "mset").map(|row| row.handler) {
        Some(Handler::StepsOrParts(plan, part, merge)) => (plan, part, merge),
        _ => panic!("MSET runs in steps or parts"),
    }
}

/// A repeatable choice of numbers.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }
}

/// A MSET on its way: its arguments, its plan, and the orders that no core has taken yet.
struct Course {
    arguments: OwnedArgs,
    steps: Box<dyn Steps>,
    orders: Vec<Order>,
}

fn call_of(arguments: &OwnedArgs) -> Call<'_> {
    Call { args: arguments.args(), at: tollgate_store::Hasher::new([1, 2, 3, 4]).locate(b""), now: T }
}

fn begin(node: &Node, words: &[Vec<u8>]) -> Course {
    let arguments: OwnedArgs = words.iter().map(Vec::as_slice).collect();
    let mut steps = mset().0(&call_of(&arguments), &node.dispatcher.places()).expect("a whole MSET");
    let orders = steps.next();
    Course { arguments, steps, orders }
}

/// Runs one of a course's orders. True: it is over.
fn go_on(node: &mut Node, course: &mut Course, random: &mut Random) -> bool {
    let order = course.orders.swap_remove(random.below(course.orders.len() as u64) as usize);
    let (mut fragment, call) = (Vec::new(), call_of(&course.arguments));
    let core = node.cores.get_mut(usize::from(order.core)).expect("the order's core");
    let content = run_order(core, &order.arguments, order.run, order.at, &call, order.content, &mut fragment);
    course.steps.answered(order.core, &fragment, content);
    if course.orders.is_empty() {
        course.orders = course.steps.next();
    }
    course.orders.is_empty()
}

fn reply_of(course: &Course) -> String {
    let mut out = Vec::new();
    course.steps.reply(&mut Reply::new(&mut out, Protocol::Resp2));
    String::from_utf8(out).expect("text")
}

/// Some keys and values: a few long ones, or many short ones; now and then a limit's key among them.
fn random_mset(random: &mut Random, round: u64) -> Vec<Vec<u8>> {
    let mut words = vec![b"MSET".to_vec()];
    let (keys, value_bytes, key_bytes) = match random.below(3) {
        0 => (1 + random.below(12), 60_000, 8),
        1 => (1 + random.below(300), 12, 8 + random.below(60) as usize),
        _ => (1 + random.below(60), 1 + random.below(3_000) as usize, 16),
    };
    for number in 0..keys {
        let owner = if random.below(4) == 0 { random.below(9) } else { round };
        words.push(format!("{:key_bytes$}", format!("k{owner}-{number}")).into_bytes());
        words.push(vec![b'x'; value_bytes]);
    }
    if random.below(6) == 0 {
        words.push(b"limit".to_vec());
        words.push(b"1".to_vec());
    }
    words
}

fn bounded(cores: u16, memory_max_bytes: u64, eviction: Eviction) -> Node {
    Node::new(Setup { cores, memory_max_bytes, eviction, ..Setup::default() })
}

#[test]
fn of_many_that_ask_at_once_none_is_promised_what_another_was() {
    for (seed, eviction) in [(11, Eviction::NoEviction), (12, Eviction::EvictLeast), (13, Eviction::NoEviction)] {
        let (mut random, bound) = (Random(seed), 6_000_000);
        let mut node = bounded(3, bound, eviction);
        node.run("RL.SLIDE limit 5 3600");
        let mut replies: BTreeMap<String, u32> = BTreeMap::new();
        for round in 0..40 {
            let mut courses: Vec<Course> =
                (0..20).map(|_| begin(&node, &random_mset(&mut random, round * 7 + seed))).collect();
            while !courses.is_empty() {
                let chosen = random.below(courses.len() as u64) as usize;
                let course = courses.get_mut(chosen).expect("one of them");
                if go_on(&mut node, course, &mut random) {
                    *replies.entry(reply_of(&courses.swap_remove(chosen))).or_default() += 1;
                }
                for core in &node.cores {
                    let used = core.store.memory_used();
                    assert!(used <= bound / 3, "{used} of {} in round {round}, {eviction:?}", bound / 3);
                }
            }
            assert!(node.cores.iter().all(|core| core.store.reserved() == 0), "round {round}: {replies:?}");
            if round % 8 == 7 {
                node.run("FLUSHALL");
                node.run("RL.SLIDE limit 5 3600");
            }
        }
        let refusals = replies.get(OUT_OF_MEMORY).copied().unwrap_or(0);
        assert!(refusals > 20 && replies.len() == 3, "{eviction:?}: {replies:?}");
        assert!(replies.get("+OK\r\n").is_some_and(|count| *count > 50), "{eviction:?}: {replies:?}");
    }
}

#[test]
fn a_part_in_a_transaction_is_written_whole_or_not_at_all() {
    let mut node = bounded(1, 1_000_000, Eviction::NoEviction);
    node.run("RL.SLIDE limit 5 60");
    let long = "v".repeat(60_000);
    for (line, expected, is_written) in [
        ("MSET a 1 b 2".to_owned(), "+OK\r\n", true),
        ("MSET c 1 limit 2".to_owned(), "-WRONGTYPE", false),
        (format!("MSET d 1 {}", (0..17).map(|n| format!("e{n} {long} ")).collect::<String>().trim()), "-OOM", false),
    ] {
        let arguments: OwnedArgs = line.split(' ').map(str::as_bytes).collect();
        let (call, mut fragment, mut out) = (call_of(&arguments), Vec::new(), Vec::new());
        let (_, part, merge) = mset();
        part(node.cores.first_mut().expect("one core"), &call, &mut fragment);
        merge(&[fragment.as_slice(), &[0]], &call, &mut Reply::new(&mut out, Protocol::Resp2));
        let reply = String::from_utf8(out).expect("text");
        assert!(reply.starts_with(expected), "{line:.20}: {reply}");
        let key = line.split(' ').nth(1).expect("a key");
        assert_eq!(node.run(&format!("EXISTS {key}")), u8::from(is_written).to_string(), "{line:.20}");
    }
    assert_eq!(node.cores.first().map(|core| core.store.reserved()), Some(0));
}

#[test]
fn a_copy_over_a_small_value_asks_for_room() {
    for eviction in [Eviction::NoEviction, Eviction::EvictLeast] {
        for cores in [1, 2] {
            let bound = 3_000_000;
            let mut node = bounded(cores, bound, eviction);
            node.run(&format!("SET big {}", "x".repeat(65_536)));
            (0..400).for_each(|number| assert_eq!(node.run(&format!("SET k{number} 1")), "+OK"));
            let mut refused = 0;
            for number in 0..400 {
                let reply = node.run(&format!("COPY big k{number} REPLACE"));
                if reply.starts_with("-OOM") {
                    refused += 1;
                    assert_eq!(node.run(&format!("GET k{number}")), "\"1\"");
                } else {
                    // Where records are dropped, the source may be one of them.
                    assert!(reply == "1" || (reply == "0" && eviction == Eviction::EvictLeast), "{reply}");
                }
                assert!(node.cores.iter().all(|core| core.store.memory_used() <= bound / u64::from(cores)));
            }
            assert!(refused > 300 || eviction == Eviction::EvictLeast, "{refused}");
        }
    }
}

#[test]
fn a_key_that_finds_no_room_under_its_new_name_keeps_its_old_one() {
    for cores in [1, 2] {
        let bound = 3_000_000;
        let mut node = bounded(cores, bound, Eviction::NoEviction);
        assert_eq!(node.run("RL.SLIDE limit 5 3600 COST 3"), "[1, 5, 2, 0, 7200000]");
        let mut keys = 0;
        while node.run(&format!("SET k{keys} {keys}")) == "+OK" {
            keys += 1;
        }
        let mut refused = 0;
        for number in 0..keys {
            let longer = format!("{:x<1000}", format!("k{number}-"));
            let reply = node.run(&format!("RENAME k{number} {longer}"));
            let (there, gone) =
                if reply == "+OK" { (longer, format!("k{number}")) } else { (format!("k{number}"), longer) };
            refused += u64::from(reply.starts_with("-OOM"));
            assert!(reply == "+OK" || reply.starts_with("-OOM"), "{reply}");
            assert_eq!(node.run(&format!("GET {there}")), format!("\"{number}\""));
            assert_eq!(node.run(&format!("EXISTS {gone}")), "0");
            assert!(node.cores.iter().all(|core| core.store.memory_used() <= bound / u64::from(cores)));
        }
        assert!(refused > keys / 2, "{refused} of {keys}");
        // A limit keeps its use, and a name that is not longer always has room on the same core.
        let long = format!("{:x<1000}", "limit-");
        assert!(node.run(&format!("RENAME limit {long}")).starts_with("-OOM"));
        assert_eq!(node.run("RL.SLIDE limit 5 3600 PEEK"), "[1, 5, 2, 0, 7200000]");
        if cores == 1 {
            assert_eq!(node.run("RENAME limit limiT"), "+OK");
            assert_eq!(node.run("RL.SLIDE limiT 5 3600 PEEK"), "[1, 5, 2, 0, 7200000]");
        }
    }
}

#[test]
fn an_answer_of_values_that_would_be_too_long_is_refused() {
    for cores in [1, 3] {
        let mut node = node_of(cores);
        let value = "x".repeat(65_536);
        (0..9).for_each(|number| assert_eq!(node.run(&format!("SET k{number} {value}")), "+OK"));
        let mget = |count: usize| {
            let keys: Vec<String> = (0..count).map(|number| format!("k{}", number % 9)).collect();
            format!("MGET {}", keys.join(" "))
        };
        let refused = "-ERR the answer would pass the output limit of 32 MiB";
        assert_eq!(node.run(&mget(8_000)), refused);
        assert_eq!(node.run(&mget(512)), refused);
        assert!(node.run(&mget(500)).starts_with("[\"xxx"));
    }
}
