//! The time that limits are decided by: what a machine's steady clock says, and an offset.
//!
//! The problem: a replica decides nothing while it follows, and everything once it is a primary, on states whose times
//! are another machine's. The idea: it keeps how far that one's time is from its own steady clock, and goes on from
//! there, whatever its own wall clock says. A process that starts goes on from the time of what it has loaded.
//!
//! **Invariants:** but for the begin of a copy, which replaces all states, time never goes back. No clock is read here:
//! `steady` is given, in microseconds since some moment, and never less than before.

#[cfg(feature = "planted-faults")]
use crate::planted::{Planted, is_planted};
use crate::snapshot::Stamp;
use std::sync::atomic::{AtomicU64, Ordering};
use tollgate_limits::Micros;

/// The time of a process. Any thread may read it and move it.
#[derive(Debug)]
pub struct Timeline {
    /// The time minus the steady clock.
    offset_micros: AtomicU64,
    /// What the time is at least, if it is wrongly held there.
    #[cfg(feature = "planted-faults")]
    floor_micros: AtomicU64,
}

impl Timeline {
    /// Anchors the time now: at `wall`, the wall clock in microseconds since 1970, or where `last` leads to: its time
    /// plus the wall time that has passed since, never earlier than its time.
    pub fn new(wall: Micros, steady: u64, last: Option<Stamp>) -> Timeline {
        let start = last.map_or(wall, |last| last.timeline.saturating_add(wall.saturating_sub(last.wall)));
        Timeline {
            offset_micros: AtomicU64::new(start.saturating_sub(steady)),
            #[cfg(feature = "planted-faults")]
            floor_micros: AtomicU64::new(0),
        }
    }

    /// The time in microseconds since 1970.
    #[inline]
    pub fn now(&self, steady: u64) -> Micros {
        let now = steady.saturating_add(self.offset_micros.load(Ordering::Relaxed));
        #[cfg(feature = "planted-faults")]
        if is_planted(Planted::TimeFloorClamps) {
            return now.max(self.floor_micros.load(Ordering::Relaxed));
        }
        now
    }

    /// Goes on from `time`, that of a primary which is followed, as it was when this arrived: never less than it leads
    /// to. `is_new`: what is held here is replaced by what that one holds, so its time holds even if it is earlier.
    pub fn follow(&self, time: Micros, steady: u64, is_new: bool) {
        #[cfg(feature = "planted-faults")]
        if is_planted(Planted::TimeFloorClamps) {
            self.floor_micros.fetch_max(time, Ordering::Relaxed);
            return;
        }
        let offset = time.saturating_sub(steady);
        if is_new {
            self.offset_micros.store(offset, Ordering::Relaxed);
        } else {
            self.offset_micros.fetch_max(offset, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_goes_on_from_a_primary_whatever_the_own_clock_says() {
        let hour = 3_600_000_000;
        for wall in [10 * hour, 8 * hour] {
            let timeline = Timeline::new(wall, 5, None);
            assert_eq!(timeline.now(5), wall);
            timeline.follow(9 * hour, 10, true);
            assert_eq!(timeline.now(10), 9 * hour);
            // A message that took longer than another moves nothing.
            timeline.follow(9 * hour, 20, false);
            assert_eq!(timeline.now(20), 9 * hour + 10);
            timeline.follow(9 * hour + 30, 21, false);
            assert_eq!(timeline.now(22), 9 * hour + 31);
        }
    }

    #[test]
    fn it_goes_on_from_where_a_snapshot_was_written() {
        // The time and the wall clock of a snapshot, the wall clock at the start, and where the time goes on.
        for (timeline, then, wall, expected) in
            [(100, 100, 160, 160), (160, 100, 160, 220), (40, 100, 160, 100), (160, 160, 100, 160)]
        {
            let stamp = Stamp { timeline, wall: then };
            assert_eq!(Timeline::new(wall, 7, Some(stamp)).now(7), expected);
        }
    }
}
