//! The fuzz harness without a fuzzer: samples with a few changes from a seeded generator, bounded by time, so that
//! every change runs it on stable Rust. `TOLLGATE_FUZZ_SECONDS` (default 2) and `TOLLGATE_FUZZ_SEED` set how long and
//! from where.

#![allow(clippy::unwrap_used, reason = "an unwrap that fails is a test that fails")]

mod harness;

use harness::{NOW, check, store};
use std::time::{Duration, Instant};
use tollgate_limits::{Ask, Log, Mode, Policy, Rate, Window};
use tollgate_replication::snapshot::{Stamp, Writer};
use tollgate_replication::{Export, write_piece};
use tollgate_store::Value;

/// Numbers that look random: the generator of Knuth's MMIX, its upper half.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % bound.max(1)
    }
}

/// Records of each kind, and a snapshot of them.
fn samples() -> [Vec<u8>; 2] {
    let mut store = store();
    let (window, rate) = (Window::new(60_000_000).unwrap(), Rate::new(7, 3_000_000).unwrap());
    let policies = [
        Policy::Slide { limit: 10, window },
        Policy::Fixed { limit: 10, window },
        Policy::Log { limit: 10, window },
        Policy::Token { capacity: 10, rate },
        Policy::Leak { capacity: 10, rate },
    ];
    for (number, policy) in policies.into_iter().enumerate() {
        let key = format!("key:{number}");
        let at = store.hasher().locate(key.as_bytes());
        for now in [NOW, NOW + 1] {
            store.charge(at, key.as_bytes(), &Ask { policy, cost: 2, mode: Mode::Charge }, now).unwrap();
        }
    }
    for value in [Value::Integer(-5), Value::Bytes(b"some bytes")] {
        let key = format!("{value:?}");
        let at = store.hasher().locate(key.as_bytes());
        store.put_value(at, key.as_bytes(), None, value, Some(NOW + 5), NOW).unwrap();
    }
    let (mut records, mut walk, mut count) = (Vec::new(), Export::new(&store), 0);
    while !walk.is_done() {
        count += walk.step(&mut store, 100, NOW, &mut records);
    }
    // A log that is there, and what came to it.
    let log = Log::of(0, &[(NOW, 2), (NOW + 1, 2), (NOW + 5, 1)]).unwrap();
    write_piece(&mut records, b"key:2", &Policy::Log { limit: 10, window }, &log, NOW);
    let mut writer = Writer::new(Vec::new()).unwrap();
    writer.records(&records, count + 1).unwrap();
    [records, writer.end(Stamp { timeline: NOW, wall: NOW }).unwrap()]
}

fn mutated(samples: &[Vec<u8>], random: &mut Random) -> Vec<u8> {
    let mut input = samples[random.below(samples.len())].clone();
    for _ in 0..random.below(6) {
        let place = random.below(input.len());
        match random.below(5) {
            0 => input.truncate(place),
            1 => input.insert(place, random.below(256) as u8),
            2 => drop(input.get_mut(place).map(|byte| *byte = [0, 1, 127, 128, 255][random.below(5)])),
            3 => drop(input.get_mut(place).map(|byte| *byte ^= 1 << random.below(8))),
            _ => {
                let piece = input.get(place..place + random.below(40)).unwrap_or_default().to_vec();
                let at = random.below(input.len());
                input.splice(at..at, piece);
            }
        }
    }
    input
}

#[test]
fn changed_samples_keep_every_promise() {
    let setting = |name: &str, default: u64| std::env::var(name).map_or(default, |text| text.parse().unwrap());
    let (seconds, first) = (setting("TOLLGATE_FUZZ_SECONDS", 2), setting("TOLLGATE_FUZZ_SEED", 1));
    let (samples, until) = (samples(), Instant::now() + Duration::from_secs(seconds));
    let mut runs = 0;
    while Instant::now() < until {
        let seed = first + runs;
        let input = mutated(&samples, &mut Random(seed));
        let result = std::panic::catch_unwind(|| check(&input));
        assert!(result.is_ok(), "seed {seed} fails on {}", input.escape_ascii());
        runs += 1;
    }
    println!("{runs} inputs from seed {first}");
}
