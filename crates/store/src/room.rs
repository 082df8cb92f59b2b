//! The memory bound: what a change that needs memory must wait for, and what goes to make room.
//!
//! The problem: at the bound a flood of new keys must not free other callers' counters, and where the operator prefers
//! to drop records, the harm should be least: never a page of good records for one new key. The idea: only what makes
//! memory *grow* is checked, a new key or a longer log. It sweeps a little first; then it is refused or, one by one and
//! sixteen at most, the least of a small random sample of records is dropped.
//!
//! ```text
//! 0                              pages and long logs stop here | tables, headers, policies  | bound
//! |-----------------------------------------------------------|--------- one page ---------|
//! ```
//!
//! The loss of one record gives a block to keys of its length, and the bytes of its log. Anything else comes from whole
//! pages, which are gathered from free blocks (gather.rs). That takes more losses than one call may cause, so that a
//! call is refused meanwhile; what it freed stays freed, and as long as room is short each new key drops one record
//! more than it needs. A page is taken only if the tables would also have room as they come to be, so that tables
//! rarely meet the bound. Only an undo may pass it.

use crate::locate::Located;
use crate::need::Need;
use crate::records::NewState;
use crate::slab::{BLOCK_WORDS_MAX, PAGE_COST_BYTES, PAGE_WORDS};
use crate::slots::{RUN, RUNS};
use crate::store::{Eviction, OutOfMemory, RecordId, Store};
use std::cmp::Ordering;
use tollgate_limits::{Change, Micros, Policy, remaining_now};

/// Records that a call at the bound sweeps before it gives up.
const RELIEF_RECORDS: usize = 128;
/// Records compared for one eviction.
const SAMPLE_RECORDS: usize = 16;
/// Blocks looked at to find them.
const SAMPLE_PROBES: usize = 96;
/// Records that one call may drop.
const EVICTIONS_MAX: u64 = 16;
/// Records that one call may move: each costs a microsecond or more where nothing of it is in a cache.
const MOVES_MAX: usize = 256;
/// What a table takes for an entry, on average where it is most: 12.4 bytes if slots hold about six keys each, then
/// ever less, to 10 for long tables.
const INDEX_BYTES_PER_RECORD: u64 = 13;
/// The smallest table, for one to eight entries.
const INDEX_BYTES_PER_SLOT: u64 = 64;

pub(crate) struct Room {
    pub memory_max_bytes: u64,
    pub eviction: Eviction,
    /// Bytes promised and not used yet (reserve.rs).
    pub reserved_bytes: u64,
    /// Words of the block for which no page was found; 0: none is missed.
    words_missed: usize,
    random: u64,
}

/// A record that may be evicted, and what its loss would free.
struct Candidate {
    id: u32,
    used: u64,
    limit: u64,
    /// Bytes of its log, where bytes are what is needed.
    body_bytes: u64,
    expires_at: Micros,
}

/// Which records a sample is drawn from.
#[derive(Clone, Copy)]
struct Sought {
    /// Those whose blocks have at least so many words.
    words_min: usize,
    /// Those whose logs hold at least so many bytes.
    body_bytes_min: u64,
    /// Whether among equals the longer log goes first.
    weighs_bodies: bool,
    /// All but this one.
    kept: Option<u32>,
}

impl Room {
    pub fn new(memory_max_bytes: u64, eviction: Eviction, random_seed: u64) -> Room {
        // Zero is the one state that the generator never leaves.
        Room { memory_max_bytes, eviction, reserved_bytes: 0, words_missed: 0, random: random_seed.max(1) }
    }

    /// What pages and logs may fill: all but a page's worth, or a sixteenth where the bound is very low.
    fn bulk_max_bytes(&self) -> u64 {
        self.memory_max_bytes - PAGE_COST_BYTES.min(self.memory_max_bytes / 16)
    }

    /// A number below `bound` (at least 1), from a xorshift generator: unpredictability is not needed, repetition is.
    pub(crate) fn below(&mut self, bound: u32) -> u32 {
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
        mine.cmp(&others).then(other.body_bytes.cmp(&self.body_bytes)).then(self.expires_at.cmp(&other.expires_at))
    }

