//! What the store counts, and how it times its steps.
//!
//! The problem: the store has no clock, yet its longest uninterrupted step must be known. The idea: whoever has a clock
//! lends it as a plain function, which is called only around maintenance.

use crate::store::Store;

/// Counts since the store was made, and sizes as they are now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StoreStats {
    /// Keys made.
    pub inserts: u64,
    /// Keys removed by a call or because they became as if untouched, and keys flushed.
    pub removed: u64,
    /// Keys freed because they had expired.
    pub expired: u64,
    /// Keys dropped to make room.
    pub evicted_keys: u64,
    /// Units of use that these keys stood for: what may have been admitted anew.
    pub evicted_units: u64,
    /// New keys, and calls that old keys would grow by, refused for want of memory.
    pub oom_refusals: u64,
    /// The longest maintenance step in microseconds; 0 without a meter.
    pub longest_step_us: u64,
    /// The most index entries that one step moved.
    pub moved_max: u64,
    /// Tables that were split.
    pub splits: u64,
    /// Keys now; those that expired and were not met yet are among them.
    pub keys: u64,
    /// Values without an expiry now; all other keys expire.
    pub lasting: u64,
    /// Pages of records now.
    pub pages: u64,
    /// Different policies now.
    pub policies: u64,
    /// Bytes of all hash tables now.
    pub index_bytes: u64,
    /// Bytes of all records' pages now.
    pub record_bytes: u64,
    /// Bytes of all logs now.
    pub body_bytes: u64,
}

impl Store {
    /// Sets to zero what only counts up, and the longest step: CONFIG RESETSTAT. Sizes stay.
    pub fn reset_counts(&mut self) {
        self.stats = StoreStats { keys: self.stats.keys, ..StoreStats::default() };
        self.meter.longest_us = 0;
    }
}

/// Times steps with a lent clock.
pub(crate) struct StepMeter {
    pub clock: fn() -> u64,
    pub longest_us: u64,
}

impl StepMeter {
    pub fn new() -> StepMeter {
        StepMeter { clock: || 0, longest_us: 0 }
    }

    #[inline]
    pub fn begin(&self) -> u64 {
        (self.clock)()
    }

    #[inline]
    pub fn end(&mut self, begun: u64) {
        self.longest_us = self.longest_us.max((self.clock)().saturating_sub(begun));
    }
}
