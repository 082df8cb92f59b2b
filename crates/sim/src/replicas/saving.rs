//! Snapshots, as the server's `saving` and `loading` do them: each core walks through its keys while it serves.

use super::check::Fact;
use super::machine::{Process, RunId};
use super::wire::Place;
use super::world::{Event, World};
use std::io::Cursor;
use tollgate_limits::Micros;
use tollgate_replication::snapshot::{Part, Reader, Stamp, Writer, stamp_of};
use tollgate_replication::{Export, import};

/// Records of a step.
const STEP_RECORDS: usize = 2;
/// Bytes of a part, from which on it is handed on.
const PART_BYTES: usize = 200;
/// The longest pause between two steps of a core, in microseconds.
const STEP_MICROS_MAX: u64 = 3_000;
/// Snapshots that a machine keeps.
const KEPT: usize = 3;
/// Where the head of a part says how long its body is.
const LENGTH_AT: usize = 5;
/// Bytes of a part besides its body.
const FRAME_BYTES: usize = 13;
/// Bytes before the first part.
const BEGIN_BYTES: usize = 9;

/// A snapshot as it was written, and what is known about it.
#[derive(Clone, Debug)]
pub struct File {
    /// The bytes.
    pub bytes: Vec<u8>,
    /// The process that wrote it.
    pub run: RunId,
    /// What had happened when it was begun: it holds at least that.
    pub begun: u64,
    /// All records that were written into it, in order.
    pub records: Vec<u8>,
}

/// What a machine keeps when its process dies: the newest last.
#[derive(Debug, Default)]
pub struct Disk {
    files: Vec<File>,
}

impl Disk {
    /// Snapshots that are there.
    pub fn len(&self) -> usize {
        self.files.len()
    }

    /// The one that was written so many before the last.
    pub fn file(&self, before_last: usize) -> Option<&File> {
        self.files.iter().rev().nth(before_last)
    }

    fn keep(&mut self, file: File) {
        self.files.push(file);
        if self.files.len() > KEPT {
            self.files.remove(0);
        }
    }
}

/// A snapshot that is being written.
#[derive(Debug)]
pub struct Save {
    number: u64,
    begun: u64,
    writer: Writer<Vec<u8>>,
    records: Vec<u8>,
    cores: Vec<Walk>,
}

#[derive(Debug)]
struct Walk {
    walk: Export,
    part: Vec<u8>,
    count: u64,
    is_done: bool,
}

impl World {
    /// A process begins to write a snapshot, if it writes none.
    pub(super) fn save(&mut self, place: Place) {
        let (number, happened) = (self.next_save, self.happened());
        self.next_save += 1;
        let Some(process) = self.process_of(place).filter(|process| process.save.is_none()) else { return };
        // While a copy is under way there are records of two processes, each with its own time. (The server writes one
        // all the same.)
        if process.following.as_ref().is_some_and(|following| following.is_fed() && !following.is_whole()) {
            return;
        }
        // What a replica holds is what its primary has told it so far.
        let begun = if process.is_replica() { 0 } else { happened };
        let Ok(writer) = Writer::new(Vec::new()) else { return };
        let walk = |core: &tollgate_engine::core::Core| Walk {
            walk: Export::new(&core.store),
            part: Vec::new(),
            count: 0,
            is_done: false,
        };
        let cores: Vec<Walk> = process.cores.iter().map(walk).collect();
        let count = cores.len();
        process.save = Some(Save { number, begun, writer, records: Vec::new(), cores });
        for core in 0..count {
            self.schedule_step(place, core, number);
        }
    }

    fn schedule_step(&mut self, place: Place, core: usize, number: u64) {
        let at = self.now + self.random.between(1, STEP_MICROS_MAX);
        self.schedule(at, Event::Save { place, core, number });
    }

