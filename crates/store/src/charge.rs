//! The call that a limiter lives on, in one pass: find the key, decide, write.
//!
//! The problem: looking up, reading, deciding and writing one after the other walks from the slot to the record four
//! times, and hands states and changes about in memory; that costs more than the arithmetic. The idea: the common call
//! (a SLIDE that exists, is asked for under the policy it is kept under, and is admitted) is decided on the very words
//! of its record. Whatever is not that call changes nothing there, and takes the long way through the same steps that
//! everyone else uses.
//!
//! **Invariant:** both ways give the same answer and leave the same record; a random history compares them.

use crate::key_words;
use crate::locate::Located;
use crate::record::{Header, KIND_SLIDE};
use crate::store::{OutOfMemory, Store};
use tollgate_limits::{Ask, Change, Decision, Micros, Mode, Policy, charge_slide, decide};

/// What a call on a limit came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Charged {
    /// The reply.
    pub decision: Decision,
    /// Whether the key was there before the call.
    pub hit: bool,
}

/// Why a call on a limit was not decided. Nothing has changed then, but that expired records may be gone and, under
/// [`crate::Eviction::EvictLeast`], evicted ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ChargeError {
    /// The key is there and was made by another algorithm.
    WrongType,
    /// There is no memory for a new key or for what the call adds to an old one, or the key is longer than
    /// [`crate::KEY_BYTES_MAX`].
    OutOfMemory,
}

impl std::fmt::Display for ChargeError {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(match self {
            ChargeError::WrongType => "the key holds a limit of another algorithm",
            ChargeError::OutOfMemory => "refused: memory is used up",
        })
    }
}

impl std::error::Error for ChargeError {}

impl From<OutOfMemory> for ChargeError {
    fn from(OutOfMemory: OutOfMemory) -> ChargeError {
        ChargeError::OutOfMemory
    }
}

impl Store {
    /// One call on one limit: read, compute and write in one uninterrupted step.
    ///
    /// The same as [`Store::find`], [`Store::limit`], [`decide`] and [`Store::apply`] or [`Store::insert`]. `at` is
    /// where `key` lies.
    ///
    /// # Errors
    ///
    /// [`ChargeError::WrongType`] and [`ChargeError::OutOfMemory`].
    pub fn charge(&mut self, at: Located, key: &[u8], ask: &Ask, now: Micros) -> Result<Charged, ChargeError> {
        if let Some(decision) = self.charge_common(at, key, ask, now) {
            return Ok(Charged { decision, hit: true });
        }
        self.charge_uncommon(at, key, ask, now)
    }

    /// Decides the common call, which is always admitted at once. `None`, and nothing changed, for any other:
    /// [`Store::charge`] decides all.
    ///
    /// Only the first entry with the right tag is looked at. It is the key's own in all but one of some hundred cases,
    /// and a probe that looks at no record keeps all it needs in registers.
    #[inline(always)]
    pub fn charge_common(&mut self, at: Located, key: &[u8], ask: &Ask, now: Micros) -> Option<Decision> {
        let Ask { policy: Policy::Slide { limit, window }, cost, mode: Mode::Charge } = *ask else { return None };
        let slot = self.slots.get_mut(at.slot)?;
        let id = slot.index.find(at.hash, |_| true)?;
        let (page, offset) = self.records.slab.page_mut(id);
        let ([header_word, state @ ..], key_words) = page[offset..].split_first_chunk_mut::<3>()?;
        let header = Header(*header_word);
        if !header.is_of(KIND_SLIDE, key.len()) || !key_words::are_of(key_words, key) {
            return None;
        }
        let Policy::Slide { limit: kept_limit, window: kept_window } = *self.records.policies.get(header.policy())
        else {
            return None;
        };
        if kept_limit != limit || kept_window != window {
            return None;
        }
        let decision = charge_slide(state, limit, window, cost, now)?;
        *header_word = header.dirty().0;
        slot.version += 1;
        Some(decision)
    }

    /// As [`Store::charge`], step by step: for what [`Store::charge_common`] did not decide.
    ///
    /// # Errors
    ///
    /// As [`Store::charge`].
    #[inline(never)]
    pub fn charge_uncommon(&mut self, at: Located, key: &[u8], ask: &Ask, now: Micros) -> Result<Charged, ChargeError> {
        let Some(id) = self.find(at, key, now) else {
            // Without a record every algorithm decides.
            let outcome = decide(None, ask, now).ok_or(ChargeError::WrongType)?;
            if outcome.change != Change::Keep {
                self.insert(at, key, &ask.policy, &outcome.change, now)?;
            }
            return Ok(Charged { decision: outcome.decision, hit: false });
        };
        let outcome = self.limit(id).and_then(|stored| decide(Some(stored), ask, now)).ok_or(ChargeError::WrongType)?;
        if outcome.change != Change::Keep {
            // Making room may move the record, so the place it answers is the one to write to.
            let id = self.make_room_for(id, &ask.policy, &outcome.change, now)?;
            self.apply(at, id, &ask.policy, &outcome.change);
        }
        Ok(Charged { decision: outcome.decision, hit: true })
    }
}
