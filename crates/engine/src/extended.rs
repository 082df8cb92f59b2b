//! Numbers as the 80-bit format of x86 holds them: what INCRBYFLOAT counts in.
//!
//! The problem: Redis adds in C's `long double`, and what it answers depends on that format to the last digit; Rust has
//! no such type. The idea: such a number is a mantissa of 64 bits times a power of two, so that a sum is computed
//! exactly, in integers of any length, and rounded once. That is what the processor does too.
//!
//! ```text
//! value = mantissa * 2^exponent     mantissa below 2^64, its top bit set unless the exponent is the least
//! ```
//!
//! How such a number is read and written is in `extended_text`.

use num_bigint::BigUint;
use std::cmp::Ordering;

/// Bits of a mantissa.
const MANTISSA_BITS: i64 = 64;
/// The exponent of the smallest numbers.
const EXPONENT_MIN: i64 = -16_445;
/// The exponent of the largest finite numbers.
const EXPONENT_MAX: i64 = 16_320;
/// The exponent that says that a number is infinite: above all others, so that comparing needs no case for it.
const EXPONENT_INFINITE: i64 = EXPONENT_MAX + 1;

/// A number of the extended format, or an infinity. Never "not a number".
#[derive(Clone, Copy, Debug)]
pub struct Extended {
    negative: bool,
    mantissa: u64,
    exponent: i64,
}

impl Extended {
    /// Nothing.
    pub const ZERO: Extended = Extended { negative: false, mantissa: 0, exponent: EXPONENT_MIN };
    /// The largest finite number.
    pub const MAX: Extended = Extended { negative: false, mantissa: u64::MAX, exponent: EXPONENT_MAX };

    /// Infinity.
    pub const fn infinite(negative: bool) -> Extended {
        Extended { negative, mantissa: 1 << 63, exponent: EXPONENT_INFINITE }
    }

    /// Whether this is an infinity.
    pub const fn is_infinite(self) -> bool {
        self.exponent == EXPONENT_INFINITE
    }

    /// Whether this is zero.
    pub const fn is_zero(self) -> bool {
        self.mantissa == 0
    }

    /// Whether there is a minus before it; zero can have one.
    pub const fn is_negative(self) -> bool {
        self.negative
    }

    /// The number in whole units, rounded up, at most `most`; nothing below zero.
    pub fn units(self, most: u64) -> u64 {
        if self.is_negative() || self.is_zero() {
            return 0;
        }
        let shift = u32::try_from(self.exponent.unsigned_abs()).unwrap_or(u32::MAX);
        let units = if self.exponent > 0 {
            if shift > self.mantissa.leading_zeros() { u64::MAX } else { self.mantissa << shift }
        } else {
            let whole = self.mantissa.checked_shr(shift).unwrap_or(0);
            let rest = self.mantissa.saturating_sub(whole.checked_shl(shift).unwrap_or(0));
            whole + u64::from(rest > 0)
        };
        units.min(most)
    }

    /// The mantissa and the exponent of a finite number's size.
    pub(crate) const fn parts(self) -> (u64, i64) {
        (self.mantissa, self.exponent)
    }

    /// The number closest to `numerator / denominator * 2^exponent`, of two equally close the one whose mantissa is
    /// even; an infinity if it lies beyond the largest. `denominator` must not be zero, and `exponent` small enough
    /// that it can be counted with (a million is).
    pub(crate) fn nearest(negative: bool, numerator: &BigUint, denominator: &BigUint, exponent: i64) -> Extended {
        let (above, below) = (bits(numerator), bits(denominator));
        if above == 0 {
            return Extended { negative, ..Extended::ZERO };
        }
        // So that the quotient has at least two bits more than a mantissa, which decide with the rest how to round.
        let shift = MANTISSA_BITS + 2 - (above - below);
        let (numerator, denominator) = if shift >= 0 {
            (numerator << magnitude(shift), denominator.clone())
        } else {
            (numerator.clone(), denominator << magnitude(shift))
        };
        let quotient = &numerator / &denominator;
        let is_exact = &quotient * &denominator == numerator;
        Extended::rounded(negative, &quotient, exponent - shift, is_exact)
    }

