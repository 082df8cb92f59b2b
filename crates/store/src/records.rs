//! The records of one core and what they share: blocks, logs, policies. Knows nothing of slots.

use crate::arena::Arena;
use crate::body::Body;
use crate::changes::Changes;
use crate::index::Entries;
use crate::key_words;
use crate::locate::Hasher;
use crate::policies::Policies;
use crate::prefetch::prefetch;
use crate::record::{
    Header, KIND_BYTES, KIND_FIXED, KIND_INTEGER, KIND_LEAK, KIND_LEAK_WIDE, KIND_LOG, KIND_SLIDE, KIND_TOKEN,
    KIND_TOKEN_WIDE, NO_POLICY, algorithm, state_words,
};
use crate::slab::Slab;
use tollgate_limits::{Algorithm, Bucket, Fixed, Log, Micros, Policy, Slide, StateRef, expires_at};

/// A state as it is to be stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum NewState {
    Words2(u8, [u64; 2]),
    Words4(u8, [u64; 4]),
    Log(Log),
    /// A value's bytes, and the word that says when it expires.
    Bytes(Box<[u8]>, u64),
}

impl NewState {
    pub fn slide(slide: Slide) -> NewState {
        NewState::Words2(KIND_SLIDE, slide.pack())
    }

    pub fn fixed(fixed: Fixed) -> NewState {
        NewState::Words2(KIND_FIXED, fixed.pack())
    }

    /// In two words if they hold it. `None` if the algorithm keeps no bucket.
    pub fn bucket(algorithm: Algorithm, bucket: Bucket) -> Option<NewState> {
        let (kind, kind_wide) = match algorithm {
            Algorithm::Token => (KIND_TOKEN, KIND_TOKEN_WIDE),
            Algorithm::Leak => (KIND_LEAK, KIND_LEAK_WIDE),
            Algorithm::Slide | Algorithm::Fixed | Algorithm::Log => return None,
        };
        Some(match bucket.pack() {
            Some(words) => NewState::Words2(kind, words),
            None => NewState::Words4(kind_wide, bucket.pack_wide()),
        })
    }

    pub fn kind(&self) -> u8 {
        match self {
            NewState::Words2(kind, _) | NewState::Words4(kind, _) => *kind,
            NewState::Log(_) => KIND_LOG,
            NewState::Bytes(..) => KIND_BYTES,
        }
    }

    pub fn heap_bytes(&self) -> u64 {
        match self {
            NewState::Log(log) => log.heap_bytes() as u64,
            NewState::Bytes(bytes, _) => bytes.len() as u64,
            NewState::Words2(..) | NewState::Words4(..) => 0,
        }
    }
}

pub(crate) struct Records {
    pub slab: Slab,
    pub policies: Policies,
    pub bodies: Arena<Body>,
    /// What all bodies hold beyond their cells, those that wait for being dropped included.
    pub body_heap_bytes: u64,
    /// Values without an expiry. Whoever writes a value or its expiry word keeps it.
    pub lasting: u64,
    pub hasher: Hasher,
    pub changes: Changes,
}

impl Records {
    pub fn new(hasher: Hasher) -> Records {
        let (slab, policies, bodies) = (Slab::new(), Policies::new(hasher.clone()), Arena::new());
        Records { slab, policies, bodies, body_heap_bytes: 0, lasting: 0, hasher, changes: Changes::default() }
    }

    #[inline]
    pub fn header(&self, id: u32) -> Header {
        let (region, offset) = self.slab.words(id);
        Header(region[offset])
    }

    #[inline]
    pub fn key(&self, id: u32) -> &[u8] {
        let (region, offset) = self.slab.words(id);
        let header = Header(region[offset]);
        let from = offset + 1 + header.state_words();
        &bytemuck::cast_slice(&region[from..])[..header.key_bytes()]
    }

    /// Whether the record is of `key`.
    #[inline]
    pub fn is_of(&self, id: u32, key: &[u8]) -> bool {
        let (region, offset) = self.slab.words(id);
        let header = Header(region[offset]);
        header.key_bytes() == key.len() && key_words::are_of(&region[offset + 1 + header.state_words()..], key)
    }

