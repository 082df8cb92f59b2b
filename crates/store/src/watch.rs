//! Whether a key is as it was, for WATCH.
//!
//! The problem: to tell that a key was written since, whatever wrote it, a list of watched keys would have to be looked
//! at by every write. The idea: a mark in the record's header that a watch clears and every write sets along with the
//! one that replication reads, so that it costs a write nothing. A slot that has not changed at all needs no look.
//!
//! Two watches of one key clear the same mark, so that the later hides a write from the earlier: the content is
//! compared too, and what the earlier read still holds.

use crate::content::Content;
use crate::locate::Located;
use crate::store::{RecordId, Store};
use tollgate_limits::Micros;

/// A key that is watched, and how it was.
#[derive(Clone, Debug)]
pub struct Watch {
    at: Located,
    key: Box<[u8]>,
    version: u64,
    removals: u64,
    content: Option<Content>,
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
            let header = self.records.header(id).untouched();
            self.records.set_header(id, header);
        }
        Watch {
            at,
            key: key.into(),
            version: self.slot_version(at.slot),
            removals: self.removals(),
            content: found.map(|id| self.content(id)),
        }
    }

    /// Whether nothing wrote the key since it is watched and it has not expired. It may say no where another key was
    /// removed, never yes where the key holds something else.
    pub fn is_unchanged(&mut self, watch: &Watch, now: Micros) -> bool {
        let found = self.find(watch.at, &watch.key, now);
        let is_same_slot = self.slot_version(watch.at.slot) == watch.version;
        match (&watch.content, found) {
            (None, None) => is_same_slot || !self.removed_since(watch.removals, watch.at),
            (Some(_), Some(_)) if is_same_slot => true,
            (Some(content), Some(id)) => {
                let was_touched = self.records.header(id.0).is_touched();
                !was_touched && !self.removed_since(watch.removals, watch.at) && self.content(id) == *content
            }
            _ => false,
        }
    }
}
