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

/// Room for the array's header, four integers below a million and one below 10^8: 4 + 4 * 9 + 11 bytes. Every line is
/// written in whole words, of which the last may lie up to five bytes over the line's end.
const FIVE_BYTES: usize = 64;

/// A line's length, at most 6, takes the highest three bits of its word.
const LENGTH_SHIFT: u32 = 61;

/// Appends an array of five integers: the reply of every limit.
///
/// Room for all of it is made at once, so that no integer checks the vector's capacity, and the lines are written where
/// they stay. What was too much is cut off at the end.
#[inline]
pub(crate) fn push_five(out: &mut Vec<u8>, values: [i64; 5]) {
    let before = out.len();
    out.extend_from_slice(&[0; FIVE_BYTES]);
    let Some(written) = out.last_chunk_mut::<FIVE_BYTES>().and_then(|text| put_five(text, values)) else {
        return push_five_long(out, before, values);
    };
    // The sum is at most the length that the vector had a moment ago.
    out.truncate(before.wrapping_add(written));
}

/// What every reply to an admitted call begins with, and room for the rest of it.
const ADMITTED: [u8; FIVE_BYTES] = {
    let mut text = [0; FIVE_BYTES];
    [text[0], text[1], text[2], text[3]] = *b"*5\r\n";
    [text[4], text[5], text[6], text[7]] = *b":1\r\n";
    text
};

/// Appends `1, limit, remaining, 0, reset`: the reply that most calls get, of which two numbers are known.
#[inline]
pub(crate) fn push_admitted(out: &mut Vec<u8>, [limit, remaining, reset]: [u64; 3]) {
    let before = out.len();
    out.extend_from_slice(&ADMITTED);
    let put_rest = |text: &mut [u8; FIVE_BYTES]| {
        let end = put_line(text, 8, limit)?;
        let end = put_line(text, end, remaining)?;
        put(text, end, *b":0\r\n");
        put_last_line(text, end.wrapping_add(4), reset)
    };
    let Some(written) = out.last_chunk_mut::<FIVE_BYTES>().and_then(put_rest) else {
        let [limit, remaining, reset] = [limit, remaining, reset].map(|value| i64::try_from(value).unwrap_or(i64::MAX));
        return push_five_long(out, before, [1, limit, remaining, 0, reset]);
    };
    // The sum is at most the length that the vector had a moment ago.
    out.truncate(before.wrapping_add(written));
}

/// The longest head of a reply to an admitted call, in bytes: a limit of nineteen digits has 30. All ones, as a mask.
const HEAD_BYTES_MAX: usize = 31;
/// What a head is copied as: two wide words.
const HEAD_ROOM_BYTES: usize = 32;

/// What replies to admitted calls under one limit begin with: `1, limit`.
#[derive(Clone, Debug)]
pub struct Admitted {
    text: [u8; HEAD_ROOM_BYTES],
    bytes: usize,
    limit: u64,
}

impl Admitted {
    /// The head for this limit.
    pub fn under(limit: u64) -> Admitted {
        let mut head = b"*5\r\n:1\r\n".to_vec();
        push_line(&mut head, b':', i64::try_from(limit).unwrap_or(i64::MAX));
        let mut text = [0; HEAD_ROOM_BYTES];
        for (place, byte) in text.iter_mut().zip(&head) {
            *place = *byte;
        }
        Admitted { text, bytes: head.len().min(HEAD_BYTES_MAX), limit }
    }
}

/// Replies to many admitted calls. Room for all of them is made at once, and each is written where it stays.
#[derive(Debug)]
pub struct Replies<'a> {
    out: &'a mut Vec<u8>,
    /// Where what is written ends; behind it lie zeros.
    end: usize,
}

