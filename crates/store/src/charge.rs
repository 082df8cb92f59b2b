//! The calls that a limiter lives on, in one pass: find the key, decide, write.
//!
//! The problem: looking up, reading, deciding and writing one after the other walks from the slot to the record four
//! times, and hands states and changes about in memory; that costs more than the arithmetic. The idea: a call on a key
//! that is there, under the policy it is kept under, is decided on the very words of its record, where two words are
//! its state. The commonest of all (a SLIDE, admitted) has arithmetic of its own. Whatever is not such a call changes
//! nothing there, and takes the long way through the same steps that everyone else uses.
//!
//! **Invariant:** both ways give the same answer and leave the same record; a random history compares them.

use crate::index::Index;
use crate::key_words;
use crate::locate::Located;
use crate::prefetch::prefetch;
use crate::record::{Header, KIND_FIXED, KIND_LEAK, KIND_SLIDE, KIND_TOKEN};
use crate::records::Records;
use crate::slots::{Slot, Slots};
use crate::store::{OutOfMemory, Store};
use crate::table::Tables;
use crate::wide::Lanes;
use tollgate_limits::{
    Ask, Bucket, Change, Decision, Fixed, Micros, Mode, Policy, Slide, StateRef, Window, charge_slide, decide,
    expires_at,
};

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

/// Calls in [`Mode::Charge`] that follow each other under one policy: what is known of it need not be looked up for
/// each.
#[derive(Clone, Copy, Debug)]
pub struct Spell {
    ask: Ask,
    /// The kind of a record that is decided in place.
    kind: u8,
    /// The limit and the window of a SLIDE; of any other a limit that no record has.
    limit: u64,
    window: Window,
    /// The number of the policy among those that records are kept under, once a record was found to be; above all
    /// numbers before.
    number: u64,
}

impl Spell {
    /// A spell of calls like this one; `None` if it is none that is ever decided in place.
    #[inline(always)]
    pub fn of(ask: &Ask) -> Option<Spell> {
        let (kind, limit, window) = match (ask.mode, &ask.policy) {
            (Mode::Charge, Policy::Slide { limit, window }) => (KIND_SLIDE, *limit, *window),
            (Mode::Charge, Policy::Fixed { window, .. }) => (KIND_FIXED, u64::MAX, *window),
            (Mode::Charge, Policy::Token { .. }) => (KIND_TOKEN, u64::MAX, Window::MIN),
            (Mode::Charge, Policy::Leak { .. }) => (KIND_LEAK, u64::MAX, Window::MIN),
            _ => return None,
        };
        Some(Spell { ask: *ask, kind, limit, window, number: u64::MAX })
    }
}

/// No record has this number: it would be a block of one word at the very end of all memory.
const NOTHING: u32 = u32::MAX;

/// Where a record was seen; good as long as nothing but common calls are run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sighting(u32);

impl Sighting {
    /// Nothing was seen.
    pub const NONE: Sighting = Sighting(NOTHING);
}

impl Records {
    /// The record that the slot has first under the hash's tag, which is the key's own in all but one of some hundred
    /// cases. Begins to load it.
    #[inline(always)]
    fn sight(&self, slot: &Slot, tables: &Tables, hash: u64) -> Option<u32> {
        let id = slot.index.find(hash, tables, |_| true)?;
        self.prefetch(id);
        Some(id)
    }

    /// Charges a SLIDE in place if it is the record of `key` and kept under the spell's policy, and if the call is
    /// admitted at once. `None`, and nothing changed, if not.
    #[inline(always)]
    fn charge(&mut self, id: u32, key: &[u8], spell: &mut Spell, now: Micros) -> Option<Decision> {
        let (region, offset) = self.slab.words_mut(id);
        let ([header_word, state @ ..], key_words) = region[offset..].split_first_chunk_mut::<3>()?;
        let header = Header(*header_word);
        if !header.is_of(KIND_SLIDE, key.len()) || !key_words::are_of(key_words, key) {
            return None;
        }
        let number = header.policy();
        if spell.number != u64::from(number) {
            let Policy::Slide { limit, window } = *self.policies.get(number) else { return None };
            if limit != spell.limit || window != spell.window {
                return None;
            }
            spell.number = u64::from(number);
        }
        let decision = charge_slide(state, spell.limit, spell.window, spell.ask.cost, now)?;
        *header_word = Records::written(&mut self.changes, id, header).0;
        Some(decision)
    }

    /// Decides a call in place if this is the record of `key`, alive, of two words, and kept under the very policy of
    /// the call; answers too whether that changed the record. `None`, and nothing changed, if not, or if the record
    /// would need another form.
    #[inline(never)]
    fn decide(&mut self, id: u32, key: &[u8], spell: &Spell, now: Micros) -> Option<(Decision, bool)> {
        let Spell { ask, kind, .. } = spell;
        let (region, offset) = self.slab.words_mut(id);
        let ([header_word, words @ ..], key_words) = region[offset..].split_first_chunk_mut::<3>()?;
        let header = Header(*header_word);
        if !header.is_of(*kind, key.len())
            || !key_words::are_of(key_words, key)
            || *self.policies.get(header.policy()) != ask.policy
        {
            return None;
        }
        let state = match *kind {
            KIND_SLIDE => StateRef::Slide(Slide::unpack(*words)),
            KIND_FIXED => StateRef::Fixed(Fixed::unpack(*words)),
            KIND_TOKEN => StateRef::Token(Bucket::unpack(*words)),
            KIND_LEAK => StateRef::Leak(Bucket::unpack(*words)),
            _ => return None,
        };
        if expires_at(&ask.policy, state) <= now {
            return None;
        }
        let outcome = decide(Some((&ask.policy, state)), ask, now)?;
        *words = match outcome.change {
            Change::Keep => return Some((outcome.decision, false)),
            Change::Slide(_, slide) => slide.pack(),
            Change::Fixed(_, fixed) => fixed.pack(),
            Change::Bucket(_, bucket) => bucket.pack()?,
            Change::Remove | Change::Log(..) => return None,
        };
        *header_word = Records::written(&mut self.changes, id, header).0;
        Some((outcome.decision, true))
    }
}