    /// A core goes on with its walk.
    pub(super) fn save_step(&mut self, place: Place, core: usize, number: u64) {
        let now = self.time(place.node);
        let wall = self.machines.get(place.node).map_or(0, |machine| machine.wall(self.now));
        let Some(process) = self.process_of(place) else { return };
        let (Some(save), Some(engine)) = (&mut process.save, process.cores.get_mut(core)) else { return };
        let Some(walk) = save.cores.get_mut(core).filter(|_| save.number == number) else { return };
        walk.count += walk.walk.step(&mut engine.store, STEP_RECORDS, now, &mut walk.part);
        walk.is_done = walk.walk.is_done();
        if (walk.is_done && walk.count > 0) || walk.part.len() >= PART_BYTES {
            let (part, count) = (std::mem::take(&mut walk.part), std::mem::take(&mut walk.count));
            save.records.extend_from_slice(&part);
            assert!(save.writer.records(&part, count).is_ok(), "memory takes what is written");
        }
        if !walk.is_done {
            return self.schedule_step(place, core, number);
        }
        if save.cores.iter().all(|walk| walk.is_done)
            && let Some(save) = process.save.take()
        {
            let file = finish(save, place.run, Stamp { timeline: now, wall });
            if let Some(machine) = self.machines.get_mut(place.node) {
                machine.disk.keep(file);
            }
        }
    }

    /// Writes all that a process holds, at once, as at its end.
    pub(super) fn save_at_once(&mut self, place: Place) {
        if let Some(process) = self.process_of(place) {
            process.save = None;
        }
        self.save(place);
        let cores = self.process_of(place).map_or(0, |process| process.cores.len());
        let number = self.next_save - 1;
        for core in 0..cores {
            while self
                .process_of(place)
                .and_then(|process| process.save.as_ref())
                .is_some_and(|save| save.number == number && save.cores.get(core).is_some_and(|walk| !walk.is_done))
            {
                self.save_step(place, core, number);
            }
        }
    }

    /// A process starts on a machine with this file, or with none. Answers whether the file was taken.
    pub(super) fn start(&mut self, node: usize, file: Option<&File>) -> bool {
        let run = self.next_run;
        self.next_run += 1;
        let Some(machine) = self.machines.get_mut(node) else { return false };
        let (wall, steady) = (machine.wall(self.now), machine.steady(self.now));
        let stamp = match file.map(|file| stamp_of(&mut Cursor::new(&file.bytes))) {
            None => None,
            Some(Ok(stamp)) => Some(stamp),
            Some(Err(_)) => return false,
        };
        let mut process = Process::new(run, &self.plan, wall, steady, stamp, &mut self.random);
        let now = process.timeline.now(steady);
        if let Some(file) = file
            && !load(&mut process, &file.bytes, now)
        {
            return false;
        }
        machine.process = Some(process);
        self.note(Fact::Started { node, run, from: file.map(|file| (file.run, file.begun)) });
        if let Some(file) = file {
            let held = self.held_of(node, 0, 1);
            self.note(Fact::Loaded { node, now, records: file.records.clone(), held });
        }
        self.begin_ticks(Place { node, run });
        true
    }
}

fn finish(save: Save, run: RunId, stamp: Stamp) -> File {
    let Save { begun, writer, records, .. } = save;
    // Memory takes whatever is written.
    let bytes = writer.end(stamp).unwrap_or_default();
    File { bytes, run, begun, records }
}

/// Each core reads the whole file and takes what is its own. Answers whether all of it is right.
fn load(process: &mut Process, bytes: &[u8], now: Micros) -> bool {
    for core in &mut process.cores {
        let Ok(mut reader) = Reader::new(bytes) else { return false };
        let mut body = Vec::new();
        loop {
            match reader.next(&mut body) {
                Ok(Part::Records(count)) => {
                    if import(&body, &mut core.store, now) != Ok(count) {
                        return false;
                    }
                }
                Ok(Part::End(_)) => break,
                Err(_) => return false,
            }
        }
        core.publish();
    }
    true
}

/// Where the parts of a snapshot end, the last one left out.
pub fn boundaries(bytes: &[u8]) -> Vec<usize> {
    let (mut at, mut ends) = (BEGIN_BYTES, vec![BEGIN_BYTES]);
    while let Some((length, _)) = bytes.get(at + LENGTH_AT..).and_then(|rest| rest.split_first_chunk::<4>()) {
        at += FRAME_BYTES + usize::try_from(u32::from_le_bytes(*length)).unwrap_or(usize::MAX / 2);
        ends.push(at);
    }
    ends.pop();
    ends
}
