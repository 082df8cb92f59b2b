//! Commands of a few short arguments, which nearly all traffic is.
//!
//! Nothing about them needs to be remembered or compared with a bound, so the header line and the line end that a
//! careful reader takes apart byte by byte can be judged whole. Between two arguments there is always the same pattern,
//! and it fits in one word:
//!
//! ```text
//! *4 \r\n$8\r\n RL.SLIDE \r\n$24\r\n <key> \r\n$3\r\n 100 \r\n$2\r\n 60 \r\n
//!    ^ joint             ^ joint           ^ joint        ^ joint       ^ end
//! ```
//!
//! A joint is read as one little-endian word and compared by one exclusive or with the pattern whose digits are zero.
//! What is left of a good joint are the values of its digits; any other byte leaves a number too large for that.
//!
//! The careful path is the definition of what a command means: this one gives either the same answer or none.

use crate::span::Span;

/// The most arguments of a short command, and the most bytes of each.
pub(crate) const SHORT_ARGUMENTS_MAX: usize = 9;
pub(crate) const SHORT_ARGUMENT_BYTES_MAX: usize = 99;

/// The longest short command: each argument with its header and line end, and the header before them.
pub(crate) const SHORT_COMMAND_BYTES_MAX: usize = 4 + SHORT_ARGUMENTS_MAX * (5 + SHORT_ARGUMENT_BYTES_MAX + 2);

/// The longest buffer in which every place that a short command could reach is a number of 32 bits.
pub const BUFFER_BYTES_MAX: u32 = u32::MAX - 2 * 1_024;

const _: () = assert!(SHORT_COMMAND_BYTES_MAX < 1_024);

/// The bytes of a joint: the line end of what stands before it, and the header of the argument after it. The shortest
/// that can follow is an empty argument and its line end, so this many bytes are there if the command is whole.
const JOINT_BYTES: usize = 8;

/// A joint with a length of one digit, which is zero.
const ONE_DIGIT: u64 = u64::from_le_bytes(*b"\r\n$0\r\n\0\0");
const ONE_DIGIT_BYTES: u32 = 6;

/// A joint with a length of two digits, which are zeros.
const TWO_DIGITS: u64 = u64::from_le_bytes(*b"\r\n$00\r\n\0");
const TWO_DIGITS_BYTES: u32 = 7;

/// Spans are made room for in groups of this many, so that most commands do so once.
const GROUP: usize = 4;

/// Reads a whole command of at most nine arguments of at most 99 bytes each from `buffer[start..]`, and gives its end;
/// `None`, and no spans, for anything else, including what is incomplete or wrong.
///
/// `buffer` must not be longer than [`BUFFER_BYTES_MAX`]. Only a command's first look comes here, so no byte is read
/// more than twice.
#[inline]
pub(crate) fn read_short_command(buffer: &[u8], start: usize, spans: &mut Vec<Span>) -> Option<usize> {
    let &[b'*', count @ b'1'..=b'9', ..] = buffer.get(start..)? else { return None };
    let spans_before = spans.len();
    let count = count.wrapping_sub(b'0');
    // The last group may be longer than what is in it, and of a command that is not short nothing may stay. Neither sum
    // is more than the length that the vector has by then.
    match read_short_arguments(buffer, u32::try_from(start).ok()?.wrapping_add(2), count, spans) {
        Some(end) => {
            spans.truncate(spans_before.wrapping_add(usize::from(count)));
            Some(end)
        }
        None => {
            spans.truncate(spans_before);
            None
        }
    }
}

#[inline]
fn read_short_arguments(buffer: &[u8], first_joint: u32, count: u8, spans: &mut Vec<Span>) -> Option<usize> {
    let (mut joint, mut missing) = (first_joint, count);
    loop {
        spans.extend_from_slice(&[Span::default(); GROUP]);
        for span in spans.last_chunk_mut::<GROUP>()? {
            *span = read_short_argument(buffer, joint)?;
            joint = span.end;
            missing = missing.wrapping_sub(1);
            if missing == 0 {
                let last = usize::try_from(joint).ok()?;
                let end = last + 2;
                return (buffer.get(last..end)? == b"\r\n").then_some(end);
            }
        }
    }
}

/// Reads `\r\n$<bytes>\r\n` with a length of one digit or two at `joint`: where the argument after it lies, if it is
/// all there.
///
/// Nothing can wrap: `joint` is a place in a buffer whose length is bounded such that a joint and an argument more
/// still are numbers of 32 bits.
#[inline]
fn read_short_argument(buffer: &[u8], joint: u32) -> Option<Span> {
    let at = usize::try_from(joint).ok()?;
    let word = u64::from_le_bytes(*buffer.get(at..at + JOINT_BYTES)?.first_chunk()?);
    // The bytes behind the joint are shifted out. The rest goes round until the digits are lowest.
    let one = ((word ^ ONE_DIGIT) << 16).rotate_right(16 + 24);
    if one <= 9 {
        let start = joint.wrapping_add(ONE_DIGIT_BYTES);
        return Some(Span { start, end: start.wrapping_add(u32::try_from(one).ok()?) });
    }
    let two = ((word ^ TWO_DIGITS) << 8).rotate_right(8 + 24);
    let (tens, ones) = (two & 0xff, two >> 8);
    // A length that starts with a zero is another spelling of one digit, and refused.
    if ones > 9 || !(1..=9).contains(&tens) {
        return None;
    }
    let start = joint.wrapping_add(TWO_DIGITS_BYTES);
    Some(Span { start, end: start.wrapping_add(u32::try_from(tens * 10 + ones).ok()?) })
}
