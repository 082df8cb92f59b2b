//! The one clock of a process.
//!
//! The problem: the wall clock can be stepped, and a step would free or lock every key; the monotonic clock that most
//! libraries offer stands still while the machine sleeps, which keeps keys locked. The idea: CLOCK_BOOTTIME, which
//! counts suspend and never steps, anchored once to the wall clock so that windows are aligned to the calendar. Steps
//! of the wall clock are only counted.

use rustix::time::{ClockId, clock_gettime};
use std::sync::atomic::{AtomicU64, Ordering};
use tollgate_limits::Micros;
use tollgate_replication::snapshot::Stamp;
use tollgate_replication::timeline::Timeline;

/// Where the test clock begins: 2020-01-01 00:00:00 UTC.
pub const TEST_CLOCK_START_MICROS: Micros = 1_577_836_800 * SECOND_MICROS;
/// A timeline further ahead of the wall clock than this is a mistake somewhere, and would lock keys for as long.
pub const AHEAD_MICROS_MAX: u64 = 24 * 3_600 * SECOND_MICROS;
/// A difference between the two clocks that is a step, not the kernel's slewing between two looks.
const STEP_MICROS_MIN: u64 = 100_000;
const SECOND_MICROS: u64 = 1_000_000;

/// Gives the time that all decisions are made with.
#[derive(Debug)]
pub struct Clock {
    /// Boot time and an offset: to the wall clock when the process started, or to the time of a snapshot or a primary.
    timeline: Timeline,
    /// The time of a test clock; 0 if this is a real one.
    test_micros: AtomicU64,
    is_test: bool,
    seen_offset_micros: AtomicU64,
    steps: AtomicU64,
}

impl Clock {
    /// Anchors the clock now, at the wall clock, or where `last` leads to: its time plus the wall time that has passed
    /// since, never earlier than its time. A test clock stands still at [`TEST_CLOCK_START_MICROS`], or at that time if
    /// that is later.
    pub fn new(is_test: bool, last: Option<Stamp>) -> Clock {
        let (wall, boot) = (wall_micros(), boot_micros());
        Clock {
            timeline: Timeline::new(wall, boot, last),
            test_micros: AtomicU64::new(last.map_or(0, |last| last.timeline).max(TEST_CLOCK_START_MICROS)),
            is_test,
            seen_offset_micros: AtomicU64::new(wall.saturating_sub(boot)),
            steps: AtomicU64::new(0),
        }
    }

    /// The time in microseconds since the Unix epoch. Never less than an earlier answer.
    #[inline]
    pub fn now(&self) -> Micros {
        if self.is_test {
            return self.test_micros.load(Ordering::SeqCst);
        }
        self.timeline.now(boot_micros())
    }

    /// The time, and boot time, of one reading.
    #[inline]
    pub fn now_and_boot(&self) -> (Micros, u64) {
        let boot = boot_micros();
        let now = if self.is_test { self.test_micros.load(Ordering::SeqCst) } else { self.timeline.now(boot) };
        (now, boot)
    }

    /// The wall clock minus this clock, now: what steps and slewing of the wall clock came to since the start. 0 of
    /// a test clock, whose time is the only one there is.
    pub fn wall_offset_micros(&self) -> i64 {
        if self.is_test {
            return 0;
        }
        let (wall, own) = (wall_micros(), self.now());
        let size = i64::try_from(wall.abs_diff(own)).unwrap_or(i64::MAX);
        if wall >= own { size } else { -size }
    }

    /// Goes on from `time`, that of a primary which is followed, as it was when this arrived: never less than it leads
    /// to. `is_new`: what is held here is replaced by what that one holds, so its time holds even if it is earlier.
    pub fn follow(&self, time: Micros, is_new: bool) {
        if self.is_test {
            return self.set(time);
        }
        self.timeline.follow(time, boot_micros(), is_new);
    }

    /// Moves a test clock, never backwards. A real one stays as it is.
    pub fn set(&self, micros: Micros) {
        if self.is_test {
            self.test_micros.fetch_max(micros, Ordering::SeqCst);
        }
    }

    /// Looks whether the wall clock was stepped since the last look. Called at each tick of one core.
    pub fn watch_for_steps(&self) -> bool {
        let offset = wall_micros().saturating_sub(boot_micros());
        let seen = self.seen_offset_micros.swap(offset, Ordering::Relaxed);
        let stepped = offset.abs_diff(seen) >= STEP_MICROS_MIN;
        if stepped {
            self.steps.fetch_add(1, Ordering::Relaxed);
        }
        stepped
    }

    /// How many steps were seen.
    pub fn steps(&self) -> u64 {
        self.steps.load(Ordering::Relaxed)
    }
}

/// Processor time of the calling thread in microseconds: for the store's step meter, in which what else the machine
/// does is no step.
pub fn thread_micros() -> u64 {
    read(ClockId::ThreadCPUTime)
}

/// Microseconds since boot, suspend included: for deadlines of the shell.
pub fn boot_micros() -> u64 {
    read(ClockId::Boottime)
}

/// What the wall clock says, in microseconds since 1970.
pub fn wall_micros() -> u64 {
    read(ClockId::Realtime)
}

#[inline]
fn read(clock: ClockId) -> u64 {
    let time = clock_gettime(clock);
    // Both clocks stand after 1970; a machine set before that gets its epoch.
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    let nanoseconds = u64::try_from(time.tv_nsec).unwrap_or(0);
    seconds.saturating_mul(SECOND_MICROS).saturating_add(nanoseconds / 1000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_test_clock_stands_still_and_moves_forward_only() {
        let clock = Clock::new(true, None);
        assert_eq!((clock.now(), clock.now()), (TEST_CLOCK_START_MICROS, TEST_CLOCK_START_MICROS));
        clock.set(TEST_CLOCK_START_MICROS + 5);
        clock.set(TEST_CLOCK_START_MICROS + 3);
        assert_eq!(clock.now(), TEST_CLOCK_START_MICROS + 5);
    }

    #[test]
    fn a_clock_goes_on_from_where_a_snapshot_was_written() {
        let (wall, minute) = (wall_micros(), 60 * SECOND_MICROS);
        // Its time, the wall clock's then, and how far from the wall clock the time is now.
        for (timeline, wall_then, expected) in [
            (wall - minute, wall - minute, wall),
            (wall, wall - minute, wall + minute),
            (wall - 2 * minute, wall - minute, wall - minute),
            // The wall clock was set back meanwhile: time goes on from where it was.
            (wall + minute, wall + minute, wall + minute),
        ] {
            let clock = Clock::new(false, Some(Stamp { timeline, wall: wall_then }));
            assert!(clock.now() >= timeline);
            assert!(clock.now().abs_diff(expected) < 10 * SECOND_MICROS, "{timeline} {wall_then}");
        }
        let stamp = |timeline| Some(Stamp { timeline, wall: 0 });
        assert_eq!(Clock::new(true, stamp(5)).now(), TEST_CLOCK_START_MICROS);
        let later = TEST_CLOCK_START_MICROS + 5;
        assert_eq!(Clock::new(true, stamp(later)).now(), later);
    }

    #[test]
    fn a_real_clock_agrees_with_the_wall_and_cannot_be_set() {
        let clock = Clock::new(false, None);
        clock.set(u64::MAX);
        let (before, after) = (clock.now(), clock.now());
        assert!(before <= after);
        assert!(after.abs_diff(wall_micros()) < 10 * SECOND_MICROS);
        assert!(!clock.watch_for_steps());
    }
}
