//! Whether any record can have expired at all.
//!
//! The problem: before a table grows, what has expired goes; to find it every record of the table is read, which costs
//! more than the growth itself, and a store that fills up has nothing to find. The idea: the earliest end of all that
//! was made is known, and each pass of the sweep finds it anew for what is left.
//!
//! It is a hint: a record that ends sooner than it did when it was made, or was moved past the sweep, is missed until
//! the next pass. It still is no record to any call; a table may grow once where it need not have.

use tollgate_limits::Micros;

/// The earliest end of records.
pub(crate) struct Soonest {
    /// Of all records.
    all: Micros,
    /// Of those that this pass of the sweep has met or that were made since it began.
    pass: Micros,
}

impl Soonest {
    pub fn new() -> Soonest {
        Soonest { all: Micros::MAX, pass: Micros::MAX }
    }

    /// A record that ends then was made.
    #[inline]
    pub fn made(&mut self, end: Micros) {
        self.all = self.all.min(end);
        self.pass = self.pass.min(end);
    }

    /// The sweep met a record that ends then.
    #[inline]
    pub fn met(&mut self, end: Micros) {
        self.pass = self.pass.min(end);
    }

    /// The sweep has met all.
    pub fn pass_ends(&mut self) {
        self.all = self.pass;
        self.pass = Micros::MAX;
    }

    /// Whether a record may have ended by then.
    #[inline]
    pub fn may_be_over(&self, now: Micros) -> bool {
        self.all <= now
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pass_finds_what_is_left() {
        let mut soonest = Soonest::new();
        assert!(!soonest.may_be_over(1 << 60));
        soonest.made(50);
        soonest.made(70);
        assert!(soonest.may_be_over(50) && !soonest.may_be_over(49));
        // The first is gone when the pass comes by; another is made meanwhile.
        soonest.pass_ends();
        soonest.met(70);
        soonest.made(65);
        assert!(soonest.may_be_over(50));
        soonest.pass_ends();
        assert!(soonest.may_be_over(65) && !soonest.may_be_over(64));
    }
}
