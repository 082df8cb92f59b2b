//! INCREX: a counter with bounds and a lifetime in one step, as Redis 8.8 has it.
//!
//! The problem: a counter that must not pass its limit takes INCR, EXPIRE and a comparison: together, a script.
//! The idea: one command adds, compares and says how much it added; what would pass a bound adds nothing and leaves the
//! key, its lifetime included, as it was, or with SATURATE goes as far as the bound.
//!
//! Its options are read in `increx_options`.

use crate::call::Call;
use crate::core::Core;
use crate::extended::Extended;
use crate::failure::Failure;
use crate::increx_options::{Asked, Bounds, By, Lifetime, read};
use crate::limit_commands::refuse;
use crate::numbers::{not_an_integer, stored_float};
use crate::values::find_value;
use tollgate_limits::AMOUNT_MAX;
use tollgate_resp::{Protocol, Reply};
use tollgate_store::{RecordId, Value};

/// What a counter came to.
enum Counted {
    /// The value, and what was added to it.
    Integers(i64, i64),
    /// The same, of numbers with a fraction.
    Floats(Extended, Extended),
}

/// INCREX key [BYINT increment | BYFLOAT increment] [LBOUND lowerbound] [UBOUND upperbound] [SATURATE] [EX seconds |
/// PX milliseconds | EXAT unix-time-seconds | PXAT unix-time-milliseconds | PERSIST] [ENX].
pub fn increx(core: &mut Core, call: &Call<'_>, reply: &mut Reply<'_>) {
    match read(core, call).and_then(|asked| run(core, call, &asked)) {
        Ok(Counted::Integers(value, added)) => {
            core.counters.took_all(u64::try_from(added).unwrap_or(0).min(AMOUNT_MAX));
            reply.array(2);
            reply.integer(value);
            reply.integer(added);
        }
        Ok(Counted::Floats(value, added)) => {
            core.counters.took_all(added.units(AMOUNT_MAX));
            reply.array(2);
            write_float(value, reply);
            write_float(added, reply);
        }
        Err(failure) => refuse(core, &failure, reply),
    }
}

/// A number with a fraction: in RESP3 a double, with the digits that Redis writes.
fn write_float(value: Extended, reply: &mut Reply<'_>) {
    match reply.protocol() {
        Protocol::Resp2 => reply.bulk_str(&value.text()),
        Protocol::Resp3 => reply.raw(format!(",{}\r\n", value.text()).as_bytes()),
    }
}

fn run(core: &mut Core, call: &Call<'_>, asked: &Asked) -> Result<Counted, Failure> {
    let found = find_value(core, call)?;
    match &asked.by {
        By::Integer(change, bounds) => run_integer(core, call, asked, found, *change, bounds),
        By::Float(change, bounds) => run_float(core, call, asked, found, *change, bounds),
    }
}

fn run_integer(
    core: &mut Core,
    call: &Call<'_>,
    asked: &Asked,
    found: Option<RecordId>,
    change: i64,
    bounds: &Bounds<i64>,
) -> Result<Counted, Failure> {
    let old = match found.and_then(|id| core.store.value(id)) {
        None => 0,
        Some((Value::Integer(value), _)) => value,
        Some((Value::Bytes(_), _)) => return Err(not_an_integer()),
    };
    let sum = i128::from(old) + i128::from(change);
    let value = match i64::try_from(sum) {
        Ok(sum) if (bounds.lower..=bounds.upper).contains(&sum) => sum,
        _ if !asked.saturates => return Ok(Counted::Integers(old, 0)),
        _ if sum > i128::from(bounds.upper) => bounds.upper,
        _ => bounds.lower,
    };
    let added = value.checked_sub(old).ok_or_else(|| Failure::Syntax("applied increment would overflow".to_owned()))?;
    store(core, call, asked, found, Value::Integer(value))?;
    Ok(Counted::Integers(value, added))
}

fn run_float(
    core: &mut Core,
    call: &Call<'_>,
    asked: &Asked,
    found: Option<RecordId>,
    change: Extended,
    bounds: &Bounds<Extended>,
) -> Result<Counted, Failure> {
    let (old, _) = stored_float(core, found)?;
    if old.is_infinite() {
        return Err(Failure::Syntax("value cannot be Infinity".to_owned()));
    }
    let sum = old.plus(change);
    let fits = !sum.is_infinite() && (bounds.lower..=bounds.upper).contains(&sum);
    let (value, added) = match (fits, asked.saturates) {
        (true, _) => (sum, change),
        (false, false) => return Ok(Counted::Floats(old, Extended::ZERO)),
        (false, true) => {
            let is_above = sum > bounds.upper || sum.is_infinite() && !sum.is_negative();
            let value = if is_above { bounds.upper } else { bounds.lower };
            (value, value.minus(old))
        }
    };
    if added.is_infinite() {
        return Err(Failure::Syntax("applied increment would be Infinity".to_owned()));
    }
    store(core, call, asked, found, Value::of(value.text().as_bytes()))?;
    Ok(Counted::Floats(value, added))
}

/// Writes the value with the lifetime that was asked for. A time that has passed takes the key away.
fn store(
    core: &mut Core,
    call: &Call<'_>,
    asked: &Asked,
    found: Option<RecordId>,
    value: Value<'_>,
) -> Result<(), Failure> {
    let current = found.and_then(|id| core.store.expires_at(id));
    let expires_at = match asked.lifetime {
        Lifetime::Kept => current,
        Lifetime::Forever => None,
        Lifetime::Until { only_if_none: true, .. } if current.is_some() => current,
        Lifetime::Until { deadline, .. } if deadline.has_passed(call.now) => {
            if let Some(id) = found {
                core.store.remove(call.at, id);
            }
            return Ok(());
        }
        Lifetime::Until { deadline, .. } => Some(deadline.kept()),
    };
    // The common call counts an integer up where it lies, and needs no memory.
    if let (Some(id), Value::Integer(value)) = (found, value)
        && core.store.set_integer(call.at, id, value)
    {
        if expires_at != current {
            core.store.set_expiry(call.at, id, expires_at);
        }
        return Ok(());
    }
    core.store.put_value(call.at, call.key(), found, value, expires_at, call.now)?;
    Ok(())
}
