//! Plain values: an integer in its record's words, any other bytes in a body of their own.
//!
//! The problem: what limiters keep in plain keys is nearly always a number with an expiry, which should cost one record
//! and be counted up in place; yet a value may be any bytes. The idea: two more kinds of record, under no policy, of
//! the same size, so that a value that changes from one to the other stays where it is.

use crate::body::Body;
use crate::locate::Located;
use crate::need::Need;
use crate::record::{Header, KIND_BYTES, KIND_INTEGER};
use crate::records::{NewState, Records};
use crate::store::{OutOfMemory, RecordId, Store};
use tollgate_limits::Micros;

/// The expiry word of a value that lasts.
const LASTS: u64 = u64::MAX;
/// The most digits of an integer, its sign included.
const INTEGER_BYTES_MAX: usize = 20;

/// A plain value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Value<'a> {
    /// A whole number.
    Integer(i64),
    /// Any other bytes.
    Bytes(&'a [u8]),
}

impl<'a> Value<'a> {
    /// The value that `bytes` are: an integer if they are how that integer is written, without a sign where none is
    /// needed and without leading zeros, so that the same bytes come back.
    pub fn of(bytes: &'a [u8]) -> Value<'a> {
        canonical_integer(bytes).map_or(Value::Bytes(bytes), Value::Integer)
    }

    fn to_new_state(self, expiry: u64) -> NewState {
        match self {
            Value::Integer(number) => NewState::Words2(KIND_INTEGER, [number.cast_unsigned(), expiry]),
            Value::Bytes(bytes) => NewState::Bytes(bytes.into(), expiry),
        }
    }
}

fn canonical_integer(bytes: &[u8]) -> Option<i64> {
    let digits = bytes.strip_prefix(b"-").unwrap_or(bytes);
    let is_plain = match digits {
        [b'0'] => digits.len() == bytes.len(),
        [b'1'..=b'9', ..] => bytes.len() <= INTEGER_BYTES_MAX && digits.iter().all(u8::is_ascii_digit),
        _ => false,
    };
    if is_plain { std::str::from_utf8(bytes).ok()?.parse().ok() } else { None }
}

/// A moment as it is kept. The last one that can be told is not distinguished from the one before.
fn expiry_word(expires_at: Option<Micros>) -> u64 {
    expires_at.map_or(LASTS, |at| at.min(LASTS - 1))
}

impl Store {
    /// The value of a record, and the first microsecond at which it is gone, if it does not last. `None` if the record
    /// is a limit.
    #[inline]
    pub fn value(&self, id: RecordId) -> Option<(Value<'_>, Option<Micros>)> {
        let (region, offset) = self.records.slab.words(id.0);
        let value = match Header(region[offset]).kind() {
            KIND_INTEGER => Value::Integer(region[offset + 1].cast_signed()),
            KIND_BYTES => match self.records.body(id.0) {
                Some(Body::Bytes(bytes)) => Value::Bytes(bytes),
                _ => return None,
            },
            _ => return None,
        };
        Some((value, self.records.value_expires_at(id.0)))
    }

    /// Makes `key` hold `value`. `id` is the key's record as [`Store::find`] gave it; one of a limit is left as it is,
    /// which only a bug of the caller asks for. Answers where the record is now.
    ///
    /// # Errors
    ///
    /// [`OutOfMemory`] at the memory bound, if the value takes more memory than what was there; nothing has changed
    /// then, as with [`Store::insert`].
    pub fn put_value(
        &mut self,
        at: Located,
        key: &[u8],
        id: Option<RecordId>,
        value: Value<'_>,
        expires_at: Option<Micros>,
        now: Micros,
    ) -> Result<RecordId, OutOfMemory> {
        let expiry = expiry_word(expires_at);
        let Some(id) = id else {
            return self.insert_state(at, key, None, value.to_new_state(expiry), now);
        };
        debug_assert!(self.value(id).is_some(), "a value is put over a limit");
        let need = Need { kept: Some(id.0), ..self.need_of_value(id, value) };
        let id = self.make_room_for_need(id, need, now)?;
        if self.records.put_value(id.0, value, expiry) {
            self.touch(at);
        }
        Ok(id)
    }

    /// Changes an integer in place. False, and nothing done, if the record holds anything else.
    #[inline]
    pub fn set_integer(&mut self, at: Located, id: RecordId, number: i64) -> bool {
        let (region, offset) = self.records.slab.words_mut(id.0);
        let header = Header(region[offset]);
        if header.kind() != KIND_INTEGER {
            return false;
        }
        region[offset] = Records::written(&mut self.records.changes, id.0, header).0;
        region[offset + 1] = number.cast_unsigned();
        self.touch(at);
        true
    }

