//! MGET and MSET: several values at once, wherever they lie.
//!
//! MSET is refused before it has written anything if any of its keys is a limit or if a core that it would write to is
//! at its memory bound; each core is asked first and told afterwards. A key that becomes a limit in between is left as
//! it is, and the reply says so.

use crate::call::Call;
use crate::core::Core;
use crate::failure::Failure;
use crate::fragment::{split_count, write_count};
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
    Over,
}

/// One core's part of MSET: where its first key lies, and the positions of its arguments.
struct Part {
    core: u16,
    at: Located,
    arguments: Vec<usize>,
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
                parts.push(Part { core: place.core, at: place.at, arguments });
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
            Stage::Over => return Vec::new(),
        };
        self.answers_left = self.parts.len();
        let order = |part: &Part| {
            let (core, at, arguments) = (part.core, part.at, part.arguments.clone());
            Order { core, run, arguments, at, content: None }
        };
        self.parts.iter().map(order).collect()
    }

    fn answered(&mut self, _core: u16, fragment: &[u8], _content: Option<Box<Content>>) {
        self.outcome = self.outcome.max(fragment.first().copied().unwrap_or(FINE));
        self.answers_left = self.answers_left.saturating_sub(1);
        if self.answers_left == 0 {
            let goes_on = self.stage == Stage::Asking && self.outcome == FINE;
            self.stage = if goes_on { Stage::Writing } else { Stage::Over };
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

fn ask(core: &mut Core, call: &Call<'_>, _given: Option<Box<Content>>, fragment: &mut Vec<u8>) -> Option<Box<Content>> {
    fragment.push(objection(core, call));
    None
}

/// What this core has against its part: a limit among the keys, or no room for all of it.
fn objection(core: &mut Core, call: &Call<'_>) -> u8 {
    let keys = call.args.iter().skip(1).step_by(2);
    let bytes: usize = call.args.iter().skip(1).map(<[u8]>::len).sum();
    let mut keys = keys.map(|key| is_limit(core, key, call));
    if keys.any(|is_limit| is_limit) {
        IS_LIMIT
    } else if core.store.make_room_for_bytes(u64::try_from(bytes).unwrap_or(u64::MAX), call.now).is_err() {
        core.counters.oom_replies.add(1);
        NO_ROOM
    } else {
        FINE
    }
}

fn write(
    core: &mut Core,
    call: &Call<'_>,
    _given: Option<Box<Content>>,
    fragment: &mut Vec<u8>,
) -> Option<Box<Content>> {
    fragment.push(put_all(core, call));
    None
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
    let outcome = match objection(core, call) {
        FINE => put_all(core, call),
        objection => objection,
    };
    fragment.push(outcome);
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
