//! What one core of a primary tells its replicas: a copy of all it holds, and every change.
//!
//! The problem: a replica must come to hold what the primary holds while that goes on being charged, from a moment of
//! its own choosing, without a stall, without a buffer that grows, and without a change that slips between the copy and
//! the stream. The idea: some hundred times a second the core takes the keys that changed, each once, and tells all
//! links the same bytes. A link that is new walks through the store beside that, a piece right after each such flush,
//! when no change is untold: what the walk has passed is told by its changes from then on, and what it has not it will
//! still come to. A link that comes again says up to which flush it was told, and the walk takes only the slots that
//! were told later or have changed since. A copy that can no longer be told what it lacks begins anew.
//!
//! ```text
//! primary's core                             link                       replica
//!   store ──take_changes──> changes n  ────────────────────────────>  in order: put, then acknowledge n
//!         ──walk──────────> copy, after n  (a link that is new) ───>  put
//! ```
//!
//! **Invariant:** a replica that was told all up to a flush, its copy included, holds what the core held then, but for
//! what has expired.

use crate::flow::{BEAT, CHANGES, COPIED, COPY, HELLO, Has, Hello, PART_BYTES_MAX, RUN_ID_BYTES, SLOTS_ANEW};
use crate::in_step::{Admitted, InStep, LinkId};
use crate::part;
use crate::planted::{Planted, is_planted};
use crate::record::{write, write_piece};
use crate::transfer::Export;
use std::collections::BTreeMap;
use tollgate_limits::Micros;
use tollgate_store::{Holding, KeyChange, SLOTS, Store, Value, slot_of};

/// Flushes that a telling has left when it is ended rather than that their number overflows in the middle of a copy.
const NUMBERS_SPARED: u32 = 1 << 24;

/// When something is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment {
    /// By the clock that limits are decided by.
    pub timeline: Micros,
    /// By a clock that never stands still, in microseconds since whenever.
    pub clock: u64,
}

/// What a core tells, to any number of links.
#[derive(Debug)]
pub struct Outflow {
    hello: Hello,
    /// By link that is told: its walk through the store, until that is done.
    links: BTreeMap<LinkId, Option<Export>>,
    next_link: u64,
    /// The last flush.
    number: u32,
    told: SlotsTold,
    /// Which of the links count, and what they know.
    pub in_step: InStep,
}

/// The links cannot be told any more what they lack: each must begin anew.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("more has changed than can be told: the copies must be made anew")]
pub struct BeginAnew;

impl Outflow {
    /// One without links. `timeout`: microseconds after which a link that does not acknowledge is not waited for.
    pub fn new(hello: Hello, timeout: Micros) -> Outflow {
        let (links, told, in_step) = (BTreeMap::new(), SlotsTold::default(), InStep::new(timeout));
        Outflow { hello, links, next_link: 0, number: 0, told, in_step }
    }

    /// Says whose state this is, and whose it has gone on from.
    pub fn set_origin(&mut self, run_id: [u8; RUN_ID_BYTES], continues: Option<[u8; RUN_ID_BYTES]>) {
        (self.hello.run_id, self.hello.continues) = (run_id, continues);
    }

    /// Whether nobody is told anything.
    pub fn is_idle(&self) -> bool {
        self.links.is_empty()
    }

    /// A link comes; `has`: what it says it was told before. What is to be told it first is appended to `out`.
    pub fn join(&mut self, store: &mut Store, has: Option<Has>, now: Micros, out: &mut Vec<u8>) -> LinkId {
        if self.links.is_empty() {
            if self.number > u32::MAX - NUMBERS_SPARED {
                self.end_telling(store);
            }
            // What changed while nobody was told is told with a number of its own, which who left before does not have.
            self.number += 1;
            self.told.begin(store);
            store.track_changes(true);
        }
        let link = LinkId(self.next_link);
        self.next_link += 1;
        let is_of_this = |has: &Has| has.run_id == self.hello.run_id && has.telling == self.hello.telling;
        let anew = has.filter(is_of_this).and_then(|has| self.told.later_than(has.number, self.number, store));
        let hello = Hello { resumes: anew.is_some(), ..self.hello };
        self.part(out, HELLO, now, &hello.bytes());
        let walk = match anew {
            None => Export::new(store),
            Some(mut slots) => {
                if is_planted(Planted::ResumeSkipsASlot) {
                    slots.pop();
                }
                let named: Vec<u8> = slots.iter().flat_map(|slot| slot.to_le_bytes()).collect();
                self.part(out, SLOTS_ANEW, now, &named);
                Export::of_slots(slots)
            }
        };
        self.in_step.join(link, self.number);
        // A hello is not acknowledged.
        self.in_step.told(link, u64::from(hello.resumes));
        self.links.insert(link, Some(walk));
        link
    }

