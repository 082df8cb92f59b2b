//! Records out of a store and into one.
//!
//! The problem: a store must give all that it holds while it serves, in steps that nobody notices, and nothing that is
//! there all the while may be missed. The idea: a walk that keeps no more than a position, which the order of the
//! store's index makes good however it grows meanwhile.

use crate::record::{Damaged, Record, write};
use tollgate_limits::Micros;
use tollgate_store::{OutOfMemory, Store, slot_cursor};

/// Bytes of records after which a step ends, be it in the middle of a table.
const STEP_BYTES: usize = 256 * 1024;

/// A walk through slots of a store, one after another.
#[derive(Clone, Debug)]
pub struct Export {
    /// Slots to come, the next one last.
    slots: Vec<u16>,
    /// Where it is in the slot that it is in.
    cursor: Option<u32>,
    /// Keys of the table that the walk has passed last, which were too much for one step.
    left: Vec<Box<[u8]>>,
}

impl Export {
    /// One through all slots of a store that begins.
    pub fn new(store: &Store) -> Export {
        Export::of_slots(store.owned_slots().collect())
    }

    /// One through these slots.
    pub fn of_slots(mut slots: Vec<u16>) -> Export {
        slots.reverse();
        Export { slots, cursor: None, left: Vec::new() }
    }

    /// Whether it has come to its end.
    pub fn is_done(&self) -> bool {
        self.slots.is_empty() && self.cursor.is_none() && self.left.is_empty()
    }

    /// Appends the records of the next keys to `out`: at least `count` of them but at most one table more, and no more
    /// once they are [`STEP_BYTES`]. Answers how many they are; those that have expired are passed over.
    pub fn step(&mut self, store: &mut Store, count: usize, now: Micros, out: &mut Vec<u8>) -> u64 {
        self.go_on(store, count, now, out, false)
    }

    /// As [`Export::step`], and has the changes of those keys told from here on. Only right after changes were taken.
    pub(crate) fn step_and_track(&mut self, store: &mut Store, count: usize, now: Micros, out: &mut Vec<u8>) {
        self.go_on(store, count, now, out, true);
    }

    fn go_on(&mut self, store: &mut Store, count: usize, now: Micros, out: &mut Vec<u8>, tracks: bool) -> u64 {
        let end = out.len() + STEP_BYTES;
        let (mut records, mut looked_at, hasher) = (0, 0, store.hasher());
        while out.len() < end
            && let Some(key) = self.left.pop()
        {
            let at = hasher.locate(&key);
            if let Some(id) = store.find(at, &key, now) {
                write(out, &key, Some(store.holding(id)));
                records += 1;
                if tracks {
                    store.copied(id);
                }
            }
        }
        let mut met = Vec::new();
        while self.left.is_empty() && out.len() < end && looked_at < count {
            let Some(cursor) = self.cursor.or_else(|| self.slots.pop().map(slot_cursor)) else { break };
            // What has expired is no record to any call, and none makes it one again.
            let left = &mut self.left;
            self.cursor = store.scan_in_slot(cursor, (&mut looked_at, count), now, &mut |id, key| {
                if out.len() < end {
                    write(out, key, Some(store.holding(id)));
                    met.push(id);
                } else {
                    left.push(key.into());
                }
            });
        }
        records += met.len() as u64;
        if tracks {
            met.into_iter().for_each(|id| store.copied(id));
        }
        records
    }
}

/// Appends the records of such of the keys as the store holds. Answers how many they are.
pub fn export_keys(store: &mut Store, keys: &[Box<[u8]>], now: Micros, out: &mut Vec<u8>) -> u64 {
    let (hasher, mut records) = (store.hasher(), 0);
    for key in keys {
        if let Some(id) = store.find(hasher.locate(key), key, now) {
            write(out, key, Some(store.holding(id)));
            records += 1;
        }
    }
    records
}

/// Why records did not all come into a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotImported {
    /// One of them is none.
    #[error(transparent)]
    Damaged(#[from] Damaged),
    /// The core holds all that it can name, or the system has no memory left.
    #[error("there is no room for more keys")]
    NoRoom,
    /// The process is a primary by now.
    #[error("it is no replica any more")]
    NoReplica,
}

/// Goes through the records in `body` and puts those that are the store's into it, beyond its memory bound if need be:
/// what was there before a restart is there after it. Answers how many records there were.
///
/// # Errors
/// A record is damaged, or no more records can be named; those before it are in the store.
pub fn import(body: &[u8], store: &mut Store, now: Micros) -> Result<u64, NotImported> {
    let hasher = store.hasher();
    let (mut rest, mut records) = (body, 0);
    while !rest.is_empty() {
        let Record { key, content, kept_through } = Record::read(&mut rest)?;
        records += 1;
        let at = hasher.locate(key);
        if !store.owns(at.slot) {
            continue;
        }
        #[cfg(feature = "planted-faults")]
        if content.as_ref().is_some_and(|content| {
            crate::planted::putting::puts(store, at, key, (content, kept_through.is_some()), now)
        }) {
            continue;
        }
        let id = store.find(at, key, now);
        match (content, id) {
            (Some(content), Some(id)) if let Some(kept_through) = kept_through => {
                // What is here may be no such log: what this store held before the copy that is under way, which has
                // not come to the key yet and will tell it whole. Until then it stays: a piece is less than all use of
                // its log, and must not free what is here.
                let _ = store.join_piece(at, id, &content, kept_through);
            }
            // Also a piece of a log that is not here. Either it expired here, and then all its charges have left the
            // window but those of the piece; or the copy has not come to it yet, and some use is better than none.
            (Some(content), id) => {
                store.put_content(at, key, id, &content, true, now).map_err(|OutOfMemory| NotImported::NoRoom)?;
            }
            (None, Some(id)) => store.remove(at, id),
            (None, None) => {}
        }
    }
    Ok(records)
}
