//! Figures as people read them: counts in groups of three, rates and times with a fitting unit.

use std::time::Duration;

/// A whole number in groups of three digits: `1,234,567`.
pub(crate) fn count(value: u64) -> String {
    let digits = value.to_string();
    let mut text = String::with_capacity(digits.len().saturating_mul(2));
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && digits.len().saturating_sub(place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A figure as `shown` shows it, or a dash where there is none.
pub(crate) fn or_dash(figure: Option<f64>, shown: impl FnOnce(f64) -> String) -> String {
    figure.map_or_else(|| "–".to_owned(), shown)
}

/// `1 round`, `2 rounds`.
pub(crate) fn counted(number: usize, thing: &str) -> String {
    let ending = if number == 1 { "" } else { "s" };
    format!("{number} {thing}{ending}")
}

/// A number of any size in three or four characters and a letter: `950`, `12.3k`, `1.23M`.
pub(crate) fn short(value: f64) -> String {
    for (unit, letter) in [(1e9, "G"), (1e6, "M"), (1e3, "k")] {
        // What would be rounded up to 1000 has the next letter.
        if value >= unit * 0.9995 {
            return format!("{}{letter}", three_digits(value / unit));
        }
    }
    three_digits(value)
}

/// Microseconds with a fitting unit: `850 ns`, `12.3 µs`, `4.56 ms`, `1.20 s`; `–` for what is no number.
pub(crate) fn micros(value_us: f64) -> String {
    if value_us.is_nan() {
        return "–".to_owned();
    }
    for (unit, name) in [(1e6, "s"), (1e3, "ms"), (1.0, "µs")] {
        if value_us >= unit * 0.9995 {
            return format!("{} {name}", three_digits(value_us / unit));
        }
    }
    format!("{} ns", three_digits(value_us * 1e3))
}

/// Nanoseconds with a fitting unit.
pub(crate) fn nanos(value_ns: f64) -> String {
    micros(value_ns / 1e3)
}

/// Bytes in powers of 1024: `850 B`, `3.00 MiB`.
pub(crate) fn bytes(value: f64) -> String {
    for (unit, name) in [(1_073_741_824.0, "GiB"), (1_048_576.0, "MiB"), (1_024.0, "KiB")] {
        if value >= unit * 0.9995 {
            return format!("{} {name}", three_digits(value / unit));
        }
    }
    format!("{} B", three_digits(value))
}

/// A figure without the zeros that say how exact it is: `1 ms` for `1.00 ms`, as round values are named on an axis.
pub(crate) fn round_value(text: &str) -> String {
    let end = text.find(|character: char| !character.is_ascii_digit() && character != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let number = if number.contains('.') { number.trim_end_matches('0').trim_end_matches('.') } else { number };
    format!("{number}{unit}")
}

/// A time in whole seconds: `7 s`, `2 min 05 s`.
pub(crate) fn rough(time: Duration) -> String {
    let seconds = time.as_secs().saturating_add(u64::from(time.subsec_millis() >= 500));
    match (seconds / 60, seconds % 60) {
        (0, seconds) => format!("{seconds} s"),
        (minutes, seconds) => format!("{minutes} min {seconds:02} s"),
    }
}

/// Three significant digits; a whole number has all of its own.
fn three_digits(value: f64) -> String {
    let decimals = match value.abs() {
        above if above >= 99.95 => 0,
        above if above >= 9.995 => 1,
        _ => 2,
    };
    let text = format!("{value:.decimals$}");
    if text == "0.00" { "0".to_owned() } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_have_a_fitting_unit() {
        let cases = [
            (count(0), "0"),
            (count(999), "999"),
            (count(1_000), "1,000"),
            (count(1_234_567), "1,234,567"),
            (short(0.0), "0"),
            (short(1.0), "1.00"),
            (short(950.0), "950"),
            (short(999.7), "1.00k"),
            (short(12_345.0), "12.3k"),
            (short(1_234_567.0), "1.23M"),
            (short(999_900.0), "1.00M"),
            (short(2.5e9), "2.50G"),
            (micros(0.85), "850 ns"),
            (micros(9.999), "10.0 µs"),
            (micros(312.4), "312 µs"),
            (micros(999.9), "1.00 ms"),
            (micros(1_234.0), "1.23 ms"),
            (micros(1_200_000.0), "1.20 s"),
            (micros(0.0), "0 ns"),
            (nanos(1_500.0), "1.50 µs"),
            (bytes(850.0), "850 B"),
            (bytes(3_145_728.0), "3.00 MiB"),
            (round_value("1.00 ms"), "1 ms"),
            (round_value("1.50M"), "1.5M"),
            (round_value("200 µs"), "200 µs"),
            (round_value("max"), "max"),
            (or_dash(None, nanos), "–"),
            (or_dash(Some(1_500.0), nanos), "1.50 µs"),
            (counted(1, "round"), "1 round"),
            (counted(7, "round"), "7 rounds"),
            (rough(Duration::from_millis(7_400)), "7 s"),
            (rough(Duration::from_secs(125)), "2 min 05 s"),
        ];
        for (text, expected) in cases {
            assert_eq!(text, expected);
        }
    }
}
