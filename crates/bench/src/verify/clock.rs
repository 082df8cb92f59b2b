//! How far the server's clock is from this one, as an interval that is certain.
//!
//! One question gives one interval: the answer was made between the asking and the reading. Many questions are all true
//! of one offset, so the intervals' common part is. Asked before the run and after it, the two parts together hold
//! every offset in between, unless a clock went there and back.
//!
//! A clock that was moved during the run makes that interval so wide that no limit could be seen to be broken, or lets
//! a right server break them. Nothing can be said then, and that is said.

use super::Watch;
use crate::dialog::Dialog;
use crate::error::BenchError;
use crate::format;
use std::time::{Duration, Instant};

/// Questions of one asking. The shortest of them counts, so a few more make the interval narrower.
const QUESTIONS: usize = 32;

/// Between the two askings that show whether a clock runs. Much longer than an asking takes.
pub(crate) const TRIAL: Duration = Duration::from_millis(20);

/// What two readings may lie apart without the clock having been moved, in microseconds, and beyond that in a thousand
/// microseconds of the time between them: twice what the kernel slews a clock by.
const MOVED_MICROS_MIN: i64 = 1_000;

/// An uncertainty of a larger part of a window than one in so many lets too much through.
const SLACK_PARTS: i64 = 10;

/// The server's microseconds since 1970 minus this run's microseconds lie between `low` and `high`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ClockOffset {
    pub(crate) low: i64,
    pub(crate) high: i64,
}

/// The offset at a moment of the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ClockReading {
    pub(crate) offset: ClockOffset,
    /// The first question, in microseconds since the run began.
    pub(crate) from: i64,
    /// The last answer, likewise.
    pub(crate) until: i64,
}

impl ClockReading {
    /// Asks the server for its time; `native` is Tollgate. None if it has no such command.
    pub(crate) fn ask(dialog: &mut Dialog, native: bool, epoch: Instant) -> Result<Option<ClockReading>, BenchError> {
        let micros = || i64::try_from(epoch.elapsed().as_micros()).unwrap_or(i64::MAX);
        let from = micros();
        let offset = ClockOffset::ask(dialog, native, epoch)?;
        Ok(offset.map(|offset| ClockReading { offset, from, until: micros() }))
    }

    /// Whether the clock has run on to a later reading, at least half as fast as this one's.
    pub(crate) fn runs_until(self, later: ClockReading) -> bool {
        // What is certain: an asking may itself take long, and a clock that stands still makes its offset uncertain.
        let elapsed = later.from.saturating_sub(self.until);
        later.offset.high >= self.offset.low.saturating_sub(elapsed / 2)
    }

    /// By how many microseconds the clock was moved before a later reading, backwards if negative; 0 if it was not.
    fn moved_until(self, later: ClockReading) -> i64 {
        let elapsed = later.until.saturating_sub(self.from);
        let forwards = later.offset.low.saturating_sub(self.offset.high).max(0);
        let backwards = self.offset.low.saturating_sub(later.offset.high).max(0);
        let moved = forwards.saturating_sub(backwards);
        if moved.saturating_abs() > MOVED_MICROS_MIN.saturating_add(elapsed / 1_000) { moved } else { 0 }
    }
}

/// Every offset of a run, from the readings before and after it, and why the limits could not be checked, if so.
pub(super) fn put_together(
    watch: &Watch,
    before: Option<ClockReading>,
    after: Option<ClockReading>,
) -> (ClockOffset, Option<String>) {
    let words = |micros: i64| format::micros(micros.saturating_abs() as f64);
    // Another server's clock is another: that it differs says nothing. How far is in the common offset.
    let askings = before.zip(after).filter(|_| !watch.fails_over);
    let moved = askings.map_or(0, |(before, after)| before.moved_until(after));
    let mut doubt = (moved != 0).then(|| {
        let direction = if moved > 0 { "forwards" } else { "backwards" };
        format!("the server's clock was moved {direction} by {} during the run", words(moved))
    });
    let Some(window) = watch.narrowest_window() else { return (ClockOffset::NONE, doubt) };
    let Some(before) = before else { return (ClockOffset::NONE, Some("the server has no clock to ask".to_owned())) };
    let offset = before.offset.hull(after.unwrap_or(before).offset);
    let slack = offset.slack_micros();
    if after.is_none() {
        doubt = Some("the server could not be asked for its time after the run".to_owned());
    } else if doubt.is_none() && slack > window / SLACK_PARTS {
        doubt = Some(format!(
            "the server's clock is known to within {} only, which is much for a window of {}",
            words(slack),
            words(window)
        ));
    }
    (offset, doubt)
}

impl ClockOffset {
    /// Of a server whose clock does not matter: times are this run's own.
    pub(crate) const NONE: ClockOffset = ClockOffset { low: 0, high: 0 };

    /// Asks the server for its time; `native` is Tollgate. None if it has no such command.
    pub(crate) fn ask(dialog: &mut Dialog, native: bool, epoch: Instant) -> Result<Option<ClockOffset>, BenchError> {
        let micros = || i64::try_from(epoch.elapsed().as_micros()).unwrap_or(i64::MAX);
        let mut answers = Vec::with_capacity(QUESTIONS);
        for _ in 0..QUESTIONS {
            let before = micros();
            let Some(time) = dialog.time_micros(native)? else { return Ok(None) };
            let after = micros().saturating_add(1);
            let time = i64::try_from(time).unwrap_or(i64::MAX);
            let low = time.saturating_sub(after);
            let high = time.saturating_add(1).saturating_sub(before);
            answers.push(ClockOffset { low, high });
        }
        Ok(ClockOffset::common(&answers))
    }

    /// Both of two askings.
    pub(crate) fn hull(self, other: ClockOffset) -> ClockOffset {
        ClockOffset { low: self.low.min(other.low), high: self.high.max(other.high) }
    }

