//! All that a key holds, whatever its kind: to move it, to copy it, and to tell whether it changed.

use crate::locate::Located;
use crate::record::KIND_INTEGER;
use crate::records::NewState;
use crate::saved::Saved;
use crate::store::{OutOfMemory, RecordId, Store};
use crate::values::Value;
use tollgate_limits::{Micros, Policy, StateRef};

/// What a key holds, where it lies.
#[derive(Clone, Copy, Debug)]
pub enum Holding<'a> {
    /// A limit, kept under this policy.
    Limit(&'a Policy, StateRef<'a>),
    /// A plain value, and the first microsecond at which it is gone, if it does not last.
    Value(Value<'a>, Option<Micros>),
}

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
    /// A copy. Policy and state must be of one algorithm.
    pub fn of(holding: Holding<'_>) -> Content {
        Content(match holding {
            Holding::Limit(policy, state) => Held::Limit(Saved::of(policy, state)),
            Holding::Value(Value::Integer(number), expires_at) => Held::Integer(number, expires_at),
            Holding::Value(Value::Bytes(bytes), expires_at) => Held::Bytes(bytes.into(), expires_at),
        })
    }

    /// What it is a copy of.
    pub fn holding(&self) -> Holding<'_> {
        match &self.0 {
            Held::Limit(saved) => Holding::Limit(saved.policy(), saved.state()),
            Held::Integer(number, expires_at) => Holding::Value(Value::Integer(*number), *expires_at),
            Held::Bytes(bytes, expires_at) => Holding::Value(Value::Bytes(bytes), *expires_at),
        }
    }

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
    /// What the record holds, its expiry included.
    pub fn holding(&self, id: RecordId) -> Holding<'_> {
        match (self.limit(id), self.value(id)) {
            (Some((policy, state)), _) => Holding::Limit(policy, state),
            (None, Some((value, expires_at))) => Holding::Value(value, expires_at),
            (None, None) => unreachable!("every record is a limit or a value"),
        }
    }

    /// A copy of what the record holds, its expiry included.
    pub fn content(&self, id: RecordId) -> Content {
        Content::of(self.holding(id))
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
