//! The busiest keys, against exact counts: streams of a million keys, sampled and not, whatever pattern they follow;
//! and RL.TOP as a client sees it.

#![allow(clippy::expect_used, clippy::indexing_slicing, reason = "a test that cannot go on is a test that fails")]

mod harness;

use harness::value::Value;
use harness::{Node, S, Setup, T, node, node_of};
use std::collections::HashSet;
use tollgate_engine::top::{Busy, EPOCH_MICROS, TopKeys, Which};
use tollgate_limits::Micros;
use tollgate_store::Located;

const KEYS: usize = 1_000_000;
const CALLS: usize = 1_000_000;
/// Begins an epoch.
const EDGE: Micros = T - T % EPOCH_MICROS;

/// Numbers from a seed: splitmix64.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0)
    }

    /// From 0 to less than 1.
    fn unit(&mut self) -> f64 {
        f64::from(u32::try_from(self.next() >> 32).expect("32 bits")) / 4_294_967_296.0
    }
}

fn mix(number: u64) -> u64 {
    let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}

fn float(number: usize) -> f64 {
    f64::from(u32::try_from(number).expect("32 bits"))
}

/// Ranks from 0, the rank r as often as 1 / (r + 1)^skew says.
struct Zipf {
    cumulative: Vec<f64>,
    /// Where to begin to look, by the part of the whole that was drawn.
    guide: Vec<usize>,
}

const GUIDES: usize = 1 << 16;

impl Zipf {
    fn new(keys: usize, skew: f64) -> Zipf {
        let mut sum = 0.0;
        let mut cumulative = Vec::with_capacity(keys);
        for rank in 0..keys {
            sum += float(rank + 1).powf(-skew);
            cumulative.push(sum);
        }
        cumulative.iter_mut().for_each(|part| *part /= sum);
        let edge = |guide: usize| float(guide) / float(GUIDES);
        let guide = (0..GUIDES).map(|guide| cumulative.partition_point(|part| *part < edge(guide))).collect();
        Zipf { cumulative, guide }
    }

    fn draw(&self, random: &mut Random) -> usize {
        let place = random.unit();
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "below 65,536")]
        let guide = (place * float(GUIDES)) as usize;
        let mut rank = self.guide[guide];
        while self.cumulative[rank] < place && rank + 1 < self.cumulative.len() {
            rank += 1;
        }
        rank
    }
}

/// A sketch whose calls come in batches of so many.
struct Sampled {
    top: TopKeys,
    batch: usize,
    calls: usize,
    salt: u64,
}

impl Sampled {
    fn new(batch: usize, seed: u64) -> Sampled {
        Sampled { top: TopKeys::new(true, seed), batch, calls: 0, salt: mix(seed) }
    }

    fn call(&mut self, rank: usize, now: Micros, is_allowed: bool) {
        if self.calls.is_multiple_of(self.batch) {
            self.top.begin_batch(self.batch, now);
        }
        self.calls += 1;
        let number = u64::try_from(rank).expect("small");
        let at = Located { slot: 0, hash: mix(number ^ self.salt) };
        self.top.note(at, &number.to_be_bytes(), now, is_allowed);
    }

    fn busiest(&mut self, which: Which, most: usize, now: Micros) -> Vec<(usize, u64, u64)> {
        let found = self.top.busiest(which, most, now);
        found.iter().map(|busy| (rank_of(busy), busy.count, busy.error)).collect()
    }
}

fn rank_of(busy: &Busy<'_>) -> usize {
    usize::try_from(u64::from_be_bytes(busy.key.try_into().expect("eight bytes"))).expect("small")
}