impl<'a> Replies<'a> {
    /// Makes room at the end of `out` for so many replies. [`Replies::finish`] must follow: until then there are zeros
    /// behind what was written.
    #[inline]
    pub fn begin(out: &'a mut Vec<u8>, replies: usize) -> Replies<'a> {
        let end = out.len();
        out.resize(end.saturating_add(replies.saturating_mul(FIVE_BYTES)), 0);
        Replies { out, end }
    }

    /// Where what is written ends.
    #[inline(always)]
    pub fn end(&self) -> usize {
        self.end
    }

    /// Writes `1, limit, remaining, 0, reset_ms` and gives the end of it.
    #[inline(always)]
    pub fn push(&mut self, head: &Admitted, remaining: u64, reset_ms: u64) -> usize {
        let place = self.out.get_mut(self.end..).and_then(<[u8]>::first_chunk_mut::<FIVE_BYTES>);
        match place.and_then(|text| put_admitted(text, head, remaining, reset_ms)) {
            // A reply fits into the room that was made for it.
            Some(bytes) => self.end = self.end.wrapping_add(bytes),
            None => self.push_long(head, remaining, reset_ms),
        }
        self.end
    }

    /// The long way round, for what is rare.
    #[inline(never)]
    fn push_long(&mut self, head: &Admitted, remaining: u64, reset_ms: u64) {
        let mut reply = Vec::new();
        push_admitted(&mut reply, [head.limit, remaining, reset_ms]);
        let room_end = self.end.saturating_add(FIVE_BYTES).min(self.out.len());
        let reply_bytes = reply.len();
        // Room for those behind it must stay.
        reply.resize(reply_bytes.max(FIVE_BYTES), 0);
        self.out.splice(self.end..room_end, reply);
        self.end = self.end.saturating_add(reply_bytes);
    }

    /// Cuts off what room is left.
    #[inline]
    pub fn finish(self) {
        self.out.truncate(self.end);
    }
}

/// Writes a reply with a head that was made before, and gives its length; `None` if a number is too long for it.
#[inline(always)]
fn put_admitted(text: &mut [u8; FIVE_BYTES], head: &Admitted, remaining: u64, reset: u64) -> Option<usize> {
    put(text, 0, head.text);
    // It is no more; said again, no place behind it needs to be compared with the array's end.
    let end = put_line(text, head.bytes & HEAD_BYTES_MAX, remaining)?;
    put(text, end, *b":0\r\n");
    put_last_line(text, end.wrapping_add(4), reset)
}

/// Writes the array into `text` and gives its length; `None` if a number is negative or too long for it.
///
/// Not a loop: each line's place is then known to the compiler to be at most so many bytes in, all of them in the
/// array, and no bound is left to check.
#[inline]
fn put_five(text: &mut [u8; FIVE_BYTES], [first, second, third, fourth, fifth]: [i64; 5]) -> Option<usize> {
    put(text, 0, *b"*5\r\n");
    // A negative number becomes one that is too long.
    let [first, second, third, fourth, fifth] = [first, second, third, fourth, fifth].map(i64::cast_unsigned);
    let end = put_line(text, 4, first)?;
    let end = put_line(text, end, second)?;
    let end = put_line(text, end, third)?;
    let end = put_line(text, end, fourth)?;
    put_last_line(text, end, fifth)
}

/// Writes one line at `at` and gives its end; `None` if the number is a million or more.
#[inline(always)]
fn put_line(text: &mut [u8; FIVE_BYTES], at: usize, value: u64) -> Option<usize> {
    let bytes = match value {
        0..1_000 => put_small(text, at, u32::try_from(value).ok()?),
        1_000..1_000_000 => put_medium(text, at, u32::try_from(value).ok()?),
        _ => return None,
    };
    // Five lines and the header are far from wrapping.
    Some(at.wrapping_add(bytes))
}

/// As any line, but up to eight digits: the last number is the time until a limit is as if untouched, and with windows
/// of hours it is the one above a million.
#[inline(always)]
fn put_last_line(text: &mut [u8; FIVE_BYTES], at: usize, value: u64) -> Option<usize> {
    let small = u32::try_from(value).ok()?;
    let bytes = match small {
        1_000..1_000_000 => put_medium(text, at, small),
        0..1_000 => put_small(text, at, small),
        1_000_000..100_000_000 => put_short(text, at, small),
        _ => return None,
    };
    Some(at.wrapping_add(bytes))
}

/// The long way round, for what is rare, from where the array begins.
#[cold]
fn push_five_long(out: &mut Vec<u8>, before: usize, values: [i64; 5]) {
    out.truncate(before);
    out.extend_from_slice(b"*5\r\n");
    for value in values {
        push_line(out, b':', value);
    }
}

#[inline]
fn put<const N: usize>(text: &mut [u8; FIVE_BYTES], at: usize, bytes: [u8; N]) {
    if let Some(place) = text.get_mut(at..at.wrapping_add(N)).and_then(|place| place.first_chunk_mut::<N>()) {
        *place = bytes;
    }
}

/// Below a thousand, as most numbers of a limit are: the line is looked up whole, with its length in the highest bits,
/// which land behind the line and are written over by what comes next, or cut off. Gives the length.
#[inline]
fn put_small(text: &mut [u8; FIVE_BYTES], at: usize, value: u32) -> usize {
    let line = usize::try_from(value).ok().and_then(|index| SMALL_LINES.get(index)).copied().unwrap_or(0);
    put(text, at, line.to_le_bytes());
    usize::try_from(line >> LENGTH_SHIFT).unwrap_or(0)
}

/// Below a million: the thousands as a small number, then three digits and the line's end over the end of the first.
/// Gives the length.
#[inline]
fn put_medium(text: &mut [u8; FIVE_BYTES], at: usize, value: u32) -> usize {
    let bytes = put_small(text, at, value / 1_000);
    let rest = usize::try_from(value % 1_000).ok().and_then(|index| PADDED_LINES.get(index)).copied().unwrap_or(0);
    // The line end that is written over has two bytes, and each line lies behind the array's header.
    put(text, at.wrapping_add(bytes).wrapping_sub(2), rest.to_le_bytes());
    bytes.wrapping_add(3)
}

/// `:<number>\r\n` in the low bytes, the line's length in the highest bits.
static SMALL_LINES: [u64; 1_000] = {
    let mut lines = [0; 1_000];
    let mut number = 0;
    while number < lines.len() {
        let (hundreds, tens, ones) = (number as u64 / 100, number as u64 / 10 % 10, number as u64 % 10);
        let zero = b'0' as u64;
        let (digits, count) = match number {
            0..10 => (zero + ones, 1),
            10..100 => ((zero + tens) | (zero + ones) << 8, 2),
            _ => ((zero + hundreds) | (zero + tens) << 8 | (zero + ones) << 16, 3),
        };
        let end = (b'\r' as u64 | (b'\n' as u64) << 8) << (8 + 8 * count);
        lines[number] = b':' as u64 | digits << 8 | end | (count + 3) << LENGTH_SHIFT;
        number += 1;
    }
    lines
};

/// Three digits and the line's end in the low bytes.
static PADDED_LINES: [u64; 1_000] = {
    let mut lines = [0; 1_000];
    let mut number = 0;
    while number < lines.len() {
        let (hundreds, tens, ones) = (number as u64 / 100, number as u64 / 10 % 10, number as u64 % 10);
        let zero = b'0' as u64;
        let digits = (zero + hundreds) | (zero + tens) << 8 | (zero + ones) << 16;
        lines[number] = digits | (b'\r' as u64) << 24 | (b'\n' as u64) << 32;
        number += 1;
    }
    lines
};

/// Two to eight digits, without a branch on how many: all eight are computed side by side in one word, and those before
/// the first that counts are shifted out. Gives the line's length.
#[inline]
fn put_short(text: &mut [u8; FIVE_BYTES], at: usize, value: u32) -> usize {
    let digits = eight_digits(value);
    let leading_zero_bits = digits.trailing_zeros() & 0x38;
    let digits = (digits | 0x3030_3030_3030_3030) >> leading_zero_bits;
    put(text, at, *b":");
    put(text, at + 1, digits.to_le_bytes());
    let bytes = 9 - usize::try_from(leading_zero_bits / 8).unwrap_or(0);
    put(text, at + bytes, *b"\r\n");
    bytes + 2
}

/// The decimal digits of a number below 10^8, one a byte, the highest in the lowest byte. Each step halves the lanes:
/// two of four digits, four of two, eight of one. The multiplications are divisions by 100 and by 10 that are exact for
/// what a lane can hold.
#[inline]
fn eight_digits(value: u32) -> u64 {
    let fours = u64::from(value / 10_000) | u64::from(value % 10_000) << 32;
    let hundreds = (fours.wrapping_mul(10_486) >> 20) & 0x0000_007f_0000_007f;
    let twos = hundreds | fours.wrapping_sub(hundreds.wrapping_mul(100)) << 16;
    let tens = (twos.wrapping_mul(103) >> 10) & 0x000f_000f_000f_000f;
    tens | twos.wrapping_sub(tens.wrapping_mul(10)) << 8
}

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn eight_digits_are_those_of_the_number() {
        let edges = (0..=8).flat_map(|power| [10u32.pow(power).saturating_sub(1), 10u32.pow(power)]);
        let spread = (0..2_000_000u32).map(|step| step.wrapping_mul(2_654_435_761) % 100_000_000);
        for value in edges.chain(spread).filter(|value| *value < 100_000_000) {
            let expected = format!("{value:08}");
            let digits = (eight_digits(value) | 0x3030_3030_3030_3030).to_le_bytes();
            assert_eq!(digits, expected.as_bytes(), "{value}");
        }
    }