    /// Says when a value expires; `None`: it lasts. False, and nothing done, if the record is a limit.
    pub fn set_expiry(&mut self, at: Located, id: RecordId, expires_at: Option<Micros>) -> bool {
        let (region, offset) = self.records.slab.words_mut(id.0);
        let header = Header(region[offset]);
        if !matches!(header.kind(), KIND_INTEGER | KIND_BYTES) {
            return false;
        }
        region[offset] = Records::written(&mut self.records.changes, id.0, header).0;
        self.records.set_expiry_word(id.0, expiry_word(expires_at));
        self.touch(at);
        true
    }

    /// What a value adds to a record that holds one.
    fn need_of_value(&self, id: RecordId, value: Value<'_>) -> Need {
        let Value::Bytes(bytes) = value else { return Need::default() };
        let (held_bytes, cell_bytes) = match self.records.body(id.0) {
            Some(body) => (body.heap_bytes(), 0),
            None => (0, self.records.bodies.growth_bytes()),
        };
        let more = bytes.len().saturating_sub(held_bytes) as u64;
        Need::of_heap(more).with_small(cell_bytes)
    }
}

impl Records {
    /// The body of a record that has one.
    pub fn body(&self, id: u32) -> Option<&Body> {
        let (region, offset) = self.slab.words(id);
        let has_body = matches!(Header(region[offset]).kind(), crate::record::KIND_LOG | KIND_BYTES);
        has_body.then(|| self.bodies.get(region[offset + 1] as u32))
    }

    /// The first microsecond at which a value is gone. `None` if it lasts, or is none.
    #[inline]
    pub fn value_expires_at(&self, id: u32) -> Option<Micros> {
        let (region, offset) = self.slab.words(id);
        let is_value = matches!(Header(region[offset]).kind(), KIND_INTEGER | KIND_BYTES);
        (is_value && region[offset + 2] != LASTS).then_some(region[offset + 2])
    }

    /// Whether a record, which must be a value, is kept until somebody removes it.
    pub fn value_lasts(&self, id: u32) -> bool {
        let (region, offset) = self.slab.words(id);
        region[offset + 2] == LASTS
    }

    /// Writes the word that says when a value expires.
    fn set_expiry_word(&mut self, id: u32, expiry: u64) {
        self.lasting -= u64::from(self.value_lasts(id));
        self.lasting += u64::from(expiry == LASTS);
        let (region, offset) = self.slab.words_mut(id);
        region[offset + 2] = expiry;
    }

    /// Writes a value over a value, of whatever kind both are. False, and nothing done, over a limit.
    pub fn put_value(&mut self, id: u32, value: Value<'_>, expiry: u64) -> bool {
        let (region, offset) = self.slab.words(id);
        let (header, number) = (Header(region[offset]), region[offset + 1]);
        let word = match (header.kind(), value) {
            (KIND_INTEGER, Value::Integer(integer)) => integer.cast_unsigned(),
            (KIND_INTEGER, Value::Bytes(bytes)) => {
                self.body_heap_bytes += bytes.len() as u64;
                u64::from(self.bodies.insert(Body::Bytes(bytes.into())))
            }
            (KIND_BYTES, Value::Integer(integer)) => {
                let body = self.bodies.remove(number as u32);
                self.body_heap_bytes -= body.heap_bytes() as u64;
                integer.cast_unsigned()
            }
            (KIND_BYTES, Value::Bytes(bytes)) => {
                let body = self.bodies.get_mut(number as u32);
                self.body_heap_bytes = self.body_heap_bytes + bytes.len() as u64 - body.heap_bytes() as u64;
                *body = Body::Bytes(bytes.into());
                number
            }
            _ => return false,
        };
        let kind = match value {
            Value::Integer(_) => KIND_INTEGER,
            Value::Bytes(_) => KIND_BYTES,
        };
        let header = Records::written(&mut self.changes, id, header);
        let (region, offset) = self.slab.words_mut(id);
        region[offset] = header.with_kind(kind).0;
        region[offset + 1] = word;
        self.set_expiry_word(id, expiry);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_comes_back_alike_is_an_integer() {
        for text in ["0", "1", "-1", "10", "9223372036854775807", "-9223372036854775808"] {
            let Value::Integer(number) = Value::of(text.as_bytes()) else { unreachable!("{text} is an integer") };
            assert_eq!(number.to_string(), text);
        }
        let others =
            ["", "-", "-0", "00", "01", "+1", " 1", "1 ", "1.0", "9223372036854775808", "-9223372036854775809", "1e3"];
        for text in others {
            assert_eq!(Value::of(text.as_bytes()), Value::Bytes(text.as_bytes()));
        }
        assert_eq!(Value::of(b"1\0"), Value::Bytes(b"1\0"));
    }
}
