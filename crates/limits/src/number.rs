//! Numbers as commands write them: strict, exact, and never through a float.
//!
//! The problem: `strtod` and friends take signs, exponents, hexadecimal, `nan` and blanks, and lose digits silently; a
//! limiter has been opened by each of these. The idea: one small scanner for digits with an optional decimal part, at
//! most eighteen digits in all, so that the digits always fit 64 bits and the unit is applied in whole numbers.

use std::fmt;

use crate::{AMOUNT_MAX, Micros, NOW_MICROS_MAX, Rate, WINDOW_MICROS_MIN, Window};

/// Digits that a number may have, on both sides of the point and of the stroke together.
const DIGITS_MAX: u32 = 18;
const SECOND_MICROS: u64 = 1_000_000;

/// What a number was meant to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NumberKind {
    /// A limit, capacity or cost.
    Amount,
    /// A window's length.
    Window,
    /// A rate.
    Rate,
    /// A step of the clock.
    Duration,
    /// A time since the epoch.
    Instant,
}

/// Why an argument is not the number it should be. Its text completes the sentence "ERR `argument` ...".
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NumberError {
    /// It is not written as such a number is.
    NotANumber(NumberKind),
    /// It is less than what is allowed.
    TooSmall(NumberKind),
    /// It is more than what is allowed.
    TooLarge(NumberKind),
    /// It is not a whole number of microseconds.
    TooPrecise(NumberKind),
    /// It has more than eighteen digits.
    TooManyDigits(NumberKind),
}

impl fmt::Display for NumberError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match *self {
            NumberError::NotANumber(NumberKind::Window | NumberKind::Duration) => {
                "must be a length of time such as 60, 0.5, 100ms or 1m (units: us ms s m h d w)"
            }
            NumberError::NotANumber(NumberKind::Rate) => "must be a rate such as 10, 0.5, 100/60 or 100/1m",
            NumberError::NotANumber(NumberKind::Instant) => "must be a time since the epoch such as 1751540400",
            NumberError::NotANumber(NumberKind::Amount)
            | NumberError::TooSmall(NumberKind::Amount)
            | NumberError::TooPrecise(NumberKind::Amount)
            | NumberError::TooLarge(NumberKind::Amount)
            | NumberError::TooManyDigits(NumberKind::Amount) => "must be a whole number from 0 to 1000000000000",
            NumberError::TooSmall(NumberKind::Rate) => "must be at least 1 in 365d",
            NumberError::TooLarge(NumberKind::Rate) => "must be at most 1000000000 a second",
            NumberError::TooSmall(NumberKind::Window) => "must be at least 1ms",
            NumberError::TooLarge(NumberKind::Window) => "must be at most 3650d",
            NumberError::TooSmall(NumberKind::Duration | NumberKind::Instant) => "must be at least 1us",
            NumberError::TooLarge(NumberKind::Duration | NumberKind::Instant) => "must be at most 281474976710s",
            NumberError::TooPrecise(_) => "must be a whole number of microseconds",
            NumberError::TooManyDigits(_) => "must have at most 18 digits",
        };
        formatter.write_str(text)
    }
}

impl std::error::Error for NumberError {}

/// A limit, capacity or cost: a whole number, digits only, 0 to 10^12.
#[inline]
pub fn parse_amount(text: &[u8]) -> Result<u64, NumberError> {
    let kind = NumberKind::Amount;
    let (digits, rest) = scan_digits(text, kind)?;
    if !rest.is_empty() {
        return Err(NumberError::NotANumber(kind));
    }
    if digits.value > AMOUNT_MAX {
        return Err(NumberError::TooLarge(kind));
    }
    Ok(digits.value)
}

/// A window: digits with an optional decimal part and an optional unit, seconds if there is none; a whole number of
/// microseconds from 1 ms to 3650 d.
#[inline]
pub fn parse_window(text: &[u8]) -> Result<Window, NumberError> {
    let kind = NumberKind::Window;
    let micros = parse_time(text, kind)?;
    match Window::new(micros) {
        Some(window) => Ok(window),
        None if micros < WINDOW_MICROS_MIN => Err(NumberError::TooSmall(kind)),
        None => Err(NumberError::TooLarge(kind)),
    }
}

/// A step of the clock, written as windows are: a whole number of microseconds, at least one.
pub fn parse_duration(text: &[u8]) -> Result<Micros, NumberError> {
    parse_time_in_reach(text, NumberKind::Duration)
}

/// A time since the epoch, written as windows are: a whole number of microseconds, at least one.
pub fn parse_instant(text: &[u8]) -> Result<Micros, NumberError> {
    parse_time_in_reach(text, NumberKind::Instant)
}

/// A rate: tokens per second, or `count/duration`; from one a year of 365 d to 10^9 a second, kept exactly.
#[inline]
pub fn parse_rate(text: &[u8]) -> Result<Rate, NumberError> {
    let kind = NumberKind::Rate;
    let (count, rest) = scan_decimal(text, kind)?;
    let (tokens, micros) = match rest.split_first() {
        None => (count.digits.value, u128::from(SECOND_MICROS) * power_of_ten(count.scale)),
        Some((b'/', written)) => rate_parts(count, written)?,
        Some(_) => return Err(NumberError::NotANumber(kind)),
    };
    match Rate::new(tokens, micros) {
        Some(rate) => Ok(rate),
        // The two bounds are far apart: one token a microsecond tells which one it was.
        None if u128::from(tokens) < micros => Err(NumberError::TooSmall(kind)),
        None => Err(NumberError::TooLarge(kind)),
    }
}

