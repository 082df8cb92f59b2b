//! Extended numbers as text: read as C's `strtold` reads them, written as Redis writes them.
//!
//! Redis takes what C takes: decimal and hexadecimal digits with or without a point and an exponent, and `inf`. It
//! answers with seventeen decimals, rounded, without the zeros at the end. Both are exact here: a decimal text is a
//! fraction of two integers, and a number of the format has finitely many decimals.

use crate::extended::{Extended, bits, magnitude};
use num_bigint::BigUint;
use std::cmp::Ordering;

/// The longest text that Redis reads as a number, in bytes.
const TEXT_BYTES_MAX: usize = 5 * 1024 - 1;
/// Exponents beyond this are as good as this one: whatever digits come with them, nothing in between is left.
const EXPONENT_TEXT_MAX: i64 = 1_000_000;
/// From this power of ten on a number is infinite, and from its negative on less than half the smallest.
const DECIMAL_EXPONENT_MAX: i64 = 5_000;
/// The same as a power of two.
const BINARY_EXPONENT_MAX: i64 = 17_000;
/// Digits that are written behind the point, before zeros are taken off.
const DECIMALS: usize = 17;

impl Extended {
    /// Reads a whole text as a number. `None` if it is none, or a finite one too large for the format or, without being
    /// zero, too small.
    pub fn parse(text: &[u8]) -> Option<Extended> {
        if text.len() > TEXT_BYTES_MAX {
            return None;
        }
        let (negative, unsigned) = match text {
            [b'-', rest @ ..] => (true, rest),
            [b'+', rest @ ..] => (false, rest),
            _ => (false, text),
        };
        if unsigned.eq_ignore_ascii_case(b"inf") || unsigned.eq_ignore_ascii_case(b"infinity") {
            return Some(Extended::infinite(negative));
        }
        let number = match unsigned {
            [b'0', b'x' | b'X', rest @ ..] => Digits::split(rest, 16)?.hexadecimal(negative)?,
            _ => Digits::split(unsigned, 10)?.decimal(negative)?,
        };
        (!number.is_infinite()).then_some(number)
    }

    /// The number as Redis answers it: no exponent, at most seventeen decimals, no zeros at the end, no minus before
    /// what is zero then. An infinity is `inf` or `-inf`.
    pub fn text(self) -> String {
        let sign = if self.is_negative() { "-" } else { "" };
        if self.is_infinite() {
            return format!("{sign}inf");
        }
        let (mantissa, exponent) = self.parts();
        let scaled = BigUint::from(mantissa) * power_of_ten(DECIMALS);
        let digits = half_even_shift(&scaled, exponent).to_string();
        let padded = format!("{digits:0>width$}", width = DECIMALS + 1);
        let (whole, decimals) = padded.split_at(padded.len().saturating_sub(DECIMALS));
        match decimals.trim_end_matches('0') {
            "" if whole == "0" => "0".to_owned(),
            "" => format!("{sign}{whole}"),
            decimals => format!("{sign}{whole}.{decimals}"),
        }
    }
}

/// `number * 2^exponent`, rounded to a whole number, of two equally close ones to the even.
fn half_even_shift(number: &BigUint, exponent: i64) -> BigUint {
    if exponent >= 0 {
        return number << magnitude(exponent);
    }
    let shift = magnitude(exponent);
    let kept = number >> shift;
    let rest = number - (&kept << shift);
    let half = BigUint::from(1_u8) << shift.saturating_sub(1);
    match rest.cmp(&half) {
        Ordering::Less => kept,
        Ordering::Equal if !kept.bit(0) => kept,
        Ordering::Equal | Ordering::Greater => kept + 1_u8,
    }
}

fn power_of_ten(exponent: usize) -> BigUint {
    BigUint::from(10_u8).pow(u32::try_from(exponent).unwrap_or(u32::MAX))
}

/// A number's digits without the point, how many of them stand behind it, and the exponent that was written.
struct Digits {
    digits: BigUint,
    /// Digits from the first that is not zero on.
    count: i64,
    behind_point: i64,
    exponent: i64,
}

