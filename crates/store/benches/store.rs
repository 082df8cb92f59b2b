//! What a call costs: hits, misses and batches, over a store that fits the caches and over one that does not.

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use std::hint::black_box;
use tollgate_limits::{Change, Micros, Policy, Slide, Under, Window};
use tollgate_store::{Eviction, Hasher, Located, Store, StoreConfig};

const NOW: Micros = 1_577_836_800_000_000;
const WINDOW_MICROS: u64 = 60_000_000;
const KEY_BYTES: usize = 24;

type Key = [u8; KEY_BYTES];

fn policy() -> Option<Policy> {
    Window::new(WINDOW_MICROS).map(|window| Policy::Slide { limit: 100, window })
}

fn change() -> Change {
    Change::Slide(Under::Asked, Slide { index: NOW / WINDOW_MICROS, cur: 1, prev: 0 })
}

fn key(number: u64) -> Key {
    let mut key = *b"rl:customer:000000000000";
    let mut rest = number;
    for place in key.iter_mut().rev().take(12) {
        *place = b'0' + u8::try_from(rest % 10).unwrap_or(0);
        rest /= 10;
    }
    key
}

fn filled(keys: u64) -> Store {
    let mut store = Store::new(StoreConfig {
        hash_seed: [1, 2, 3, 4],
        core: 0,
        cores: 1,
        memory_max_bytes: 0,
        eviction: Eviction::NoEviction,
        random_seed: 1,
    });
    let hasher = store.hasher();
    let Some(policy) = policy() else { return store };
    for number in 0..keys {
        let key = key(number);
        let made = store.insert(hasher.locate(&key), &key, &policy, &change(), NOW);
        assert!(made.is_ok());
    }
    store
}

/// Random numbers that repeat: a generator small enough to cost nothing beside a miss.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }
}

/// Find, look at and write one record: what a call on a key does here.
fn call(store: &mut Store, at: Located, key: &Key, policy: &Policy) {
    if let Some(id) = store.find(at, key, NOW) {
        black_box(store.limit(id));
        store.apply(at, id, policy, &change());
    }
}

fn batch(store: &mut Store, hasher: Hasher, numbers: &mut Numbers, bound: u64, size: usize, policy: &Policy) {
    let mut keys = [([0u8; KEY_BYTES], Located { slot: 0, hash: 0 }); 64];
    for (key_of, at) in keys.iter_mut().take(size) {
        *key_of = key(numbers.below(bound));
        *at = hasher.locate(key_of);
    }
    if size > 1 {
        for (_, at) in keys.iter().take(size) {
            store.sight(*at);
        }
    }
    for (key, at) in keys.iter().take(size) {
        call(store, *at, key, policy);
    }
}

fn calls(criterion: &mut Criterion) {
    let Some(policy) = policy() else { return };
    for held in [1_000u64, 10_000_000] {
        let mut store = filled(held);
        let hasher = store.hasher();
        let mut group = criterion.benchmark_group(format!("store/{held}"));
        for size in [1usize, 16, 64] {
            let mut numbers = Numbers(1);
            group.throughput(Throughput::Elements(size as u64));
            group.bench_function(BenchmarkId::new("hit", size), |bencher| {
                bencher.iter(|| batch(&mut store, hasher, &mut numbers, held, size, &policy));
            });
        }
        group.throughput(Throughput::Elements(1));
        let mut numbers = Numbers(2);
        group.bench_function("miss", |bencher| {
            bencher.iter(|| {
                let key = key(held + numbers.below(held));
                black_box(store.find(hasher.locate(&key), &key, NOW))
            });
        });
        group.bench_function("insert and remove", |bencher| {
            bencher.iter(|| {
                let key = key(held + numbers.below(held));
                let at = hasher.locate(&key);
                if let Ok(Some(id)) = store.insert(at, &key, &policy, &change(), NOW) {
                    store.remove(at, id);
                }
            });
        });
        group.finish();
    }
    let hasher = Hasher::new([1, 2, 3, 4]);
    let key = key(7);
    criterion.bench_function("store/locate", |bencher| bencher.iter(|| black_box(hasher.locate(black_box(&key)))));
}

criterion_group!(benches, calls);
criterion_main!(benches);
