//! One key and what it holds, in bytes.
//!
//! The problem: a peer or a file of another version, or a damaged or hostile one, must be refused before it changes
//! anything, and a record must cost the sender no more than a copy. The idea: numbers of fixed width in the order in
//! which they are kept, every length checked against what is there before anything is made of it, and every value
//! checked against the bounds that the commands have. docs/record-format.md describes it for others.
//!
//! ```text
//! kind (8 bits) | key length (16) | key | by kind:
//!   0 nothing
//!   1 SLIDE   limit, window, 2 words            2 FIXED   limit, window, 2 words
//!   3 TOKEN   capacity, rate, 4 words           4 LEAK    capacity, rate, 4 words
//!   5 LOG     limit, window, dropped through, count (32 bits), count times (time, units)
//!   6 integer, expiry                           7 expiry, length (32 bits), bytes
//!   8 piece   limit, window, kept through, dropped through, count (32 bits), count times (time, units)
//! ```
//!
//! A piece of a LOG is what it holds after "kept through"; what it holds up to there, whoever reads it has.
//!
//! **Invariant:** what is read is what was written, and is written again as the same bytes.

use bytes::{Buf, BufMut};
use tollgate_limits::{AMOUNT_MAX, Algorithm, Bucket, Fixed, Log, Micros, Policy, Rate, Slide, StateRef, Window};
use tollgate_store::{Content, Holding, KEY_BYTES_MAX, Value};

/// The version of the format that [`write`] writes and [`Record::read`] reads.
pub const VERSION: u8 = 1;

const NOTHING: u8 = 0;
const SLIDE: u8 = 1;
const FIXED: u8 = 2;
const TOKEN: u8 = 3;
const LEAK: u8 = 4;
const LOG: u8 = 5;
const INTEGER: u8 = 6;
const BYTES: u8 = 7;
const LOG_PIECE: u8 = 8;
/// The expiry of a value that lasts.
const LASTS: u64 = u64::MAX;
/// Bytes of an entry of a log.
const LOG_ENTRY_BYTES: usize = 16;

/// Why bytes are no record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum Damaged {
    /// They end too early.
    #[error("a record is cut off")]
    CutOff,
    /// The kind is none of this version.
    #[error("a record is of an unknown kind")]
    UnknownKind,
    /// The key is longer than a key can be.
    #[error("a record's key is too long")]
    KeyTooLong,
    /// A limit, window, capacity or rate that no command takes.
    #[error("a record's limit is out of range")]
    NoPolicy,
    /// A state that no calls lead to.
    #[error("a record's state is out of range")]
    NoState,
}

/// A key and what it holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record<'a> {
    /// The key.
    pub key: &'a [u8],
    /// What it holds; `None`: nothing.
    pub content: Option<Content>,
    /// `Some`: the content is a LOG's, but only what it holds after this time. What it holds up to then, without what
    /// it has dropped, is as it was told before.
    pub kept_through: Option<Micros>,
}

fn begin(out: &mut Vec<u8>, kind: u8, key: &[u8]) {
    debug_assert!(key.len() <= KEY_BYTES_MAX);
    out.put_u8(kind);
    out.put_u16_le(u16::try_from(key.len()).unwrap_or(u16::MAX));
    out.put_slice(key);
}

/// Appends the piece of a log that its entries after `kept_through` are, to be told of `key` to who has the others.
pub fn write_piece(out: &mut Vec<u8>, key: &[u8], policy: &Policy, log: &Log, kept_through: Micros) {
    begin(out, LOG_PIECE, key);
    write_policy(out, policy);
    out.put_u64_le(kept_through);
    write_entries(out, log.dropped_through(), log.entries_after(kept_through));
}