/// Checks what a sketch answers for a stream whose true counts are `truth`.
fn check_against(truth: &[u64], sampled: &mut Sampled, hits_min: usize, what: &str) {
    let mut order: Vec<usize> = (0..truth.len()).collect();
    order.sort_unstable_by_key(|rank| std::cmp::Reverse(truth[*rank]));
    // Several keys may be as busy as the twentieth: each of them belongs to the top.
    let twentieth = truth[order[19]];
    let found = sampled.busiest(Which::Checked, 20, EDGE);
    let hits = found.iter().filter(|(rank, ..)| truth[*rank] >= twentieth).count();
    assert!(hits >= hits_min, "{what}: only {hits} of the busiest 20 are named");
    let known = sampled.busiest(Which::Checked, 1000, EDGE);
    let outside = known.iter().filter(|(rank, count, error)| truth[*rank].abs_diff(*count) > *error).count();
    assert!(outside * 100 <= known.len(), "{what}: {outside} of {} counts are off by more than stated", known.len());
    let coverage = sampled.top.coverage(Which::Checked, EDGE);
    let calls = u64::try_from(sampled.calls).expect("small");
    assert!(coverage.calls.abs_diff(calls) <= 16, "{what}: {} of {calls} calls", coverage.calls);
    let known: HashSet<usize> = known.iter().map(|(rank, ..)| *rank).collect();
    let missed = order.iter().find(|rank| !known.contains(rank)).map_or(0, |rank| truth[*rank]);
    assert!(missed <= coverage.missed_at_most, "{what}: missed {missed}, stated {}", coverage.missed_at_most);
}

fn check_stream(zipf: &Zipf, seed: u64, hits_min: usize) {
    let mut random = Random(seed);
    let mut truth = vec![0; KEYS];
    let mut all = [Sampled::new(1, seed), Sampled::new(16, seed)];
    for _ in 0..CALLS {
        let rank = zipf.draw(&mut random);
        truth[rank] += 1;
        all.iter_mut().for_each(|sampled| sampled.call(rank, EDGE, true));
    }
    for sampled in &mut all {
        let what = format!("seed {seed}, batches of {}", sampled.batch);
        check_against(&truth, sampled, hits_min, &what);
    }
}

#[test]
fn the_true_top_is_named_within_the_stated_error() {
    let zipf = Zipf::new(KEYS, 1.0);
    (1..=3).for_each(|seed| check_stream(&zipf, seed, 18));
}

#[test]
fn so_it_is_on_a_steep_stream() {
    check_stream(&Zipf::new(KEYS, 1.2), 4, 18);
}

#[test]
fn so_it_is_on_a_flat_stream_as_far_as_samples_tell_neighbours_apart() {
    check_stream(&Zipf::new(KEYS, 0.8), 5, 15);
}

/// A call of every eighth key, whatever its phase: no pattern hides from the samples or is seen too often.
#[test]
fn periodic_patterns_are_counted_as_any_other() {
    for period in [2, 8, 16, 64] {
        let mut sampled = Sampled::new(16, 7);
        let calls = 64_000;
        (0..calls).for_each(|call| sampled.call(call % period, EDGE, true));
        let truth = u64::try_from(calls / period).expect("small");
        let found = sampled.busiest(Which::Checked, period, EDGE);
        assert_eq!(found.len(), period, "period {period}");
        for (rank, count, error) in found {
            assert!(count.abs_diff(truth) <= error, "period {period}, key {rank}: {count} for {truth}, {error} stated");
            assert!(error * 2 < truth, "period {period}: {error} stated for {truth}");
        }
    }
}

/// Batches of all sizes in turn: each call has the weight of its batch, so the sum is right.
#[test]
fn changing_batches_do_not_bias_the_count() {
    let mut sampled = Sampled::new(1, 9);
    let mut calls = 0;
    for round in 0..20_000 {
        let size = [1, 16, 2, 64, 4][round % 5];
        sampled.top.begin_batch(size, EDGE);
        sampled.batch = usize::MAX;
        sampled.calls = 1;
        (0..size).for_each(|_| sampled.call(0, EDGE, true));
        calls += u64::try_from(size).expect("small");
    }
    let (_, count, error) = sampled.busiest(Which::Checked, 1, EDGE)[0];
    assert!(count.abs_diff(calls) <= error, "{count} for {calls}, {error} stated");
}

