//! Which keys changed since somebody last asked, for those who keep a copy elsewhere.
//!
//! The problem: a copy is told a few hundred times a second what changed, and a key that is charged a million times in
//! between must cost it one record, and a call that nobody copies nothing. The idea: every record has a mark that it
//! changed, which every write sets anyway. Whoever takes the changes clears the marks of the records that it is given,
//! so the first write after that finds the mark clear and puts the record's number on a list; where nobody ever takes
//! any, every mark is set and no write looks further.
//!
//! ```text
//! write    mark clear? ── yes ──> number on the list        removal, eviction ──> key on a list of its own
//! take     each number: clear the mark, show what is there;  each key that is not there again: show that
//! ```
//!
//! **Invariant:** a copy that was made while changes were tracked ([`Store::copied`] for each record that it was given)
//! and is given all changes since holds what the store holds, but for what has expired.

use crate::content::Holding;
use crate::record::Header;
use crate::records::Records;
use crate::store::{RecordId, Store};
use tollgate_limits::{Log, Micros, Policy, StateRef};

/// Bytes of removed keys and numbers of changed ones that are kept until they are taken: a copy is told to begin anew
/// rather than that this grows.
const KEPT_BYTES_MAX: usize = 16 * 1024 * 1024;

/// Records that are loaded before they are shown.
const LOADED_AHEAD: usize = 12;

/// Changes that were not taken yet.
#[derive(Default)]
pub(crate) struct Changes {
    is_on: bool,
    /// Records that were written since their mark was cleared, by number; some may be gone, moved, or twice in it.
    written: Vec<u32>,
    /// Removed keys, each with its length before it.
    removed: Vec<u8>,
    /// Whether everything was removed before what is listed.
    is_cleared: bool,
    /// Whether there were more changes than are kept.
    is_overfull: bool,
}