/// The tokens and microseconds of `count` per the duration `written`, both whole.
fn rate_parts(count: Decimal, written: &[u8]) -> Result<(u64, u128), NumberError> {
    let kind = NumberKind::Rate;
    let (duration, unit) = scan_decimal(written, kind)?;
    let unit_micros = unit_micros(unit).ok_or(NumberError::NotANumber(kind))?;
    if duration.digits.value == 0 {
        return Err(NumberError::NotANumber(kind));
    }
    if count.digits.count + duration.digits.count > DIGITS_MAX {
        return Err(NumberError::TooManyDigits(kind));
    }
    // With at most eighteen digits in all, neither product passes its type: 10^18 fits 64 bits, times a week's
    // microseconds it fits 128.
    let tokens = u128::from(count.digits.value) * power_of_ten(duration.scale);
    let micros = u128::from(duration.digits.value) * u128::from(unit_micros) * power_of_ten(count.scale);
    let tokens = u64::try_from(tokens).map_err(|_| NumberError::TooManyDigits(kind))?;
    Ok((tokens, micros))
}

fn parse_time_in_reach(text: &[u8], kind: NumberKind) -> Result<Micros, NumberError> {
    match parse_time(text, kind)? {
        0 => Err(NumberError::TooSmall(kind)),
        micros if micros > NOW_MICROS_MAX => Err(NumberError::TooLarge(kind)),
        micros => Ok(micros),
    }
}

/// Whole microseconds, of any size that fits.
#[inline]
fn parse_time(text: &[u8], kind: NumberKind) -> Result<Micros, NumberError> {
    let (decimal, unit) = scan_decimal(text, kind)?;
    let unit_micros = unit_micros(unit).ok_or(NumberError::NotANumber(kind))?;
    if decimal.scale == 0 {
        return decimal.digits.value.checked_mul(unit_micros).ok_or(NumberError::TooLarge(kind));
    }
    let scaled = u128::from(decimal.digits.value) * u128::from(unit_micros);
    let divisor = power_of_ten(decimal.scale);
    if !scaled.is_multiple_of(divisor) {
        return Err(NumberError::TooPrecise(kind));
    }
    u64::try_from(scaled / divisor).map_err(|_| NumberError::TooLarge(kind))
}

#[inline]
fn unit_micros(unit: &[u8]) -> Option<u64> {
    let micros = match unit {
        b"" | b"s" => SECOND_MICROS,
        b"m" => 60 * SECOND_MICROS,
        b"h" => 3_600 * SECOND_MICROS,
        b"d" => 86_400 * SECOND_MICROS,
        b"w" => 7 * 86_400 * SECOND_MICROS,
        b"ms" => 1_000,
        b"us" => 1,
        _ => return None,
    };
    Some(micros)
}

/// A run of digits: its value and how many there were.
#[derive(Clone, Copy)]
struct Digits {
    value: u64,
    count: u32,
}

/// Digits with an optional decimal part: `digits.value / 10^scale`.
#[derive(Clone, Copy)]
struct Decimal {
    digits: Digits,
    scale: u32,
}

/// A decimal at the start of `text`, and what follows it.
#[inline]
fn scan_decimal(text: &[u8], kind: NumberKind) -> Result<(Decimal, &[u8]), NumberError> {
    let (whole, rest) = scan_digits(text, kind)?;
    let Some((b'.', fraction)) = rest.split_first() else {
        return Ok((Decimal { digits: whole, scale: 0 }, rest));
    };
    let (digits, unit) = scan_on(whole, fraction, kind)?;
    let scale = digits.count - whole.count;
    if scale == 0 {
        return Err(NumberError::NotANumber(kind));
    }
    Ok((Decimal { digits, scale }, unit))
}

/// One digit or more, without a leading zero, at the start of `text`, and what follows them.
#[inline]
fn scan_digits(text: &[u8], kind: NumberKind) -> Result<(Digits, &[u8]), NumberError> {
    let (digits, rest) = scan_on(Digits { value: 0, count: 0 }, text, kind)?;
    if digits.count == 0 || (digits.count > 1 && text.first() == Some(&b'0')) {
        return Err(NumberError::NotANumber(kind));
    }
    Ok((digits, rest))
}

/// Adds the digits at the start of `text` to those that came before.
#[inline]
fn scan_on(before: Digits, text: &[u8], kind: NumberKind) -> Result<(Digits, &[u8]), NumberError> {
    let Digits { mut value, mut count } = before;
    let mut rest = text;
    while let Some((&byte, after)) = rest.split_first() {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            break;
        }
        if count == DIGITS_MAX {
            return Err(NumberError::TooManyDigits(kind));
        }
        value = value * 10 + u64::from(digit);
        count += 1;
        rest = after;
    }
    Ok((Digits { value, count }, rest))
}

/// `10^exponent`; the exponent is a number of digits, so at most eighteen.
#[inline]
fn power_of_ten(exponent: u32) -> u128 {
    10_u128.saturating_pow(exponent)
}