    /// Ends all links and what was told so far: nobody can go on from it.
    pub fn end_telling(&mut self, store: &mut Store) {
        store.track_changes(false);
        self.links.clear();
        self.number = 0;
        self.hello.telling += 1;
        self.told = SlotsTold::default();
        self.in_step.renumber();
    }

    /// A link has gone, be it by a word of its replica or of anything in between. It is waited for until what it was
    /// promised has ended.
    pub fn leave(&mut self, store: &mut Store, link: LinkId, clock: u64) {
        self.links.remove(&link);
        self.in_step.leave(link);
        self.look(store, clock);
    }

    /// See [`InStep::look`]. With nobody left to tell or to wait for, changes are not kept any more.
    pub fn look(&mut self, store: &mut Store, clock: u64) {
        self.in_step.look(clock);
        if self.links.is_empty() && self.in_step.is_empty() && store.tracks_changes() {
            store.track_changes(false);
        }
    }

    /// Takes what changed and appends to `out` what all links are to be told; nothing if nothing changed. `admitted`:
    /// by this core since it started. Answers how many records were told.
    ///
    /// # Errors
    /// [`BeginAnew`]: every link must be ended.
    pub fn flush(
        &mut self,
        store: &mut Store,
        admitted: Admitted,
        moment: Moment,
        out: &mut Vec<u8>,
    ) -> Result<u64, BeginAnew> {
        let now = moment.timeline;
        let (mut records, mut is_cleared, mut is_any) = (Vec::new(), false, false);
        let mut slots = std::mem::take(&mut self.told.scratch);
        let taken = store.take_changes(now, &mut |change| {
            is_any = true;
            match change {
                KeyChange::Clear => is_cleared = true,
                KeyChange::Holds(key, holding) => {
                    slots.push(slot_of(key));
                    write(&mut records, key, Some(holding));
                }
                KeyChange::HoldsMore(key, policy, log, told_through) => {
                    slots.push(slot_of(key));
                    write_piece(&mut records, key, policy, log, told_through);
                }
                KeyChange::Gone(key) => {
                    slots.push(slot_of(key));
                    let recreates = is_planted(Planted::DeleteRecreates);
                    write(&mut records, key, recreates.then_some(Holding::Value(Value::Integer(0), None)));
                }
            }
        });
        let number = self.number.checked_add(u32::from(is_any)).filter(|_| records.len() <= PART_BYTES_MAX / 2);
        let (Ok(()), Some(number)) = (taken, number) else { return Err(BeginAnew) };
        self.told.tell(number, is_cleared, &slots, store);
        let count = slots.len() as u64;
        slots.clear();
        self.told.scratch = slots;
        self.number = number;
        if is_any {
            self.part_of(out, CHANGES, now, &[&[u8::from(is_cleared)], &records]);
            self.links.keys().for_each(|link| self.in_step.told(*link, 1));
        }
        self.in_step.flushed(number, admitted, moment.clock);
        Ok(count)
    }

