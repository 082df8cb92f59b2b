//! Walks over the keys: SCAN, KEYS, and the count of a slot.
//!
//! The problem: SCAN keeps nothing between its calls but a number, while keys come, go and tables split. The idea: the
//! number is the slot and the position of the walk in the slot's index, whose order splits do not disturb.

use crate::index::{Index, WALK_BITS, WALK_END};
use crate::slot::SLOTS;
use crate::slots::RUN;
use crate::store::{RecordId, Store};
use std::ops::ControlFlow;
use tollgate_limits::Micros;

/// The slot that a cursor points into. `None` for a number that no cursor has.
pub fn cursor_slot(cursor: u32) -> Option<u16> {
    u16::try_from(cursor >> WALK_BITS).ok().filter(|slot| *slot < SLOTS)
}

/// The cursor of a slot's first position. For slot 0 it is 0, which begins a scan and never goes on with one.
pub fn slot_cursor(slot: u16) -> u32 {
    u32::from(slot % SLOTS) << WALK_BITS
}

impl Store {
    /// Whether this core owns the slot.
    pub fn owns(&self, slot: u16) -> bool {
        slot < SLOTS && usize::from(slot) / RUN % usize::from(self.cores) == usize::from(self.core)
    }

    /// Where a scan of this core's keys begins. `None` if there are more cores than runs of slots.
    pub fn first_cursor(&self) -> Option<u32> {
        self.next_owned(0).map(slot_cursor)
    }

    /// Visits the keys from `cursor` on, whole tables at a time, until it has met at least `count`; expired ones are
    /// passed over. Returns where to go on, never 0; `None` when this core's slots are finished. A cursor in a slot of
    /// another core goes on with the next one of this core.
    ///
    /// A key that is there from a scan's begin to its end is visited at least once.
    pub fn scan(&self, cursor: u32, count: usize, now: Micros, visit: &mut dyn FnMut(RecordId, &[u8])) -> Option<u32> {
        let mut met = 0;
        let asked = cursor_slot(cursor)?;
        let mut slot = self.next_owned(asked)?;
        let mut position = if slot == asked { cursor & (WALK_END - 1) } else { 0 };
        loop {
            let index = self.slots.get(slot).map(|slot| &slot.index).filter(|index| index.len() > 0);
            if let Some(index) = index {
                position = self.scan_slot(index, position, count, now, &mut met, visit);
            } else {
                position = WALK_END;
            }
            if position < WALK_END {
                return Some(slot_cursor(slot) | position);
            }
            slot = self.next_owned(slot.checked_add(1)?)?;
            position = 0;
            if met >= count {
                return Some(slot_cursor(slot));
            }
        }
    }

    /// As [`Store::scan`], but not beyond the slot that `cursor` points into: `None` when that is finished. Adds what
    /// it has met to `met`, until that is `count`.
    pub fn scan_in_slot(
        &self,
        cursor: u32,
        (met, count): (&mut usize, usize),
        now: Micros,
        visit: &mut dyn FnMut(RecordId, &[u8]),
    ) -> Option<u32> {
        let slot = cursor_slot(cursor)?;
        let index = self.slots.get(slot).map(|slot| &slot.index).filter(|index| index.len() > 0)?;
        let position = self.scan_slot(index, cursor & (WALK_END - 1), count, now, met, visit);
        (position < WALK_END).then(|| slot_cursor(slot) | position)
    }

    /// The slots of this core, in rising order.
    pub fn owned_slots(&self) -> impl Iterator<Item = u16> + '_ {
        (0..SLOTS).filter(|slot| self.owns(*slot))
    }

    /// Visits one slot's tables until `count` keys were met. Returns the position to go on at.
    fn scan_slot(
        &self,
        index: &Index,
        from: u32,
        count: usize,
        now: Micros,
        met: &mut usize,
        visit: &mut dyn FnMut(RecordId, &[u8]),
    ) -> u32 {
        let mut position = from;
        while position < WALK_END {
            let (ids, next) = index.walk(position, &self.tables);
            index.walk(position, &self.tables).0.for_each(|id| self.records.prefetch(id));
            for id in ids {
                *met += 1;
                if !self.records.is_expired(id, now) {
                    visit(RecordId(id), self.records.key(id));
                }
            }
            position = next;
            if *met >= count {
                break;
            }
        }
        position
    }

    /// Visits every key that has not expired, until `visit` breaks (KEYS).
    pub fn for_each(&self, now: Micros, visit: &mut dyn FnMut(RecordId, &[u8]) -> ControlFlow<()>) -> ControlFlow<()> {
        for slot in self.slots.iter() {
            for id in slot.index.iter(&self.tables).filter(|id| !self.records.is_expired(*id, now)) {
                visit(RecordId(id), self.records.key(id))?;
            }
        }
        ControlFlow::Continue(())
    }

    /// Visits every key of one slot that has not expired, until `visit` breaks.
    pub fn for_each_in_slot(
        &self,
        slot: u16,
        now: Micros,
        visit: &mut dyn FnMut(RecordId, &[u8]) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        let Some(slot) = self.slots.get(slot) else { return ControlFlow::Continue(()) };
        for id in slot.index.iter(&self.tables).filter(|id| !self.records.is_expired(*id, now)) {
            visit(RecordId(id), self.records.key(id))?;
        }
        ControlFlow::Continue(())
    }

    /// Keys of a slot that have not expired, exactly: it looks at each.
    pub fn slot_len(&self, slot: u16, now: Micros) -> u64 {
        let Some(slot) = self.slots.get(slot) else { return 0 };
        slot.index.iter(&self.tables).filter(|id| !self.records.is_expired(*id, now)).count() as u64
    }

    /// The first slot of this core that is not below `slot`.
    fn next_owned(&self, slot: u16) -> Option<u16> {
        if self.owns(slot) {
            return Some(slot);
        }
        let run = usize::from(slot) / RUN;
        let cores = usize::from(self.cores);
        let ahead = (usize::from(self.core) + cores - run % cores) % cores;
        let run = if ahead == 0 { run + cores } else { run + ahead };
        u16::try_from(run * RUN).ok().filter(|slot| self.owns(*slot))
    }
}