    fn is_at_most_half_used(&self) -> bool {
        self.used <= self.limit / 2
    }
}

impl Store {
    /// Makes sure that `change` may be applied to a record that exists, where it needs more memory: a log that grows,
    /// a policy that no other record has, a bucket that takes a longer record. Nothing else asks for room, and nothing
    /// at all without a memory bound. Other records may have been moved or evicted; answers where this one is now.
    ///
    /// # Errors
    ///
    /// [`OutOfMemory`] if there is no room, as with [`Store::insert`]; the record is as it was then.
    #[inline]
    pub fn make_room_for(
        &mut self,
        id: RecordId,
        asked: &Policy,
        change: &Change,
        now: Micros,
    ) -> Result<RecordId, OutOfMemory> {
        if self.room.memory_max_bytes == 0 {
            return Ok(id);
        }
        let need = self.need_of_change(id, asked, change);
        self.make_room_for_need(id, need, now)
    }

    /// As [`Store::make_room_for`], for what is known to be needed by a record that exists.
    pub(crate) fn make_room_for_need(
        &mut self,
        id: RecordId,
        need: Need,
        now: Micros,
    ) -> Result<RecordId, OutOfMemory> {
        self.make_room_to_replace(id, need, now).map(|(id, _)| id)
    }

    /// The same, and whether what takes the record's place may take a new page.
    pub(crate) fn make_room_to_replace(
        &mut self,
        id: RecordId,
        mut need: Need,
        now: Micros,
    ) -> Result<(RecordId, bool), OutOfMemory> {
        if self.room.memory_max_bytes == 0 || need.is_nothing() {
            return Ok((id, true));
        }
        if let Some(may_grow) = self.fits(&need) {
            return Ok((id, may_grow));
        }
        match self.make_room_at_bound(&mut need, now) {
            Ok(may_grow) => Ok((need.kept.map_or(id, RecordId), may_grow)),
            Err(OutOfMemory) => {
                self.stats.oom_refusals += 1;
                Err(OutOfMemory)
            }
        }
    }

    /// Makes sure that so many bytes may be taken beside records.
    pub(crate) fn room_for_heap(&mut self, bytes: u64, now: Micros) -> Result<(), OutOfMemory> {
        if self.has_heap(bytes) {
            return Ok(());
        }
        let made = self.make_room_at_bound(&mut Need::of_heap(bytes), now);
        self.stats.oom_refusals += u64::from(made.is_err());
        made.map(|_| ())
    }

    /// Whether so many bytes may be taken beside records as things are.
    pub(crate) fn has_heap(&self, bytes: u64) -> bool {
        self.fits(&Need::of_heap(bytes)).is_some()
    }

    /// Makes sure that a record with `state` and a key of so many bytes may be made. True: it may take a new page.
    #[inline]
    pub(crate) fn make_room(
        &mut self,
        at: Located,
        key_bytes: usize,
        policy: Option<&Policy>,
        state: &NewState,
        now: Micros,
    ) -> Result<bool, OutOfMemory> {
        if self.room.memory_max_bytes == 0 {
            return Ok(true);
        }
        let mut need = self.need_of_new(at, key_bytes, policy, state);
        if need.words > BLOCK_WORDS_MAX {
            return Err(OutOfMemory);
        }
        match self.fits(&need) {
            Some(may_grow) if !self.is_short() => Ok(may_grow),
            _ => self.make_room_at_bound(&mut need, now),
        }
    }

    /// Whether what is needed fits under the bound as things are; and if so, whether by a page more.
    fn fits(&self, need: &Need) -> Option<bool> {
        if !self.bytes_fit(need) {
            return None;
        }
        let slab = &self.records.slab;
        if need.words == 0 || slab.has_block(need.words, false) || slab.has_spare_page() {
            return Some(true);
        }
        let used = self.memory_claimed() + need.small_bytes + need.body_bytes + PAGE_COST_BYTES;
        // Logs can make way for tables, so that only what records take is held against what tables are going to.
        let used_later = used - self.records.body_heap_bytes + self.small_bytes_later(need.words);
        if used.max(used_later) <= self.room.bulk_max_bytes() {
            return Some(true);
        }
        slab.has_block(need.words, true).then_some(false)
    }

