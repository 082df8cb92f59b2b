//! A row of plain calls answers, counts and leaves what the same calls do one by one: random histories on two nodes, of
//! which one runs rows as a connection does, here and by parcels, and the other each call as any command is run.

#![allow(clippy::expect_used, clippy::indexing_slicing, reason = "what is missing is a test that fails")]

mod harness;

use harness::{MS, Node, S, Setup, packed};
use tollgate_engine::call::Call;
use tollgate_engine::core::Core;
use tollgate_engine::parcel::Parcel;
use tollgate_engine::plain::{Order, Plain, PlainCall, ROW_CALLS_MAX, Row};
use tollgate_resp::{Args, Protocol, Reply, Span};
use tollgate_store::Eviction;

/// The replies of a row, in its order: own ones as ends in the output, others as a core and a position of its parcel.
struct Sorted<'a> {
    plain: &'a Plain,
    protocol: Protocol,
    parcels: Vec<Parcel>,
    replies: Vec<Answer>,
}

enum Answer {
    Own(usize),
    Of(usize, usize),
}

impl Order for Sorted<'_> {
    fn elsewhere(&mut self, call: &PlainCall, key: &[u8], _end: usize) {
        let core = usize::from(call.core);
        let position = self.parcels[core].push_plain(self.plain, call, key, self.protocol);
        self.replies.push(Answer::Of(core, position));
    }

    fn answered(&mut self, end: usize) {
        self.replies.push(Answer::Own(end));
    }
}

/// What is asked: the command and its two numbers.
type Asked = (&'static str, &'static str, &'static str);

/// The words of a plain call.
fn words(key: &str, (name, first, second): Asked) -> [&[u8]; 4] {
    [name, key, first, second].map(str::as_bytes)
}

/// Runs a row that came to core 0, as a connection there does.
fn as_row(node: &mut Node, keys: &[&str], asked: Asked) -> Vec<Vec<u8>> {
    let (buffer, spans) = packed(&words("k", asked));
    let args = Args::new(&buffer, &spans);
    let entry = node.dispatcher.prepare(args).expect("a good command").entry;
    let plain = Plain::of(entry, args).expect("a plain call");
    let (mut buffer, mut calls) = (Vec::new(), Vec::new());
    for key in keys {
        let start = u32::try_from(buffer.len()).expect("small");
        buffer.extend_from_slice(key.as_bytes());
        let (core, at) = node.dispatcher.locate(key.as_bytes());
        calls.push(PlainCall { at, core, key: Span { start, end: u32::try_from(buffer.len()).expect("small") } });
    }
    let (protocol, now) = (node.session.protocol, node.now);
    let parcels = node.cores.iter().map(|_| Parcel::default()).collect();
    let mut order = Sorted { plain: &plain, protocol, parcels, replies: Vec::new() };
    let mut out = b"+before\r\n".to_vec();
    let before = out.len();
    node.cores[0].top.begin_batch(keys.len(), now);
    node.cores[0].run_plain(Row { plain: &plain, calls: &calls, buffer: &buffer, now }, protocol, &mut out, &mut order);
    let Sorted { mut parcels, replies, .. } = order;
    for (core, parcel) in parcels.iter_mut().enumerate().filter(|(_, parcel)| !parcel.is_empty()) {
        node.cores[core].run_parcel(parcel, now);
    }
    let mut start = before;
    let reply = |answer: &Answer| match *answer {
        Answer::Own(end) => out[std::mem::replace(&mut start, end)..end].to_vec(),
        Answer::Of(core, position) => parcels[core].reply(position).to_vec(),
    };
    let replies: Vec<_> = replies.iter().map(reply).collect();
    assert_eq!((replies.len(), start), (keys.len(), out.len()), "each call has a reply, and nothing is left over");
    replies
}

/// Runs the same calls one by one, those of each core in their order.
fn one_by_one(node: &mut Node, keys: &[&str], asked: Asked) -> Vec<Vec<u8>> {
    let owners: Vec<usize> = keys.iter().map(|key| usize::from(node.owner(key))).collect();
    for core in 0..node.cores.len() {
        let calls = owners.iter().filter(|owner| **owner == core).count();
        if core == 0 {
            node.cores[0].top.begin_batch(keys.len(), node.now);
        } else if calls > 0 {
            node.cores[core].counters.batches.add(1);
            node.cores[core].top.begin_batch(calls, node.now);
        }
    }
    let mut replies = Vec::new();
    for (key, owner) in keys.iter().zip(owners) {
        let (buffer, spans) = packed(&words(key, asked));
        let args = Args::new(&buffer, &spans);
        let ready = node.dispatcher.prepare(args).expect("a good command");
        let mut out = Vec::new();
        let call = Call { args, at: ready.at, now: node.now };
        node.cores[owner].run_key(ready.entry, &call, &mut Reply::new(&mut out, node.session.protocol));
        replies.push(out);
    }
    replies
}

/// All that can be seen of a node from outside, but for how long things took.
fn seen(node: &mut Node, keys: &[String]) -> Vec<String> {
    let mut lines: Vec<String> =
        keys.iter().map(|key| format!("{key}: {}", node.run(&format!("RL.GET {key}")))).collect();
    lines.push(node.run("RL.TOP 20"));
    lines.push(node.run("RL.TOP 20 DENIED"));
    for core in &mut node.cores {
        core.publish();
        let plain = core.counters.each().filter(|(name, ..)| *name != "store_longest_step_us");
        lines.extend(plain.map(|(name, _, _, value)| format!("{name} {value}")));
        let counters = &core.counters;
        let arrays = [&counters.commands, &counters.commands_failed].map(|cells| cells.iter());
        let by_algorithm = counters.allowed.iter().chain(&counters.denied).chain(&counters.errors);
        let values: Vec<u64> = arrays.into_iter().flatten().chain(by_algorithm).map(|cell| cell.get()).collect();
        lines.push(format!("{values:?} {}", core.store.memory_used()));
    }
    lines
}

struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from((self.0 >> 33) % u64::try_from(bound).expect("small")).expect("small")
    }
}

