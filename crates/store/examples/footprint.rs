//! Prints what keys cost: resident bytes of a key, the longest step, and how the store accounts for it.
//!
//! `footprint [keys] [--one-tag]` inserts keys of 24 bytes under SLIDE.

use std::io::{self, Write};
use std::time::Instant;
use tollgate_limits::{Change, Policy, Slide, Under, Window};
use tollgate_store::{Eviction, Store, StoreConfig};

const NOW: u64 = 1_577_836_800_000_000;

fn main() -> io::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let one_tag = arguments.iter().any(|argument| argument == "--one-tag");
    let keys = arguments.iter().find_map(|argument| argument.parse().ok()).unwrap_or(1_000_000u64);
    let mut store = new_store();
    let idle_bytes = resident_bytes();
    let begun_micros = clock_micros();
    fill(&mut store, keys, one_tag);
    let insert_micros = clock_micros() - begun_micros;
    let resident = resident_bytes().saturating_sub(idle_bytes);
    let stats = store.stats();
    let mut out = io::stdout().lock();
    writeln!(out, "keys {keys}, one tag {one_tag}, idle {} KiB", idle_bytes / 1_024)?;
    writeln!(out, "resident {:.1} B/key", per_key(resident, keys))?;
    writeln!(out, "account  {:.1} B/key", per_key(store.memory_used(), keys))?;
    writeln!(
        out,
        "index    {:.1} B/key, pages {:.1} B/key",
        per_key(stats.index_bytes, keys),
        per_key(stats.record_bytes, keys)
    )?;
    writeln!(
        out,
        "longest step {} us, moved at most {}, splits {}",
        stats.longest_step_us, stats.moved_max, stats.splits
    )?;
    writeln!(out, "insert {:.0} ns", insert_micros as f64 * 1e3 / keys.max(1) as f64)?;
    let begun = Instant::now();
    let dropped = store.flush();
    writeln!(out, "flush of {dropped} keys: {} us", begun.elapsed().as_micros())?;
    let begun = Instant::now();
    let mut sweeps = 0u32;
    while store.memory_used() > 2_000_000 && sweeps < 1_000_000 {
        store.sweep(NOW, 1_000);
        sweeps += 1;
    }
    writeln!(
        out,
        "given back in {sweeps} sweeps, {} ms, longest step {} us",
        begun.elapsed().as_millis(),
        store.longest_step_us()
    )
}

fn new_store() -> Store {
    let mut store = Store::new(StoreConfig {
        hash_seed: [1, 2, 3, 4],
        core: 0,
        cores: 1,
        memory_max_bytes: 0,
        eviction: Eviction::NoEviction,
        random_seed: 1,
    });
    store.set_step_meter(clock_micros);
    store
}

fn fill(store: &mut Store, keys: u64, one_tag: bool) {
    let hasher = store.hasher();
    let Some(window) = Window::new(60_000_000) else { return };
    let policy = Policy::Slide { limit: 100, window };
    let change = Change::Slide(Under::Asked, Slide { index: NOW / window.micros(), cur: 1, prev: 0 });
    for number in 0..keys {
        let key = if one_tag { format!("rl:{{hot}}:key:{number:012}") } else { format!("rl:customer:{number:012}") };
        let at = hasher.locate(key.as_bytes());
        if store.find(at, key.as_bytes(), NOW).is_none() {
            let made = store.insert(at, key.as_bytes(), &policy, &change, NOW);
            debug_assert!(made.is_ok());
        }
    }
}

fn per_key(bytes: u64, keys: u64) -> f64 {
    bytes as f64 / keys.max(1) as f64
}

/// The processor time of this thread, so that what else runs on the machine does not count as a step.
fn clock_micros() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    u64::try_from(time.tv_sec * 1_000_000 + time.tv_nsec / 1_000).unwrap_or(u64::MAX)
}

/// Resident bytes of this process, 0 where there is no such file.
fn resident_bytes() -> u64 {
    let statistics = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = statistics.split(' ').nth(1).and_then(|field| field.parse::<u64>().ok()).unwrap_or(0);
    pages * 4_096
}