    /// Whether all but the block has room.
    fn bytes_fit(&self, need: &Need) -> bool {
        let used = self.memory_claimed() + need.small_bytes + need.body_bytes;
        let max = if need.body_bytes > 0 { self.room.bulk_max_bytes() } else { self.room.memory_max_bytes };
        (need.small_bytes == 0 && need.body_bytes == 0) || used <= max
    }

    /// What headers and tables are going to take beyond what they have once one page more and all others are full,
    /// if keys lie in all slots as they usually do.
    fn small_bytes_later(&self, words: usize) -> u64 {
        let runs = RUNS.saturating_sub(usize::from(self.core)).div_ceil(usize::from(self.cores));
        let headers = self.slots.bytes_later(runs);
        let blocks = self.records.slab.blocks_held() + (PAGE_WORDS / words) as u64;
        let small_tables = blocks.min((runs * RUN) as u64) * INDEX_BYTES_PER_SLOT;
        let tables = small_tables.max(blocks * INDEX_BYTES_PER_RECORD).saturating_sub(self.index_bytes);
        // Where the bound is low, keys fill few slots.
        (headers + tables).min(self.room.memory_max_bytes / 4)
    }

    /// Whether more must be given up than is taken.
    fn is_short(&self) -> bool {
        let is_missed = self.room.words_missed > 0 || self.memory_used() > self.room.bulk_max_bytes();
        is_missed && self.room.eviction == Eviction::EvictLeast && self.can_give_back()
    }

    /// Whether room can come from the loss of records: not where headers and tables alone fill the memory, so that
    /// hardly a page is left for records. There each loss would be for nothing.
    fn can_give_back(&self) -> bool {
        let records = self.records.slab.bytes() + self.records.body_heap_bytes;
        self.memory_used() - records + PAGE_COST_BYTES <= self.room.bulk_max_bytes()
    }

    #[cold]
    fn make_room_at_bound(&mut self, need: &mut Need, now: Micros) -> Result<bool, OutOfMemory> {
        self.sweep(now, RELIEF_RECORDS);
        let begun = self.meter.begin();
        let outcome = self.make_room_by_policy(need, now);
        if outcome.is_err() && self.bytes_fit(need) && self.room.eviction == Eviction::EvictLeast {
            self.room.words_missed = need.words;
        }
        self.meter.end(begun);
        outcome
    }

    fn make_room_by_policy(&mut self, need: &mut Need, now: Micros) -> Result<bool, OutOfMemory> {
        let mut moves = MOVES_MAX;
        let mut evictions = 0;
        if self.is_short() && need.kept.is_none() {
            // One for the block that this key takes, which may well be free already, and one for the page.
            evictions += u64::from(self.evict_one(need, now)) + u64::from(self.evict_one(need, now));
            self.gather_for_later(need, &mut moves);
        }
        loop {
            if let Some(may_grow) = self.fits(need) {
                if need.words == self.room.words_missed {
                    self.room.words_missed = 0;
                }
                return Ok(may_grow);
            }
            // A spare page that does not help as a page helps by its bytes.
            if self.records.slab.has_spare_page() {
                self.records.slab.trim(1, true);
            } else if !self.gather_page(need, &mut moves) {
                let may_evict = self.room.eviction == Eviction::EvictLeast && evictions < EVICTIONS_MAX;
                if !(may_evict && self.evict_one(need, now)) {
                    return Err(OutOfMemory);
                }
                evictions += 1;
            }
        }
    }

    /// Gathers a page for those who missed one, or to get below the bound again.
    fn gather_for_later(&mut self, need: &mut Need, moves: &mut usize) {
        if !self.records.slab.has_spare_page() && !self.gather_page(need, moves) {
            return;
        }
        let is_over = self.memory_used() > self.room.bulk_max_bytes();
        let words_missed = std::mem::take(&mut self.room.words_missed);
        if words_missed == 0 || !self.records.slab.open_spare_page(words_missed) {
            self.records.slab.trim(usize::from(is_over), true);
        }
    }

