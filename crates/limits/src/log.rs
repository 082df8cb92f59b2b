//! LOG: the exact sliding window, with a time for every charge.
//!
//! The problem: an exact window must know when each unit came, and adding up what still counts on every call would
//! cost the whole list. The idea: keep with each time the running total up to and including it. What counts is then
//! the difference of two totals, and when a call will fit, or when a refund's last entry leaves, is a binary search.
//!
//! ```text
//!   dropped    entries (time, total)                         units in (now-w, now] = 17 - 9 = 8
//!      4       (10, 6)  (12, 9) | (15, 14)  (18, 17)
//!                               ^ now - w
//! ```
//!
//! Totals wrap around: only differences are read, and those are what one window holds.

use std::collections::VecDeque;

use crate::ask::{Call, Change, Outcome, Retry, Under, Verdict, ms_until};
use crate::{Micros, Window};

/// Capacity, in entries, below which memory is not given back: it would only be asked for again.
const CAPACITY_KEPT: usize = 16;

/// What each entry weighs on the heap, in bytes.
const ENTRY_BYTES: usize = size_of::<Entry>();

#[derive(Clone, Copy, Debug)]
struct Entry {
    at: Micros,
    /// All units up to and including this entry, wrapping.
    total: u64,
}

/// A LOG's state: times in rising order, each with its units.
#[derive(Clone, Debug, Default)]
pub struct Log {
    entries: VecDeque<Entry>,
    /// The total before the first entry, wrapping.
    dropped_total: u64,
    /// Entries up to this time are gone for good.
    dropped_through: Micros,
}

/// What to do to a [`Log`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogChange {
    /// A charge.
    Append {
        /// When it came.
        at: Micros,
        /// How much, at least 1.
        units: u64,
        /// Entries up to and including this time go first, and none comes back.
        drop_through: Micros,
    },
    /// Units given back, newest first.
    Refund {
        /// How much, at most what is there.
        units: u64,
        /// Entries up to and including this time go first, and none comes back.
        drop_through: Micros,
    },
    /// One charge undone, from the entry where it lies.
    TakeOff {
        /// When the charge was made.
        at: Micros,
        /// How much of it.
        units: u64,
        /// Entries up to and including this time go first, and none comes back.
        drop_through: Micros,
    },
}

impl Log {
    /// The log of these times and units, from which all up to `dropped_through` are gone. `None` if no charges lead to
    /// it: times must rise from there on, each with a unit at least, and all units together be fewer than 2^64.
    pub fn of(dropped_through: Micros, charges: &[(Micros, u64)]) -> Option<Log> {
        let mut log = Log { entries: VecDeque::with_capacity(charges.len()), dropped_total: 0, dropped_through };
        let (mut last_at, mut total) = (dropped_through, 0u64);
        for (at, units) in charges {
            if *units == 0 || *at <= last_at {
                return None;
            }
            total = total.checked_add(*units)?;
            log.entries.push_back(Entry { at: *at, total });
            last_at = *at;
        }
        Some(log)
    }

    /// Carries out what a decision asked for. Never fails: what is not there cannot be taken off. Answers up to which
    /// time those entries that were not dropped are as they were, which is at most [`Log::settled_through`].
    pub fn apply(&mut self, change: LogChange) -> Micros {
        let mut kept_through = Micros::MAX;
        match change {
            LogChange::Append { at, units, drop_through } => {
                self.drop_through(drop_through);
                self.append(at, units);
            }
            LogChange::Refund { units, drop_through } => {
                self.drop_through(drop_through);
                self.take_newest(units);
            }
            LogChange::TakeOff { at, units, drop_through } => {
                self.drop_through(drop_through);
                self.take_at(at, units);
                kept_through = at.saturating_sub(1);
            }
        }
        self.give_memory_back();
        kept_through.min(self.settled_through())
    }

    /// Entries up to this time are touched by no charge any more: all but the newest, which charges of its moment
    /// join. 0: none is.
    #[inline]
    pub fn settled_through(&self) -> Micros {
        self.entries.back().map_or(0, |newest| newest.at.saturating_sub(1))
    }