    /// Goes on with the walk of a link, right after [`Outflow::flush`], by about `count` records. What that link alone
    /// is to be told is appended to `out`; nothing if its copy is whole.
    pub fn walk(&mut self, link: LinkId, store: &mut Store, count: usize, now: Micros, out: &mut Vec<u8>) {
        let Some(Some(mut walk)) = self.links.get_mut(&link).map(Option::take) else { return };
        let mut records = Vec::new();
        if is_planted(Planted::CopyMissesChanges) {
            walk.step(store, count, now, &mut records);
        } else {
            walk.step_and_track(store, count, now, &mut records);
        }
        if !records.is_empty() {
            self.part(out, COPY, now, &records);
            self.in_step.told(link, 1);
        }
        if walk.is_done() {
            self.part(out, COPIED, now, &[]);
            self.in_step.told(link, 1);
            // Whoever has all up to here has what changed where nobody was told of it yet.
            self.told.tell_all(self.number, store);
        } else {
            self.links.insert(link, Some(walk));
        }
    }

    /// The last flush.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// The flush that tells, or has told, all that has changed by now.
    #[inline]
    pub fn number_to_tell_all(&self, store: &Store) -> u32 {
        self.number.saturating_add(u32::from(store.has_untaken_changes()))
    }

    /// Whether the walk of a link is still under way.
    pub fn is_walking(&self, link: LinkId) -> bool {
        self.links.get(&link).is_some_and(Option::is_some)
    }

    /// Appends a sign of life for one link, which carries the time, and says for how long the link is in step.
    pub fn beat(&mut self, link: LinkId, moment: Moment, out: &mut Vec<u8>) {
        let promised = self.in_step.promise(link, moment.clock);
        self.in_step.told(link, 1);
        self.in_step.probe(link, moment.clock);
        self.part(out, BEAT, moment.timeline, &promised.to_le_bytes());
    }

    /// A link has put all up to a flush; `is_copied`: and its copy is whole.
    pub fn acknowledged(&mut self, link: LinkId, number: u32, is_copied: bool, clock: u64) {
        let Some(walk) = self.links.get(&link) else { return };
        self.in_step.acknowledged(link, number, is_copied && walk.is_none(), clock);
    }

    fn part(&self, out: &mut Vec<u8>, kind: u8, now: Micros, body: &[u8]) {
        self.part_of(out, kind, now, &[body]);
    }

    fn part_of(&self, out: &mut Vec<u8>, kind: u8, now: Micros, body: &[&[u8]]) {
        let time = now.to_le_bytes();
        let pieces: Vec<&[u8]> = std::iter::once(&time[..]).chain(body.iter().copied()).collect();
        // All parts are bounded far below the 4 GiB that this refuses.
        let _ = part::write(out, kind, self.number, &pieces);
    }
}

/// By slot: the last flush that told a change of it, and its version then. A slot that has another version now has
/// changed since, told or not.
#[derive(Debug, Default)]
struct SlotsTold {
    slots: Vec<(u32, u64)>,
    /// Slots of the records of a flush.
    scratch: Vec<u16>,
}

impl SlotsTold {
    /// From here on all that changes is told.
    fn begin(&mut self, store: &Store) {
        if self.slots.is_empty() {
            self.slots = (0..SLOTS).map(|slot| (0, store.slot_version(slot))).collect();
        }
    }

    fn tell(&mut self, number: u32, is_cleared: bool, slots: &[u16], store: &Store) {
        if is_cleared {
            self.tell_all(number, store);
        }
        for slot in slots {
            if let Some(told) = self.slots.get_mut(usize::from(*slot)) {
                *told = (number, store.slot_version(*slot));
            }
        }
    }

    /// What has another version than it was told with is told up to `number`.
    fn tell_all(&mut self, number: u32, store: &Store) {
        for (slot, told) in (0..SLOTS).zip(&mut self.slots) {
            let version = store.slot_version(slot);
            if told.1 != version {
                *told = (number, version);
            }
        }
    }

    /// Slots of the store that have changed since a flush. `None`: there was no such flush.
    fn later_than(&self, number: u32, last: u32, store: &Store) -> Option<Vec<u16>> {
        let differs = |slot: &u16| {
            let told = self.slots.get(usize::from(*slot));
            let is_other =
                |version: u64| version != store.slot_version(*slot) && !is_planted(Planted::DropsTheSlotVersion);
            told.is_none_or(|(flush, version)| *flush > number || is_other(*version))
        };
        (number <= last && !self.slots.is_empty()).then(|| store.owned_slots().filter(differs).collect())
    }
}
