//! Small values, as Redis's strings: GET GETEX GETDEL STRLEN APPEND, and how all value commands find their record.
//!
//! The setting ones are in `set`, the counting ones in `numbers`. A key that holds a limit is none of theirs: they
//! answer WRONGTYPE and change nothing, so that a SET or an INCR by mistake neither frees nor freezes a caller.

use crate::call::Call;
use crate::core::Core;
use crate::deadline::{Deadline, Written};
use crate::failure::Failure;
use crate::limit_commands::{integer, refuse};
use tollgate_resp::Reply;
use tollgate_store::{RecordId, Value};

/// The call's key in the store, of any kind, counted as Redis counts a read.
#[inline]
pub fn lookup(core: &mut Core, call: &Call<'_>) -> Option<RecordId> {
    let found = core.store.find(call.at, call.key(), call.now);
    core.counters.looked_up(found.is_some());
    found
}

/// The call's key in the store, if it is there, for a command that writes.
///
/// # Errors
/// [`Failure::WrongType`] if it holds a limit.
#[inline]
pub fn find_value(core: &mut Core, call: &Call<'_>) -> Result<Option<RecordId>, Failure> {
    let found = core.store.find(call.at, call.key(), call.now);
    only_value(core, found)
}

/// As [`find_value`], for a command that reads: it counts.
///
/// # Errors
/// As [`find_value`].
#[inline]
pub fn read_value(core: &mut Core, call: &Call<'_>) -> Result<Option<RecordId>, Failure> {
    let found = lookup(core, call);
    only_value(core, found)
}

#[inline]
fn only_value(core: &Core, found: Option<RecordId>) -> Result<Option<RecordId>, Failure> {
    match found {
        Some(id) if core.store.value(id).is_none() => Err(Failure::WrongType),
        found => Ok(found),
    }
}

/// Writes a record's value as a bulk string; no record, or one that is no value, is null.
pub fn write_value(core: &Core, id: Option<RecordId>, reply: &mut Reply<'_>) {
    match id.and_then(|id| core.store.value(id)) {
        Some((Value::Integer(value), _)) => reply.bulk_str(itoa::Buffer::new().format(value)),
        Some((Value::Bytes(bytes), _)) => reply.bulk(bytes),
        None => reply.null(),
    }
}

/// Refuses a value that is longer than a record may hold.
///
/// # Errors
/// Redis's text for a string that is too long.
pub fn check_length(core: &Core, bytes: usize) -> Result<(), Failure> {
    if bytes <= core.settings.value_bytes_max {
        return Ok(());
    }
    Err(Failure::Syntax("string exceeds maximum allowed size (proto-max-bulk-len)".to_owned()))
}

/// GET key.
pub fn get(core: &mut Core, call: &Call<'_>, reply: &mut Reply<'_>) {
    match read_value(core, call) {
        Ok(found) => write_value(core, found, reply),
        Err(failure) => refuse(core, &failure, reply),
    }
}

/// STRLEN key.
pub fn strlen(core: &mut Core, call: &Call<'_>, reply: &mut Reply<'_>) {
    match read_value(core, call) {
        Ok(found) => {
            let bytes = found.and_then(|id| core.store.value(id)).map_or(0, |(value, _)| length_of(&value));
            reply.integer(length(bytes));
        }
        Err(failure) => refuse(core, &failure, reply),
    }
}

fn length_of(value: &Value<'_>) -> usize {
    match value {
        Value::Integer(value) => itoa::Buffer::new().format(*value).len(),
        Value::Bytes(bytes) => bytes.len(),
    }
}

/// A length for the wire.
fn length(bytes: usize) -> i64 {
    integer(u64::try_from(bytes).unwrap_or(u64::MAX))
}

/// GETDEL key.
pub fn getdel(core: &mut Core, call: &Call<'_>, reply: &mut Reply<'_>) {
    match read_value(core, call) {
        Ok(found) => {
            write_value(core, found, reply);
            if let Some(id) = found {
                core.store.remove(call.at, id);
            }
        }
        Err(failure) => refuse(core, &failure, reply),
    }
}

/// GETEX key [EX seconds | PX milliseconds | EXAT unix-time-seconds | PXAT unix-time-milliseconds | PERSIST].
pub fn getex(core: &mut Core, call: &Call<'_>, reply: &mut Reply<'_>) {
    if let Err(failure) = run_getex(core, call, reply) {
        refuse(core, &failure, reply);
    }
}

fn run_getex(core: &mut Core, call: &Call<'_>, reply: &mut Reply<'_>) -> Result<(), Failure> {
    let asked = read_getex(call)?;
    let Some(id) = read_value(core, call)? else {
        reply.null();
        return Ok(());
    };
    // As in Redis, a time that is none is only refused where there is a key.
    let expires_at = match asked {
        None => None,
        Some(Lifetime::Forever) => Some(None),
        Some(Lifetime::Until(written, argument)) => {
            Some(Some(Deadline::read_positive(core, call, written, argument, "getex")?))
        }
    };
    write_value(core, Some(id), reply);
    match expires_at {
        None => {}
        // Nothing changes, so nobody's WATCH may see a change.
        Some(None) if core.store.expires_at(id).is_none() => {}
        Some(Some(deadline)) if deadline.has_passed(call.now) => core.store.remove(call.at, id),
        Some(deadline) => {
            core.store.set_expiry(call.at, id, deadline.map(Deadline::kept));
        }
    }
    Ok(())
}

/// What GETEX does to the time at which the value expires.
enum Lifetime<'a> {
    /// PERSIST.
    Forever,
    /// A time, in the words of the call.
    Until(Written, &'a [u8]),
}

/// The options of GETEX: at most one kind, and as in Redis the last of several alike counts.
fn read_getex<'a>(call: &Call<'a>) -> Result<Option<Lifetime<'a>>, Failure> {
    let mut asked = None;
    let mut position = 2;
    while let Some(word) = call.args.get(position) {
        asked = match (Written::from_word(word), call.args.get(position + 1), asked) {
            (Some(written), Some(argument), None) => Some(Lifetime::Until(written, argument)),
            (Some(written), Some(argument), Some(Lifetime::Until(before, _))) if before == written => {
                Some(Lifetime::Until(written, argument))
            }
            (None, _, None | Some(Lifetime::Forever)) if word.eq_ignore_ascii_case(b"PERSIST") => {
                Some(Lifetime::Forever)
            }
            _ => return Err(Failure::Syntax("syntax error".to_owned())),
        };
        position += if matches!(asked, Some(Lifetime::Until(..))) { 2 } else { 1 };
    }
    Ok(asked)
}

/// APPEND key value.
pub fn append(core: &mut Core, call: &Call<'_>, reply: &mut Reply<'_>) {
    match run_append(core, call) {
        Ok(bytes) => reply.integer(length(bytes)),
        Err(failure) => refuse(core, &failure, reply),
    }
}

/// The length of the value after it.
fn run_append(core: &mut Core, call: &Call<'_>) -> Result<usize, Failure> {
    let added = call.argument(2);
    let found = find_value(core, call)?;
    let (mut text, expires_at) = match found.and_then(|id| core.store.value(id)) {
        Some((Value::Integer(value), expires_at)) => (value.to_string().into_bytes(), expires_at),
        Some((Value::Bytes(bytes), expires_at)) => (bytes.to_vec(), expires_at),
        None => (Vec::new(), None),
    };
    check_length(core, text.len().saturating_add(added.len()))?;
    text.extend_from_slice(added);
    core.store.put_value(call.at, call.key(), found, Value::of(&text), expires_at, call.now)?;
    Ok(text.len())
}