    /// Makes this log, which was as another one, as that other one is now, from the entries that it has after
    /// `through`, up to which the two are the same but for what the other has dropped. Done twice it is as done once.
    ///
    /// False, and nothing done, if `later` has an entry that is not after `through`, or if all units together were
    /// 2^64.
    pub fn replace_after(&mut self, through: Micros, later: &Log) -> bool {
        if later.entries.front().is_some_and(|oldest| oldest.at <= through) {
            return false;
        }
        let kept = self.units_after(later.dropped_through).saturating_sub(self.units_after(through));
        if kept.checked_add(later.total().wrapping_sub(later.dropped_total)).is_none() {
            return false;
        }
        self.drop_through(later.dropped_through);
        self.entries.truncate(self.entries.partition_point(|entry| entry.at <= through));
        for (at, units) in later.entries() {
            self.append(at, units);
        }
        self.give_memory_back();
        true
    }

    /// Bytes that the log holds on the heap.
    pub fn heap_bytes(&self) -> usize {
        self.entries.capacity().saturating_mul(ENTRY_BYTES)
    }

    /// Units in the window that ends at `now`: those that came after `now - window`.
    pub fn units_at(&self, now: Micros, window: Window) -> u64 {
        self.units_after(now.saturating_sub(window.micros()))
    }

    /// Times and units in rising order of time, those included that no longer count.
    pub fn entries(&self) -> impl Iterator<Item = (Micros, u64)> + '_ {
        self.entries_from(0)
    }

    /// As [`Log::entries`], of those later than `through`.
    pub fn entries_after(&self, through: Micros) -> impl ExactSizeIterator<Item = (Micros, u64)> + '_ {
        self.entries_from(self.entries.partition_point(|entry| entry.at <= through))
    }

    /// The number of entries, those included that no longer count.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there is no entry at all.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Entries up to this time are gone for good.
    pub fn dropped_through(&self) -> Micros {
        self.dropped_through
    }

    /// When the newest entry leaves the window, `u64::MAX` if beyond; 0 if there is none.
    #[inline]
    pub(crate) fn expires_at(&self, window: Window) -> Micros {
        self.entries.back().map_or(0, |newest| newest.at.saturating_add(window.micros()))
    }

    /// Units of the entry of exactly this time.
    pub(crate) fn units_of(&self, at: Micros) -> u64 {
        let position = self.entries.partition_point(|entry| entry.at < at);
        match self.entries.get(position) {
            Some(entry) if entry.at == at => entry.total.wrapping_sub(self.total_before(position)),
            _ => 0,
        }
    }

    /// Units of the entries later than `through`.
    pub(crate) fn units_after(&self, through: Micros) -> u64 {
        let position = match self.entries.front() {
            // Most logs are trimmed by each charge: then nothing has to be searched.
            Some(oldest) if oldest.at > through => 0,
            _ => self.entries.partition_point(|entry| entry.at <= through),
        };
        self.total().wrapping_sub(self.total_before(position))
    }

    fn entries_from(&self, position: usize) -> impl ExactSizeIterator<Item = (Micros, u64)> + '_ {
        let mut before = self.total_before(position);
        self.entries.range(position..).map(move |entry| {
            let units = entry.total.wrapping_sub(before);
            before = entry.total;
            (entry.at, units)
        })
    }

    /// The time of the first entry, seen from the oldest, after which at most `units` follow.
    fn followed_by_at_most(&self, units: u64) -> Option<Micros> {
        let total = self.total();
        let position = self.entries.partition_point(|entry| total.wrapping_sub(entry.total) > units);
        self.entries.get(position).map(|entry| entry.at)
    }

    fn total(&self) -> u64 {
        self.entries.back().map_or(self.dropped_total, |newest| newest.total)
    }

    fn total_before(&self, position: usize) -> u64 {
        let before = position.checked_sub(1).and_then(|before| self.entries.get(before));
        before.map_or(self.dropped_total, |entry| entry.total)
    }

    fn drop_through(&mut self, through: Micros) {
        self.dropped_through = self.dropped_through.max(through);
        if self.entries.front().is_none_or(|oldest| oldest.at > through) {
            return;
        }
        let position = self.entries.partition_point(|entry| entry.at <= through);
        self.dropped_total = self.total_before(position);
        self.entries.drain(..position);
    }

    fn append(&mut self, at: Micros, units: u64) {
        if units == 0 {
            return;
        }
        // A charge that is older than the newest one (which only another timeline can bring about) counts as if it
        // came with the newest: over-stated, and the order holds. So does one from before the drop point.
        let newest_at = self.entries.back().map_or(0, |newest| newest.at);
        let ordered_at = at.max(newest_at).max(self.dropped_through.saturating_add(1));
        // Totals may wrap, what is held may not: nothing near this is ever admitted.
        let held = self.total().wrapping_sub(self.dropped_total);
        let total = self.total().wrapping_add(units.min(u64::MAX - held));
        match self.entries.back_mut() {
            Some(newest) if newest.at == ordered_at => newest.total = total,
            _ => self.entries.push_back(Entry { at: ordered_at, total }),
        }
    }

    fn take_newest(&mut self, units: u64) {
        let mut left = units;
        while let Some(newest) = self.entries.back().copied() {
            let before = self.total_before(self.entries.len() - 1);
            let held = newest.total.wrapping_sub(before);
            if held > left {
                if let Some(entry) = self.entries.back_mut() {
                    entry.total = newest.total.wrapping_sub(left);
                }
                return;
            }
            left -= held;
            self.entries.pop_back();
        }
    }

    fn take_at(&mut self, at: Micros, units: u64) {
        let position = self.entries.partition_point(|entry| entry.at < at);
        let held = self.units_of(at);
        let taken = units.min(held);
        if taken == 0 {
            return;
        }
        // An undo follows its charge closely, so few entries are later than it.
        for entry in self.entries.range_mut(position..) {
            entry.total = entry.total.wrapping_sub(taken);
        }
        if taken == held {
            self.entries.remove(position);
        }
    }

    /// Halves of memory go back once three quarters are unused, so each entry pays for a bounded number of moves.
    fn give_memory_back(&mut self) {
        let capacity = self.entries.capacity();
        if capacity > CAPACITY_KEPT && self.entries.len() < capacity / 4 {
            self.entries.shrink_to((self.entries.len() * 2).max(CAPACITY_KEPT));
        }
    }
}

