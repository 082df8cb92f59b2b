//! What a change adds to memory, known before it is made.
//!
//! The problem: at the bound a call must be refused before it has changed anything, yet nearly all calls on keys that
//! exist add nothing and must go on. The idea: each part that may grow (a block, a table, a slot's header, the list of
//! policies, a log) says beforehand by how much, and whatever adds nothing is never asked about room.

use crate::locate::Located;
use crate::record::{KIND_LEAK, KIND_LEAK_WIDE, KIND_TOKEN, KIND_TOKEN_WIDE, words};
use crate::records::NewState;
use crate::slots::RUN_BYTES;
use crate::store::{RecordId, Store};
use tollgate_limits::{Bucket, Change, Log, LogChange, Policy, StateRef, Under, expires_at};

/// What an entry of a log takes, in bytes: a time and a total.
const LOG_ENTRY_BYTES: usize = 16;
/// Entries that a log has room for from its first one.
const LOG_ENTRIES_MIN: usize = 4;
/// The most that a body grows by and counts as short, in bytes: a log to 128 entries.
const SHORT_BODY_BYTES: u64 = 1_024;

/// Memory that a change is going to take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Need {
    /// Words of a block; 0: none is needed.
    pub words: usize,
    /// Bytes of tables, headers, lists and short bodies: little at a time.
    pub small_bytes: u64,
    /// Bytes that a long body, a log or a value, grows by.
    pub body_bytes: u64,
    /// The record that the call is about, which must stay. It may be moved, and is followed then.
    pub kept: Option<u32>,
}

impl Need {
    /// What a body needs that grows by so many bytes.
    pub fn of_heap(bytes: u64) -> Need {
        let is_short = bytes <= SHORT_BODY_BYTES;
        let (small_bytes, body_bytes) = if is_short { (bytes, 0) } else { (0, bytes) };
        Need { small_bytes, body_bytes, ..Need::default() }
    }

    /// And so many bytes of small things.
    pub fn with_small(self, bytes: u64) -> Need {
        Need { small_bytes: self.small_bytes + bytes, ..self }
    }

    /// Whether the change takes no memory at all.
    pub fn is_nothing(&self) -> bool {
        self.words == 0 && self.small_bytes == 0 && self.body_bytes == 0
    }
}

impl Store {
    /// What a new record under `policy` needs.
    #[inline]
    pub(crate) fn need_of_new(&self, at: Located, key_bytes: usize, policy: Option<&Policy>, state: &NewState) -> Need {
        let header_bytes = match self.slots.get(at.slot) {
            Some(slot) => slot.index.growth_bytes(at.hash, self.split_load),
            None => RUN_BYTES + 64,
        };
        let cell_bytes = match state {
            NewState::Log(_) | NewState::Bytes(..) => self.records.bodies.growth_bytes(),
            NewState::Words2(..) | NewState::Words4(..) => 0,
        };
        let policy_bytes = policy.map_or(0, |policy| self.records.policies.growth_bytes(policy));
        let heap = Need::of_heap(state.heap_bytes());
        Need { words: words(state.kind(), key_bytes), ..heap }.with_small(header_bytes + cell_bytes + policy_bytes)
    }

    /// What a record adds that takes the place of another under the same key, whose memory comes free just before.
    pub(crate) fn need_to_replace(
        &self,
        id: RecordId,
        key_bytes: usize,
        policy: Option<&Policy>,
        state: &NewState,
    ) -> Need {
        let words = words(state.kind(), key_bytes);
        let has_block = self.records.slab.is_of_class(id.0, words);
        let body_bytes = self.records.body(id.0).map(|body| body.heap_bytes() as u64);
        let takes_cell = body_bytes.is_none() && matches!(state, NewState::Log(_) | NewState::Bytes(..));
        let cell_bytes = if takes_cell { self.records.bodies.growth_bytes() } else { 0 };
        let policy_bytes = policy.map_or(0, |policy| self.records.policies.growth_bytes(policy));
        let heap = Need::of_heap(state.heap_bytes().saturating_sub(body_bytes.unwrap_or(0)));
        let words = if has_block { 0 } else { words };
        Need { words, kept: Some(id.0), ..heap }.with_small(cell_bytes + policy_bytes)
    }

    /// What `change` adds to a record.
    pub(crate) fn need_of_change(&self, id: RecordId, asked: &Policy, change: &Change) -> Need {
        let mut need = Need { kept: Some(id.0), ..Need::default() };
        let Some((policy, state)) = self.records.limit(id.0) else { return need };
        let under = match change {
            Change::Keep | Change::Remove => return need,
            Change::Slide(under, _) | Change::Fixed(under, _) => under,
            Change::Bucket(under, bucket) => {
                need.words = self.words_to_widen(id, bucket);
                under
            }
            Change::Log(under, change) => {
                if let StateRef::Log(log) = state {
                    let grown = Need::of_heap(log_growth_bytes(policy, log, change));
                    (need.small_bytes, need.body_bytes) = (grown.small_bytes, grown.body_bytes);
                }
                under
            }
        };
        if *under == Under::Asked && policy != asked {
            need.small_bytes += self.records.policies.growth_bytes(asked);
        }
        need
    }

    /// Words of the block that a bucket moves to if two words no longer hold it; else 0.
    fn words_to_widen(&self, id: RecordId, bucket: &Bucket) -> usize {
        let header = self.records.header(id.0);
        let wide = match header.kind() {
            KIND_TOKEN => KIND_TOKEN_WIDE,
            KIND_LEAK => KIND_LEAK_WIDE,
            _ => return 0,
        };
        if bucket.pack().is_some() { 0 } else { words(wide, header.key_bytes()) }
    }
}

/// What the change adds to what a log kept under `policy` holds.
fn log_growth_bytes(policy: &Policy, log: &Log, change: &LogChange) -> u64 {
    let (LogChange::Append { at, drop_through, .. }, Policy::Log { window, .. }) = (change, policy) else { return 0 };
    let held_bytes = log.heap_bytes();
    if log.len() * LOG_ENTRY_BYTES < held_bytes {
        return 0;
    }
    let Some((oldest_at, _)) = log.entries().next() else { return (LOG_ENTRIES_MIN * LOG_ENTRY_BYTES) as u64 };
    let newest_at = expires_at(policy, StateRef::Log(log)).saturating_sub(window.micros());
    // An entry that goes makes room for this one, and charges of one moment share an entry.
    if oldest_at <= *drop_through || newest_at >= *at { 0 } else { held_bytes as u64 }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use tollgate_limits::Window;

    #[test]
    fn a_log_grows_by_what_was_said() {
        let window = Window::new(1_000).unwrap();
        let policy = Policy::Log { limit: 1_000_000, window };
        let mut log = Log::default();
        // Three charges a moment, then a rest in which some or all entries leave.
        for step in 0..3_000u64 {
            let at = 5_000 + step / 3 * if step % 700 < 600 { 1 } else { 9 };
            let change = LogChange::Append { at, units: 1, drop_through: at.saturating_sub(1_000) };
            let (said, before) = (log_growth_bytes(&policy, &log, &change), log.heap_bytes() as u64);
            log.apply(change);
            let after = log.heap_bytes() as u64;
            assert_eq!(after.saturating_sub(before), said, "step {step}: {before} to {after}");
        }
        let refund = LogChange::Refund { units: 1, drop_through: 0 };
        assert_eq!(log_growth_bytes(&policy, &log, &refund), 0);
    }
}
