//! Each policy once, however many records are kept under it.
//!
//! The problem: a policy takes 48 bytes or more, as much as a whole record, and nearly all records share a few. The
//! idea: records hold a 32-bit number; a policy lives as long as a record names it. A hit compares the stored policy
//! with the asked one and never looks here by value.

use crate::arena::Arena;
use crate::index::{Entries, Index, SPLIT_LOAD};
use crate::locate::Hasher;
use crate::table::Tables;
use tollgate_limits::Policy;

struct Entry {
    policy: Policy,
    records: u32,
}

/// The policies that records are kept under.
pub(crate) struct Policies {
    entries: Arena<Entry>,
    index: Index,
    tables: Tables,
    index_bytes: u64,
    hasher: Hasher,
    /// What was asked for last, as most calls in a row name one policy. Checked on use, so it may be stale.
    last: Option<(Policy, u32)>,
}

/// A policy is never outlived: it goes with the last record that names it.
struct Lasting;

impl Entries for Lasting {
    fn may_be_outlived(&self) -> bool {
        false
    }

    fn reap(&mut self, _id: u32) -> bool {
        false
    }

    fn prefetch(&self, _id: u32) {}
}

impl Policies {
    pub fn new(hasher: Hasher) -> Policies {
        let (entries, index, tables) = (Arena::new(), Index::new(), Tables::new());
        Policies { entries, index, tables, index_bytes: 0, hasher, last: None }
    }

    #[inline]
    pub fn get(&self, id: u32) -> &Policy {
        &self.entries.get(id).policy
    }

    /// The number of `policy`, counted as used by one record more.
    pub fn take(&mut self, policy: &Policy) -> u32 {
        if let Some((last, id)) = &self.last
            && last == policy
        {
            let id = *id;
            self.entries.get_mut(id).records += 1;
            return id;
        }
        let hash = self.hasher.state().hash_one(policy);
        let id = match self.index.find(hash, &self.tables, |id| self.entries.get(id).policy == *policy) {
            Some(id) => id,
            None => self.add(hash, *policy),
        };
        self.entries.get_mut(id).records += 1;
        self.last = Some((*policy, id));
        id
    }

    /// How much more memory [`Policies::take`] needs for `policy`, in bytes: mostly none.
    #[inline]
    pub fn growth_bytes(&self, policy: &Policy) -> u64 {
        match &self.last {
            Some((last, _)) if last == policy => 0,
            _ => self.growth_bytes_for(policy),
        }
    }

    fn growth_bytes_for(&self, policy: &Policy) -> u64 {
        let hash = self.hasher.state().hash_one(policy);
        match self.index.find(hash, &self.tables, |id| self.entries.get(id).policy == *policy) {
            Some(_) => 0,
            None => self.entries.growth_bytes() + self.index.growth_bytes(hash, SPLIT_LOAD),
        }
    }

    /// Counts one record less.
    pub fn release(&mut self, id: u32) {
        let entry = self.entries.get_mut(id);
        entry.records -= 1;
        if entry.records == 0 {
            let hash = self.hasher.state().hash_one(entry.policy);
            if let Some(step) = self.index.remove(hash, id, &mut self.tables) {
                self.index_bytes = self.index_bytes + step.bytes_after - step.bytes_before;
            }
            self.entries.remove(id);
            self.last = None;
        }
    }

    fn add(&mut self, hash: u64, policy: Policy) -> u32 {
        let id = self.entries.insert(Entry { policy, records: 0 });
        if self.index.wants_step(hash, SPLIT_LOAD) {
            let step = self.index.make_room(hash, SPLIT_LOAD, &mut self.tables, &mut Lasting);
            self.index_bytes = self.index_bytes + step.bytes_after - step.bytes_before;
        }
        // A policy that found no place is stored once more for the next record that is kept under it.
        self.index.insert(hash, id, &mut self.tables);
        id
    }

    /// Drops a part of policies that are given up. False when nothing is left.
    pub fn drop_some(&mut self) -> bool {
        self.last = None;
        if let Some((_, bytes)) = self.index.take_table(&mut self.tables, |_| ()) {
            self.index_bytes -= bytes;
            return true;
        }
        self.entries.take_page().is_some()
    }

    /// Bytes held.
    pub fn bytes(&self) -> u64 {
        self.entries.bytes() + self.index_bytes
    }

    /// [`Policies::bytes`], counted again.
    pub fn bytes_recounted(&self) -> u64 {
        self.entries.bytes_recounted() + self.index.bytes()
    }

    /// Different policies in use.
    pub fn len(&self) -> usize {
        self.index.len()
    }
}
