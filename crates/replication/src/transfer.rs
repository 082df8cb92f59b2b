//! Records out of a store and into one.
//!
//! The problem: a store must give all that it holds while it serves, in steps that nobody notices, and nothing that is
//! there all the while may be missed. The idea: a walk that keeps no more than a position, which the order of the
//! store's index makes good however it grows meanwhile.

use crate::record::{Damaged, Record, write};
use tollgate_limits::Micros;
use tollgate_store::{OutOfMemory, Store};

/// A walk through all that a store holds.
#[derive(Clone, Copy, Debug)]
pub struct Export {
    cursor: Option<u32>,
}

impl Export {
    /// One that begins.
    pub fn new(store: &Store) -> Export {
        Export { cursor: store.first_cursor() }
    }

    /// Whether it has come to its end.
    pub fn is_done(&self) -> bool {
        self.cursor.is_none()
    }

    /// Appends the records of the next keys to `out`, at least `count` of them but at most one table more. Answers how
    /// many they are; those that have expired are passed over.
    pub fn step(&mut self, store: &Store, count: usize, now: Micros, out: &mut Vec<u8>) -> u64 {
        let mut records = 0;
        if let Some(cursor) = self.cursor {
            self.cursor = store.scan(cursor, count, now, &mut |id, key| {
                write(out, key, Some(store.holding(id)));
                records += 1;
            });
        }
        records
    }

    /// As [`Export::step`], and has the changes of those keys told from here on. Only right after changes were taken.
    pub(crate) fn step_and_track(&mut self, store: &mut Store, count: usize, now: Micros, out: &mut Vec<u8>) {
        let Some(cursor) = self.cursor else { return };
        // What has expired is no record to any call, and none makes it one again.
        let mut met = Vec::new();
        self.cursor = store.scan(cursor, count, now, &mut |id, key| {
            write(out, key, Some(store.holding(id)));
            met.push(id);
        });
        met.into_iter().for_each(|id| store.copied(id));
    }
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
        let Record { key, content } = Record::read(&mut rest)?;
        records += 1;
        let at = hasher.locate(key);
        if !store.owns(at.slot) {
            continue;
        }
        let id = store.find(at, key, now);
        match (content, id) {
            (Some(content), id) => {
                store.put_content(at, key, id, &content, true, now).map_err(|OutOfMemory| NotImported::NoRoom)?;
            }
            (None, Some(id)) => store.remove(at, id),
            (None, None) => {}
        }
    }
    Ok(records)
}
