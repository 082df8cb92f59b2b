//! Commands on keys of any kind: DEL UNLINK EXISTS TOUCH TYPE SCAN KEYS DBSIZE FLUSHDB FLUSHALL.

use crate::bounds::{OUTPUT_BYTES_MAX, SCAN_BYTES_MAX, SCAN_COUNT_MAX};
use crate::call::Call;
use crate::core::Core;
use crate::failure::Failure;
use crate::fragment::{split_count, sum_counts, write_count};
use crate::glob::{Glob, PATTERN_BYTES_MAX};
use crate::limit_commands::integer;
use crate::numbers::parse_integer;
use crate::route::{CURSOR_END, CURSOR_POSITION_BITS, SLOT_RUN};
use crate::values::lookup;
use std::ops::ControlFlow;
use tollgate_resp::{Protocol, Reply};
use tollgate_store::{RecordId, Store};

/// One core's part of DEL and UNLINK.
pub fn delete_part(core: &mut Core, call: &Call<'_>, fragment: &mut Vec<u8>) {
    let mut deleted = 0;
    let hasher = core.store.hasher();
    for key in call.args.iter().skip(1) {
        let at = hasher.locate(key);
        if let Some(id) = core.store.find(at, key, call.now) {
            core.store.remove(at, id);
            deleted += 1;
        }
    }
    write_count(fragment, deleted);
}

/// One core's part of EXISTS and TOUCH. A key named twice counts twice.
pub fn exists_part(core: &mut Core, call: &Call<'_>, fragment: &mut Vec<u8>) {
    let hasher = core.store.hasher();
    let mut count = 0;
    for key in call.args.iter().skip(1) {
        let is_there = core.store.find(hasher.locate(key), key, call.now).is_some();
        core.counters.looked_up(is_there);
        count += u64::from(is_there);
    }
    write_count(fragment, count);
}

/// Adds the counts of the parts.
pub fn sum(fragments: &[&[u8]], _call: &Call<'_>, reply: &mut Reply<'_>) {
    reply.integer(integer(sum_counts(fragments)));
}

/// TYPE key.
pub fn type_of(core: &mut Core, call: &Call<'_>, reply: &mut Reply<'_>) {
    let found = lookup(core, call);
    reply.simple(found.map_or("none", |id| type_name(&core.store, id)));
}

/// The kind of a record as TYPE names it: a limit's algorithm, or `string` as in Redis.
fn type_name(store: &Store, id: RecordId) -> &'static str {
    store.limit(id).map_or("string", |(policy, _)| policy.algorithm().type_name())
}

/// MEMORY USAGE key [SAMPLES count]. There is nothing to sample: a record's size is known.
pub fn memory_usage(core: &mut Core, call: &Call<'_>, reply: &mut Reply<'_>) {
    let mut position = 3;
    while position < call.args.len() {
        let count = call.args.get(position + 1).filter(|_| call.is_word(position, "SAMPLES"));
        match count.map(parse_integer) {
            Some(Ok(0..)) => position += 2,
            Some(Err(failure)) => return reply.error(&failure.to_string()),
            Some(Ok(_)) | None => return reply.error("ERR syntax error"),
        }
    }
    match core.store.find(call.at, call.argument(2), call.now) {
        Some(id) => reply.integer(i64::try_from(core.store.record_bytes(id)).unwrap_or(i64::MAX)),
        None => reply.null(),
    }
}

/// One core's part of DBSIZE.
pub fn dbsize_part(core: &mut Core, _call: &Call<'_>, fragment: &mut Vec<u8>) {
    write_count(fragment, core.store.len());
}

/// One core's part of FLUSHDB and FLUSHALL.
pub fn flush_part(core: &mut Core, call: &Call<'_>, fragment: &mut Vec<u8>) {
    let mode_is_known = match call.args.len() {
        1 => true,
        2 => call.is_word(1, "ASYNC") || call.is_word(1, "SYNC"),
        _ => false,
    };
    if mode_is_known {
        core.store.flush();
    }
    write_count(fragment, u64::from(mode_is_known));
}