    /// The policy and the state. SLIDE, the common kind, is read in line with the caller; the others by a call.
    #[inline(always)]
    pub fn limit(&self, id: u32) -> Option<(&Policy, StateRef<'_>)> {
        let (region, offset) = self.slab.words(id);
        let header = Header(region[offset]);
        if header.kind() != KIND_SLIDE {
            return self.limit_of_other_kind(id);
        }
        let slide = Slide::unpack([region[offset + 1], region[offset + 2]]);
        Some((self.policies.get(header.policy()), StateRef::Slide(slide)))
    }

    #[inline(never)]
    fn limit_of_other_kind(&self, id: u32) -> Option<(&Policy, StateRef<'_>)> {
        let (region, offset) = self.slab.words(id);
        let header = Header(region[offset]);
        let two = || [region[offset + 1], region[offset + 2]];
        let four = || [region[offset + 1], region[offset + 2], region[offset + 3], region[offset + 4]];
        let state = match header.kind() {
            KIND_TOKEN => StateRef::Token(Bucket::unpack(two())),
            KIND_FIXED => StateRef::Fixed(Fixed::unpack(two())),
            KIND_LEAK => StateRef::Leak(Bucket::unpack(two())),
            KIND_TOKEN_WIDE => StateRef::Token(Bucket::unpack_wide(four())),
            KIND_LEAK_WIDE => StateRef::Leak(Bucket::unpack_wide(four())),
            KIND_LOG => match self.bodies.get(region[offset + 1] as u32) {
                Body::Log(log) => StateRef::Log(log),
                Body::Bytes(_) => return None,
            },
            _ => return None,
        };
        Some((self.policies.get(header.policy()), state))
    }

    /// The first microsecond at which the record is none. `None`: it lasts.
    #[inline]
    pub fn expires_at(&self, id: u32) -> Option<Micros> {
        match self.limit(id) {
            Some((policy, state)) => Some(expires_at(policy, state)),
            None => self.value_expires_at(id),
        }
    }

    #[inline]
    pub fn is_expired(&self, id: u32, now: Micros) -> bool {
        self.expires_at(id).is_some_and(|end| end <= now)
    }

    /// A new record, of a limit under its policy or of a value under none. `None` if no block can be had.
    pub fn create(&mut self, policy: Option<&Policy>, state: NewState, key: &[u8], may_grow: bool) -> Option<u32> {
        let kind = state.kind();
        let id = self.slab.allocate(crate::record::words(kind, key.len()), may_grow)?;
        let policy = policy.map_or(NO_POLICY, |policy| self.policies.take(policy));
        let (region, offset) = self.slab.words_mut(id);
        region[offset] = Header::new(policy, key.len(), kind).0;
        let key_from = offset + 1 + state_words(kind);
        let key_words = &mut region[key_from..key_from + key.len().div_ceil(8)];
        if let Some(last) = key_words.last_mut() {
            *last = 0;
        }
        bytemuck::cast_slice_mut::<u64, u8>(key_words)[..key.len()].copy_from_slice(key);
        self.fill(id, state);
        if matches!(kind, KIND_INTEGER | KIND_BYTES) {
            self.lasting += u64::from(self.value_lasts(id));
        }
        if self.changes.is_on() {
            self.changes.note(id);
        }
        Some(id)
    }

    /// Writes the state's words of a record of the same kind that has no body of its own.
    fn fill(&mut self, id: u32, state: NewState) {
        let (region, offset) = self.slab.words_mut(id);
        match state {
            NewState::Words2(_, words) => region[offset + 1..offset + 3].copy_from_slice(&words),
            NewState::Words4(_, words) => region[offset + 1..offset + 5].copy_from_slice(&words),
            NewState::Log(log) => {
                self.body_heap_bytes += log.heap_bytes() as u64;
                region[offset + 1] = u64::from(self.bodies.insert(Body::Log(log)));
                self.forget_told(id);
            }
            NewState::Bytes(bytes, expiry) => {
                self.body_heap_bytes += bytes.len() as u64;
                region[offset + 1] = u64::from(self.bodies.insert(Body::Bytes(bytes)));
                region[offset + 2] = expiry;
            }
        }
    }

