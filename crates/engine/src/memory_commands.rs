//! MEMORY STATS, DOCTOR, PURGE and MALLOC-STATS: what the keys of all cores hold, by what it is used for.

use crate::call::Call;
use crate::core::Core;
use crate::fragment::{split_count, write_count};
use crate::limit_commands::integer;
use crate::session::Session;
use std::fmt::Write;
use tollgate_resp::Reply;
use tollgate_store::Eviction;

/// What the parts count, in this order.
#[derive(Clone, Copy, Debug, Default)]
struct Held {
    keys: u64,
    used_bytes: u64,
    index_bytes: u64,
    record_bytes: u64,
    body_bytes: u64,
    peak_bytes: u64,
    resident_bytes: u64,
    memory_max_bytes: u64,
    /// 1 if new keys drop others at the bound, 0 if they are refused.
    evicts: u64,
}

/// One core's part of MEMORY STATS and DOCTOR. The last four are the process's, the same in all parts.
pub fn held_part(core: &mut Core, _call: &Call<'_>, fragment: &mut Vec<u8>) {
    core.publish();
    let stats = core.store.stats();
    let used = crate::counters::Merged(&core.all_counters).sum(|counters| &counters.memory_used_bytes);
    for number in [
        core.store.len(),
        core.store.memory_used(),
        stats.index_bytes,
        stats.record_bytes,
        stats.body_bytes,
        core.settings.shared.memory_peak_bytes(used),
        core.settings.process.resident_bytes(),
        core.settings.tunables.memory_max_bytes(),
        u64::from(core.settings.tunables.eviction() == Eviction::EvictLeast),
    ] {
        write_count(fragment, number);
    }
}

impl Held {
    fn read(fragment: &[u8]) -> Option<Held> {
        let (keys, rest) = split_count(fragment)?;
        let (used_bytes, rest) = split_count(rest)?;
        let (index_bytes, rest) = split_count(rest)?;
        let (record_bytes, rest) = split_count(rest)?;
        let (body_bytes, rest) = split_count(rest)?;
        let (peak_bytes, rest) = split_count(rest)?;
        let (resident_bytes, rest) = split_count(rest)?;
        let (memory_max_bytes, rest) = split_count(rest)?;
        let (evicts, _) = split_count(rest)?;
        let sums = Held { keys, used_bytes, index_bytes, record_bytes, body_bytes, ..Held::default() };
        Some(Held { peak_bytes, resident_bytes, memory_max_bytes, evicts, ..sums })
    }

    fn of(fragments: &[&[u8]]) -> Held {
        let parts = fragments.iter().filter_map(|fragment| Held::read(fragment));
        let all = parts.fold(Held::default(), |sum, part| Held {
            keys: sum.keys + part.keys,
            used_bytes: sum.used_bytes + part.used_bytes,
            index_bytes: sum.index_bytes + part.index_bytes,
            record_bytes: sum.record_bytes + part.record_bytes,
            body_bytes: sum.body_bytes + part.body_bytes,
            peak_bytes: sum.peak_bytes.max(part.peak_bytes),
            resident_bytes: part.resident_bytes,
            memory_max_bytes: part.memory_max_bytes,
            evicts: part.evicts,
        });
        Held { peak_bytes: all.peak_bytes.max(all.used_bytes), ..all }
    }

    /// Bytes of records and bodies: what keys themselves take. The rest finds them.
    fn dataset_bytes(&self) -> u64 {
        self.record_bytes + self.body_bytes
    }

    fn overhead_bytes(&self) -> u64 {
        self.used_bytes.saturating_sub(self.dataset_bytes())
    }
}

/// `part` of `whole` in percent; 0 of nothing.
fn percent(part: u64, whole: u64) -> f64 {
    ratio(part, whole) * 100.0
}

