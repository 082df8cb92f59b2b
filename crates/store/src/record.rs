//! How a record lies in its block: one header word, the state's words, the key's bytes.
//!
//! ```text
//! word 0   policy id (32 bits) | key length (16) | kind (8) | flags (8)
//! then     2 words: SLIDE, FIXED, a bucket    4: a bucket in its wide form
//!          2 words: a LOG's number, and the time up to which it is as it was told last (`piece`)
//!          2 words: a plain value's number or the number of its bytes, and when it expires
//! then     the key, padded with zeros to a whole word
//! ```
//!
//! A key of 24 bytes under SLIDE takes 48 bytes. The kind is never zero, which marks a free block.

use tollgate_limits::Algorithm;

/// The longest key that a record can hold, in bytes. Protocol limits are far below.
pub const KEY_BYTES_MAX: usize = 32_000;

pub(crate) const KIND_SLIDE: u8 = 1;
pub(crate) const KIND_FIXED: u8 = 2;
pub(crate) const KIND_TOKEN: u8 = 3;
pub(crate) const KIND_LEAK: u8 = 4;
pub(crate) const KIND_TOKEN_WIDE: u8 = 5;
pub(crate) const KIND_LEAK_WIDE: u8 = 6;
pub(crate) const KIND_LOG: u8 = 7;
pub(crate) const KIND_INTEGER: u8 = 8;
pub(crate) const KIND_BYTES: u8 = 9;

/// The policy id of a record that is no limit, which is never looked up.
pub(crate) const NO_POLICY: u32 = 0;

const _: () = assert!(1 + 4 + KEY_BYTES_MAX.div_ceil(8) <= crate::slab::BLOCK_WORDS_MAX);

const KEY_SHIFT: u32 = 32;
const KIND_SHIFT: u32 = 48;
const POLICY_MASK: u64 = 0xFFFF_FFFF;
/// Changed since whoever copies records away last cleared the mark.
const DIRTY: u64 = 1 << 56;
/// Written since a WATCH last cleared the mark. It is set together with the other, so that it costs a write nothing.
const TOUCHED: u64 = 1 << 57;

/// The first word of a record.
#[derive(Clone, Copy)]
pub(crate) struct Header(pub u64);

impl Header {
    /// The header of a new record, which is dirty.
    pub fn new(policy: u32, key_bytes: usize, kind: u8) -> Header {
        Header(u64::from(policy) | (key_bytes as u64) << KEY_SHIFT | u64::from(kind) << KIND_SHIFT | DIRTY | TOUCHED)
    }

    #[inline]
    pub fn policy(self) -> u32 {
        (self.0 & POLICY_MASK) as u32
    }

    #[inline]
    pub fn with_policy(self, policy: u32) -> Header {
        Header(self.0 & !POLICY_MASK | u64::from(policy))
    }

    #[inline]
    pub fn key_bytes(self) -> usize {
        (self.0 >> KEY_SHIFT) as usize & 0xFFFF
    }

    #[inline]
    pub fn kind(self) -> u8 {
        (self.0 >> KIND_SHIFT) as u8
    }

    #[inline]
    pub fn is_dirty(self) -> bool {
        self.0 & DIRTY != 0
    }

    #[inline]
    pub fn dirty(self) -> Header {
        Header(self.0 | DIRTY | TOUCHED)
    }

    pub fn clean(self) -> Header {
        Header(self.0 & !DIRTY)
    }

    pub fn is_touched(self) -> bool {
        self.0 & TOUCHED != 0
    }

    pub fn untouched(self) -> Header {
        Header(self.0 & !TOUCHED)
    }

    /// The header of the same record that becomes one of `kind`, dirty.
    pub fn with_kind(self, kind: u8) -> Header {
        Header(self.0 & !(0xFF << KIND_SHIFT) | u64::from(kind) << KIND_SHIFT).dirty()
    }

    /// Whether this is the header of a record of `kind` with a key of so many bytes.
    #[inline]
    pub fn is_of(self, kind: u8, key_bytes: usize) -> bool {
        self.0 >> KEY_SHIFT & 0xFF_FFFF == u64::from(kind) << (KIND_SHIFT - KEY_SHIFT) | key_bytes as u64
    }

    /// Words between the header and the key.
    #[inline]
    pub fn state_words(self) -> usize {
        state_words(self.kind())
    }
}

/// Words of a state of `kind`.
#[inline]
pub(crate) fn state_words(kind: u8) -> usize {
    match kind {
        KIND_TOKEN_WIDE | KIND_LEAK_WIDE => 4,
        _ => 2,
    }
}

/// Words of a record of `kind` with a key of so many bytes.
#[inline]
pub(crate) fn words(kind: u8, key_bytes: usize) -> usize {
    1 + state_words(kind) + key_bytes.div_ceil(8)
}

/// The algorithm that records of `kind` belong to.
pub(crate) fn algorithm(kind: u8) -> Option<Algorithm> {
    match kind {
        KIND_SLIDE => Some(Algorithm::Slide),
        KIND_FIXED => Some(Algorithm::Fixed),
        KIND_TOKEN | KIND_TOKEN_WIDE => Some(Algorithm::Token),
        KIND_LEAK | KIND_LEAK_WIDE => Some(Algorithm::Leak),
        KIND_LOG => Some(Algorithm::Log),
        _ => None,
    }
}