/// FLUSHDB and FLUSHALL.
pub fn flush_merge(fragments: &[&[u8]], _call: &Call<'_>, reply: &mut Reply<'_>) {
    if sum_counts(fragments) == 0 {
        return reply.error("ERR syntax error");
    }
    reply.simple("OK");
}

/// One core's part of KEYS: a count, a mark for "too much", the keys as bulk strings.
pub fn keys_part(core: &mut Core, call: &Call<'_>, fragment: &mut Vec<u8>) {
    // Other commands of a transaction may have written into the fragment before.
    let start = fragment.len();
    write_count(fragment, 0);
    let Some(glob) = Glob::new(call.argument(1)) else { return };
    let (mut count, mut bytes) = (0, 0);
    {
        let mut keys = Reply::new(fragment, Protocol::Resp2);
        let _ = core.store.for_each(call.now, &mut |_, key| {
            if glob.is_match(key) {
                keys.bulk(key);
                count += 1;
                bytes += key.len();
            }
            // The merge sees by the length that it was too much, and refuses the whole.
            if bytes < OUTPUT_BYTES_MAX { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        });
    }
    if let Some(front) = fragment.get_mut(start..).and_then(<[u8]>::first_chunk_mut::<8>) {
        *front = u64::to_le_bytes(count);
    }
}

/// KEYS pattern.
pub fn keys_merge(fragments: &[&[u8]], call: &Call<'_>, reply: &mut Reply<'_>) {
    if call.argument(1).len() > PATTERN_BYTES_MAX {
        return reply.error(&format!("ERR pattern is longer than {PATTERN_BYTES_MAX} bytes"));
    }
    if fragments.iter().map(|fragment| fragment.len()).sum::<usize>() >= OUTPUT_BYTES_MAX {
        return reply.error("ERR the answer would pass the output limit of 32 MiB, use SCAN");
    }
    reply.array(usize::try_from(sum_counts(fragments)).unwrap_or(usize::MAX));
    for (_, keys) in fragments.iter().filter_map(|fragment| split_count(fragment)) {
        reply.raw(keys);
    }
}

/// Keys that one look into the store is asked for.
const SCAN_STEP: usize = 64;

/// What SCAN was asked.
struct Scan {
    cursor: u32,
    count: usize,
    glob: Option<Glob>,
    type_name: Option<Vec<u8>>,
}

/// One core's part of SCAN: where to go on, how many keys were visited, how many are returned, and these.
pub fn scan_part(core: &mut Core, call: &Call<'_>, fragment: &mut Vec<u8>) {
    // The merge finds the same fault again and answers it.
    let Ok(asked) = parse_scan(call) else { return };
    let (mut found, mut visited, mut returned, mut bytes) = (Vec::new(), 0, 0, 0);
    let mut keys = Reply::new(&mut found, Protocol::Resp2);
    let store = &core.store;
    let mut visit = |id, key: &[u8]| {
        visited += 1;
        bytes += key.len();
        let wanted = asked.type_name.as_ref();
        let type_fits = wanted.is_none_or(|name| name.eq_ignore_ascii_case(type_name(store, id).as_bytes()));
        if type_fits && asked.glob.as_ref().is_none_or(|glob| glob.is_match(key)) {
            keys.bulk(key);
            returned += 1;
        }
        (visited, bytes)
    };
    // In steps of a table or two, so that neither the count nor the bytes pass what was asked for by much.
    let mut next = Some(asked.cursor);
    while let Some(cursor) = next {
        let mut met = (0, 0);
        next = store.scan(cursor, asked.count.min(SCAN_STEP), call.now, &mut |id, key| met = visit(id, key));
        if met.0 >= asked.count || met.1 >= SCAN_BYTES_MAX {
            break;
        }
    }
    let next = next.unwrap_or_else(|| first_cursor_after(core.index, core.cores));
    write_count(fragment, u64::from(next));
    write_count(fragment, u64::try_from(visited).unwrap_or(u64::MAX));
    write_count(fragment, returned);
    fragment.extend_from_slice(&found);
}

/// SCAN cursor [MATCH pattern] [COUNT n] [TYPE type].
pub fn scan_merge(fragments: &[&[u8]], call: &Call<'_>, reply: &mut Reply<'_>) {
    if let Err(failure) = parse_scan(call) {
        return reply.error(&failure.to_string());
    }
    let parts: Vec<_> = fragments.iter().filter_map(|fragment| ScanPart::read(fragment)).collect();
    let next = parts.last().map_or(0, |part| part.next);
    let returned = parts.iter().map(|part| part.returned).sum::<u64>();
    reply.array(2);
    reply.bulk_str(&next.to_string());
    reply.array(usize::try_from(returned).unwrap_or(usize::MAX));
    parts.iter().for_each(|part| reply.raw(part.keys));
}

/// What a part of SCAN wrote.
struct ScanPart<'a> {
    next: u32,
    visited: u64,
    returned: u64,
    keys: &'a [u8],
}

