//! When keys expire: EXPIRE and its kin, PERSIST, TTL PTTL, EXPIRETIME PEXPIRETIME.
//!
//! Those that look answer for keys of any kind. Those that change answer only for values: a limit's record expires when
//! it is as if untouched, and whoever could shorten or lengthen that would free or freeze a caller by mistake.

use crate::call::Call;
use crate::core::Core;
use crate::deadline::{Deadline, Written, expiry_wall_ms};
use crate::failure::Failure;
use crate::limit_commands::{integer, refuse};
use crate::values::{find_value, lookup};
use tollgate_limits::{Micros, REPLY_MS_MAX, reset_ms};
use tollgate_resp::{Args, Reply, printable};
use tollgate_store::RecordId;

/// The time commands answer this for a key that does not exist.
const NO_KEY: i64 = -2;
/// And this for one that does not expire.
const NO_EXPIRY: i64 = -1;

/// EXPIRE key seconds [NX | XX | GT | LT].
pub fn expire(core: &mut Core, call: &Call<'_>, reply: &mut Reply<'_>) {
    answer_expire(core, call, Written::Ex, "expire", reply);
}

/// PEXPIRE key milliseconds [NX | XX | GT | LT].
pub fn pexpire(core: &mut Core, call: &Call<'_>, reply: &mut Reply<'_>) {
    answer_expire(core, call, Written::Px, "pexpire", reply);
}

/// EXPIREAT key unix-time-seconds [NX | XX | GT | LT].
pub fn expireat(core: &mut Core, call: &Call<'_>, reply: &mut Reply<'_>) {
    answer_expire(core, call, Written::Exat, "expireat", reply);
}

/// PEXPIREAT key unix-time-milliseconds [NX | XX | GT | LT].
pub fn pexpireat(core: &mut Core, call: &Call<'_>, reply: &mut Reply<'_>) {
    answer_expire(core, call, Written::Pxat, "pexpireat", reply);
}

fn answer_expire(core: &mut Core, call: &Call<'_>, written: Written, command: &str, reply: &mut Reply<'_>) {
    match run_expire(core, call, written, command) {
        Ok(is_done) => reply.integer(i64::from(is_done)),
        Err(failure) => refuse(core, &failure, reply),
    }
}

/// Whether the key was there and the conditions held.
fn run_expire(core: &mut Core, call: &Call<'_>, written: Written, command: &str) -> Result<bool, Failure> {
    let conditions = Conditions::read(call.args)?;
    let deadline = Deadline::read(core, call, written, call.argument(2), command)?;
    let Some(id) = find_value(core, call)? else { return Ok(false) };
    let current = core.store.expires_at(id);
    if !conditions.hold(core, deadline, current) {
        return Ok(false);
    }
    if deadline.has_passed(call.now) {
        core.store.remove(call.at, id);
    } else {
        core.store.set_expiry(call.at, id, Some(deadline.kept()));
    }
    Ok(true)
}

/// What must be so for EXPIRE to do anything.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Conditions {
    /// NX: the key does not expire yet.
    none: bool,
    /// XX: it does.
    some: bool,
    /// GT: the new time is later; no time at all is the latest.
    later: bool,
    /// LT: the new time is earlier.
    earlier: bool,
}

impl Conditions {
    fn read(args: Args<'_>) -> Result<Conditions, Failure> {
        let mut read = Conditions::default();
        for word in args.iter().skip(3) {
            match word.to_ascii_uppercase().as_slice() {
                b"NX" => read.none = true,
                b"XX" => read.some = true,
                b"GT" => read.later = true,
                b"LT" => read.earlier = true,
                _ => return Err(Failure::Syntax(format!("Unsupported option {}", printable(word)))),
            }
        }
        let refused = |text: &str| Err(Failure::Syntax(text.to_owned()));
        if read.none && (read.some || read.later || read.earlier) {
            return refused("NX and XX, GT or LT options at the same time are not compatible");
        }
        if read.later && read.earlier {
            return refused("GT and LT options at the same time are not compatible");
        }
        Ok(read)
    }

    /// Times are compared in the milliseconds that PEXPIRETIME answers, so that the time it answered is neither later
    /// nor earlier than itself.
    fn hold(self, core: &Core, deadline: Deadline, current: Option<Micros>) -> bool {
        let new_ms = expiry_wall_ms(deadline.kept(), core);
        match current.map(|expires_at| expiry_wall_ms(expires_at, core)) {
            None => !self.some && !self.later,
            Some(current_ms) => {
                !self.none && (!self.later || new_ms > current_ms) && (!self.earlier || new_ms < current_ms)
            }
        }
    }
}

/// PERSIST key.
pub fn persist(core: &mut Core, call: &Call<'_>, reply: &mut Reply<'_>) {
    match find_value(core, call) {
        Ok(Some(id)) if core.store.expires_at(id).is_some() => {
            core.store.set_expiry(call.at, id, None);
            reply.integer(1);
        }
        Ok(_) => reply.integer(0),
        Err(failure) => refuse(core, &failure, reply),
    }
}

/// PTTL key.
pub fn pttl(core: &mut Core, call: &Call<'_>, reply: &mut Reply<'_>) {
    let answer = look(core, call, |core, id| life_ms(core, id, call.now));
    reply.integer(answer);
}

/// TTL key: whole seconds, rounded as Redis does, half up.
pub fn ttl(core: &mut Core, call: &Call<'_>, reply: &mut Reply<'_>) {
    let answer = look(core, call, |core, id| life_ms(core, id, call.now).map(rounded_seconds));
    reply.integer(answer);
}

/// PEXPIRETIME key.
pub fn pexpiretime(core: &mut Core, call: &Call<'_>, reply: &mut Reply<'_>) {
    let answer = look(core, call, end_ms);
    reply.integer(answer);
}

/// EXPIRETIME key: whole seconds, rounded as TTL does.
pub fn expiretime(core: &mut Core, call: &Call<'_>, reply: &mut Reply<'_>) {
    let answer = look(core, call, |core, id| end_ms(core, id).map(rounded_seconds));
    reply.integer(answer);
}

/// What `time` says of the key, if it exists and expires.
fn look(core: &mut Core, call: &Call<'_>, time: impl FnOnce(&Core, RecordId) -> Option<u64>) -> i64 {
    match lookup(core, call) {
        None => NO_KEY,
        Some(id) => time(core, id).map_or(NO_EXPIRY, integer),
    }
}

/// Milliseconds until the record expires, rounded up.
fn life_ms(core: &Core, id: RecordId, now: Micros) -> Option<u64> {
    if let Some((policy, state)) = core.store.limit(id) {
        return Some(reset_ms(policy, state, now));
    }
    core.store.expires_at(id).map(|expires_at| expires_at.saturating_sub(now).div_ceil(1_000))
}

/// The Unix time at which the record expires, to the nearest millisecond.
fn end_ms(core: &Core, id: RecordId) -> Option<u64> {
    let wall_ms = expiry_wall_ms(core.store.expires_at(id)?, core);
    let wall_ms = u64::try_from(wall_ms.max(0)).unwrap_or(u64::MAX);
    Some(if core.store.limit(id).is_some() { wall_ms.min(REPLY_MS_MAX) } else { wall_ms })
}

fn rounded_seconds(milliseconds: u64) -> u64 {
    milliseconds.saturating_add(500) / 1_000
}