/// Appends the record of `key`, which holds `holding` (`None`: nothing) and is at most [`KEY_BYTES_MAX`] long.
pub fn write(out: &mut Vec<u8>, key: &[u8], holding: Option<Holding<'_>>) {
    match holding {
        None => begin(out, NOTHING, key),
        Some(Holding::Limit(policy, state)) => {
            begin(out, kind_of(policy.algorithm()), key);
            write_policy(out, policy);
            write_state(out, state);
        }
        Some(Holding::Value(Value::Integer(number), expires_at)) => {
            begin(out, INTEGER, key);
            out.put_i64_le(number);
            out.put_u64_le(expires_at.unwrap_or(LASTS));
        }
        Some(Holding::Value(Value::Bytes(bytes), expires_at)) => {
            begin(out, BYTES, key);
            out.put_u64_le(expires_at.unwrap_or(LASTS));
            out.put_u32_le(u32::try_from(bytes.len()).unwrap_or(u32::MAX));
            out.put_slice(bytes);
        }
    }
}

fn kind_of(algorithm: Algorithm) -> u8 {
    match algorithm {
        Algorithm::Slide => SLIDE,
        Algorithm::Fixed => FIXED,
        Algorithm::Token => TOKEN,
        Algorithm::Leak => LEAK,
        Algorithm::Log => LOG,
    }
}

fn write_policy(out: &mut Vec<u8>, policy: &Policy) {
    out.put_u64_le(policy.limit());
    match policy {
        Policy::Slide { window, .. } | Policy::Fixed { window, .. } | Policy::Log { window, .. } => {
            out.put_u64_le(window.micros());
        }
        Policy::Token { rate, .. } | Policy::Leak { rate, .. } => {
            out.put_u64_le(rate.tokens());
            out.put_u128_le(rate.micros());
        }
    }
}

fn write_state(out: &mut Vec<u8>, state: StateRef<'_>) {
    let words = |out: &mut Vec<u8>, words: &[u64]| words.iter().for_each(|word| out.put_u64_le(*word));
    match state {
        StateRef::Slide(slide) => words(out, &slide.pack()),
        StateRef::Fixed(fixed) => words(out, &fixed.pack()),
        StateRef::Token(bucket) | StateRef::Leak(bucket) => words(out, &bucket.pack_wide()),
        StateRef::Log(log) => write_entries(out, log.dropped_through(), log.entries_after(0)),
    }
}

fn write_entries(out: &mut Vec<u8>, dropped_through: Micros, entries: impl ExactSizeIterator<Item = (Micros, u64)>) {
    out.put_u64_le(dropped_through);
    out.put_u32_le(u32::try_from(entries.len()).unwrap_or(u32::MAX));
    for (at, units) in entries {
        out.put_u64_le(at);
        out.put_u64_le(units);
    }
}

impl<'a> Record<'a> {
    /// The record that `input` begins with; `input` goes on behind it.
    ///
    /// # Errors
    ///
    /// [`Damaged`]; where in `input` it stands then says nothing.
    pub fn read(input: &mut &'a [u8]) -> Result<Record<'a>, Damaged> {
        let kind = input.try_get_u8().map_err(|_| Damaged::CutOff)?;
        let key_bytes = usize::from(input.try_get_u16_le().map_err(|_| Damaged::CutOff)?);
        if key_bytes > KEY_BYTES_MAX {
            return Err(Damaged::KeyTooLong);
        }
        let key = take(input, key_bytes)?;
        let mut kept_through = None;
        let content = match kind {
            NOTHING => None,
            SLIDE | FIXED | TOKEN | LEAK | LOG => Some(read_limit(input, kind)?),
            INTEGER => {
                let number = word(input)?.cast_signed();
                Some(Content::of(Holding::Value(Value::Integer(number), read_expiry(input)?)))
            }
            BYTES => {
                let expires_at = read_expiry(input)?;
                let length = input.try_get_u32_le().map_err(|_| Damaged::CutOff)?;
                let bytes = take(input, usize::try_from(length).map_err(|_| Damaged::CutOff)?)?;
                // An integer is a record of its own kind, so that equal contents are equal records.
                let Value::Bytes(bytes) = Value::of(bytes) else { return Err(Damaged::NoState) };
                Some(Content::of(Holding::Value(Value::Bytes(bytes), expires_at)))
            }
            LOG_PIECE => {
                let (content, through) = read_piece(input)?;
                kept_through = Some(through);
                Some(content)
            }
            _ => return Err(Damaged::UnknownKind),
        };
        Ok(Record { key, content, kept_through })
    }
}

fn take<'a>(input: &mut &'a [u8], bytes: usize) -> Result<&'a [u8], Damaged> {
    let (taken, rest) = input.split_at_checked(bytes).ok_or(Damaged::CutOff)?;
    *input = rest;
    Ok(taken)
}

