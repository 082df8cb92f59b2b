//! MGET and MSET: several values at once, wherever they lie.
//!
//! MSET is refused before it has written anything if any of its keys is a limit or if a core that it would write to is
//! at its memory bound; each core is asked first and told afterwards. A core that has nothing against its part promises
//! the memory for it, so that of several who ask at once none is promised what another was; where another core refuses,
//! the promise is called off. A key that becomes a limit in between is left as it is, and the reply says so.

use crate::bounds::OUTPUT_BYTES_MAX;
use crate::call::Call;
use crate::core::Core;
use crate::failure::Failure;
use crate::fragment::{TOO_LONG, split_count, write_count};
use crate::route::owner;
use crate::steps::{Order, Places, Steps};
use tollgate_resp::Reply;
use tollgate_store::{Content, Located, Value, slot_of};

/// A value that is not there, or not a value.
const NONE: u8 = 0;
/// A value follows: its length, its bytes.
const SOME: u8 = 1;

/// One core's part of MGET: which core of how many, then what it has for each key.
pub fn mget_part(core: &mut Core, call: &Call<'_>, fragment: &mut Vec<u8>) {
    write_count(fragment, u64::from(core.index));
    write_count(fragment, u64::from(core.cores));
    let hasher = core.store.hasher();
    for key in call.args.iter().skip(1) {
        // The merge sees by the length that it was too much, and refuses the whole.
        if fragment.len() >= OUTPUT_BYTES_MAX {
            break;
        }
        let found = core.store.find(hasher.locate(key), key, call.now);
        let looked_up = if found.is_some() { &core.counters.keyspace_hits } else { &core.counters.keyspace_misses };
        looked_up.add(1);
        match found.and_then(|id| core.store.value(id)) {
            Some((Value::Integer(number), _)) => write_value(fragment, number.to_string().as_bytes()),
            Some((Value::Bytes(bytes), _)) => write_value(fragment, bytes),
            None => fragment.push(NONE),
        }
    }
}

fn write_value(fragment: &mut Vec<u8>, bytes: &[u8]) {
    fragment.push(SOME);
    write_count(fragment, u64::try_from(bytes.len()).unwrap_or(u64::MAX));
    fragment.extend_from_slice(bytes);
}

/// MGET key [key ...]: in the order of the keys, each from the part of the core that owns it.
pub fn mget_merge(fragments: &[&[u8]], call: &Call<'_>, reply: &mut Reply<'_>) {
    if fragments.iter().map(|fragment| fragment.len()).sum::<usize>() >= OUTPUT_BYTES_MAX {
        return reply.error(TOO_LONG);
    }
    let mut cores = 1;
    let mut parts = Vec::new();
    for fragment in fragments {
        let Some((core, rest)) = split_count(fragment) else { continue };
        let Some((of, values)) = split_count(rest) else { continue };
        cores = u16::try_from(of).unwrap_or(1);
        parts.push((u16::try_from(core).unwrap_or(0), values));
    }
    reply.array(call.args.len().saturating_sub(1));
    for key in call.args.iter().skip(1) {
        let core = owner(slot_of(key), cores);
        let value = parts.iter_mut().find(|(of, _)| *of == core).and_then(|(_, values)| next_value(values));
        match value {
            Some(bytes) => reply.bulk(bytes),
            None => reply.null(),
        }
    }
}

fn next_value<'a>(values: &mut &'a [u8]) -> Option<&'a [u8]> {
    let (mark, rest) = values.split_first()?;
    *values = rest;
    if *mark != SOME {
        return None;
    }
    let (length, rest) = split_count(rest)?;
    let (bytes, rest) = rest.split_at_checked(usize::try_from(length).ok()?)?;
    *values = rest;
    Some(bytes)
}

/// A core has nothing against its part.
const FINE: u8 = 0;
/// A key of the part is a limit.
const IS_LIMIT: u8 = 1;
/// The core's memory is used up.
const NO_ROOM: u8 = 2;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Asking,
    Writing,
    CallingOff,
    Over,
}

/// One core's part of MSET: where its first key lies, and the positions of its arguments.
struct Part {
    core: u16,
    at: Located,
    arguments: Vec<usize>,
    /// The bytes that the core promised and has not released.
    promise: Option<Box<Content>>,
}

struct Mset {
    parts: Vec<Part>,
    stage: Stage,
    answers_left: usize,
    /// The worst that any core answered.
    outcome: u8,
}

/// MSET key value [key value ...].
pub fn mset(call: &Call<'_>, places: &Places) -> Result<Box<dyn Steps>, String> {
    if call.args.len().is_multiple_of(2) {
        return Err("ERR wrong number of arguments for 'mset' command".to_owned());
    }
    let mut parts: Vec<Part> = Vec::new();
    for position in (1..call.args.len()).step_by(2) {
        let place = places.of(call, position);
        let arguments = [position, position + 1];
        match parts.iter_mut().find(|part| part.core == place.core) {
            Some(part) => part.arguments.extend(arguments),
            None => {
                let arguments = std::iter::once(0).chain(arguments).collect();
                parts.push(Part { core: place.core, at: place.at, arguments, promise: None });
            }
        }
    }
    Ok(Box::new(Mset { parts, stage: Stage::Asking, answers_left: 0, outcome: FINE }))
}

impl Steps for Mset {
    fn cores(&self) -> Vec<u16> {
        self.parts.iter().map(|part| part.core).collect()
    }

