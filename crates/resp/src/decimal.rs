//! Integers in decimal, appended to a byte vector.
//!
//! Formatting machinery would cost more than the limit whose reply it writes, so digits are looked up in pairs. The
//! short numbers, which most are, are appended as arrays of a known size: the compiler turns each into a plain store.

/// Pairs of digits in the longest number: 64 bits hold nineteen digits.
const DIGIT_PAIRS_MAX: usize = 10;

/// Every number below 100 in two digits. One look here replaces two divisions.
const PAIRS: [[u8; 2]; 100] = {
    let mut pairs = [[b'0'; 2]; 100];
    let mut index: usize = 0;
    let (mut tens, mut ones) = (b'0', b'0');
    while index < pairs.len() {
        pairs[index] = [tens, ones];
        index += 1;
        (tens, ones) = if ones == b'9' { (tens + 1, b'0') } else { (tens, ones + 1) };
    }
    pairs
};

/// Appends the line `<kind><value>\r\n`.
#[inline]
pub(crate) fn push_line(out: &mut Vec<u8>, kind: u8, value: i64) {
    match u32::try_from(value) {
        Ok(small @ 0..10) => out.extend_from_slice(&[kind, ones(small), b'\r', b'\n']),
        Ok(small @ 10..100) => {
            let [a, b] = pair(small);
            out.extend_from_slice(&[kind, a, b, b'\r', b'\n']);
        }
        Ok(small @ 100..1_000) => {
            let [a, b] = pair(small / 10);
            out.extend_from_slice(&[kind, a, b, ones(small % 10), b'\r', b'\n']);
        }
        Ok(small @ 1_000..10_000) => {
            let ([a, b], [c, d]) = (pair(small / 100), pair(small % 100));
            out.extend_from_slice(&[kind, a, b, c, d, b'\r', b'\n']);
        }
        Ok(small @ 10_000..1_000_000) => push_medium_line(out, kind, small),
        _ => push_long_line(out, kind, value),
    }
}

/// Five or six digits: the times of limits by the minute.
#[inline]
fn push_medium_line(out: &mut Vec<u8>, kind: u8, value: u32) {
    let ([a, b], [c, d], [e, f]) = (pair(value / 10_000), pair(value / 100 % 100), pair(value % 100));
    if a == b'0' {
        out.extend_from_slice(&[kind, b, c, d, e, f, b'\r', b'\n']);
    } else {
        out.extend_from_slice(&[kind, a, b, c, d, e, f, b'\r', b'\n']);
    }
}

/// Any number: the digits fill an array from its end, in pairs, and a zero before the first is left out.
fn push_long_line(out: &mut Vec<u8>, kind: u8, value: i64) {
    let mut digits = [[b'0'; 2]; DIGIT_PAIRS_MAX];
    let mut rest = value.unsigned_abs();
    let mut unused = DIGIT_PAIRS_MAX;
    for place in digits.iter_mut().rev() {
        *place = pair(u32::try_from(rest % 100).unwrap_or_default());
        rest /= 100;
        unused -= 1;
        if rest == 0 {
            break;
        }
    }
    let used = digits.get(unused..).unwrap_or_default().as_flattened();
    let digits_from_first = used.strip_prefix(b"0").unwrap_or(used);
    out.push(kind);
    if value < 0 {
        out.push(b'-');
    }
    out.extend_from_slice(digits_from_first);
    out.extend_from_slice(b"\r\n");
}

#[inline]
fn pair(below_100: u32) -> [u8; 2] {
    usize::try_from(below_100).ok().and_then(|index| PAIRS.get(index)).copied().unwrap_or([b'0'; 2])
}

#[inline]
fn ones(below_10: u32) -> u8 {
    let [_, ones] = pair(below_10);
    ones
}
