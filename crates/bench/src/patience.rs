//! How long a phase waits for replies.
//!
//! A server that hangs must not keep a run for ever, and one that is slow must not lose its last replies. While calls
//! are still to be made, only a long silence ends the phase; once they have all been made, or a signal has ended the
//! run, a short one does.

use crate::interrupt;
use std::time::{Duration, Instant};

/// A server that says nothing for this long is given up.
pub(crate) const STALL_LIMIT: Duration = Duration::from_secs(60);

/// After the end of a phase, a server that says nothing for this long is not waited for.
pub(crate) const DRAIN_LIMIT: Duration = Duration::from_secs(2);

/// No wait for events is longer, so that whoever watches learns of silence too, and a signal is seen.
pub(crate) const LOOK_EVERY: Duration = Duration::from_millis(100);

/// What a phase has been waiting for.
#[derive(Debug)]
pub(crate) struct Patience {
    started: Instant,
    /// The last reply.
    replied: Option<Instant>,
    /// When the last call was made, or was to be.
    over: Option<Instant>,
    /// The longest time without a reply.
    silence: Duration,
}

impl Patience {
    /// A phase that begins at `started` and makes its last call at `over`, if that is known.
    pub(crate) fn new(started: Instant, over: Option<Instant>) -> Patience {
        Patience { started, replied: None, over, silence: Duration::ZERO }
    }

    /// Replies have come.
    #[inline]
    pub(crate) fn replied(&mut self, now: Instant) {
        self.silence = self.silence.max(self.silent_for(now));
        self.replied = Some(now);
    }

    /// Calls are on the way where none were: what was before is no silence.
    pub(crate) fn asks(&mut self, now: Instant) {
        self.replied = Some(now);
    }

    /// No more calls are made from now on; where this was said before it stays as it was.
    pub(crate) fn is_over(&mut self, now: Instant) {
        self.over = Some(self.over.map_or(now, |over| over.min(now)));
    }

    /// Since when nothing has come.
    pub(crate) fn silent_for(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.replied.unwrap_or(self.started))
    }

    /// The longest time without a reply in a phase that ends now.
    pub(crate) fn longest_silence(&self, now: Instant) -> Duration {
        self.silence.max(self.silent_for(now))
    }

    /// Whether what is still on the way is not worth waiting for.
    pub(crate) fn is_at_end(&self, now: Instant) -> bool {
        let silent = self.silent_for(now);
        let since_over = self.over.map_or(Duration::ZERO, |over| now.saturating_duration_since(over));
        silent >= STALL_LIMIT || silent.min(since_over) >= DRAIN_LIMIT
    }
}

/// Whether a signal has asked for the end.
#[inline]
pub(crate) fn is_interrupted() -> bool {
    interrupt::signal().is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Seconds: when the last call is made, the replies, now; then whether to wait no longer.
    #[test]
    fn a_phase_waits_long_while_calls_are_made_and_not_long_afterwards() {
        let cases: [(Option<u64>, &[u64], u64, bool); 9] = [
            (Some(10), &[], 11, false),
            (Some(10), &[], 12, true),
            (Some(10), &[11, 14], 15, false),
            (Some(10), &[11, 14], 16, true),
            (Some(100), &[], 59, false),
            (Some(100), &[], 60, true),
            (Some(100), &[30], 89, false),
            (None, &[30], 89, false),
            (None, &[30], 90, true),
        ];
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        for (over, replies, now, expected) in cases {
            let mut patience = Patience::new(start, over.map(at));
            replies.iter().for_each(|seconds| patience.replied(at(*seconds)));
            assert_eq!(patience.is_at_end(at(now)), expected, "{over:?} {replies:?} {now}");
        }
    }

    #[test]
    fn the_longest_silence_may_be_the_first_or_the_last() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        for (replies, end, longest) in [(&[3, 4][..], 5, 3), (&[1, 4, 5], 6, 3), (&[1, 2], 9, 7), (&[], 2, 2)] {
            let mut patience = Patience::new(start, None);
            replies.iter().for_each(|seconds| patience.replied(at(*seconds)));
            assert_eq!(patience.longest_silence(at(end)), Duration::from_secs(longest), "{replies:?}");
        }
    }
}