    #[test]
    fn an_admitted_call_is_answered_in_five() {
        let numbers = [0, 9, 99, 100, 999, 1_000, 60_000, 999_999, 1_000_000, 99_999_999, 100_000_000, i64::MAX];
        for limit in numbers {
            for remaining in numbers {
                for reset in numbers {
                    let [mut admitted, mut under, mut five] = [(); 3].map(|()| b"+OK\r\n".to_vec());
                    let [known, left, until] = [limit, remaining, reset].map(i64::cast_unsigned);
                    push_admitted(&mut admitted, [known, left, until]);
                    let mut replies = Replies::begin(&mut under, 1);
                    assert_eq!(replies.push(&Admitted::under(known), left, until), admitted.len());
                    replies.finish();
                    push_five(&mut five, [1, limit, remaining, 0, reset]);
                    assert_eq!((&admitted, &under), (&five, &five));
                }
            }
        }
    }

    #[test]
    fn replies_in_a_row_are_those_one_by_one() {
        let numbers = [0, 99, 60_000, 999_999, 1_000_000, 99_999_999, 100_000_000, i64::MAX.cast_unsigned()];
        for limit in numbers {
            let (mut row, mut one_by_one) = (b"+OK\r\n".to_vec(), b"+OK\r\n".to_vec());
            let head = Admitted::under(limit);
            let mut replies = Replies::begin(&mut row, numbers.len() * numbers.len());
            for remaining in numbers {
                for reset in numbers {
                    push_admitted(&mut one_by_one, [limit, remaining, reset]);
                    assert_eq!(replies.push(&head, remaining, reset), one_by_one.len());
                }
            }
            replies.finish();
            assert_eq!(row, one_by_one);
        }
    }

    #[test]
    fn five_are_written_as_one_by_one() {
        let numbers = [0, 9, 10, 99, 100, 999, 12_345, 99_999_999, 100_000_000, -1, i64::MIN, i64::MAX];
        for (index, first) in numbers.iter().enumerate() {
            let values = [*first, 7, numbers[(index * 5 + 1) % 12], 60_000, numbers[(index * 7 + 3) % 12]];
            let (mut at_once, mut one_by_one) = (Vec::new(), b"*5\r\n".to_vec());
            push_five(&mut at_once, values);
            values.iter().for_each(|value| push_line(&mut one_by_one, b':', *value));
            assert_eq!(at_once, one_by_one);
        }
        for value in (0..100_000i64).chain((0..40_000).map(|step| step * 2_503)) {
            let (mut at_once, mut one_by_one) = (Vec::new(), b"*5\r\n".to_vec());
            push_five(&mut at_once, [value; 5]);
            (0..5).for_each(|_| push_line(&mut one_by_one, b':', value));
            assert_eq!(at_once, one_by_one, "{value}");
        }
    }
}
