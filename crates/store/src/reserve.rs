//! Memory promised to a command that asks on several cores before it writes on any.
//!
//! The problem: between the question and the writing other commands ask too, and all of them would be shown the same
//! room. The idea: what is granted is counted as if it were used until it is released, by the writing step just before
//! it writes or by a step that calls the command off. What is promised covers the records of new keys and their tables
//! as well as the values, by an upper estimate.
//!
//! Blocks that are free already count for the first of several that ask at once only. What else is made meanwhile may
//! take them, and the command then takes pages for its records: at most what one command's keys are long.

use crate::body::Body;
use crate::need::Need;
use crate::record::{KIND_INTEGER, words};
use crate::slab::{BLOCK_WORDS_MAX, PAGE_COST_BYTES};
use crate::slots::{RUN, RUN_BYTES};
use crate::store::{Eviction, OutOfMemory, Store};
use crate::values::Value;
use std::collections::{BTreeMap, BTreeSet};
use tollgate_limits::Micros;

/// Records that one command may drop for the blocks of its new keys.
const EVICTIONS_FOR_BLOCKS_MAX: usize = 128;
/// What an entry may take in a table that grows on its way, twice what it takes where it is most.
const INDEX_BYTES_PER_KEY: u64 = 26;
/// A cell in a list of bodies that doubles on its way.
const CELL_BYTES_PER_BODY: u64 = 2 * size_of::<Body>() as u64 + 32;

/// What a command asks for.
#[derive(Default)]
struct Asked {
    /// Bytes of all but the records themselves.
    bytes: u64,
    /// How many new records there are of so many words.
    blocks: BTreeMap<usize, usize>,
}

impl Store {
    /// Promises memory for values that are going to be put, and answers how many bytes must be released by
    /// [`Store::release`]: 0 without a memory bound.
    ///
    /// # Errors
    ///
    /// [`OutOfMemory`] if there is no room for all of them or a key is too long for a record; nothing is promised then.
    /// Expired records may be gone, and, under [`Eviction::EvictLeast`], evicted ones.
    pub fn reserve<'a>(
        &mut self,
        values: impl Iterator<Item = (&'a [u8], &'a [u8])>,
        now: Micros,
    ) -> Result<u64, OutOfMemory> {
        if self.room.memory_max_bytes == 0 {
            return Ok(0);
        }
        let asked = self.asked(values, now)?;
        self.room_for_heap(asked.bytes, now)?;
        self.free_blocks_for(&asked, now);
        let bytes = asked.bytes + self.page_bytes(&asked.blocks);
        self.room_for_heap(bytes, now)?;
        self.room.reserved_bytes += bytes;
        Ok(bytes)
    }

    /// Takes back a promise, before its memory is used or because it is not going to be.
    pub fn release(&mut self, bytes: u64) {
        self.room.reserved_bytes = self.room.reserved_bytes.saturating_sub(bytes);
    }

    /// Bytes promised and neither used nor released yet.
    pub fn reserved(&self) -> u64 {
        self.room.reserved_bytes
    }

    /// Bytes that are used or promised.
    #[inline]
    pub(crate) fn memory_claimed(&self) -> u64 {
        self.memory_used() + self.room.reserved_bytes
    }

    fn asked<'a>(
        &mut self,
        values: impl Iterator<Item = (&'a [u8], &'a [u8])>,
        now: Micros,
    ) -> Result<Asked, OutOfMemory> {
        let mut asked = Asked::default();
        let (mut slots, mut runs) = (BTreeSet::new(), BTreeSet::new());
        let mut bodies = 0;
        for (key, value) in values {
            // A value that is there may be gone when this one comes, so that its bytes are not set against it.
            if let Value::Bytes(bytes) = Value::of(value) {
                bodies += 1;
                asked.bytes += bytes.len() as u64;
            }
            let at = self.hasher().locate(key);
            if self.find(at, key, now).is_some() {
                continue;
            }
            let words = words(KIND_INTEGER, key.len());
            if words > BLOCK_WORDS_MAX {
                return Err(OutOfMemory);
            }
            *asked.blocks.entry(words).or_default() += 1;
            asked.bytes += INDEX_BYTES_PER_KEY;
            if slots.insert(at.slot) {
                asked.bytes += match self.slots.get(at.slot) {
                    Some(slot) => slot.index.growth_bytes(at.hash, self.split_load),
                    None => 64 + if runs.insert(usize::from(at.slot) / RUN) { RUN_BYTES } else { 0 },
                };
            }
        }
        if bodies > 0 {
            asked.bytes += self.records.bodies.growth_bytes() + bodies * CELL_BYTES_PER_BODY;
        }
        Ok(asked)
    }

    /// Drops records, where that is what happens at the bound, until new ones of these lengths take no more pages.
    fn free_blocks_for(&mut self, asked: &Asked, now: Micros) {
        let fits = |store: &Store| store.has_heap(asked.bytes + store.page_bytes(&asked.blocks));
        if self.room.eviction != Eviction::EvictLeast || self.room.reserved_bytes > 0 {
            return;
        }
        let begun = self.meter.begin();
        for _ in 0..asked.blocks.values().sum::<usize>().min(EVICTIONS_FOR_BLOCKS_MAX) {
            if fits(self) {
                break;
            }
            let lacks = |(words, count): &(&usize, &usize)| self.records.slab.free_blocks(**words) < **count;
            let Some(words) = asked.blocks.iter().find(lacks).map(|(words, _)| *words) else { break };
            if !self.evict_one(&Need { words, ..Need::default() }, now) {
                break;
            }
        }
        self.meter.end(begun);
    }

    /// Bytes of the pages that so many new records are going to take.
    fn page_bytes(&self, blocks: &BTreeMap<usize, usize>) -> u64 {
        let slab = &self.records.slab;
        // Others to whom memory is promised may count on the same free blocks.
        let may_use_free = self.room.reserved_bytes == 0;
        let pages = |(words, count): (&usize, &usize)| {
            let free = if may_use_free { slab.free_blocks(*words) } else { 0 };
            slab.pages_for(*words, count.saturating_sub(free))
        };
        let spare = if may_use_free { slab.spare_pages() } else { 0 };
        blocks.iter().map(pages).sum::<u64>().saturating_sub(spare) * PAGE_COST_BYTES
    }
}