fn ratio(part: u64, whole: u64) -> f64 {
    // Shown to people only: what a double rounds off is no matter.
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

/// MEMORY STATS: Redis's fields, as far as there is something to say.
pub fn stats_merge(fragments: &[&[u8]], _call: &Call<'_>, reply: &mut Reply<'_>) {
    let held = Held::of(fragments);
    let zeros =
        ["replication.backlog", "clients.slaves", "cluster.links", "aof.buffer", "lua.caches", "functions.caches"];
    let has_keys = held.keys > 0;
    let whole = [
        ("overhead.total", held.overhead_bytes()),
        ("keys.count", held.keys),
        ("keys.bytes-per-key", held.used_bytes.checked_div(held.keys).unwrap_or(0)),
        ("dataset.bytes", held.dataset_bytes()),
    ];
    reply.map(2 + zeros.len() + usize::from(has_keys) + whole.len() + 2 + 2);
    let mut field = |name: &str, value: u64| {
        reply.bulk_str(name);
        reply.integer(integer(value));
    };
    field("peak.allocated", held.peak_bytes);
    field("total.allocated", held.used_bytes);
    zeros.iter().for_each(|name| field(name, 0));
    if has_keys {
        reply.bulk_str("db.0");
        reply.map(2);
        reply.bulk_str("overhead.hashtable.main");
        reply.integer(integer(held.index_bytes));
        reply.bulk_str("overhead.hashtable.expires");
        reply.integer(0);
    }
    for (name, value) in whole {
        reply.bulk_str(name);
        reply.integer(integer(value));
    }
    let shares = [
        ("dataset.percentage", percent(held.dataset_bytes(), held.used_bytes)),
        ("peak.percentage", percent(held.used_bytes, held.peak_bytes)),
        ("fragmentation", ratio(held.resident_bytes, held.used_bytes)),
    ];
    for (name, value) in shares {
        reply.bulk_str(name);
        reply.double(value);
    }
    reply.bulk_str("fragmentation.bytes");
    reply.integer(integer(held.resident_bytes) - integer(held.used_bytes));
}

/// MEMORY DOCTOR: what an operator should look at, in words.
pub fn doctor_merge(fragments: &[&[u8]], _call: &Call<'_>, reply: &mut Reply<'_>) {
    let held = Held::of(fragments);
    let (used, max) = (held.used_bytes, held.memory_max_bytes);
    let keys = match held.keys {
        0 => format!("There are no keys; tables and pages that are kept for new ones take {used} bytes"),
        1 => format!("1 key holds {used} bytes"),
        keys => format!("{keys} keys hold {used} bytes"),
    };
    let mut text = format!("{keys}; the process holds {} bytes.\n", held.resident_bytes);
    let then = if held.evicts > 0 { "new keys drop others (evict-least)" } else { "new keys are refused (noeviction)" };
    let _ = match max {
        0 => writeln!(text, "maxmemory is 0: keys may grow until the machine has no memory left."),
        _ if used > max => {
            let more = used - max;
            writeln!(text, "maxmemory is {max} bytes, and {more} bytes more are in use: {then} until that is less.")
        }
        _ if used >= max - max / 10 => {
            writeln!(text, "maxmemory is {max} bytes and nearly used up: where there is no room, {then}.")
        }
        _ => writeln!(text, "maxmemory is {max} bytes, {:.1} % used.", percent(used, max)),
    };
    if held.peak_bytes > used.saturating_mul(2) {
        let _ = writeln!(
            text,
            "The peak was {} bytes: what the allocator has freed since then it may keep for the next keys, and the \
             process then holds more than is used.",
            held.peak_bytes
        );
    }
    reply.verbatim_txt(&text);
}

/// MEMORY PURGE. The store gives its empty pages back to the allocator by itself; what that keeps is not ours to move.
pub fn purge(_core: &mut Core, _session: &mut Session, _call: &Call<'_>, reply: &mut Reply<'_>) {
    reply.simple("OK");
}

/// MEMORY MALLOC-STATS.
pub fn malloc_stats(_core: &mut Core, _session: &mut Session, _call: &Call<'_>, reply: &mut Reply<'_>) {
    reply.bulk_str("Stats not supported for the current allocator");
}
