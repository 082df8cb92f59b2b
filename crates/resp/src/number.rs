//! The numbers in RESP headers.

/// Reads a whole number as Redis accepts it in a header: decimal digits with an optional minus, and only the one
/// spelling that printing the number gives. So `007`, `+1`, `-0`, an empty text and anything beyond 64 bits are `None`.
pub(crate) fn parse_canonical(text: &[u8]) -> Option<i64> {
    match text {
        [b'0'] => Some(0),
        [b'-', digits @ ..] => parse_digits(digits, |value, digit| value.checked_mul(10)?.checked_sub(digit)),
        digits => parse_digits(digits, |value, digit| value.checked_mul(10)?.checked_add(digit)),
    }
}

fn parse_digits(digits: &[u8], append: impl Fn(i64, i64) -> Option<i64>) -> Option<i64> {
    if !matches!(digits.first(), Some(b'1'..=b'9')) {
        return None;
    }
    let mut value: i64 = 0;
    for &byte in digits {
        if !byte.is_ascii_digit() {
            return None;
        }
        value = append(value, i64::from(byte - b'0'))?;
    }
    Some(value)
}

#[cfg(test)]
mod tests {
    use super::parse_canonical;

    #[test]
    fn only_the_printed_spelling_is_a_number() {
        for value in [0, 1, 9, 10, 42, 16_386, -1, -10, i64::MAX, i64::MIN] {
            assert_eq!(parse_canonical(value.to_string().as_bytes()), Some(value));
        }
        let refused = ["", "-", "+1", "-0", "00", "01", "-01", " 1", "1 ", "1.0", "1e3", "0x1", "\u{661}"];
        for text in refused.into_iter().chain(["9223372036854775808", "-9223372036854775809", "99999999999999999999"]) {
            assert_eq!(parse_canonical(text.as_bytes()), None, "{text:?}");
        }
    }
}
