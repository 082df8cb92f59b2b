//! All that a key holds, whatever its kind: to move it, to copy it, and to tell whether it changed.

use crate::locate::Located;
use crate::record::KIND_INTEGER;
use crate::records::NewState;
use crate::saved::Saved;
use crate::store::{OutOfMemory, RecordId, Store};
use crate::values::Value;
use tollgate_limits::{Micros, Policy};

/// What a key held at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Content(Held);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Held {
    Limit(Saved),
    Integer(i64, Option<Micros>),
    Bytes(Box<[u8]>, Option<Micros>),
}

impl Content {
    /// A value that does not expire; an integer if `bytes` are how one is written ([`Value::of`]).
    pub fn of_value(bytes: &[u8]) -> Content {
        Content(match Value::of(bytes) {
            Value::Integer(number) => Held::Integer(number, None),
            Value::Bytes(bytes) => Held::Bytes(bytes.into(), None),
        })
    }

    /// A whole number, to carry one from step to step.
    pub fn of_number(number: i64) -> Content {
        Content(Held::Integer(number, None))
    }

    /// The whole number that it is; `None` if it is anything else.
    pub fn number(&self) -> Option<i64> {
        match &self.0 {
            Held::Integer(number, _) => Some(*number),
            Held::Limit(_) | Held::Bytes(..) => None,
        }
    }

    fn to_new_state(&self) -> Option<(Option<&Policy>, NewState)> {
        let expiry = |expires_at: &Option<Micros>| expires_at.unwrap_or(u64::MAX);
        Some(match &self.0 {
            Held::Limit(saved) => (Some(saved.policy()), saved.to_new_state()?),
            Held::Integer(number, expires_at) => {
                (None, NewState::Words2(KIND_INTEGER, [number.cast_unsigned(), expiry(expires_at)]))
            }
            Held::Bytes(bytes, expires_at) => (None, NewState::Bytes(bytes.clone(), expiry(expires_at))),
        })
    }
}

impl Store {
    /// A copy of what the record holds, its expiry included.
    pub fn content(&self, id: RecordId) -> Content {
        Content(match (self.save(id), self.value(id)) {
            (Some(saved), _) => Held::Limit(saved),
            (None, Some((Value::Integer(number), expires_at))) => Held::Integer(number, expires_at),
            (None, Some((Value::Bytes(bytes), expires_at))) => Held::Bytes(bytes.into(), expires_at),
            (None, None) => unreachable!("every record is a limit or a value"),
        })
    }

    /// Makes `key` hold `content` and nothing of what it held. `id` is the key's record as [`Store::find`] gave it.
    /// Answers where the record is now.
    ///
    /// # Errors
    ///
    /// [`OutOfMemory`] at the memory bound if this takes more memory than what was there, unless `force` says that the
    /// bound may be passed, for what other things were removed for or room was promised to; nothing has changed then,
    /// as with [`Store::insert`].
    pub fn put_content(
        &mut self,
        at: Located,
        key: &[u8],
        id: Option<RecordId>,
        content: &Content,
        force: bool,
        now: Micros,
    ) -> Result<RecordId, OutOfMemory> {
        let Some((policy, state)) = content.to_new_state() else { return Err(OutOfMemory) };
        let mut may_grow = true;
        match id {
            None if !force => return self.insert_state(at, key, policy, state, now),
            None => {}
            Some(id) if force => self.remove(at, id),
            Some(id) => {
                let need = self.need_to_replace(id, key.len(), policy, &state);
                // Making room may move the record that is about to go.
                let (id, may_take_page) = self.make_room_to_replace(id, need, now)?;
                may_grow = may_take_page;
                self.remove(at, id);
            }
        }
        self.create(at, key, policy, state, may_grow, now).ok_or(OutOfMemory)
    }
}
