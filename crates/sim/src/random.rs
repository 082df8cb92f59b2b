//! The one source of chance in a run: the same seed gives the same run, on every machine.

/// A generator of numbers that look random and are not: a counter whose bits are mixed.
#[derive(Clone, Debug)]
pub struct Random {
    counter: u64,
}

/// An odd number near 2^64 divided by the golden ratio, so that the counter visits all values evenly.
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

impl Random {
    /// The generator of a seed. Neighbouring seeds have nothing in common after the first number.
    pub fn new(seed: u64) -> Random {
        let mut random = Random { counter: seed.wrapping_mul(STEP) };
        random.next();
        random
    }

    /// The next number, any of them.
    pub fn next(&mut self) -> u64 {
        self.counter = self.counter.wrapping_add(STEP);
        let mut mixed = self.counter;
        for (shift, factor) in [(32, 0xd6e8_feb8_6659_fd93), (29, 0xca9b_0c7e_ba1d_a115)] {
            mixed = (mixed ^ (mixed >> shift)).wrapping_mul(factor);
        }
        mixed ^ (mixed >> 32)
    }

    /// A number below `bound`; 0 for a bound of 0. The bias of the remainder does not matter here.
    pub fn below(&mut self, bound: u64) -> u64 {
        if bound == 0 { 0 } else { self.next() % bound }
    }

    /// A number from `low` to `high`, both included.
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high.saturating_sub(low) + 1)
    }

    /// A position below `length`; 0 for nothing.
    pub fn position(&mut self, length: usize) -> usize {
        let bound = u64::try_from(length).unwrap_or(u64::MAX);
        usize::try_from(self.below(bound)).unwrap_or(0)
    }

    /// True `permille` times of a thousand.
    pub fn chance(&mut self, permille: u64) -> bool {
        self.below(1_000) < permille
    }

    /// One of these.
    pub fn choose<T: Copy>(&mut self, of: &[T], otherwise: T) -> T {
        let position = self.position(of.len());
        of.get(position).copied().unwrap_or(otherwise)
    }
}
