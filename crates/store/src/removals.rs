//! Which keys were removed lately, for those who must know whether a record that they see is still the one they wrote.
//!
//! The problem: a charge is undone some microseconds after it was made, and in between its key can have been deleted
//! and made again by somebody else. The new record may even look exactly as the charged one did; taking the charge off
//! would free units that others were admitted for. A birth mark in every record would cost memory for a case that
//! hardly ever happens. The idea: the hashes of the last few removed keys, in a ring. Who asks about a time before
//! them is told yes: then the charge stays, and use is over-stated.

use crate::locate::Located;

/// Removals that are remembered.
const RECENT: usize = 256;

/// The last removals.
pub(crate) struct Removals {
    count: u64,
    recent: Box<[u64; RECENT]>,
}

impl Removals {
    pub fn new() -> Removals {
        Removals { count: 0, recent: Box::new([0; RECENT]) }
    }

    /// A key was removed: by a call, because it became as if untouched, or to make room. Not by expiry: what has
    /// expired holds no charge.
    #[inline]
    pub fn note(&mut self, at: Located) {
        self.recent[place(self.count)] = at.hash;
        self.count += 1;
    }

    /// All keys were removed.
    pub fn note_all(&mut self) {
        self.count += RECENT as u64 + 1;
    }

    /// How many removals there were: a mark to ask from.
    #[inline]
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Whether the key at `at` was removed since `mark`, or may have been.
    pub fn since(&self, mark: u64, at: Located) -> bool {
        let passed = self.count.saturating_sub(mark);
        passed > RECENT as u64 || (mark..self.count).any(|number| self.recent[place(number)] == at.hash)
    }
}

fn place(number: u64) -> usize {
    (number % RECENT as u64) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(hash: u64) -> Located {
        Located { slot: 0, hash }
    }

    #[test]
    fn a_removal_is_seen_from_marks_before_it_only() {
        let mut removals = Removals::new();
        let before = removals.count();
        removals.note(at(7));
        let after = removals.count();
        assert!(removals.since(before, at(7)) && !removals.since(before, at(8)) && !removals.since(after, at(7)));
    }

    #[test]
    fn what_is_no_longer_remembered_counts_as_removed() {
        let mut removals = Removals::new();
        let mark = removals.count();
        (0..RECENT as u64).for_each(|hash| removals.note(at(hash)));
        assert!(!removals.since(mark, at(9_999)));
        removals.note(at(1));
        assert!(removals.since(mark, at(9_999)));
        let mark = removals.count();
        removals.note_all();
        assert!(removals.since(mark, at(5)));
    }
}