    fn next(&mut self) -> Vec<Order> {
        let run = match self.stage {
            Stage::Asking => ask,
            Stage::Writing => write,
            Stage::CallingOff => call_off,
            Stage::Over => return Vec::new(),
        };
        let calls_off = self.stage == Stage::CallingOff;
        let parts = self.parts.iter_mut().filter(|part| !calls_off || part.promise.is_some());
        let orders: Vec<Order> = parts
            .map(|part| {
                let arguments = if calls_off { vec![0] } else { part.arguments.clone() };
                Order { core: part.core, run, arguments, at: part.at, content: part.promise.take() }
            })
            .collect();
        self.answers_left = orders.len();
        orders
    }

    fn answered(&mut self, core: u16, fragment: &[u8], content: Option<Box<Content>>) {
        self.outcome = self.outcome.max(fragment.first().copied().unwrap_or(FINE));
        if let Some(part) = self.parts.iter_mut().find(|part| part.core == core) {
            part.promise = content;
        }
        self.answers_left = self.answers_left.saturating_sub(1);
        if self.answers_left == 0 {
            self.stage = match self.stage {
                Stage::Asking if self.outcome == FINE => Stage::Writing,
                Stage::Asking if self.parts.iter().any(|part| part.promise.is_some()) => Stage::CallingOff,
                _ => Stage::Over,
            };
        }
    }

    fn reply(&self, reply: &mut Reply<'_>) {
        write_outcome(self.outcome, reply);
    }
}

fn is_limit(core: &mut Core, key: &[u8], call: &Call<'_>) -> bool {
    let at = core.store.hasher().locate(key);
    core.store.find(at, key, call.now).is_some_and(|id| core.store.value(id).is_none())
}

type Cargo = Option<Box<Content>>;

fn ask(core: &mut Core, call: &Call<'_>, _given: Cargo, fragment: &mut Vec<u8>) -> Cargo {
    match promise(core, call) {
        Ok(bytes) => {
            fragment.push(FINE);
            // Far below what a signed number holds: a command is not so long.
            (bytes > 0).then(|| Box::new(Content::of_number(i64::try_from(bytes).unwrap_or(i64::MAX))))
        }
        Err(objection) => {
            fragment.push(objection);
            None
        }
    }
}

fn write(core: &mut Core, call: &Call<'_>, given: Cargo, fragment: &mut Vec<u8>) -> Cargo {
    release(core, given);
    fragment.push(put_all(core, call));
    None
}

fn call_off(core: &mut Core, _call: &Call<'_>, given: Cargo, fragment: &mut Vec<u8>) -> Cargo {
    release(core, given);
    fragment.push(FINE);
    None
}

fn release(core: &mut Core, promise: Cargo) {
    let bytes = promise.and_then(|promise| promise.number()).and_then(|bytes| u64::try_from(bytes).ok());
    core.store.release(bytes.unwrap_or(0));
}

/// Promises the memory for a part, or says what this core has against it: a limit among the keys, no room for all.
fn promise(core: &mut Core, call: &Call<'_>) -> Result<u64, u8> {
    let positions = (1..call.args.len()).step_by(2);
    if positions.clone().any(|position| is_limit(core, call.argument(position), call)) {
        return Err(IS_LIMIT);
    }
    let values = positions.map(|position| (call.argument(position), call.argument(position + 1)));
    core.store.reserve(values, call.now).map_err(|_| {
        core.counters.oom_replies.add(1);
        NO_ROOM
    })
}

/// Writes a part for which room was made, but for keys that are limits by now.
fn put_all(core: &mut Core, call: &Call<'_>) -> u8 {
    let hasher = core.store.hasher();
    let mut outcome = FINE;
    for position in (1..call.args.len()).step_by(2) {
        let (key, value) = (call.argument(position), call.argument(position + 1));
        if is_limit(core, key, call) {
            outcome = IS_LIMIT;
            continue;
        }
        let at = hasher.locate(key);
        let found = core.store.find(at, key, call.now);
        // Room was made for all of it together.
        if core.store.put_content(at, key, found, &Content::of_value(value), true, call.now).is_err() {
            outcome = outcome.max(NO_ROOM);
        }
    }
    outcome
}

/// One core's part of MSET in a transaction, name, key, value, key, value and so on: asked and written in one step.
/// Where this core has anything against it, nothing of the part is written and the fragment says what.
/// The plan, made first, has refused a wrong number of arguments.
pub fn mset_part(core: &mut Core, call: &Call<'_>, fragment: &mut Vec<u8>) {
    let outcome = promise(core, call).map(|bytes| {
        core.store.release(bytes);
        put_all(core, call)
    });
    fragment.push(outcome.unwrap_or_else(|objection| objection));
}

/// The reply to a MSET that ran in parts: the worst that any core answered.
pub fn mset_merge(fragments: &[&[u8]], _call: &Call<'_>, reply: &mut Reply<'_>) {
    let outcomes = fragments.iter().map(|fragment| fragment.first().copied().unwrap_or(FINE));
    write_outcome(outcomes.max().unwrap_or(FINE), reply);
}

fn write_outcome(outcome: u8, reply: &mut Reply<'_>) {
    match outcome {
        FINE => reply.simple("OK"),
        IS_LIMIT => reply.error(&Failure::WrongType.to_string()),
        _ => reply.error(&Failure::OutOfMemory.to_string()),
    }
}