    /// `mantissa * 2^exponent`, rounded; not exact: a little more than that.
    fn rounded(negative: bool, mantissa: &BigUint, exponent: i64, is_exact: bool) -> Extended {
        if bits(mantissa) == 0 {
            return Extended { negative, ..Extended::ZERO };
        }
        let wanted = (exponent + bits(mantissa) - MANTISSA_BITS).max(EXPONENT_MIN);
        let surplus = wanted - exponent;
        if surplus <= 0 {
            // Few bits, all of which fit: only an exact number can have that few.
            let kept = u64::try_from(mantissa << magnitude(surplus)).unwrap_or(u64::MAX);
            return Extended::of_parts(negative, kept, wanted);
        }
        let kept = mantissa >> magnitude(surplus);
        let rest = mantissa - (&kept << magnitude(surplus));
        let half = BigUint::from(1_u8) << magnitude(surplus - 1);
        let rounds_up = match rest.cmp(&half) {
            Ordering::Less => false,
            Ordering::Greater => true,
            Ordering::Equal => !is_exact || kept.bit(0),
        };
        let kept = if rounds_up { kept + 1_u8 } else { kept };
        match u64::try_from(&kept) {
            Ok(kept) => Extended::of_parts(negative, kept, wanted),
            // Rounded up to the next power of two.
            Err(_) => Extended::of_parts(negative, 1 << 63, wanted + 1),
        }
    }

    fn of_parts(negative: bool, mantissa: u64, exponent: i64) -> Extended {
        if exponent > EXPONENT_MAX { Extended::infinite(negative) } else { Extended { negative, mantissa, exponent } }
    }

    /// The sum, rounded to the nearest. Infinite if it is beyond the largest number, or if either operand is infinite
    /// (also where C would say that infinity less infinity is no number).
    pub fn plus(self, other: Extended) -> Extended {
        if self.is_infinite() || other.is_infinite() {
            return Extended::infinite(self.negative);
        }
        let exponent = self.exponent.min(other.exponent);
        let [mine, others] =
            [self, other].map(|number| BigUint::from(number.mantissa) << magnitude(number.exponent - exponent));
        if self.negative == other.negative {
            return Extended::rounded(self.negative, &(mine + others), exponent, true);
        }
        match mine.cmp(&others) {
            Ordering::Equal => Extended::ZERO,
            Ordering::Greater => Extended::rounded(self.negative, &(mine - others), exponent, true),
            Ordering::Less => Extended::rounded(other.negative, &(others - mine), exponent, true),
        }
    }

    /// The difference, rounded as [`Extended::plus`] does.
    pub fn minus(self, other: Extended) -> Extended {
        self.plus(other.negated())
    }

    /// The same size with the other sign.
    pub const fn negated(self) -> Extended {
        Extended { negative: !self.negative, ..self }
    }
}

impl From<i64> for Extended {
    /// Exact: a mantissa holds every integer of 64 bits.
    fn from(value: i64) -> Extended {
        Extended::rounded(value < 0, &BigUint::from(value.unsigned_abs()), 0, true)
    }
}

