//! Whom a replica follows, and what it has been told by it.
//!
//! The problem: a primary that was started again may know less than those who follow it, and a link that is made anew
//! is no reason to be told everything again, nor for time to go back. The idea: from when an operator says whom to
//! follow, a replica keeps which process that was and up to where it has put what each core of it told.
//!
//! **Invariant:** what is here is replaced by what one process holds, and by no other before an operator says so.

use crate::flow::{Has, Hello, RUN_ID_BYTES};
use crate::planted::{Planted, is_planted};
use std::collections::BTreeMap;
use tollgate_limits::Micros;

/// Clocks drift apart by less than a millisecond in so many microseconds.
const LATENESS_SPAN_MICROS: u64 = 10_000_000;

/// What was told since an operator said whom to follow, over all links.
#[derive(Clone, Debug, Default)]
pub struct Followed {
    /// The process that told.
    run_id: Option<[u8; RUN_ID_BYTES]>,
    /// Whether links to it were open, so that its time is known here.
    is_begun: bool,
    /// By core of it: up to where all it told was put.
    has: BTreeMap<u16, Has>,
}

impl Followed {
    /// What is here is this process's state, and is not given up for less; `None`: there is nothing.
    pub fn expecting(run_id: Option<[u8; RUN_ID_BYTES]>) -> Followed {
        Followed { run_id, ..Followed::default() }
    }

    /// Whether what is here may be replaced by what this process holds: it is the one whose state this is, or goes on
    /// from that, having had all of it; or there is nothing to lose.
    pub fn may_be(&self, hello: &Hello) -> bool {
        let goes_on = |known| hello.run_id == known || hello.continues == Some(known);
        self.run_id.is_none_or(goes_on) || is_planted(Planted::OlderRunAccepted)
    }

    /// Links to all cores of this process are open. Answers whether they are the first ones to it: then its time holds,
    /// even if it is earlier, and otherwise what is known of its time is better than what comes first over new links.
    /// Whoever has kept its state does not know its time.
    pub fn begin(&mut self, run_id: [u8; RUN_ID_BYTES]) -> bool {
        let was_begun = std::mem::replace(&mut self.is_begun, true);
        self.run_id.replace(run_id) != Some(run_id) || !was_begun
    }

    /// The process that is followed; `None` before the first.
    pub fn run_id(&self) -> Option<[u8; RUN_ID_BYTES]> {
        self.run_id
    }

    /// What a core told that was put, to go on from. `None`: its copy is not whole.
    pub fn has(&self, core: u16) -> Option<Has> {
        self.has.get(&core).copied()
    }

    /// What a core told was put up to there. `None`: its copy is not whole any more, or not yet.
    pub fn put(&mut self, core: u16, has: Option<Has>) {
        match has {
            Some(has) => self.has.insert(core, has),
            None => self.has.remove(&core),
        };
    }
}

/// How much later than others a part has come: the clocks of two machines are not the same, so that the part that was
/// the fastest of late is taken for one that took no time.
#[derive(Clone, Debug, Default)]
pub struct Lateness {
    since: u64,
    /// The least difference of the two clocks, in the span before this one and in this one.
    least: [Option<i128>; 2],
}

impl Lateness {
    /// In microseconds, of a part that was sent at `sent` by the primary's clock and comes at `now` by this one.
    pub fn of(&mut self, sent: Micros, now: u64) -> u64 {
        let difference = i128::from(now) - i128::from(sent);
        let [before, present] = self.least;
        let (before, present) = if now.saturating_sub(self.since) >= LATENESS_SPAN_MICROS {
            self.since = now;
            (present, None)
        } else {
            (before, present)
        };
        self.least = [before, Some(present.map_or(difference, |least| least.min(difference)))];
        let least = self.least.into_iter().flatten().min().unwrap_or(difference);
        u64::try_from(difference - least).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_process_is_not_followed_and_the_same_one_is_not_new() {
        let (one, other) = ([b'1'; RUN_ID_BYTES], [b'2'; RUN_ID_BYTES]);
        let hello = |run_id, continues| Hello {
            version: crate::VERSION,
            run_id,
            core: 0,
            cores: 1,
            telling: 0,
            continues,
            resumes: false,
        };
        let mut followed = Followed::default();
        assert!(followed.may_be(&hello(one, None)) && followed.may_be(&hello(other, None)));
        assert!(followed.begin(one));
        for followed in [&followed, &Followed::expecting(Some(one))] {
            assert!(followed.may_be(&hello(one, None)) && followed.may_be(&hello(other, Some(one))));
            assert!(!followed.may_be(&hello(other, None)) && !followed.may_be(&hello(other, Some(other))));
        }
        assert!(!followed.begin(one), "its time is known");
        assert!(Followed::expecting(Some(one)).begin(one), "its state is known, and not its time");
        let has = Has { run_id: one, telling: 0, number: 7 };
        followed.put(1, Some(has));
        assert_eq!((followed.has(0), followed.has(1)), (None, Some(has)));
        followed.put(1, None);
        assert_eq!(followed.has(1), None);
    }

    #[test]
    fn the_fastest_part_of_late_took_no_time() {
        let mut lateness = Lateness::default();
        assert_eq!([(100, 50), (200, 170), (300, 240)].map(|(sent, now)| lateness.of(sent, now)), [0, 20, 0]);
        // Clocks drift: what was the fastest long ago is forgotten.
        let later = 2 * LATENESS_SPAN_MICROS;
        assert_eq!(lateness.of(300 + later, 290 + later), 50);
        assert_eq!(lateness.of(300 + 2 * later, 290 + 2 * later), 0);
    }
}
