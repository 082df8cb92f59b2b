//! RENAME and COPY: what a key holds, a limit with all its use or a value, under another name.
//!
//! A key that is renamed to another core is taken where it lies and then put where it goes, so never at both:
//! for a moment it is at neither. It passes the memory bound only where it takes no more than it left: on the same
//! core, under a name that is not longer. Anywhere else it needs room as COPY does; where there is none it is put back
//! under its old name, over whatever came there in that moment, and the reply is the refusal.

use crate::call::Call;
use crate::core::Core;
use crate::failure::Failure;
use crate::numbers::check_database;
use crate::steps::{Order, Place, Places, StepFn, Steps};
use tollgate_resp::Reply;
use tollgate_store::Content;

const NO_SUCH_KEY: &str = "ERR no such key";
const SAME_OBJECTS: &str = "ERR source and destination objects are the same";

/// A step found nothing to do.
const NOTHING: u8 = 0;
/// A step is done.
const DONE: u8 = 1;
/// A step was refused for memory.
const NO_ROOM: u8 = 2;

/// Where a plan is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Source,
    Target,
    /// What found no room at the target goes back.
    Back,
    /// With what the last step answered.
    Over(u8),
}

/// Something is fetched at one key and put at another.
struct Move {
    source: Place,
    target: Place,
    fetch: StepFn,
    put: StepFn,
    write_reply: fn(u8, &mut Reply<'_>),
    stage: Stage,
    content: Option<Box<Content>>,
}

impl Steps for Move {
    fn cores(&self) -> Vec<u16> {
        let mut cores = vec![self.source.core, self.target.core];
        cores.dedup();
        cores
    }

    fn next(&mut self) -> Vec<Order> {
        let (place, run) = match self.stage {
            Stage::Source => (self.source, self.fetch),
            Stage::Target => (self.target, self.put),
            Stage::Back => (self.source, put_over as StepFn),
            Stage::Over(_) => return Vec::new(),
        };
        let arguments = vec![0, place.position];
        vec![Order { core: place.core, run, arguments, at: place.at, content: self.content.take() }]
    }

    fn answered(&mut self, _core: u16, fragment: &[u8], content: Option<Box<Content>>) {
        let outcome = fragment.first().copied().unwrap_or(NOTHING);
        self.stage = match self.stage {
            Stage::Source if content.is_some() => Stage::Target,
            Stage::Target if content.is_some() => Stage::Back,
            Stage::Back => Stage::Over(NO_ROOM),
            _ => Stage::Over(outcome),
        };
        self.content = content;
    }

    fn reply(&self, reply: &mut Reply<'_>) {
        if let Stage::Over(outcome) = self.stage {
            (self.write_reply)(outcome, reply);
        }
    }
}

/// RENAME key newkey.
pub fn rename(call: &Call<'_>, places: &Places) -> Result<Box<dyn Steps>, String> {
    let (source, target) = (places.of(call, 1), places.of(call, 2));
    // Renamed to itself it stays; that it exists is all that is asked.
    let is_same = call.argument(1) == call.argument(2);
    let fetch = if is_same { look } else { take };
    let write_reply = |outcome, reply: &mut Reply<'_>| match outcome {
        DONE => reply.simple("OK"),
        NO_ROOM => reply.error(&Failure::OutOfMemory.to_string()),
        _ => reply.error(NO_SUCH_KEY),
    };
    let takes_no_more = source.core == target.core && call.argument(2).len() <= call.argument(1).len();
    let put = if takes_no_more { put_over } else { put_or_return };
    Ok(Box::new(Move { source, target, fetch, put, write_reply, stage: Stage::Source, content: None }))
}