impl ScanPart<'_> {
    fn read(fragment: &[u8]) -> Option<ScanPart<'_>> {
        let (next, rest) = split_count(fragment)?;
        let (visited, rest) = split_count(rest)?;
        let (returned, keys) = split_count(rest)?;
        Some(ScanPart { next: u32::try_from(next).ok()?, visited, returned, keys })
    }
}

/// Where a SCAN that asked for COUNT keys goes on after these parts. `None` if it has met enough, or all. So a walk
/// over few keys ends with its first call, on however many cores they lie.
pub fn scan_goes_on(fragments: &[Vec<u8>], call: &Call<'_>) -> Option<u32> {
    let asked = parse_scan(call).ok()?;
    let parts: Vec<_> = fragments.iter().filter_map(|fragment| ScanPart::read(fragment)).collect();
    let visited = parts.iter().map(|part| part.visited).sum::<u64>();
    let bytes = parts.iter().map(|part| part.keys.len()).sum::<usize>();
    let enough = visited >= u64::try_from(asked.count).unwrap_or(u64::MAX) || bytes >= SCAN_BYTES_MAX;
    parts.last().map(|part| part.next).filter(|next| *next != 0 && !enough)
}

/// Where the walk goes on after `core`: at the next core's first slot, or at the end, which is 0.
fn first_cursor_after(core: u16, cores: u16) -> u32 {
    let next = core + 1;
    if next >= cores { 0 } else { (u32::from(next) * u32::from(SLOT_RUN)) << CURSOR_POSITION_BITS }
}

/// The cursor of a SCAN, for its routing too.
pub fn parse_cursor(argument: &[u8]) -> Option<u32> {
    let digits = argument.iter().all(u8::is_ascii_digit) && !argument.is_empty();
    let cursor: u64 = std::str::from_utf8(argument).ok().filter(|_| digits)?.parse().ok()?;
    // Not one of ours: Redis takes any number, and what a foreign cursor finds is nobody's business. It ends the walk.
    Some(u32::try_from(cursor).ok().filter(|cursor| *cursor < CURSOR_END).unwrap_or(CURSOR_END - 1))
}

fn parse_scan(call: &Call<'_>) -> Result<Scan, Failure> {
    let syntax = |text: &str| Failure::Syntax(text.to_owned());
    let cursor = parse_cursor(call.argument(1)).ok_or_else(|| syntax("invalid cursor"))?;
    let mut asked = Scan { cursor, count: 10, glob: None, type_name: None };
    let mut position = 2;
    while let Some(word) = call.args.get(position) {
        let value = call.args.get(position + 1).ok_or_else(|| syntax("syntax error"))?;
        position += 2;
        match word.to_ascii_uppercase().as_slice() {
            b"MATCH" => {
                let too_long = || Failure::Syntax(format!("pattern is longer than {PATTERN_BYTES_MAX} bytes"));
                asked.glob = Some(Glob::new(value).ok_or_else(too_long)?);
            }
            b"COUNT" => {
                let count = usize::try_from(parse_integer(value)?).ok().filter(|count| *count > 0);
                asked.count = count.ok_or_else(|| syntax("syntax error"))?.min(SCAN_COUNT_MAX);
            }
            b"TYPE" => asked.type_name = Some(value.to_vec()),
            _ => return Err(syntax("syntax error")),
        }
    }
    Ok(asked)
}