    /// Drops the least record of a sample. False if it found none.
    pub(crate) fn evict_one(&mut self, need: &Need, now: Micros) -> bool {
        let is_block_missed = self.bytes_fit(need) && need.words > 0;
        let all = Sought {
            words_min: 0,
            // What a long log asks for, the records that one call may drop must be able to free.
            body_bytes_min: need.body_bytes / EVICTIONS_MAX,
            weighs_bodies: !is_block_missed,
            kept: need.kept,
        };
        let mut least = None;
        if is_block_missed {
            least = self.least_of_sample(Sought { words_min: need.words, ..all }, now);
        }
        // The loss of a record as long gives its block at once. But if those are well used, which the one who floods
        // may have seen to by the length of his keys, records of any length are looked at too.
        if !least.as_ref().is_some_and(Candidate::is_at_most_half_used)
            && self.can_give_back()
            && let Some(other) = self.least_of_sample(all, now)
            && least.as_ref().is_none_or(|least| other.compare(least) == Ordering::Less)
        {
            least = Some(other);
        }
        least.inspect(|candidate| self.evict(candidate)).is_some()
    }

    fn least_of_sample(&mut self, sought: Sought, now: Micros) -> Option<Candidate> {
        let mut least: Option<Candidate> = None;
        let mut found = 0;
        for _ in 0..SAMPLE_PROBES {
            let Some(candidate) = self.sample(sought, now) else { continue };
            match &least {
                // One record that is met over and over is no comparison.
                Some(least) if least.id == candidate.id => continue,
                Some(other) if candidate.compare(other) != Ordering::Less => {}
                _ => least = Some(candidate),
            }
            found += 1;
            if found == SAMPLE_RECORDS {
                break;
            }
        }
        least
    }

    /// A record at a random place, if there is one of those sought.
    fn sample(&mut self, sought: Sought, now: Micros) -> Option<Candidate> {
        let pages = self.records.slab.page_count();
        if pages == 0 {
            return None;
        }
        let page = self.room.below(pages);
        let shape = self.records.slab.shape(page)?;
        if shape.stride < sought.words_min || shape.fresh == 0 {
            return None;
        }
        let block = self.room.below((shape.fresh / shape.stride) as u32);
        let id = page * PAGE_WORDS as u32 + block * shape.stride as u32;
        if sought.kept == Some(id) || !self.records.slab.is_live(id) {
            return None;
        }
        self.candidate(id, sought, now)
    }

    fn candidate(&self, id: u32, sought: Sought, now: Micros) -> Option<Candidate> {
        let body_bytes = self.records.body(id).map_or(0, |body| body.heap_bytes() as u64);
        if body_bytes < sought.body_bytes_min {
            return None;
        }
        let body_bytes = if sought.weighs_bodies { body_bytes } else { 0 };
        let Some((policy, state)) = self.records.limit(id) else {
            // What a value counts, and against what, only its owner knows: it goes after every limit that has room.
            let expires_at = self.records.value_expires_at(id).unwrap_or(Micros::MAX);
            let used = u64::from(expires_at > now);
            return Some(Candidate { id, used, limit: used, body_bytes, expires_at });
        };
        let expires_at = tollgate_limits::expires_at(policy, state);
        let used = if expires_at <= now { 0 } else { policy.limit().saturating_sub(remaining_now(policy, state, now)) };
        Some(Candidate { id, used, limit: policy.limit(), body_bytes, expires_at })
    }

    fn evict(&mut self, candidate: &Candidate) {
        let at = self.locate_record(candidate.id);
        // Records of a flushed slot are in no index any more and are freed with it.
        self.records.note_removed(candidate.id);
        if self.drop_record(at, candidate.id) {
            self.touch(at);
            self.removals.note(at);
            self.stats.evicted_keys += 1;
            self.stats.evicted_units = self.stats.evicted_units.saturating_add(candidate.used);
        }
    }
}
