//! CLIENT PAUSE: commands that came are held until a moment, all of them or those that write.
//!
//! The problem: every core must learn of a pause, and without one no batch may pay for it. The idea: one word, shared
//! and hardly ever written, holds the end and the kind; who sees it set reads commands one by one and waits here. The
//! time is a real clock's: a pause ends though a test clock stands still.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::Notify;

/// The longest pause that the word can state, far beyond any uptime.
const END_MICROS_MAX: u64 = u64::MAX >> 1;

/// The pause of a process.
#[derive(Debug, Default)]
pub struct Pause {
    /// The end in microseconds since boot, doubled, plus one if commands that only read are held too. 0: no pause.
    word: AtomicU64,
    changed: Notify,
}

impl Pause {
    /// Whether there may be a pause: a look that costs a load.
    #[inline]
    pub fn is_on(&self) -> bool {
        self.word.load(Ordering::Acquire) != 0
    }

    /// Begins a pause, or lengthens and widens the one that is on: it ends no sooner and holds no less than before.
    pub fn begin(&self, now_micros: u64, milliseconds: u64, all: bool) {
        let end = now_micros.saturating_add(milliseconds.saturating_mul(1000)).min(END_MICROS_MAX);
        let merged = |word: u64| {
            let running = word >> 1 > now_micros;
            let (before, before_all) = if running { (word >> 1, word & 1) } else { (0, 0) };
            Some(end.max(before) << 1 | u64::from(all) | before_all)
        };
        // Never refused, since the closure always answers.
        let _ = self.word.fetch_update(Ordering::AcqRel, Ordering::Acquire, merged);
        self.changed.notify_waiters();
    }

    /// Ends it.
    pub fn end(&self) {
        self.word.store(0, Ordering::Release);
        self.changed.notify_waiters();
    }

    /// For how long a command is still held. `None`: not at all.
    pub fn left(&self, now_micros: u64, writes: bool) -> Option<Duration> {
        let word = self.word.load(Ordering::Acquire);
        let end = word >> 1;
        if end <= now_micros {
            // It is over: from here on a look costs a load again. Where another has begun meanwhile, that one stays.
            let _ = self.word.compare_exchange(word, 0, Ordering::AcqRel, Ordering::Acquire);
            return None;
        }
        (writes || word & 1 == 1).then(|| Duration::from_micros(end - now_micros))
    }

    /// Waits until the pause is begun anew or ended. Made before the look at [`Pause::left`], it misses no change.
    pub fn changed(&self) -> tokio::sync::futures::Notified<'_> {
        self.changed.notified()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1000;

    fn left_ms(pause: &Pause, now_ms: u64, writes: bool) -> Option<u128> {
        pause.left(now_ms * MS, writes).map(|left| left.as_millis())
    }

    #[test]
    fn a_pause_holds_its_kind_until_its_end() {
        let pause = Pause::default();
        assert!(!pause.is_on());
        pause.begin(1000 * MS, 50, false);
        assert!(pause.is_on());
        assert_eq!((left_ms(&pause, 1010, true), left_ms(&pause, 1010, false)), (Some(40), None));
        assert_eq!(left_ms(&pause, 1049, true), Some(1));
        assert_eq!(left_ms(&pause, 1050, true), None);
        assert!(!pause.is_on());
    }

    #[test]
    fn a_second_pause_only_adds() {
        let pause = Pause::default();
        pause.begin(0, 100, true);
        pause.begin(0, 50, false);
        assert_eq!(left_ms(&pause, 10, false), Some(90));
        pause.begin(0, 200, false);
        assert_eq!(left_ms(&pause, 10, false), Some(190));
        pause.end();
        assert_eq!((pause.is_on(), left_ms(&pause, 10, true)), (false, None));
        // What is over adds nothing to the next.
        pause.begin(0, 100, true);
        pause.begin(100 * MS, 100, false);
        assert_eq!((left_ms(&pause, 110, false), left_ms(&pause, 110, true)), (None, Some(90)));
    }

    #[test]
    fn any_length_is_taken() {
        let pause = Pause::default();
        pause.begin(5 * MS, u64::MAX, true);
        assert!(pause.left(u64::MAX / 4, false).is_some());
        pause.end();
        pause.begin(5 * MS, 0, true);
        assert_eq!((left_ms(&pause, 5, true), pause.is_on()), (None, false));
    }
}