fn word(input: &mut &[u8]) -> Result<u64, Damaged> {
    input.try_get_u64_le().map_err(|_| Damaged::CutOff)
}

fn words<const COUNT: usize>(input: &mut &[u8]) -> Result<[u64; COUNT], Damaged> {
    let mut words = [0; COUNT];
    for place in &mut words {
        *place = word(input)?;
    }
    Ok(words)
}

fn read_expiry(input: &mut &[u8]) -> Result<Option<Micros>, Damaged> {
    Ok(Some(word(input)?).filter(|at| *at != LASTS))
}

fn read_limit(input: &mut &[u8], kind: u8) -> Result<Content, Damaged> {
    let limit = read_amount(input)?;
    let log;
    let (policy, state) = match kind {
        TOKEN | LEAK => {
            let rate = read_rate(input)?;
            let bucket = Bucket::unpack_wide(words(input)?);
            if !bucket.is_of(&rate) {
                return Err(Damaged::NoState);
            }
            if kind == TOKEN {
                (Policy::Token { capacity: limit, rate }, StateRef::Token(bucket))
            } else {
                (Policy::Leak { capacity: limit, rate }, StateRef::Leak(bucket))
            }
        }
        _ => {
            let window = Window::new(word(input)?).ok_or(Damaged::NoPolicy)?;
            match kind {
                SLIDE => (Policy::Slide { limit, window }, StateRef::Slide(Slide::unpack(words(input)?))),
                FIXED => {
                    let packed = words(input)?;
                    let fixed = Fixed::unpack(packed);
                    if fixed.pack() != packed {
                        return Err(Damaged::NoState);
                    }
                    (Policy::Fixed { limit, window }, StateRef::Fixed(fixed))
                }
                _ => {
                    log = read_log(input)?;
                    (Policy::Log { limit, window }, StateRef::Log(&log))
                }
            }
        }
    };
    Ok(Content::of(Holding::Limit(&policy, state)))
}

fn read_piece(input: &mut &[u8]) -> Result<(Content, Micros), Damaged> {
    let limit = read_amount(input)?;
    let window = Window::new(word(input)?).ok_or(Damaged::NoPolicy)?;
    let kept_through = word(input)?;
    let log = read_log(input)?;
    // With nothing to keep it would be the whole log, and the newest entry is always told.
    let is_piece =
        kept_through > log.dropped_through() && log.entries().next().is_some_and(|(at, _)| at > kept_through);
    if !is_piece {
        return Err(Damaged::NoState);
    }
    Ok((Content::of(Holding::Limit(&Policy::Log { limit, window }, StateRef::Log(&log))), kept_through))
}

fn read_amount(input: &mut &[u8]) -> Result<u64, Damaged> {
    Some(word(input)?).filter(|amount| *amount <= AMOUNT_MAX).ok_or(Damaged::NoPolicy)
}

fn read_rate(input: &mut &[u8]) -> Result<Rate, Damaged> {
    let tokens = word(input)?;
    let micros = input.try_get_u128_le().map_err(|_| Damaged::CutOff)?;
    // Equal rates must be equal records.
    let is_lowest = |rate: &Rate| rate.tokens() == tokens && rate.micros() == micros;
    Rate::new(tokens, micros).filter(is_lowest).ok_or(Damaged::NoPolicy)
}

fn read_log(input: &mut &[u8]) -> Result<Log, Damaged> {
    let dropped_through = word(input)?;
    let count = input.try_get_u32_le().map_err(|_| Damaged::CutOff)?;
    let count = usize::try_from(count).map_err(|_| Damaged::CutOff)?;
    let mut entries = take(input, count.checked_mul(LOG_ENTRY_BYTES).ok_or(Damaged::CutOff)?)?;
    let mut pairs = Vec::with_capacity(count);
    while !entries.is_empty() {
        let [at, units] = words(&mut entries)?;
        pairs.push((at, units));
    }
    Log::of(dropped_through, &pairs).ok_or(Damaged::NoState)
}