#[test]
fn denied_calls_are_counted_apart() {
    let mut sampled = Sampled::new(1, 11);
    for call in 0..3_000 {
        sampled.call(call % 3, EDGE, call % 3 == 0 || call % 6 == 1);
    }
    assert_eq!(sampled.busiest(Which::Denied, 10, EDGE), [(2, 1000, 0), (1, 500, 0)]);
    assert_eq!(sampled.top.coverage(Which::Denied, EDGE).calls, 1500);
    assert_eq!(sampled.busiest(Which::Checked, 1, EDGE), [(0, 1000, 0)]);
}

/// A quiet node answers exactly, however its calls come; a busy one begins to sample.
#[test]
fn the_first_calls_of_an_epoch_are_all_counted() {
    for batch in [1, 16, 64] {
        let mut sampled = Sampled::new(batch, 3);
        for epoch in [EDGE, EDGE + EPOCH_MICROS] {
            (0..5_000).for_each(|call| sampled.call(call % 5, epoch, false));
        }
        let exact: Vec<_> = (0..5).map(|rank| (rank, 2_000, 0)).collect();
        assert_eq!(sampled.busiest(Which::Checked, 10, EDGE + EPOCH_MICROS), exact, "batches of {batch}");
        (0..100_000).for_each(|call| sampled.call(call % 5, EDGE + 9 * EPOCH_MICROS, true));
        let (_, count, error) = sampled.busiest(Which::Checked, 1, EDGE + 9 * EPOCH_MICROS)[0];
        assert!((1..2_000).contains(&error) && count.abs_diff(20_000) <= error, "{count} +- {error}");
        assert_eq!(sampled.busiest(Which::Denied, 1, EDGE + 9 * EPOCH_MICROS), []);
    }
}

#[test]
fn two_epochs_are_covered_and_no_third() {
    let mut sampled = Sampled::new(1, 13);
    (0..10).for_each(|_| sampled.call(1, EDGE, true));
    (0..5).for_each(|_| sampled.call(1, EDGE + EPOCH_MICROS, true));
    sampled.call(2, EDGE + EPOCH_MICROS, true);
    let both = EDGE + 2 * EPOCH_MICROS - 1;
    assert_eq!(sampled.busiest(Which::Checked, 10, both), [(1, 15, 0), (2, 1, 0)]);
    let coverage = sampled.top.coverage(Which::Checked, both);
    assert_eq!((coverage.since, coverage.calls, coverage.missed_at_most), (EDGE, 16, 0));
    let later = EDGE + 2 * EPOCH_MICROS;
    assert_eq!(sampled.busiest(Which::Checked, 10, later), [(1, 5, 0), (2, 1, 0)]);
    assert_eq!(sampled.top.coverage(Which::Checked, later).since, EDGE + EPOCH_MICROS);
    assert_eq!(sampled.busiest(Which::Checked, 10, later + EPOCH_MICROS), []);
    assert_eq!(sampled.top.coverage(Which::Checked, later + EPOCH_MICROS).calls, 0);
}

#[test]
fn where_keys_are_not_counted_none_is_kept() {
    let mut top = TopKeys::new(false, 1);
    for batch in [1, 16, 1] {
        top.begin_batch(batch, EDGE);
        (0..100).for_each(|_| top.note(Located { slot: 0, hash: 5 }, b"k", EDGE, false));
    }
    assert_eq!(top.busiest(Which::Checked, 10, EDGE), []);
    let mut node = Node::new(Setup { top_keys: false, ..Setup::default() });
    let off = "-ERR busy keys are not counted: the server was started with top-keys no";
    harness::check(&mut node, &[("RL.SLIDE k 5 1", "[1, 5, 4, 0, 2000]"), ("RL.TOP checked", off)]);
}