/// COPY source destination [DB 0] [REPLACE].
pub fn copy(call: &Call<'_>, places: &Places) -> Result<Box<dyn Steps>, String> {
    let mut replaces = false;
    let mut position = 3;
    while let Some(word) = call.args.get(position) {
        if word.eq_ignore_ascii_case(b"REPLACE") {
            replaces = true;
            position += 1;
        } else if word.eq_ignore_ascii_case(b"DB") && call.args.get(position + 1).is_some() {
            check_database(call.argument(position + 1))?;
            position += 2;
        } else {
            return Err("ERR syntax error".to_owned());
        }
    }
    if call.argument(1) == call.argument(2) {
        return Err(SAME_OBJECTS.to_owned());
    }
    let (source, target) = (places.of(call, 1), places.of(call, 2));
    let put = if replaces { put_copy } else { put_new };
    let write_reply = |outcome, reply: &mut Reply<'_>| match outcome {
        DONE => reply.integer(1),
        NO_ROOM => reply.error(&Failure::OutOfMemory.to_string()),
        _ => reply.integer(0),
    };
    Ok(Box::new(Move { source, target, fetch: read, put, write_reply, stage: Stage::Source, content: None }))
}

type Cargo = Option<Box<Content>>;

fn look(core: &mut Core, call: &Call<'_>, _given: Cargo, fragment: &mut Vec<u8>) -> Cargo {
    let is_there = core.store.find(call.at, call.key(), call.now).is_some();
    fragment.push(if is_there { DONE } else { NOTHING });
    None
}

fn read(core: &mut Core, call: &Call<'_>, _given: Cargo, fragment: &mut Vec<u8>) -> Cargo {
    fragment.push(NOTHING);
    let id = core.store.find(call.at, call.key(), call.now)?;
    Some(Box::new(core.store.content(id)))
}

fn take(core: &mut Core, call: &Call<'_>, given: Cargo, fragment: &mut Vec<u8>) -> Cargo {
    let content = read(core, call, given, fragment)?;
    if let Some(id) = core.store.find(call.at, call.key(), call.now) {
        core.store.remove(call.at, id);
    }
    Some(content)
}

fn put_over(core: &mut Core, call: &Call<'_>, given: Cargo, fragment: &mut Vec<u8>) -> Cargo {
    put(core, call, given, Way::OVER_BOUND, fragment);
    None
}

/// Gives back what found no room.
fn put_or_return(core: &mut Core, call: &Call<'_>, given: Cargo, fragment: &mut Vec<u8>) -> Cargo {
    put(core, call, given, Way::REPLACING, fragment)
}

fn put_copy(core: &mut Core, call: &Call<'_>, given: Cargo, fragment: &mut Vec<u8>) -> Cargo {
    put(core, call, given, Way::REPLACING, fragment);
    None
}

fn put_new(core: &mut Core, call: &Call<'_>, given: Cargo, fragment: &mut Vec<u8>) -> Cargo {
    put(core, call, given, Way::NEW, fragment);
    None
}

/// How something is put under a key.
#[derive(Clone, Copy)]
struct Way {
    /// Also where the key holds something.
    replaces: bool,
    /// Also beyond the memory bound.
    force: bool,
}

impl Way {
    const NEW: Way = Way { replaces: false, force: false };
    const REPLACING: Way = Way { replaces: true, force: false };
    const OVER_BOUND: Way = Way { replaces: true, force: true };
}

/// Puts what is given, or gives back what found no room.
fn put(core: &mut Core, call: &Call<'_>, given: Cargo, way: Way, fragment: &mut Vec<u8>) -> Cargo {
    let found = core.store.find(call.at, call.key(), call.now);
    let Some(content) = given.filter(|_| found.is_none() || way.replaces) else {
        fragment.push(NOTHING);
        return None;
    };
    if let Some(moved) = &mut core.moved_here {
        moved.push(call.key().into());
    }
    match core.store.put_content(call.at, call.key(), found, &content, way.force, call.now) {
        Ok(_) => {
            fragment.push(DONE);
            None
        }
        Err(_) => {
            core.counters.oom_replies.add(1);
            fragment.push(NO_ROOM);
            Some(content)
        }
    }
}