impl PartialEq for Extended {
    fn eq(&self, other: &Extended) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Extended {}

impl PartialOrd for Extended {
    fn partial_cmp(&self, other: &Extended) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Extended {
    /// As numbers: both zeros are equal.
    fn cmp(&self, other: &Extended) -> Ordering {
        let size = |number: &Extended| (number.exponent, number.mantissa);
        match (self.negative && !self.is_zero(), other.negative && !other.is_zero()) {
            (false, false) => size(self).cmp(&size(other)),
            (true, true) => size(other).cmp(&size(self)),
            (false, true) => Ordering::Greater,
            (true, false) => Ordering::Less,
        }
    }
}

/// How many bits a number has. Those that are made here have some ten thousands.
pub(crate) fn bits(number: &BigUint) -> i64 {
    i64::try_from(number.bits()).unwrap_or(i64::MAX)
}

/// The size of a shift.
pub(crate) fn magnitude(shift: i64) -> u64 {
    shift.unsigned_abs()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_whole_and_rounded_up() {
        let units = |text: &str| Extended::parse(text.as_bytes()).map(|number| number.units(1_000));
        let samples =
            [("0", 0), ("-0.0", 0), ("-7.5", 0), ("1", 1), ("2.000001", 3), ("999.5", 1_000), ("1e30", 1_000)];
        for (text, expected) in samples.into_iter().chain([("1e-4000", 1), ("0.5", 1), ("64", 64), ("1e4000", 1_000)]) {
            assert_eq!(units(text), Some(expected), "{text}");
        }
        assert_eq!(Extended::infinite(false).units(9), 9);
    }

    fn number(mantissa: u64, exponent: i64) -> Extended {
        Extended::nearest(false, &BigUint::from(mantissa), &BigUint::from(1_u8), exponent)
    }

    #[test]
    fn numbers_are_rounded_to_the_nearest_even_mantissa() {
        let one = BigUint::from(1_u8);
        let of = |numerator: u128| Extended::nearest(false, &BigUint::from(numerator), &one, 0).parts();
        let top = 1_u128 << 64;
        let table = [
            (1, (1 << 63, -63)),
            (top - 1, (u64::MAX, 0)),
            (top, (1 << 63, 1)),
            // Halfway: to the even neighbour.
            (top + 1, (1 << 63, 1)),
            (top + 3, ((1 << 63) + 2, 1)),
            (2 * top - 1, (1 << 63, 2)),
            (4 * top + 5, ((1 << 63) + 1, 3)),
        ];
        for (numerator, parts) in table {
            assert_eq!(of(numerator), parts, "{numerator}");
        }
        let third = Extended::nearest(false, &one, &BigUint::from(3_u8), 0);
        assert_eq!(third.parts(), (0xaaaa_aaaa_aaaa_aaab, -65));
    }

    #[test]
    fn the_smallest_and_the_largest() {
        assert_eq!(number(1, EXPONENT_MIN).parts(), (1, EXPONENT_MIN));
        assert!(number(1, EXPONENT_MIN - 1).is_zero(), "half of the smallest goes to the even zero");
        assert_eq!(number(3, EXPONENT_MIN - 1).parts(), (2, EXPONENT_MIN));
        assert_eq!(number(u64::MAX, EXPONENT_MAX), Extended::MAX);
        assert!(number(1, EXPONENT_MAX + MANTISSA_BITS).is_infinite());
        assert!(Extended::MAX.plus(number(1, EXPONENT_MAX - 1)).is_infinite(), "half a step rounds up and away");
        assert_eq!(Extended::MAX.plus(number(1, EXPONENT_MAX - 2)), Extended::MAX);
        assert!(number(1, 900_000).is_infinite() && number(1, -900_000).is_zero());
    }

    #[test]
    fn sums_and_order() {
        let of = Extended::from;
        for left in [0, 1, -1, 7, -7, i64::MAX, i64::MIN] {
            assert_eq!(of(left).minus(of(left)), Extended::ZERO);
            for right in [0, 1, -1, 5, -5, i64::MAX / 2, i64::MIN / 2] {
                assert_eq!(of(left).cmp(&of(right)), left.cmp(&right), "{left} {right}");
                if let Some(sum) = left.checked_add(right) {
                    assert_eq!(of(left).plus(of(right)), of(sum), "{left} + {right}");
                }
            }
        }
        let order =
            [Extended::infinite(true), Extended::MAX.negated(), of(0), Extended::MAX, Extended::infinite(false)];
        assert!(order.is_sorted());
        assert_eq!(of(0), of(0).negated());
        assert!(of(1).plus(Extended::infinite(true)).is_infinite());
        // A number too small to matter, and one that is not.
        assert_eq!(of(1).plus(number(1, -65)), of(1));
        assert_eq!(of(1).plus(number(3, -65)).parts(), ((1 << 63) + 1, -63));
    }
}
