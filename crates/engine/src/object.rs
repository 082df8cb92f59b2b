//! OBJECT: how a value is kept. Of access times and references nothing is kept, and the replies say so.

use crate::call::Call;
use crate::core::Core;
use tollgate_resp::Reply;
use tollgate_store::{RecordId, Value};

/// What is kept of a limit: its record.
const LIMIT_ENCODING: &str = "record";
/// Redis keeps strings of up to this many bytes with their header, and tells them from longer ones by this word.
const EMBEDDED_BYTES_MAX: usize = 44;
const NO_FREQUENCY: &str = "ERR An LFU maxmemory policy is not selected, access frequency not tracked. Please note \
                            that when switching between policies at runtime LRU and LFU data will take some time to \
                            adjust.";
const NO_IDLE_TIME: &str = "ERR idle time is not tracked: no maxmemory policy of this server looks at it";

/// The key of an OBJECT subcommand; answers nil where there is none.
fn found(core: &mut Core, call: &Call<'_>, reply: &mut Reply<'_>) -> Option<RecordId> {
    let id = core.store.find(call.at, call.argument(2), call.now);
    if id.is_none() {
        reply.null();
    }
    id
}

/// OBJECT ENCODING key.
pub fn encoding(core: &mut Core, call: &Call<'_>, reply: &mut Reply<'_>) {
    let Some(id) = found(core, call, reply) else { return };
    reply.bulk_str(match core.store.value(id) {
        Some((Value::Integer(_), _)) => "int",
        Some((Value::Bytes(bytes), _)) if bytes.len() <= EMBEDDED_BYTES_MAX => "embstr",
        Some((Value::Bytes(_), _)) => "raw",
        None => LIMIT_ENCODING,
    });
}

/// OBJECT REFCOUNT key: a value belongs to its key alone.
pub fn refcount(core: &mut Core, call: &Call<'_>, reply: &mut Reply<'_>) {
    if found(core, call, reply).is_some() {
        reply.integer(1);
    }
}

/// OBJECT IDLETIME key.
pub fn idletime(core: &mut Core, call: &Call<'_>, reply: &mut Reply<'_>) {
    if found(core, call, reply).is_some() {
        reply.error(NO_IDLE_TIME);
    }
}

/// OBJECT FREQ key.
pub fn freq(core: &mut Core, call: &Call<'_>, reply: &mut Reply<'_>) {
    if found(core, call, reply).is_some() {
        reply.error(NO_FREQUENCY);
    }
}