/// Two logs are equal if they hold the same units at the same times: where their totals began does not matter.
impl PartialEq for Log {
    fn eq(&self, other: &Log) -> bool {
        self.dropped_through == other.dropped_through && self.entries().eq(other.entries())
    }
}

impl Eq for Log {}

/// Decides one call on `stored` (its window and state), as asked under `window`.
pub(crate) fn decide(stored: Option<(Window, &Log)>, window: Window, call: Call, now: Micros) -> Outcome {
    let Some((kept, log)) = stored else {
        return decide_on(&Log::default(), window, window, call, now);
    };
    decide_on(log, kept, window, call, now)
}

fn decide_on(log: &Log, kept: Window, window: Window, call: Call, instant: Micros) -> Outcome {
    // Time 0 is taken as 1, so that "through 0" can stand for "nothing has left the window yet".
    let now = instant.max(1);
    let through = now.saturating_sub(kept.micros());
    let used = log.units_after(through);
    let reset_ms = ms_until(log.expires_at(kept), now);
    match call.judge(used) {
        Verdict::Free(allowed) => call.keep(allowed, used, 0, reset_ms),
        Verdict::Peek => call.keep(1, used, 0, reset_ms),
        Verdict::Deny(wanted) => call.refusal(wanted, used, reset_ms, || {
            // The call fits as soon as the entry has left after which no more than its room follows.
            let last_in_the_way = log.followed_by_at_most(call.limit - wanted).unwrap_or(now);
            ms_until(last_in_the_way.saturating_add(kept.micros()), now)
        }),
        Verdict::Take(units) => {
            // Under another window only what lies in both is kept: what has left the old one never comes back.
            let drop_through = through.max(now.saturating_sub(window.micros()));
            let counted = log.units_after(drop_through) + units;
            let newest = log.entries.back().map_or(now, |entry| entry.at.max(now));
            let reset_ms = ms_until(newest.saturating_add(window.micros()), now);
            let decision = call.answer(call.allowed(units), counted, Retry::After(0), reset_ms);
            Outcome { decision, change: Change::Log(Under::Asked, LogChange::Append { at: now, units, drop_through }) }
        }
        Verdict::GiveBack(units) => give_back(log, kept, call, units, used, now),
    }
}

fn give_back(log: &Log, kept: Window, call: Call, units: u64, used: u64, now: Micros) -> Outcome {
    let given = units.min(used);
    if given == used {
        let change = if given == 0 { Change::Keep } else { Change::Remove };
        return Outcome { change, ..call.keep(given, 0, 0, 0) };
    }
    let newest_left = log.followed_by_at_most(given).unwrap_or(now);
    let reset_ms = ms_until(newest_left.saturating_add(kept.micros()), now);
    let drop_through = now.saturating_sub(kept.micros());
    let change = Change::Log(Under::Stored, LogChange::Refund { units: given, drop_through });
    Outcome { change, ..call.keep(given, used - given, 0, reset_ms) }
}