/// One change.
#[derive(Clone, Copy, Debug)]
pub enum KeyChange<'a> {
    /// Every key was removed before the other changes.
    Clear,
    /// The key holds this now.
    Holds(&'a [u8], Holding<'a>),
    /// The key holds this log under this policy. Its entries up to this time are as they were told last, but for those
    /// that have been dropped.
    HoldsMore(&'a [u8], &'a Policy, &'a Log, Micros),
    /// The key holds nothing.
    Gone(&'a [u8]),
}

/// There were more changes than could be kept: a copy must be made anew.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooManyChanges;

impl Changes {
    /// A record was written whose mark was clear, or was made, or has moved.
    #[cold]
    #[inline(never)]
    pub fn note(&mut self, id: u32) {
        if self.is_on && self.has_room() {
            self.written.push(id);
        }
    }

    pub fn is_on(&self) -> bool {
        self.is_on
    }

    fn note_removed(&mut self, key: &[u8]) {
        if self.has_room() {
            // A key is shorter than 2^16 bytes.
            self.removed.extend_from_slice(&(key.len() as u16).to_le_bytes());
            self.removed.extend_from_slice(key);
        }
    }

    fn has_room(&mut self) -> bool {
        if self.is_overfull || self.written.len() * size_of::<u32>() + self.removed.len() < KEPT_BYTES_MAX {
            return !self.is_overfull;
        }
        self.overflow();
        false
    }

    /// Forgets what is listed, which a new copy will have.
    pub fn overflow(&mut self) {
        if self.is_on {
            *self = Changes { is_on: true, is_overfull: true, ..Changes::default() };
        }
    }

    pub fn note_cleared(&mut self) {
        if self.is_on {
            *self = Changes { is_on: true, is_cleared: true, is_overfull: self.is_overfull, ..Changes::default() };
        }
    }
}

impl Records {
    /// A record is about to be removed by a call, or to make room; or to go for whatever reason with a change that was
    /// not told. One that has expired as it was told to is found by the copy itself.
    #[inline]
    pub fn note_removed(&mut self, id: u32) {
        if self.changes.is_on {
            let key = self.key(id).to_vec();
            self.changes.note_removed(&key);
        }
    }

    /// The header of a record that is being written, which is dirty from now on.
    #[inline(always)]
    pub fn written(changes: &mut Changes, id: u32, header: Header) -> Header {
        if !header.is_dirty() {
            changes.note(id);
        }
        header.dirty()
    }
}

impl Store {
    /// Begins to keep what changes, or ends it. After the begin every record counts as one that was not copied: a copy
    /// has to be given all of them once ([`Store::copied`]).
    pub fn track_changes(&mut self, is_on: bool) {
        self.records.changes = Changes { is_on, ..Changes::default() };
    }

    /// Whether changes are kept.
    pub fn tracks_changes(&self) -> bool {
        self.records.changes.is_on()
    }

    /// Whether something changed that was not taken yet.
    #[inline]
    pub fn has_untaken_changes(&self) -> bool {
        let Changes { written, removed, is_cleared, is_overfull, .. } = &self.records.changes;
        *is_cleared || *is_overfull || !written.is_empty() || !removed.is_empty()
    }

    /// Says that a record was given to a copy as it is now, so that from here on its changes are told. Only right after
    /// [`Store::take_changes`], when no change of it is still to be told.
    pub fn copied(&mut self, id: RecordId) {
        self.clear_mark(id.0);
        self.records.told(id.0);
    }

    fn clear_mark(&mut self, id: u32) {
        let header = self.records.header(id);
        self.records.set_header(id, header.clean());
    }

    /// A copy of this slot from elsewhere begins: what is put in from now on is told from what was there before. Only
    /// on a store whose changes nobody is told.
    pub fn begin_copy_of_slot(&mut self, slot: u16) {
        for id in self.ids_of_slot(slot) {
            self.clear_mark(id);
        }
    }

    /// The copy has ended: what was there before and was not put in since is gone.
    pub fn end_copy_of_slot(&mut self, slot: u16) {
        for id in self.ids_of_slot(slot) {
            if !self.records.header(id).is_dirty() {
                let at = self.locate_record(id);
                self.remove(at, RecordId(id));
            }
        }
    }

    fn ids_of_slot(&self, slot: u16) -> Vec<u32> {
        self.slots.get(slot).map(|slot| slot.index.iter(&self.tables).collect()).unwrap_or_default()
    }

    fn names_a_record(&self, id: u32) -> bool {
        self.records.slab.names_a_record(id)
    }

    fn change_of(&self, id: u32) -> KeyChange<'_> {
        let key = self.records.key(id);
        match (self.records.told_through(id), self.records.limit(id)) {
            (Some(through), Some((policy, StateRef::Log(log)))) => KeyChange::HoldsMore(key, policy, log, through),
            _ => KeyChange::Holds(key, self.holding(RecordId(id))),
        }
    }

    /// Shows all changes since the last time, each key at most once or twice, as it is now.
    ///
    /// # Errors
    /// There were too many to keep, so that every copy must be made anew; none are shown. From now on changes are kept
    /// again.
    pub fn take_changes(&mut self, now: Micros, visit: &mut dyn FnMut(KeyChange<'_>)) -> Result<(), TooManyChanges> {
        let is_on = self.records.changes.is_on;
        let taken = std::mem::replace(&mut self.records.changes, Changes { is_on, ..Changes::default() });
        if taken.is_overfull {
            return Err(TooManyChanges);
        }
        if taken.is_cleared {
            visit(KeyChange::Clear);
        }
        for (place, id) in taken.written.iter().enumerate() {
            // They lie anywhere, and the CPU waits for many at once.
            if let Some(later) = taken.written.get(place + LOADED_AHEAD).filter(|id| self.names_a_record(**id)) {
                self.records.prefetch(*later);
            }
            if !self.names_a_record(*id) {
                continue;
            }
            // What was told already is not told again, be it that it stood twice on the list.
            if self.records.header(*id).is_dirty() {
                visit(self.change_of(*id));
                self.copied(RecordId(*id));
            }
        }
        let mut removed = taken.removed.as_slice();
        while let Some((length, rest)) = removed.split_first_chunk() {
            let (key, rest) = rest.split_at(usize::from(u16::from_le_bytes(*length)));
            removed = rest;
            let at = self.records.hasher.locate(key);
            if self.find(at, key, now).is_none() {
                visit(KeyChange::Gone(key));
            }
        }
        Ok(())
    }
}
