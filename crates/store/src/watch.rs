//! Whether a key is as it was, for WATCH.
//!
//! The problem: to tell that a key was written since, whatever wrote it, a list of watched keys would have to be looked
//! at by every write. The idea: a mark in the record's header that a watch clears and every write sets along with the
//! one that replication reads, so that it costs a write nothing. A slot that has not changed at all needs no look.
//!
//! Two watches of one key clear the same mark, so that the later would hide a write from the earlier: each clearing of
//! a mark that was set is noted with a growing number, by the key's hash, in a table of fixed size. Where two keys have
//! a place in it together, a watch may be told of a change too many, never of one too few.

use crate::locate::Located;
use crate::store::{RecordId, Store};
use tollgate_limits::Micros;

/// Places of the table.
const PLACES: usize = 1 << 17;

/// When marks were last cleared.
pub(crate) struct Clearings {
    count: u64,
    last: Box<[u64]>,
}

impl Clearings {
    pub fn new() -> Clearings {
        // Memory that the system gives only where a place is used.
        Clearings { count: 0, last: vec![0; PLACES].into() }
    }

    fn note(&mut self, at: Located) {
        self.count += 1;
        self.last[place(at)] = self.count;
    }

    fn since(&self, count: u64, at: Located) -> bool {
        self.last[place(at)] > count
    }
}

fn place(at: Located) -> usize {
    at.hash as usize % PLACES
}

/// A key that is watched, and how it was.
#[derive(Clone, Debug)]
pub struct Watch {
    at: Located,
    key: Box<[u8]>,
    version: u64,
    removals: u64,
    clearings: u64,
    was_there: bool,
}

impl Watch {
    /// Where the key lies.
    pub fn at(&self) -> Located {
        self.at
    }

    /// The key.
    pub fn key(&self) -> &[u8] {
        &self.key
    }
}

impl Store {
    /// Begins to watch `key`.
    pub fn watch(&mut self, at: Located, key: &[u8], now: Micros) -> Watch {
        let found = self.find(at, key, now);
        if let Some(RecordId(id)) = found {
            let header = self.records.header(id);
            if header.is_touched() {
                self.clearings.note(at);
                self.records.set_header(id, header.untouched());
            }
        }
        Watch {
            at,
            key: key.into(),
            version: self.slot_version(at.slot),
            removals: self.removals(),
            clearings: self.clearings.count,
            was_there: found.is_some(),
        }
    }

    /// Whether nothing wrote the key since it is watched and it has not expired. It may say no where another key was
    /// removed or watched, never yes where the key was written, but for one that was not there and is not there again.
    pub fn is_unchanged(&mut self, watch: &Watch, now: Micros) -> bool {
        let found = self.find(watch.at, &watch.key, now);
        if found.is_some() != watch.was_there {
            return false;
        }
        if self.slot_version(watch.at.slot) == watch.version {
            return true;
        }
        let was_touched = found.is_some_and(|id| self.records.header(id.0).is_touched());
        let was_cleared = watch.was_there && self.clearings.since(watch.clearings, watch.at);
        !was_touched && !was_cleared && !self.removed_since(watch.removals, watch.at)
    }
}
