//! One key at random: RANDOMKEY.
//!
//! The problem: every key should come as often as any other, while pages hold few long records or many short ones and
//! slots hold one key or a million. The idea: a random place in a random page, where every page has as many places as
//! the page with the shortest records; a place that holds no key is drawn again. Only where keys have become so few
//! that they are not met so is the nearest one taken, from a random slot on.

use crate::slab::PAGE_WORDS;
use crate::slot::SLOTS;
use crate::store::{RecordId, Store};
use tollgate_limits::Micros;

/// Places looked at before the keys are walked.
const PROBES: usize = 256;
/// The shortest record with a key: a header, one word of state, one word of a key.
const RECORD_WORDS_MIN: usize = 3;
/// Places of a page.
const PLACES: u32 = (PAGE_WORDS / RECORD_WORDS_MIN) as u32;

impl Store {
    /// A number below `bound` (at least 1) from the store's generator: even enough for a choice, no secret.
    pub fn random_below(&mut self, bound: u32) -> u32 {
        self.room.below(bound)
    }

    /// One of the keys that have not expired, at random. `None` if there is none.
    pub fn pick(&mut self, now: Micros) -> Option<RecordId> {
        if self.is_empty() {
            return None;
        }
        (0..PROBES).find_map(|_| self.probe(now)).or_else(|| self.next_from_random_slot(now))
    }

    /// The key at a random place, if there is one.
    fn probe(&mut self, now: Micros) -> Option<RecordId> {
        let pages = self.records.slab.page_count();
        if pages == 0 {
            return None;
        }
        let (page, place) = (self.random_below(pages), self.random_below(PLACES) as usize);
        let shape = self.records.slab.shape(page)?;
        let offset = place * shape.stride;
        if offset >= shape.fresh {
            return None;
        }
        let id = page * PAGE_WORDS as u32 + offset as u32;
        self.is_key(id, now).then_some(RecordId(id))
    }

    /// Whether the block is the record of a key that exists: not free, not expired, and not of a slot that was flushed.
    fn is_key(&self, id: u32, now: Micros) -> bool {
        if !self.records.slab.is_live(id) || self.records.is_expired(id, now) {
            return false;
        }
        let at = self.locate_record(id);
        self.slots
            .get(at.slot)
            .is_some_and(|slot| slot.index.find(at.hash, &self.tables, |found| found == id).is_some())
    }

    fn next_from_random_slot(&mut self, now: Micros) -> Option<RecordId> {
        let first = self.random_below(u32::from(SLOTS));
        let slots = (0..u32::from(SLOTS)).map(|step| ((first + step) % u32::from(SLOTS)) as u16);
        let keys = slots.filter_map(|slot| self.slots.get(slot)).flat_map(|slot| slot.index.iter(&self.tables));
        keys.into_iter().find(|id| !self.records.is_expired(*id, now)).map(RecordId)
    }
}