    /// Writes two words of state over a record of `kind`, and marks it dirty. False, and nothing done, for another
    /// kind.
    #[inline]
    pub fn write2(&mut self, id: u32, kind: u8, words: [u64; 2]) -> bool {
        let (region, offset) = self.slab.words_mut(id);
        let header = Header(region[offset]);
        if header.kind() != kind {
            return false;
        }
        region[offset] = Records::written(&mut self.changes, id, header).0;
        region[offset + 1] = words[0];
        region[offset + 2] = words[1];
        true
    }

    /// As [`Records::write2`], four words.
    pub fn write4(&mut self, id: u32, kind: u8, words: [u64; 4]) -> bool {
        let (region, offset) = self.slab.words_mut(id);
        let header = Header(region[offset]);
        if header.kind() != kind {
            return false;
        }
        region[offset] = Records::written(&mut self.changes, id, header).0;
        region[offset + 1..offset + 5].copy_from_slice(&words);
        true
    }

    /// Keeps the record under `policy` from now on.
    #[inline]
    pub fn set_policy(&mut self, id: u32, policy: &Policy) {
        let header = self.header(id);
        if self.policies.get(header.policy()) != policy {
            self.change_policy(id, header, policy);
        }
    }

    #[cold]
    fn change_policy(&mut self, id: u32, header: Header, policy: &Policy) {
        debug_assert_eq!(algorithm(header.kind()), Some(policy.algorithm()));
        if let (Policy::Log { window, .. }, Policy::Log { window: new, .. }) =
            (self.policies.get(header.policy()), policy)
            && window != new
        {
            // A copy that lets the log expire under the window that it knows has lost what counts under this one.
            self.forget_told(id);
        }
        let number = self.policies.take(policy);
        self.policies.release(header.policy());
        let (region, offset) = self.slab.words_mut(id);
        region[offset] = header.with_policy(number).0;
    }

    pub fn set_header(&mut self, id: u32, header: Header) {
        let (region, offset) = self.slab.words_mut(id);
        region[offset] = header.0;
    }

    /// Frees a record. No index may name it any more.
    pub fn free(&mut self, id: u32) {
        if self.header(id).is_dirty() {
            // Its last change may have been what ended it, and was not told yet.
            self.note_removed(id);
        }
        let (region, offset) = self.slab.words(id);
        let header = Header(region[offset]);
        if matches!(header.kind(), KIND_LOG | KIND_BYTES) {
            let body = self.bodies.remove(region[offset + 1] as u32);
            self.body_heap_bytes -= body.heap_bytes() as u64;
        }
        if matches!(header.kind(), KIND_INTEGER | KIND_BYTES) {
            self.lasting -= u64::from(self.value_lasts(id));
        } else {
            self.policies.release(header.policy());
        }
        self.slab.free(id);
    }

    /// Begins to load the header, and the first word of a key behind a short state: the two lines that a record may lie
    /// across.
    #[inline(always)]
    pub fn prefetch(&self, id: u32) {
        let (region, offset) = self.slab.words(id);
        prefetch(&region[offset], 0);
        prefetch(&region[offset], 5);
    }

    /// Bytes of all of it.
    #[inline]
    pub fn bytes(&self) -> u64 {
        self.slab.bytes() + self.policies.bytes() + self.bodies.bytes() + self.body_heap_bytes
    }
}

/// Records at one moment, as an index asks about them.
pub(crate) struct RecordsAt<'a> {
    pub records: &'a mut Records,
    pub now: Micros,
    /// Whether any of them may have expired.
    pub may_be_over: bool,
}

impl Entries for RecordsAt<'_> {
    fn may_be_outlived(&self) -> bool {
        self.may_be_over
    }

    fn reap(&mut self, id: u32) -> bool {
        let expired = self.records.is_expired(id, self.now);
        if expired {
            self.records.free(id);
        }
        expired
    }

    #[inline]
    fn prefetch(&self, id: u32) {
        self.records.prefetch(id);
    }
}
