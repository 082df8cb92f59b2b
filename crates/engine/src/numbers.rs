//! Counting: INCR DECR INCRBY DECRBY on integers, INCRBYFLOAT on numbers with a fraction.
//!
//! The common call, on a key that holds an integer, is one look-up and one write in place, and needs no memory.

use crate::call::Call;
use crate::core::Core;
use crate::extended::Extended;
use crate::failure::Failure;
use crate::limit_commands::refuse;
use crate::values::find_value;
use tollgate_limits::Micros;
use tollgate_resp::Reply;
use tollgate_store::{RecordId, Value};

/// An argument as an integer of 64 bits, in the one spelling that Redis takes: no plus, no leading zeros, no spaces.
///
/// # Errors
/// Redis's text for what is none.
pub fn parse_integer(argument: &[u8]) -> Result<i64, Failure> {
    match Value::of(argument) {
        Value::Integer(value) => Ok(value),
        Value::Bytes(_) => Err(not_an_integer()),
    }
}

/// Refuses every database but the one there is, whose index is 0.
///
/// # Errors
/// Redis's text for what is no integer, for more than 32 bits, and for a database that is not there.
pub fn check_database(index: &[u8]) -> Result<(), &'static str> {
    match parse_integer(index).map(i32::try_from) {
        Ok(Ok(0)) => Ok(()),
        Ok(Ok(_)) => Err("ERR DB index is out of range"),
        Ok(Err(_)) => Err("ERR value is out of range, value must between -2147483648 and 2147483647"),
        Err(_) => Err("ERR value is not an integer or out of range"),
    }
}

/// The refusal of what should be an integer.
pub fn not_an_integer() -> Failure {
    Failure::Syntax("value is not an integer or out of range".to_owned())
}

/// The refusal of what should be a number.
pub fn not_a_float() -> Failure {
    Failure::Syntax("value is not a valid float".to_owned())
}

/// INCR key.
pub fn incr(core: &mut Core, call: &Call<'_>, reply: &mut Reply<'_>) {
    answer(core, call, Ok(1), reply);
}

/// DECR key.
pub fn decr(core: &mut Core, call: &Call<'_>, reply: &mut Reply<'_>) {
    answer(core, call, Ok(-1), reply);
}

/// INCRBY key increment.
pub fn incrby(core: &mut Core, call: &Call<'_>, reply: &mut Reply<'_>) {
    answer(core, call, parse_integer(call.argument(2)), reply);
}

/// DECRBY key decrement.
pub fn decrby(core: &mut Core, call: &Call<'_>, reply: &mut Reply<'_>) {
    let change = parse_integer(call.argument(2)).and_then(|decrement| {
        decrement.checked_neg().ok_or_else(|| Failure::Syntax("decrement would overflow".to_owned()))
    });
    answer(core, call, change, reply);
}

#[inline]
fn answer(core: &mut Core, call: &Call<'_>, change: Result<i64, Failure>, reply: &mut Reply<'_>) {
    match change.and_then(|change| add(core, call, change)) {
        Ok(value) => reply.integer(value),
        Err(failure) => refuse(core, &failure, reply),
    }
}

/// The value after `change` was added.
fn add(core: &mut Core, call: &Call<'_>, change: i64) -> Result<i64, Failure> {
    let Some(id) = core.store.find(call.at, call.key(), call.now) else {
        core.store.put_value(call.at, call.key(), None, Value::Integer(change), None, call.now)?;
        return Ok(change);
    };
    match core.store.value(id) {
        Some((Value::Integer(value), _)) => {
            let sum = value
                .checked_add(change)
                .ok_or_else(|| Failure::Syntax("increment or decrement would overflow".to_owned()))?;
            core.store.set_integer(call.at, id, sum);
            Ok(sum)
        }
        // Whatever is an integer in Redis's one spelling is stored as one.
        Some((Value::Bytes(_), _)) => Err(not_an_integer()),
        None => Err(Failure::WrongType),
    }
}

/// INCRBYFLOAT key increment.
pub fn incrbyfloat(core: &mut Core, call: &Call<'_>, reply: &mut Reply<'_>) {
    match add_float(core, call) {
        Ok(text) => reply.bulk_str(&text),
        Err(failure) => refuse(core, &failure, reply),
    }
}

fn add_float(core: &mut Core, call: &Call<'_>) -> Result<String, Failure> {
    let found = find_value(core, call)?;
    let (value, expires_at) = stored_float(core, found)?;
    let sum = value.plus(Extended::parse(call.argument(2)).ok_or_else(not_a_float)?);
    if sum.is_infinite() {
        return Err(Failure::Syntax("increment would produce NaN or Infinity".to_owned()));
    }
    let text = sum.text();
    core.store.put_value(call.at, call.key(), found, Value::of(text.as_bytes()), expires_at, call.now)?;
    Ok(text)
}

/// A record's value as a number, 0 if there is no record, and when it expires.
///
/// # Errors
/// Redis's text for a value that is no number.
pub fn stored_float(core: &Core, found: Option<RecordId>) -> Result<(Extended, Option<Micros>), Failure> {
    match found.and_then(|id| core.store.value(id)) {
        None => Ok((Extended::ZERO, None)),
        Some((Value::Integer(value), expires_at)) => Ok((Extended::from(value), expires_at)),
        Some((Value::Bytes(bytes), expires_at)) => Ok((Extended::parse(bytes).ok_or_else(not_a_float)?, expires_at)),
    }
}
