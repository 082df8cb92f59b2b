//! The memory bound: what a new key must wait for, and what goes to make room.
//!
//! The problem: at the bound a flood of new keys must not free other callers' counters, and where the operator prefers
//! to drop records, the harm should be least. The idea: only an insert that would make memory *grow* is checked; it
//! sweeps a little first, and then it is refused, or the best of a small random sample is dropped. A page is taken only
//! if the tables would also have room at their emptiest, so that tables rarely meet the bound.

use crate::locate::Located;
use crate::record::words;
use crate::records::NewState;
use crate::slab::{BLOCK_WORDS_MAX, PAGE_COST_BYTES, PAGE_WORDS};
use crate::slots::RUN_BYTES;
use crate::store::{Eviction, OutOfMemory, Store};
use std::cmp::Ordering;
use tollgate_limits::{Micros, remaining_now};

/// Records that an insert at the bound sweeps before it gives up.
const RELIEF_RECORDS: usize = 128;
/// Records compared for one eviction.
const SAMPLE_RECORDS: usize = 16;
/// Blocks looked at to find them.
const SAMPLE_PROBES: usize = 96;
/// Pages compared where a whole page must go.
const SAMPLE_PAGES: usize = 8;
/// Evictions, of a record or a page, that one insert may cause.
const EVICTIONS_MAX: usize = 3;
/// A table at its emptiest takes so many bytes for an entry: 5 bytes a bucket, 16 buckets for 7 entries.
const INDEX_BYTES_PER_RECORD: u64 = 12;

pub(crate) struct Room {
    pub memory_max_bytes: u64,
    pub eviction: Eviction,
    random: u64,
}

/// A record that may be evicted, and what its loss would free.
struct Candidate {
    id: u32,
    used: u64,
    limit: u64,
    expires_at: Micros,
}

impl Room {
    pub fn new(memory_max_bytes: u64, eviction: Eviction, random_seed: u64) -> Room {
        // Zero is the one state that the generator never leaves.
        Room { memory_max_bytes, eviction, random: random_seed.max(1) }
    }

    /// A number below `bound` (at least 1), from a xorshift generator: unpredictability is not needed, repetition is.
    fn below(&mut self, bound: u32) -> u32 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        ((u64::from((self.random >> 32) as u32) * u64::from(bound)) >> 32) as u32
    }
}

impl Candidate {
    /// Less: its loss frees less.
    fn compare(&self, other: &Candidate) -> Ordering {
        let mine = u128::from(self.used) * u128::from(other.limit.max(1));
        let others = u128::from(other.used) * u128::from(self.limit.max(1));
        mine.cmp(&others).then(self.expires_at.cmp(&other.expires_at))
    }
}

impl Store {
    /// Makes sure that a record with `state` and a key of so many bytes may be made. True: it may take a new page.
    #[inline]
    pub(crate) fn make_room(
        &mut self,
        at: Located,
        key_bytes: usize,
        state: &NewState,
        now: Micros,
    ) -> Result<bool, OutOfMemory> {
        if self.room.memory_max_bytes == 0 {
            return Ok(true);
        }
        let words = words(state.kind(), key_bytes);
        if words > BLOCK_WORDS_MAX {
            return Err(OutOfMemory);
        }
        let log_bytes = self.records.log_growth_bytes(state);
        match self.fits(at, words, log_bytes) {
            Some(may_grow) => Ok(may_grow),
            None => self.make_room_at_bound(at, words, log_bytes, now),
        }
    }

    /// Whether a record fits under the bound as things are; and if so, whether by a page more.
    fn fits(&self, at: Located, words: usize, log_bytes: u64) -> Option<bool> {
        let header = match self.slots.get(at.slot) {
            Some(slot) => slot.index.growth_bytes(at.hash),
            None => RUN_BYTES + 64,
        };
        let rest = header + log_bytes;
        let used = self.memory_used();
        let max = self.room.memory_max_bytes;
        let slab = &self.records.slab;
        if slab.has_block(words, false) || slab.has_spare_page() {
            return (rest == 0 || used + rest <= max).then_some(true);
        }
        let blocks = slab.blocks_held() + (PAGE_WORDS / words) as u64;
        let tables_later = (blocks * INDEX_BYTES_PER_RECORD).saturating_sub(self.index_bytes);
        if used + rest + PAGE_COST_BYTES + tables_later <= max {
            return Some(true);
        }
        (slab.has_block(words, true) && (rest == 0 || used + rest <= max)).then_some(false)
    }

