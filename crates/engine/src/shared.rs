//! What all cores of a process share and some write: the next number of the slow log, rates, the peak of memory.
//!
//! Nothing here is on the way of a call: numbers are taken by slow commands only, the rest is written at ticks.

use crate::cluster::View;
use crate::counters::{Counters, Merged};
use std::sync::atomic::{AtomicU8, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Samples that a rate is the mean of: at a tick of 100 ms, those of the last 1.6 seconds, as in Redis.
const SAMPLES: usize = 16;
const SAMPLES_U128: u128 = 16;

/// Shared by all cores of a process.
#[derive(Debug, Default)]
pub struct Shared {
    next_slow_id: AtomicU64,
    memory_peak_bytes: AtomicU64,
    commands: Rate,
    input_bytes: Rate,
    output_bytes: Rate,
    /// Cores that have not loaded all that was kept.
    loading: AtomicUsize,
    /// What keeps the process from running every command, in one place for the one look at it that each batch takes.
    standing: AtomicU8,
    /// What cores go by in a cluster.
    view: Mutex<Arc<View>>,
    /// Rises with each view that is set; written under its lock.
    view_version: AtomicU64,
}

/// How fast a counter goes up. Written by one core, read by all.
#[derive(Debug, Default)]
struct Rate {
    last_micros: AtomicU64,
    last_total: AtomicU64,
    next: AtomicU64,
    per_second: [AtomicU64; SAMPLES],
}

impl Rate {
    fn sample(&self, micros: u64, total: u64) {
        let last_micros = self.last_micros.swap(micros, Ordering::Relaxed);
        let last_total = self.last_total.swap(total, Ordering::Relaxed);
        let elapsed = micros.saturating_sub(last_micros);
        if last_micros == 0 || elapsed == 0 {
            return;
        }
        // A total that went down was set to zero by CONFIG RESETSTAT: all of it is new.
        let grown = total.checked_sub(last_total).unwrap_or(total);
        let per_second = u128::from(grown) * 1_000_000 / u128::from(elapsed);
        let place = usize::try_from(self.next.fetch_add(1, Ordering::Relaxed)).unwrap_or(0) % SAMPLES;
        if let Some(cell) = self.per_second.get(place) {
            cell.store(u64::try_from(per_second).unwrap_or(u64::MAX), Ordering::Relaxed);
        }
    }

    fn per_second(&self) -> u64 {
        let cells = self.per_second.iter().map(|cell| u128::from(cell.load(Ordering::Relaxed)));
        u64::try_from(cells.sum::<u128>() / SAMPLES_U128).unwrap_or(u64::MAX)
    }
}

/// What keeps a process from running every command: any of some things, mostly none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Standing(u8);

impl Standing {
    /// Keys that were kept are still being loaded.
    pub const LOADING: Standing = Standing(1);
    /// It follows another, which alone may change keys.
    pub const REPLICA: Standing = Standing(2);
    /// Fewer replicas are in step than must be for a key to be changed.
    pub const LACKS_REPLICAS: Standing = Standing(4);
    /// It is a node of a cluster, which serves some slots only.
    pub const CLUSTER: Standing = Standing(8);
    /// In a cluster, it holds no lease under which it could serve the slots that are its own.
    pub const FENCED: Standing = Standing(16);

    /// Whether this is one of them.
    #[inline]
    pub const fn has(self, other: Standing) -> bool {
        self.0 & other.0 != 0
    }

    /// Both.
    #[inline]
    pub const fn with(self, other: Standing) -> Standing {
        Standing(self.0 | other.0)
    }

    /// Whether every command may run, of a node of a cluster every one for its slots.
    #[inline]
    pub fn is_clear(self) -> bool {
        self.0 & !Standing::CLUSTER.0 == 0
    }
}

impl Shared {
    /// What keeps this process from running every command.
    #[inline]
    pub fn standing(&self) -> Standing {
        Standing(self.standing.load(Ordering::Acquire))
    }

    fn set(&self, what: Standing, holds: bool) {
        match holds {
            true => self.standing.fetch_or(what.0, Ordering::AcqRel),
            false => self.standing.fetch_and(!what.0, Ordering::AcqRel),
        };
    }

    /// Makes it a node of a cluster, which serves nothing before a view says so.
    pub fn join_cluster(&self) {
        self.set(Standing::CLUSTER, true);
    }

    /// Sets what all cores go by from their next batch on. Whatever is to be ended of what the last view allowed, a
    /// lease for one, is ended before.
    pub fn set_view(&self, view: Arc<View>) {
        let mut place = self.view.lock().unwrap_or_else(PoisonError::into_inner);
        *place = view;
        self.view_version.fetch_add(1, Ordering::Release);
    }

    /// What cores go by, and its version.
    pub fn view(&self) -> (u64, Arc<View>) {
        let view = self.view.lock().unwrap_or_else(PoisonError::into_inner);
        (self.view_version.load(Ordering::Relaxed), view.clone())
    }

    /// The version of what cores are to go by.
    #[inline]
    pub fn view_version(&self) -> u64 {
        self.view_version.load(Ordering::Relaxed)
    }

    /// Whether this process follows another.
    #[inline]
    pub fn is_replica(&self) -> bool {
        self.standing().has(Standing::REPLICA)
    }

    /// Makes it a replica, or a primary.
    pub fn set_replica(&self, is_replica: bool) {
        self.set(Standing::REPLICA, is_replica);
    }

    /// Whether fewer replicas are in step than must be.
    #[inline]
    pub fn lacks_replicas(&self) -> bool {
        self.standing().has(Standing::LACKS_REPLICAS)
    }

    /// Says whether fewer replicas are in step than must be.
    pub fn set_lacks_replicas(&self, lacks: bool) {
        self.set(Standing::LACKS_REPLICAS, lacks);
    }

    /// Whether keys that were kept are still being loaded, so that nothing about keys may be answered.
    #[inline]
    pub fn is_loading(&self) -> bool {
        self.standing().has(Standing::LOADING)
    }

    /// So many cores begin to load.
    pub fn begin_loading(&self, cores: usize) {
        self.loading.store(cores, Ordering::Release);
        self.set(Standing::LOADING, cores > 0);
    }

    /// A core has loaded all. Answers whether it was the last.
    pub fn core_has_loaded(&self) -> bool {
        let is_last = self.loading.fetch_sub(1, Ordering::AcqRel) == 1;
        if is_last {
            self.set(Standing::LOADING, false);
        }
        is_last
    }

    /// A number for an entry of the slow log: unique in the process, growing.
    pub fn next_slow_id(&self) -> u64 {
        self.next_slow_id.fetch_add(1, Ordering::Relaxed)
    }

    /// Takes a sample of what goes through the server. Called by one core at each tick, with a clock that never stands.
    pub fn sample(&self, counters: &[Arc<Counters>], micros: u64) {
        let merged = Merged(counters);
        self.commands.sample(micros, merged.commands_processed());
        self.input_bytes.sample(micros, merged.sum(|core| &core.net_input_bytes));
        self.output_bytes.sample(micros, merged.sum(|core| &core.net_output_bytes));
        self.memory_peak_bytes(merged.sum(|core| &core.memory_used_bytes));
    }

    /// Commands a second, by the last samples.
    pub fn commands_per_second(&self) -> u64 {
        self.commands.per_second()
    }

    /// Bytes a second that clients sent and were sent, by the last samples.
    pub fn bytes_per_second(&self) -> (u64, u64) {
        (self.input_bytes.per_second(), self.output_bytes.per_second())
    }

    /// The most bytes that keys held, `now` included.
    pub fn memory_peak_bytes(&self, now: u64) -> u64 {
        self.memory_peak_bytes.fetch_max(now, Ordering::Relaxed).max(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_the_mean_of_its_samples() {
        let rate = Rate::default();
        assert_eq!(rate.per_second(), 0);
        for tick in 1..=17 {
            rate.sample(tick * 100_000, tick * 50);
        }
        assert_eq!(rate.per_second(), 500);
        rate.sample(1_800_000, 0);
        assert_eq!(rate.per_second(), 500 - 500 / 16 - 1, "a reset counts for nothing");
        for tick in 19..40 {
            rate.sample(tick * 100_000, 0);
        }
        assert_eq!(rate.per_second(), 0);
    }

    #[test]
    fn numbers_grow_and_the_peak_stays() {
        let shared = Shared::default();
        assert_eq!([shared.next_slow_id(), shared.next_slow_id()], [0, 1]);
        assert_eq!([5, 3, 7].map(|bytes| shared.memory_peak_bytes(bytes)), [5, 5, 7]);
    }
}
