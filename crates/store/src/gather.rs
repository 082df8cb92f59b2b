//! Whole pages from scattered free blocks.
//!
//! The problem: dropped and expired records leave free blocks all over, which serve keys of one length only, and no
//! table. To empty a page by dropping what is left in it would cost records that nobody chose. The idea: once the pages
//! of one size have free blocks for a whole page together, the emptiest of them is moved into the others, some hundred
//! records a step.
//!
//! **Invariant:** a moved record is the same to every call: its content, its version and its dirty mark stay.

use crate::need::Need;
use crate::store::Store;

impl Store {
    /// Gives a page back or gets on with emptying one; `moves` is how many records may still be moved. True: a page
    /// came free. `need` says which record must be followed.
    pub(crate) fn gather_page(&mut self, need: &mut Need, moves: &mut usize) -> bool {
        let Some(page) = self.records.slab.page_to_vacate() else { return false };
        let records = self.records.live_in_page(page);
        if records.is_empty() {
            self.records.slab.close_unused_page(page);
        }
        for id in records {
            if *moves == 0 || !self.move_record(id, need) {
                return false;
            }
            *moves -= 1;
        }
        true
    }

    /// Moves a record to another page. False if it is in no index (its slot was flushed) or there is no block for it.
    fn move_record(&mut self, id: u32, need: &mut Need) -> bool {
        let at = self.locate_record(id);
        let Some(slot) = self.slots.get_mut(at.slot) else { return false };
        if slot.index.find(at.hash, &self.tables, |found| found == id).is_none() {
            return false;
        }
        let Some(copy) = self.records.slab.copy_elsewhere(id) else { return false };
        slot.index.replace(at.hash, id, copy, &mut self.tables);
        self.records.slab.free(id);
        // It may stand on the list of changes by its old number.
        if self.records.changes.is_on() && self.records.header(copy).is_dirty() {
            self.records.changes.note(copy);
        }
        if need.kept == Some(id) {
            need.kept = Some(copy);
        }
        true
    }
}
