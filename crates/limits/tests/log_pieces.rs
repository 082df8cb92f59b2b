//! A log that is told by pieces of what changed is the log.

#![allow(clippy::unwrap_used, reason = "an unwrap that fails is a test that fails")]

use proptest::prelude::*;
use tollgate_limits::{Log, LogChange, Micros};

/// What was told last of a log, and up to which time that still holds.
struct Told {
    copy: Log,
    through: Micros,
}

impl Told {
    fn change(&mut self, log: &mut Log, change: LogChange) {
        self.through = self.through.min(log.apply(change));
        let kept: Vec<_> = log.entries().filter(|(at, _)| *at <= self.through).collect();
        let told = self.copy.entries().filter(|(at, _)| (log.dropped_through() + 1..=self.through).contains(at));
        assert_eq!(kept, told.collect::<Vec<_>>(), "through {} after {change:?}", self.through);
    }

    fn tell(&mut self, log: &Log, is_told_twice: bool) {
        let charges: Vec<_> = log.entries_after(self.through).collect();
        let piece = Log::of(log.dropped_through(), &charges).unwrap();
        for _ in 0..1 + usize::from(is_told_twice) {
            assert!(self.copy.replace_after(self.through, &piece));
        }
        assert_eq!(&self.copy, log);
        assert_eq!(self.copy.entries().collect::<Vec<_>>(), log.entries().collect::<Vec<_>>());
        self.through = log.settled_through();
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, ..ProptestConfig::default() })]

    #[test]
    fn a_log_told_by_pieces_is_the_log(
        steps in prop::collection::vec((0u8..12, 0u64..20, 1u64..5, any::<bool>()), 1..150),
    ) {
        let (mut log, mut now) = (Log::default(), 1_000);
        let mut told = Told { copy: log.clone(), through: 0 };
        for (step, pause, units, is_told_twice) in steps {
            now += pause * u64::from(step % 2);
            let drop_through = now.saturating_sub(90);
            let change = match step {
                0..6 => LogChange::Append { at: now, units, drop_through },
                // Of another timeline.
                6 => LogChange::Append { at: now - pause, units, drop_through },
                7 => LogChange::Refund { units: units * pause, drop_through },
                8 | 9 => LogChange::TakeOff { at: now.saturating_sub(pause), units, drop_through },
                _ => {
                    told.tell(&log, is_told_twice);
                    continue;
                }
            };
            told.change(&mut log, change);
        }
        told.tell(&log, true);
    }
}

#[test]
fn what_is_no_piece_changes_nothing() {
    let whole = Log::of(5, &[(10, 1), (20, u64::MAX - 4)]).unwrap();
    for (through, charges, name) in [
        (30, vec![(30, 1)], "an entry that is kept"),
        (20, vec![(21, 4)], "more than is counted"),
        (20, vec![(21, u64::MAX)], "more by far"),
    ] {
        let mut log = whole.clone();
        assert!(!log.replace_after(through, &Log::of(5, &charges).unwrap()), "{name}");
        assert_eq!(log, whole, "{name}");
    }
    // What it takes the place of counts no more.
    let mut log = whole.clone();
    assert!(log.replace_after(19, &Log::of(5, &[(21, u64::MAX - 1)]).unwrap()));
    assert_eq!(log, Log::of(5, &[(10, 1), (21, u64::MAX - 1)]).unwrap());
    let mut log = whole;
    assert!(log.replace_after(19, &Log::of(12, &[]).unwrap()));
    assert_eq!((log.len(), log.dropped_through(), log.settled_through()), (0, 12, 0));
}
