//! How far the server's clock is from this one, as an interval that is certain.
//!
//! One question gives one interval: the answer was made between the asking and the reading. Many questions are all true
//! of one offset, so the intervals' common part is. Asked before the run and after it, the two parts together hold
//! every offset in between, unless a clock went there and back.

use crate::dialog::Dialog;
use crate::error::BenchError;
use std::time::Instant;

/// Questions of one asking. The shortest of them counts, so a few more make the interval narrower.
const QUESTIONS: usize = 32;

/// The server's microseconds since 1970 minus this run's microseconds lie between `low` and `high`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ClockOffset {
    pub(crate) low: i64,
    pub(crate) high: i64,
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
}