/// What lies under a hash whose first line does not have it, or [`NOTHING`].
#[cold]
#[inline(never)]
fn behind(slots: &Slots, tables: &Tables, at: Located) -> u32 {
    slots.get(at.slot).and_then(|slot| slot.index.find(at.hash, tables, |_| true)).unwrap_or(NOTHING)
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
        if let Some(decision) = self.decide_common(at, key, ask, now) {
            return Ok(Charged { decision, hit: true });
        }
        self.charge_uncommon(at, key, ask, now)
    }

    /// Decides the commonest call: on a SLIDE that is there, and admitted at once. `None`, and nothing changed, for any
    /// other: [`Store::charge`] decides all.
    ///
    /// Only the first entry with the right tag is looked at. It is the key's own in all but one of some hundred cases,
    /// and a probe that looks at no record keeps all it needs in registers.
    #[inline(always)]
    pub fn charge_common(&mut self, at: Located, key: &[u8], ask: &Ask, now: Micros) -> Option<Decision> {
        let mut spell = Spell::of(ask)?;
        let slot = self.slots.get_mut(at.slot)?;
        let id = slot.index.find(at.hash, &self.tables, |_| true)?;
        let decision = self.records.charge(id, key, &mut spell, now)?;
        slot.version += 1;
        Some(decision)
    }

    /// As [`Store::charge_common`], for any call that can be decided in the two words of a record's state, admitted or
    /// denied.
    #[inline(never)]
    pub fn decide_common(&mut self, at: Located, key: &[u8], ask: &Ask, now: Micros) -> Option<Decision> {
        let spell = Spell::of(ask)?;
        let slot = self.slots.get_mut(at.slot)?;
        let id = slot.index.find(at.hash, &self.tables, |_| true)?;
        let (decision, is_changed) = self.records.decide(id, key, &spell, now)?;
        slot.version += u64::from(is_changed);
        Some(decision)
    }

    /// Sees where the record of a key probably lies, and begins to load it. Changes nothing.
    #[inline(always)]
    pub fn sight(&self, at: Located) {
        let id = self.slots.get(at.slot).and_then(|slot| self.records.sight(slot, &self.tables, at.hash));
        std::hint::black_box(id);
    }

    /// As [`Store::sight`], for calls that will follow at once and that will likely change their records: the slots'
    /// versions, which may count more than the changes but never less, are raised here, where the slots are at hand.
    /// `place` says where the key of a call lies, and whether that is here; nothing is seen of the others, nor of one
    /// beyond the last sighting.
    ///
    /// First the lines of the index of some calls are begun to load, then their records, so that the CPU waits for many
    /// at once.
    #[inline(always)]
    pub fn sight_row<Call, const CALLS: usize>(
        &mut self,
        calls: &[Call],
        place: impl Fn(&Call) -> (bool, Located),
        lanes: impl Lanes,
        sightings: &mut [Sighting; CALLS],
    ) {
        let Store { slots, tables, records, .. } = self;
        let mut lines = [None; CALLS];
        for (call, line) in calls.iter().zip(&mut lines) {
            let (is_here, at) = place(call);
            if is_here && let Some(slot) = slots.get_mut(at.slot) {
                // So many changes there never are.
                slot.version = slot.version.wrapping_add(1);
                *line = slot.index.first_line(at.hash, tables);
                if let Some(line) = line {
                    prefetch(&line[0], 0);
                }
            }
        }
        for ((call, line), sighting) in calls.iter().zip(&lines).zip(sightings) {
            if let Some(line) = line {
                let (_, at) = place(call);
                let id = Index::first_in(line, at.hash, lanes).unwrap_or_else(|| behind(slots, tables, at));
                *sighting = Sighting(id);
                if id != NOTHING {
                    records.prefetch(id);
                }
            }
        }
    }

    /// As [`Store::charge_common`], for a key that was sighted to be charged. Between the sighting and this, and since
    /// the spell began, nothing may have been done to the store but this, [`Store::decide_sighted`] and sightings.
    #[inline(always)]
    pub fn charge_sighted(&mut self, seen: Sighting, key: &[u8], spell: &mut Spell, now: Micros) -> Option<Decision> {
        if seen == Sighting::NONE { None } else { self.records.charge(seen.0, key, spell, now) }
    }

    /// As [`Store::decide_common`], under the conditions of [`Store::charge_sighted`].
    #[inline(always)]
    pub fn decide_sighted(&mut self, seen: Sighting, key: &[u8], spell: &Spell, now: Micros) -> Option<Decision> {
        if seen == Sighting::NONE {
            return None;
        }
        self.records.decide(seen.0, key, spell, now).map(|(decision, _)| decision)
    }

    /// As [`Store::charge`], step by step: for what [`Store::charge_common`] and [`Store::decide_common`]
    /// did not decide.
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
