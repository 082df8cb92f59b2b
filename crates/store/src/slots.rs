//! The headers of the 16,384 slots, made when first used.
//!
//! The problem: every call reads its slot's header, so it should be one step away and in a cache; yet an empty server
//! should not hold half a megabyte of them for each core. The idea: a header is half a cache line, so that all of them
//! fit the cache of a core beside what else it holds. A core owns slots in runs of 64, so headers are made 64 at a
//! time, and the list of the 256 runs stays in the nearest cache.

use crate::index::Index;
use crate::slot::SLOTS;

/// Slots whose headers are made together; also the run of neighbouring slots that one core owns.
pub(crate) const RUN: usize = 64;
/// All runs there are.
pub(crate) const RUNS: usize = SLOTS as usize / RUN;
/// Bytes of the headers of one run.
pub(crate) const RUN_BYTES: u64 = (RUN * size_of::<Slot>()) as u64 + 64;

const _: () = assert!(size_of::<Slot>() == 32, "two headers share a cache line");

/// Who may serve a slot's keys.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum SlotState {
    /// This core serves them.
    #[default]
    Owned,
    /// They are being handed over: nothing may change.
    Frozen,
    /// They are arriving from elsewhere.
    Importing,
}

/// One slot.
#[repr(align(32))]
pub(crate) struct Slot {
    pub index: Index,
    pub version: u64,
    pub state: SlotState,
}

impl Slot {
    fn new() -> Slot {
        Slot { index: Index::new(), version: 0, state: SlotState::Owned }
    }
}

type Run = [Slot; RUN];

/// All slots of a store.
pub(crate) struct Slots {
    runs: Box<[Option<Box<Run>>; RUNS]>,
    runs_made: u64,
}

impl Slots {
    pub fn new() -> Slots {
        Slots { runs: Box::new([const { None }; RUNS]), runs_made: 0 }
    }

    /// The header, if it was made. A number above the last slot wraps around, so that it cannot reach beyond the list.
    #[inline]
    pub fn get(&self, slot: u16) -> Option<&Slot> {
        let (run, place) = parts(slot);
        self.runs[run].as_ref().map(|run| &run[place])
    }

    /// As [`Slots::get`], to write.
    #[inline]
    pub fn get_mut(&mut self, slot: u16) -> Option<&mut Slot> {
        let (run, place) = parts(slot);
        self.runs[run].as_mut().map(|run| &mut run[place])
    }

    /// The header, made now if need be.
    #[inline]
    pub fn make(&mut self, slot: u16) -> &mut Slot {
        let (run, place) = parts(slot);
        let runs_made = &mut self.runs_made;
        let run = self.runs[run].get_or_insert_with(|| {
            *runs_made += 1;
            Box::new(std::array::from_fn(|_| Slot::new()))
        });
        &mut run[place]
    }

    /// Headers that were made.
    pub fn len(&self) -> usize {
        self.runs_made as usize * RUN
    }

    /// Every header that was made, in order, to write.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut Slot> {
        self.runs.iter_mut().flatten().flat_map(|run| run.iter_mut())
    }

    /// Every header that was made, in order.
    pub fn iter(&self) -> impl Iterator<Item = &Slot> {
        self.runs.iter().flatten().flat_map(|run| run.iter())
    }

    /// Bytes of the headers that a core which owns so many runs has still to make.
    pub fn bytes_later(&self, runs_owned: usize) -> u64 {
        (runs_owned as u64).saturating_sub(self.runs_made) * RUN_BYTES
    }

    /// Bytes of the headers.
    pub fn bytes(&self) -> u64 {
        self.runs_made * RUN_BYTES
    }
}

#[inline]
fn parts(slot: u16) -> (usize, usize) {
    (usize::from(slot) / RUN % RUNS, usize::from(slot) % RUN)
}
