//! Expiry that nobody asked for, and flushing: memory comes back in bounded steps.
//!
//! The problem: a key that expired and is never asked for again would stay for ever, and a timer or a reaper thread
//! would cost every call. The idea: a cursor walks the pages in address order, which reads memory several times faster
//! than a walk through the tables, and frees what has expired; the caller says how far it may go in one step.

use crate::index::Index;
use crate::locate::Located;
use crate::policies::Policies;
use crate::records::Records;
use crate::slab::PAGE_WORDS;
use crate::soonest::Soonest;
use crate::store::Store;
use tollgate_limits::Micros;

/// What a sweep did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Swept {
    /// Blocks looked at, and flushed remains dropped, counted alike.
    pub visited: usize,
    /// Keys freed.
    pub freed: usize,
    /// Whether the cursor came to the end: the next sweep begins anew.
    pub wrapped: bool,
}

impl Store {
    /// Goes on with the sweep for about `budget_records` records. After a flush, as much again is done to drop what
    /// was flushed (up to one table more), so that neither waits for the other. A budget of 1,000 is some tens of
    /// microseconds where nothing is freed, and some hundreds where everything is.
    pub fn sweep(&mut self, now: Micros, budget_records: usize) -> Swept {
        let begun = self.meter.begin();
        let mut swept = Swept::default();
        let mut buried_work = 0;
        while buried_work < budget_records {
            let Some(buried) = self.grave.bury_some(&mut self.records, &mut self.tables) else { break };
            self.index_bytes -= buried.index_bytes;
            buried_work += buried.work;
        }
        while swept.visited < budget_records && !swept.wrapped {
            self.sweep_page(now, budget_records, &mut swept);
        }
        if swept.wrapped {
            self.sweep_last_work = self.sweep_pass_work;
            self.sweep_pass_work = 0;
            self.soonest.pass_ends();
        }
        self.sweep_pass_work = self.sweep_pass_work.max(self.places());
        swept.visited += buried_work;
        self.meter.end(begun);
        swept
    }

    /// What a pass looks at in all, in visits as [`Store::sweep`] counts them: the most at any time of this pass and of
    /// the one before. A caller who spends an even share of it at each tick comes, from wherever the cursor is, once
    /// around in time: keys that are freed on the way, before the cursor's turn or behind it, make no pass slower.
    pub fn sweep_work(&self) -> u64 {
        self.sweep_pass_work.max(self.sweep_last_work).max(self.places())
    }

    /// What a pass would look at that began now: every block of a page that is held, whether in use or free, and the
    /// pages. What waits in the grave is not among it: that is no expiry.
    fn places(&self) -> u64 {
        self.records.slab.blocks_held() + u64::from(self.records.slab.page_count())
    }

    /// Goes on in the page at the cursor, to its end or the budget's.
    fn sweep_page(&mut self, now: Micros, budget_records: usize, swept: &mut Swept) {
        if self.sweep_page >= self.records.slab.page_count() {
            self.sweep_page = 0;
            self.sweep_block = 0;
            swept.wrapped = true;
            return;
        }
        // The page's shape is asked for again at each block: freeing its last record gives the page back.
        while let Some(shape) = self.records.slab.shape(self.sweep_page) {
            let offset = self.sweep_block * shape.stride;
            if offset >= shape.fresh {
                break;
            }
            if swept.visited >= budget_records {
                return;
            }
            let id = self.sweep_page * PAGE_WORDS as u32 + offset as u32;
            self.sweep_block += 1;
            swept.visited += 1;
            let end = if self.records.slab.is_live(id) { self.records.expires_at(id) } else { None };
            if end.is_some_and(|end| end <= now) {
                let at = self.locate_record(id);
                // Records of a flushed slot are in no index any more and are freed with it.
                if self.drop_record(at, id) {
                    self.stats.expired += 1;
                    swept.freed += 1;
                }
            } else if let Some(end) = end {
                self.soonest.met(end);
            }
        }
        // A page without memory is a visit too, so that millions of them cannot make one long step.
        swept.visited += 1;
        self.sweep_page += 1;
        self.sweep_block = 0;
    }

    pub(crate) fn locate_record(&self, id: u32) -> Located {
        self.records.hasher.locate(self.records.key(id))
    }

    /// Drops every key; returns how many. Memory comes back with the sweeps that follow.
    pub fn flush(&mut self) -> u64 {
        let begun = self.meter.begin();
        let keys = self.stats.keys;
        let records = &mut self.records;
        let hasher = records.hasher.clone();
        records.slab.forget_all();
        let bodies = std::mem::replace(&mut records.bodies, crate::arena::Arena::new());
        let policies = std::mem::replace(&mut records.policies, Policies::new(hasher));
        // As large as it can become, so that it is not moved as it grows.
        let mut indexes = Vec::with_capacity(self.slots.len());
        for slot in self.slots.iter_mut().filter(|slot| slot.index.len() > 0) {
            slot.version += 1;
            indexes.push(std::mem::replace(&mut slot.index, Index::new()));
        }
        self.grave.add_all(indexes, bodies, policies);
        self.sweep_page = 0;
        self.sweep_block = 0;
        self.sweep_pass_work = 0;
        self.sweep_last_work = 0;
        self.soonest = Soonest::new();
        self.stats.keys = 0;
        self.changes += 1;
        records.lasting = 0;
        self.removals.note_all();
        records.changes.note_cleared();
        self.stats.removed += keys;
        self.meter.end(begun);
        keys
    }

    /// Drops every key of one slot; returns how many. Memory comes back with the sweeps that follow.
    pub fn flush_slot(&mut self, slot: u16) -> u64 {
        let Some(header) = self.slots.get_mut(slot) else { return 0 };
        let keys = header.index.len() as u64;
        if keys > 0 {
            header.version += 1;
            self.grave.add_orphans(std::mem::replace(&mut header.index, Index::new()));
            self.stats.keys -= keys;
            self.changes += 1;
            self.stats.removed += keys;
            self.removals.note_all();
            self.records.changes.overflow();
        }
        keys
    }
}

impl Records {
    /// Live records of a page, for a walk.
    pub(crate) fn live_in_page(&self, page: u32) -> Vec<u32> {
        let Some(shape) = self.slab.shape(page) else { return Vec::new() };
        let offsets = (0..shape.fresh).step_by(shape.stride);
        let ids = offsets.map(|offset| page * PAGE_WORDS as u32 + offset as u32);
        ids.filter(|id| self.slab.is_live(*id)).collect()
    }
}