/// Keys of all lengths that are treated in a way of their own, some under one tag.
fn keys() -> Vec<String> {
    let lengths = (0..60).map(|length| format!("{length:02}{}", "k".repeat(length)));
    let alike = (0..40).map(|number| format!("rl:key:{number:017}"));
    lengths.chain(alike).chain((0..10).map(|number| format!("{{tag}}{number}"))).collect()
}

const ASKED: [Asked; 14] = [
    ("RL.SLIDE", "100", "60"),
    ("RL.SLIDE", "3", "1s"),
    ("RL.SLIDE", "5", "1500ms"),
    ("RL.SLIDE", "0", "1h"),
    ("RL.SLIDE", "1000000000000", "1d"),
    ("rl.slide", "100", "1m"),
    ("RL.FIXED", "4", "2s"),
    ("RL.FIXED", "1000", "1h"),
    ("RL.TOKEN", "5", "2"),
    ("RL.TOKEN", "10", "7/11s"),
    // A bucket that needs more than two words.
    ("RL.TOKEN", "1000000000000", "0.00000004567891"),
    ("RL.LEAK", "5", "3"),
    ("RL.LEAK", "1000", "0.01"),
    ("RL.LEAK", "0", "1"),
];

fn history(random: &mut Random, steps: usize, setup: impl Fn() -> Setup, protocol: Protocol) -> Node {
    let keys = keys();
    let (mut rows, mut singles) = (Node::new(setup()), Node::new(setup()));
    if random.below(2) == 0 {
        rows.cores.iter_mut().for_each(Core::forget_wide);
    }
    for node in [&mut rows, &mut singles] {
        node.session.set_protocol(protocol);
    }
    for step in 0..steps {
        let key = &keys[random.below(keys.len())];
        let line = match random.below(12) {
            0 => Some(format!("RL.TOKEN {key} 5 1")),
            1 => Some(format!("DEL {key}")),
            2 => Some(format!("SET {key} a-value")),
            3 => Some(format!("RL.SLIDE {key} 7 2s COST 2")),
            4 if random.below(20) == 0 => Some("FLUSHALL".to_owned()),
            _ => None,
        };
        if let Some(line) = line {
            assert_eq!(rows.run(&line), singles.run(&line), "step {step}: {line}");
        }
        let asked = ASKED[random.below(ASKED.len())];
        let some = 1 + random.below(keys.len());
        let calls = 1 + random.below(ROW_CALLS_MAX);
        let row: Vec<&str> = (0..calls).map(|_| keys[random.below(some)].as_str()).collect();
        assert_eq!(as_row(&mut rows, &row, asked), one_by_one(&mut singles, &row, asked), "step {step}: {asked:?}");
        let passed = [0, MS, 300 * MS, S, 70 * S][random.below(5)];
        rows.now += passed;
        singles.now += passed;
        if step % 50 == 49 {
            assert_eq!(seen(&mut rows, &keys), seen(&mut singles, &keys), "step {step}");
        }
    }
    rows
}

#[test]
fn a_row_is_its_calls_one_by_one() {
    for cores in 1..=3 {
        for (seed, protocol) in [(1, Protocol::Resp2), (2, Protocol::Resp3), (3, Protocol::Resp2)] {
            history(&mut Random(seed), 200, || Setup { cores, ..Setup::default() }, protocol);
        }
    }
}

#[test]
fn a_row_is_refused_for_memory_where_its_calls_are() {
    for eviction in [Eviction::NoEviction, Eviction::EvictLeast] {
        for cores in 1..=2 {
            let memory_max_bytes = 330_000 * u64::from(cores);
            let setup = || Setup { cores, memory_max_bytes, eviction, ..Setup::default() };
            let node = history(&mut Random(3), 200, setup, Protocol::Resp2);
            let refused: u64 = node.cores.iter().map(|core| core.counters.oom_replies.get()).sum();
            let evicted: u64 = node.cores.iter().map(|core| core.counters.evicted_keys.get()).sum();
            assert!(refused > 0 || eviction != Eviction::NoEviction);
            assert_eq!(evicted > 0, eviction != Eviction::NoEviction);
        }
    }
}

#[test]
fn only_a_whole_and_good_limit_is_plain() {
    let mut node = harness::node();
    let mut plain = |line: &str| {
        let line: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
        let (buffer, spans) = packed(&line);
        let args = Args::new(&buffer, &spans);
        node.now += 1;
        node.dispatcher.prepare(args).is_ok_and(|ready| Plain::of(ready.entry, args).is_some())
    };
    let good = ["RL.SLIDE k 100 60", "rl.slide k 0 1ms", "RL.FIXED k 100 60", "RL.TOKEN k 5 0.5", "RL.LEAK k 5 1"];
    for line in good.into_iter().chain(["RL.SLIDE k 1000000000000 3650d"]) {
        assert!(plain(line), "{line}");
    }
    let others = ["RL.SLIDE k 100 60 PEEK", "RL.SLIDE k 100 60 COST 1", "RL.SLIDE k x 60", "RL.SLIDE k 100 0"];
    for line in others.into_iter().chain(["RL.LOG k 100 60", "RL.TOKEN k 100 0", "INCR k", "RL.SLIDE k 100"]) {
        assert!(!plain(line), "{line}");
    }
}