    /// What is uncertain, in microseconds.
    pub(crate) fn slack_micros(self) -> i64 {
        self.high.saturating_sub(self.low)
    }

    /// What all agree on; where a clock moved between two answers they do not, and then anything that one of them says.
    fn common(answers: &[ClockOffset]) -> Option<ClockOffset> {
        let low = answers.iter().map(|one| one.low).max()?;
        let high = answers.iter().map(|one| one.high).min()?;
        if low <= high {
            return Some(ClockOffset { low, high });
        }
        answers.iter().copied().reduce(ClockOffset::hull)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys::KeyNames;
    use crate::workload::Form;
    use tollgate_limits::{Policy, Rate, Window};

    #[test]
    fn answers_are_put_together() {
        let offset = |low, high| ClockOffset { low, high };
        let cases = [
            (vec![offset(1, 9), offset(5, 20)], offset(5, 9)),
            (vec![offset(1, 4), offset(5, 20)], offset(1, 20)),
            (vec![offset(-7, -3)], offset(-7, -3)),
        ];
        for (answers, expected) in cases {
            assert_eq!(ClockOffset::common(&answers), Some(expected), "{answers:?}");
        }
        assert_eq!(offset(1, 4).hull(offset(5, 20)).slack_micros(), 19);
    }

    fn reading(at: i64, low: i64, high: i64) -> ClockReading {
        ClockReading { offset: ClockOffset { low, high }, from: at, until: at }
    }

    /// Offsets of a first reading, time and offsets of a second; whether the clock ran, and how far it was moved.
    #[test]
    fn clocks_that_stand_still_or_are_moved_are_told_from_those_that_drift() {
        let cases = [
            ((-50, 50), (20_000, -60, 40), true, 0),
            ((-50, 50), (20_000, -20_050, -19_950), false, -19_900),
            ((-50, 50), (20_000, -9_000, -8_900), true, -8_850),
            ((-50, 50), (10_000_000, 5_000, 5_100), true, 0),
            ((-50, 50), (10_000_000, 2_000_000, 2_000_100), true, 1_999_950),
            ((-50, 50), (10_000_000, -300_000, -299_900), true, -299_850),
            ((-50, 50), (10_000_000, -10_000_000, -9_999_900), false, -9_999_850),
            ((-50, 50), (60_000_000, -30_000, -29_900), true, 0),
        ];
        for ((low, high), (at, second_low, second_high), runs, moved) in cases {
            let (first, second) = (reading(0, low, high), reading(at, second_low, second_high));
            assert_eq!((first.runs_until(second), first.moved_until(second)), (runs, moved), "{first:?} {second:?}");
        }
    }

    /// Askings that take 200 ms each, 20 ms apart: a clock that stands still during them has offsets as wide.
    #[test]
    fn a_slow_asking_hides_no_clock_that_stands_still() {
        let of = |from: i64, until: i64, runs: bool| {
            let (low, high) = if runs { (-20, 20) } else { (-until, 1 - from) };
            ClockReading { offset: ClockOffset { low, high }, from, until }
        };
        for runs in [true, false] {
            assert_eq!(of(0, 200_000, runs).runs_until(of(220_000, 420_000, runs)), runs);
        }
    }

    /// For a window and a bucket: the readings, and what is said of them.
    #[test]
    fn what_the_clock_leaves_open_is_said() {
        let names = KeyNames::new("k:", 8, 1, false).unwrap();
        let window = Policy::Fixed { limit: 20, window: Window::new(1_000_000).unwrap() };
        let bucket = Policy::Token { capacity: 20, rate: Rate::new(20, 1_000_000).unwrap() };
        let of = |policy: Policy| Watch {
            form: Form::Five,
            admitted: vec![policy],
            denied: vec![policy],
            first_denied: 1,
            names: names.clone(),
            overshoot: 0,
            fails_over: false,
            checks_fields: true,
        };
        let (windowed, bucketed) = (of(window), of(bucket));
        let before = Some(reading(0, 0, 100));
        let cases = [
            (&windowed, before, Some(reading(3_000_000, 10, 110)), ClockOffset { low: 0, high: 110 }, ""),
            (
                &windowed,
                before,
                Some(reading(3_000_000, 30_000_000, 30_000_100)),
                ClockOffset { low: 0, high: 30_000_100 },
                "moved forwards by 30.0 s",
            ),
            (
                &windowed,
                before,
                Some(reading(3_000_000, -300_100, -300_000)),
                ClockOffset { low: -300_100, high: 100 },
                "moved backwards by 300 ms",
            ),
            (
                &windowed,
                before,
                Some(reading(3_000_000, 0, 150_000)),
                ClockOffset { low: 0, high: 150_000 },
                "known to within 150 ms only, which is much for a window of 1.00 s",
            ),
            (&windowed, before, None, ClockOffset { low: 0, high: 100 }, "could not be asked"),
            (
                &bucketed,
                before,
                Some(reading(3_000_000, 2_000_000, 2_000_100)),
                ClockOffset::NONE,
                "moved forwards by 2.00 s",
            ),
            (&bucketed, before, Some(reading(3_000_000, 0, 150_000)), ClockOffset::NONE, ""),
            (&bucketed, before, None, ClockOffset::NONE, ""),
            (&bucketed, None, None, ClockOffset::NONE, ""),
        ];
        for (watch, before, after, offset, expected) in cases {
            let (found, doubt) = put_together(watch, before, after);
            assert_eq!(found, offset, "{before:?} {after:?}");
            let doubt = doubt.unwrap_or_default();
            assert!(doubt.contains(expected) && doubt.is_empty() == expected.is_empty(), "{doubt}");
        }
    }
}