    #[cold]
    fn make_room_at_bound(
        &mut self,
        at: Located,
        words: usize,
        log_bytes: u64,
        now: Micros,
    ) -> Result<bool, OutOfMemory> {
        self.sweep(now, RELIEF_RECORDS);
        let begun = self.meter.begin();
        let mut evictions = 0;
        let outcome = loop {
            if let Some(may_grow) = self.fits(at, words, log_bytes) {
                break Ok(may_grow);
            }
            if self.room.eviction == Eviction::NoEviction || evictions == EVICTIONS_MAX {
                break Err(OutOfMemory);
            }
            evictions += 1;
            // A block is had by the loss of one record. Bytes for anything else are had by whole pages only.
            let needs_block = !self.records.slab.has_block(words, true);
            if !(needs_block && self.evict_record(words, now)) {
                self.evict_page(now);
            }
        };
        self.meter.end(begun);
        outcome
    }

    /// Drops the best of a sample of records whose blocks have at least so many words. False if it found none.
    fn evict_record(&mut self, words: usize, now: Micros) -> bool {
        let mut best: Option<Candidate> = None;
        let mut found = 0;
        for _ in 0..SAMPLE_PROBES {
            let Some(candidate) = self.sample(words, now) else { continue };
            if best.as_ref().is_none_or(|best| candidate.compare(best) == Ordering::Less) {
                best = Some(candidate);
            }
            found += 1;
            if found == SAMPLE_RECORDS {
                break;
            }
        }
        best.is_some_and(|candidate| self.evict(&candidate))
    }

    /// A record at a random place, if there is one with a block large enough.
    fn sample(&mut self, words: usize, now: Micros) -> Option<Candidate> {
        let page = self.random_page()?;
        let shape = self.records.slab.shape(page)?;
        if shape.stride < words || shape.fresh == 0 {
            return None;
        }
        let block = self.room.below((shape.fresh / shape.stride) as u32);
        let id = page * PAGE_WORDS as u32 + block * shape.stride as u32;
        self.candidate(id, now)
    }

    fn random_page(&mut self) -> Option<u32> {
        let pages = self.records.slab.page_count();
        (pages > 0).then(|| self.room.below(pages))
    }

    fn candidate(&self, id: u32, now: Micros) -> Option<Candidate> {
        if !self.records.slab.is_live(id) {
            return None;
        }
        let (policy, state) = self.records.limit(id)?;
        let expires_at = tollgate_limits::expires_at(policy, state);
        let used = if expires_at <= now { 0 } else { policy.limit().saturating_sub(remaining_now(policy, state, now)) };
        Some(Candidate { id, used, limit: policy.limit(), expires_at })
    }

    fn evict(&mut self, candidate: &Candidate) -> bool {
        let at = self.locate_record(candidate.id);
        let is_dropped = self.drop_record(at, candidate.id);
        if is_dropped {
            self.touch(at);
            self.removals.note(at);
            self.stats.evicted_keys += 1;
            self.stats.evicted_units = self.stats.evicted_units.saturating_add(candidate.used);
        }
        is_dropped
    }

    /// Gives a page back: a spare one, else the one of a sample with the fewest records, which go.
    fn evict_page(&mut self, now: Micros) {
        if !self.records.slab.has_spare_page() {
            let sampled = (0..SAMPLE_PAGES * 4).filter_map(|_| {
                let page = self.random_page()?;
                self.records.slab.shape(page).map(|shape| (shape.live, page))
            });
            let Some((_, page)) = sampled.take(SAMPLE_PAGES).min() else { return };
            for id in self.records.live_in_page(page) {
                if let Some(candidate) = self.candidate(id, now) {
                    self.evict(&candidate);
                }
            }
        }
        self.records.slab.trim(usize::MAX, true);
    }
}
