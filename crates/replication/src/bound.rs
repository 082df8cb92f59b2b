//! Which answers may leave before the replicas know what they promise.
//!
//! The problem: a failover forgets what was admitted and not yet told. How much that may be is to be bounded, without a
//! call that waits while it is far from the bound. The idea: an answer carries a mark: what its core had admitted when
//! it was made. It leaves if that is at most the bound beyond what every replica in step knows, and waits in line
//! otherwise until they know more, or until nobody is waited for. With a bound of 0 an answer waits for everything that
//! was changed before it, plain values too.
//!
//! **Invariant:** while somebody is waited for, the units admitted in answers that have left are at most the bound more
//! than the units that are safe.

use crate::in_step::InStep;
use crate::planted::{Planted, is_planted};
use std::collections::VecDeque;

/// What an answer promises.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mark {
    /// Units that its core had admitted in all when it was made.
    pub units: u64,
    /// The flush that tells all that was changed before it.
    pub flush: u32,
}

/// The answers of one core, on their way out.
#[derive(Debug)]
pub struct Gate<T> {
    bound: Option<u64>,
    held: VecDeque<(Mark, T)>,
    /// Units admitted in all when the last answer was made that has left.
    left: u64,
}

impl<T> Gate<T> {
    /// `bound`: units that may be admitted in answers that have left and not be known to every replica in step.
    pub fn new(bound: Option<u64>) -> Gate<T> {
        Gate { bound, held: VecDeque::new(), left: 0 }
    }

    /// Changes the bound. What is held leaves at the next [`Gate::release`] if it may.
    pub fn set_bound(&mut self, bound: Option<u64>) {
        self.bound = bound;
    }

    /// Whether answers are bounded at all.
    #[inline]
    pub fn bound(&self) -> Option<u64> {
        self.bound
    }

    /// Whether an answer with this mark may leave now; then it counts as one that has.
    #[inline]
    pub fn may_leave(&mut self, mark: Mark, in_step: &InStep) -> bool {
        let may = self.held.is_empty() && self.is_within(mark, in_step) || is_planted(Planted::ReplyBeforeGate);
        if may {
            self.note_left(mark);
        }
        may
    }

    #[inline]
    fn is_within(&self, mark: Mark, in_step: &InStep) -> bool {
        let Some(bound) = self.bound else { return true };
        if !in_step.is_anybody_waited_for() {
            return true;
        }
        if is_planted(Planted::OvershootPerFlush) {
            return in_step.flushes_unsafe() <= bound;
        }
        ahead(mark.units, in_step.safe().units) <= bound && (bound > 0 || mark.flush <= in_step.safe_number())
    }

    fn note_left(&mut self, mark: Mark) {
        if ahead(mark.units, self.left) > 0 {
            self.left = mark.units;
        }
    }

    /// Holds an answer that may not leave.
    pub fn hold(&mut self, mark: Mark, answer: T) {
        self.held.push_back((mark, answer));
    }

    /// The next answer that was held and may leave now.
    pub fn release(&mut self, in_step: &InStep) -> Option<T> {
        let (mark, _) = self.held.front()?;
        if !self.is_within(*mark, in_step) {
            return None;
        }
        let (mark, answer) = self.held.pop_front()?;
        self.note_left(mark);
        Some(answer)
    }

    /// The next answer that was held, which is not to leave as it is.
    pub fn give_up(&mut self) -> Option<T> {
        self.held.pop_front().map(|(_, answer)| answer)
    }

    /// How many are held.
    pub fn held(&self) -> usize {
        self.held.len()
    }

    /// Whether replicas should be told at once, with so many units admitted in all, rather than at the next flush.
    pub fn is_near(&self, units: u64, in_step: &InStep) -> bool {
        let Some(bound) = self.bound else { return false };
        let untold = ahead(units, in_step.flushed_last().units);
        let unknown = ahead(units, in_step.safe().units);
        !self.held.is_empty() || (unknown > bound / 2 && untold > bound / 4 && in_step.is_anybody_waited_for())
    }

    /// Units that a failover may forget, with so many admitted in all: those in answers that have left of which not
    /// every replica in step knows; with no such replica, all since there was one.
    pub fn overshoot(&self, units: u64, in_step: &InStep) -> u64 {
        if is_planted(Planted::OvershootPerFlush) {
            return in_step.flushes_unsafe();
        }
        // Answers that nothing holds leave without being noted here.
        let left = if self.keeps_back(in_step) { self.left } else { units };
        ahead(left, in_step.safe().units)
    }

    /// Whether not all that was admitted need have left.
    pub fn keeps_back(&self, in_step: &InStep) -> bool {
        self.bound.is_some() && in_step.is_anybody_waited_for()
    }
}

/// How far one count of units is ahead of another; 0 if it is behind. Counts begin at 0 again when they overflow.
pub fn ahead(units: u64, of: u64) -> u64 {
    let ahead = units.wrapping_sub(of);
    if ahead > u64::MAX / 2 { 0 } else { ahead }
}
