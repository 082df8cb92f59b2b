//! A small generator (splitmix64): what is drawn here needs no more, and the same seed gives the same anywhere.

/// The generator's state.
#[derive(Debug, Clone)]
pub(crate) struct Random {
    state: u64,
}

/// 2^53: as many different fractions as a float tells apart evenly.
const FRACTIONS: f64 = 9_007_199_254_740_992.0;

impl Random {
    /// Equal seeds give equal numbers.
    pub(crate) fn new(seed: u64) -> Random {
        Random { state: seed }
    }

    /// Any 64 bits.
    pub(crate) fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number from 0 to `bound - 1`; the bias of a bound below 2^32 is under 2^-32.
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        let bound = u64::try_from(bound).unwrap_or(u64::MAX);
        let scaled = (u128::from(self.next()) * u128::from(bound)) >> 64;
        usize::try_from(scaled).unwrap_or_default()
    }

    /// A fraction above 0 and at most 1, so that its logarithm exists.
    pub(crate) fn fraction(&mut self) -> f64 {
        let drawn = (self.next() >> 11) + 1;
        // At most 2^53: exact.
        drawn as f64 / FRACTIONS
    }
}