impl Digits {
    /// Takes digits of `radix` (10 or 16), a point and an exponent apart. `None` for anything else.
    fn split(text: &[u8], radix: u32) -> Option<Digits> {
        let is_digit = |byte: &u8| char::from(*byte).is_digit(radix);
        let marks: &[u8] = if radix == 16 { b"pP" } else { b"eE" };
        let end = text.iter().position(|byte| marks.contains(byte)).unwrap_or(text.len());
        let (mantissa, exponent) = text.split_at_checked(end)?;
        let (whole, fraction) = match mantissa.iter().position(|byte| *byte == b'.') {
            Some(point) => (mantissa.get(..point)?, mantissa.get(point.checked_add(1)?..)?),
            None => (mantissa, &[][..]),
        };
        let all = [whole, fraction].concat();
        if all.is_empty() || !all.iter().all(is_digit) {
            return None;
        }
        let significant = all.iter().skip_while(|byte| **byte == b'0').count();
        Some(Digits {
            digits: BigUint::parse_bytes(&all, radix)?,
            count: i64::try_from(significant).ok()?,
            behind_point: i64::try_from(fraction.len()).ok()?,
            exponent: match exponent {
                [] => 0,
                [_mark, rest @ ..] => exponent_of(rest)?,
            },
        })
    }

    fn decimal(&self, negative: bool) -> Option<Extended> {
        if self.count == 0 {
            return Some(signed_zero(negative));
        }
        let exponent = self.exponent - self.behind_point;
        // The power of ten that the number is below.
        let top = exponent + self.count;
        if top.abs() > DECIMAL_EXPONENT_MAX {
            return None;
        }
        let power = power_of_ten(usize::try_from(exponent.unsigned_abs()).ok()?);
        let one = BigUint::from(1_u8);
        let number = if exponent >= 0 {
            Extended::nearest(negative, &(&self.digits * power), &one, 0)
        } else {
            Extended::nearest(negative, &self.digits, &power, 0)
        };
        (!number.is_zero()).then_some(number)
    }

    fn hexadecimal(&self, negative: bool) -> Option<Extended> {
        if self.count == 0 {
            return Some(signed_zero(negative));
        }
        let exponent = self.exponent - self.behind_point * 4;
        if (exponent + bits(&self.digits)).abs() > BINARY_EXPONENT_MAX {
            return None;
        }
        let number = Extended::nearest(negative, &self.digits, &BigUint::from(1_u8), exponent);
        (!number.is_zero()).then_some(number)
    }
}

fn signed_zero(negative: bool) -> Extended {
    if negative { Extended::ZERO.negated() } else { Extended::ZERO }
}

/// A written exponent: a sign if any, and at least one digit.
fn exponent_of(text: &[u8]) -> Option<i64> {
    let (negative, digits) = match text {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        _ => (false, text),
    };
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let append = |value: i64, digit: &u8| (value * 10 + i64::from(digit & 0x0f)).min(EXPONENT_TEXT_MAX);
    let size = digits.iter().fold(0, append);
    Some(if negative { -size } else { size })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What INCRBYFLOAT answers, recorded from a Redis server.
    const SUMS: &str = include_str!("../tests/data/float_sums.txt");

    fn sum(stored: &str, added: &str) -> String {
        let (Some(stored), Some(added)) = (Extended::parse(stored.as_bytes()), Extended::parse(added.as_bytes()))
        else {
            return "refused".to_owned();
        };
        let sum = stored.plus(added);
        if sum.is_infinite() { "infinite".to_owned() } else { sum.text() }
    }

    #[test]
    fn sums_are_those_of_redis() {
        let lines: Vec<&str> = SUMS.lines().filter(|line| !line.starts_with('#')).collect();
        assert!(lines.len() > 400);
        for line in lines {
            let [stored, added, answer] = line.split('|').collect::<Vec<_>>()[..] else { panic!("three: {line}") };
            assert_eq!(sum(stored, added), answer, "{stored} + {added}");
        }
    }

    #[test]
    fn integers_are_written_as_integers() {
        for value in [0, 1, -1, 42, i64::MAX, i64::MIN] {
            assert_eq!(Extended::from(value).text(), value.to_string());
            assert_eq!(Extended::parse(value.to_string().as_bytes()), Some(Extended::from(value)));
        }
    }

    #[test]
    fn the_largest_number_is_written_and_read_whole() {
        let text = Extended::MAX.text();
        assert_eq!((text.len(), &text[..10]), (4_933, "1189731495"));
        assert_eq!(Extended::parse(text.as_bytes()), Some(Extended::MAX));
        assert_eq!(Extended::infinite(true).text(), "-inf");
    }

    #[test]
    fn texts_are_bounded() {
        let long = |bytes: usize| format!("0.{}", "1".repeat(bytes - 2));
        assert!(Extended::parse(long(TEXT_BYTES_MAX).as_bytes()).is_some());
        assert!(Extended::parse(long(TEXT_BYTES_MAX + 1).as_bytes()).is_none());
        assert!(Extended::parse(b"1\0").is_none() && Extended::parse(&[0xff; 40]).is_none());
    }
}