#[test]
fn every_limit_is_counted_when_it_decides() {
    let table = [
        ("RL.SLIDE slide 1 60", 2),
        ("RL.TOKEN token 1 1/60", 3),
        ("RL.FIXED fixed 1 60", 4),
        ("RL.LOG log 1 60", 5),
        ("RL.LEAK leak 1 1/60", 6),
        ("CL.THROTTLE cell 0 1 60", 7),
        ("RL.ALL all SLIDE 1 60 1", 8),
    ];
    for mut node in [node(), node_of(4)] {
        for (line, times) in table {
            (0..times).for_each(|_| drop(node.run(line)));
        }
        for line in ["RL.SLIDE slide 1 60 PEEK", "RL.TOKEN token 1 1/60 REFUND", "RL.GET log", "RL.TOKEN log 0.5 1"] {
            node.run(line);
        }
        assert_eq!(
            node.run("RL.TOP checked 3"),
            "[\"seconds\", 0, \"calls\", 35, \"missed_at_most\", 0, \"keys\", \
             [[\"all\", 8, 0], [\"cell\", 7, 0], [\"leak\", 6, 0]]]"
        );
        assert_eq!(
            node.run("RL.TOP denied 2"),
            "[\"seconds\", 0, \"calls\", 28, \"missed_at_most\", 0, \"keys\", [[\"all\", 7, 0], [\"cell\", 6, 0]]]"
        );
    }
}

#[test]
fn near_is_what_is_used_now() {
    let mut node = node_of(4);
    for (key, limit, times) in [("half", 10, 5), ("most", 10, 9), ("full", 3, 7), ("gone", 5, 5), ("less", 1000, 20)] {
        (0..times).for_each(|_| drop(node.run(&format!("RL.FIXED {key} {limit} 1h"))));
    }
    node.run("DEL gone");
    let keys =
        "[[\"full\", 3, 3, 7, 0], [\"most\", 9, 10, 9, 0], [\"half\", 5, 10, 5, 0], [\"less\", 20, 1000, 20, 0]]";
    let coverage = "\"seconds\", 0, \"calls\", 46, \"missed_at_most\", 0, \"keys\"";
    assert_eq!(node.run("RL.TOP NEAR"), format!("[{coverage}, {keys}]"));
    node.speak_resp3();
    assert_eq!(node.value("RL.TOP near 1").pairs().len(), 4);
    // What has drained is near nothing, and what has expired is no key.
    node.now = T + 3600 * S;
    assert!(node.run("RL.TOP near").ends_with("\"keys\": []}"), "{}", node.run("RL.TOP near"));
}

#[test]
fn what_is_wrong_is_named() {
    let number = "-ERR n must be a whole number from 1 to 1000";
    let word = |word: &str| format!("-ERR syntax error: RL.TOP takes DENIED, CHECKED or NEAR, not '{word}'");
    let mut node = node_of(2);
    let table = [
        ("RL.TOP", "-ERR wrong number of arguments for 'rl.top' command".to_owned()),
        ("RL.TOP checked 10 1", "-ERR wrong number of arguments for 'rl.top' command".to_owned()),
        ("RL.TOP busy", word("busy")),
        ("RL.TOP checked 0", number.to_owned()),
        ("RL.TOP checked 1001", number.to_owned()),
        ("RL.TOP checked -1", number.to_owned()),
        ("RL.TOP checked +1", number.to_owned()),
        ("RL.TOP checked 99999999999999999999999", number.to_owned()),
        ("RL.TOP checked ", number.to_owned()),
    ];
    for (line, expected) in table {
        assert_eq!(node.run(line), expected, "{line}");
    }
}

/// A key of any bytes and any length is named whole.
#[test]
fn names_are_whole() {
    let mut node = node();
    let long = vec![b'k'; 1024];
    let keys: [&[u8]; 4] = [b"", b"\x00\r\n", &long, "\u{43a}".as_bytes()];
    for key in keys {
        node.call(&[b"RL.SLIDE", key, b"5", b"60"]);
    }
    let reply = node.call(&[b"RL.TOP", b"checked"]);
    let rows = reply.elements()[7].elements().to_vec();
    let named: Vec<&Value> = rows.iter().map(|row| &row.elements()[0]).collect();
    assert_eq!(named.len(), keys.len());
    keys.iter().for_each(|key| assert!(named.contains(&&Value::Bulk(key.to_vec())), "{key:?}"));
}
