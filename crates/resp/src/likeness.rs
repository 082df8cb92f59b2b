//! Recognises the command that is like one before it but for its key.
//!
//! A gateway asks about one limit for many callers: of `RL.SLIDE user:42 100 60` the next call changes the key, and
//! nothing else. So what stands before the length of the key and what stands behind the key are kept as they were, each
//! as a few words with a mask, and the next command is compared with them, whatever the length of its key:
//!
//! ```text
//!   *4 \r\n$8\r\n RL.SLIDE \r\n$   24 \r\n   user:42...   \r\n$3\r\n 100 \r\n$2\r\n 60 \r\n
//!   |-------- head --------|   |digits|      |key|        |------------ tail ------------|
//! ```
//!
//! The tail is compared in the bytes that end with it, which are there however short the buffer is.
//!
//! **Invariant.** Every byte of a command but those of its key and of its key's length is compared, and the length is
//! read as strictly as the narrowest reader would. So whatever is recognised here is what reading it would find.

use crate::span::Span;

/// The longest head that is kept, in bytes: a name of thirteen letters has 24.
const HEAD_BYTES: usize = 24;
/// The longest tail that is kept, in bytes: a limit of five digits and a window of as many have 26.
const TAIL_BYTES: usize = 32;
/// The most arguments of a command that is kept, its name included: a limit without options.
const ARGUMENTS_MAX: usize = 4;
const WORD_BYTES: usize = 8;
/// The line end behind a length.
const LINE_END: [u8; 2] = *b"\r\n";

/// What is kept of a command: all but its second argument.
///
/// It holds what the other arguments say. So it is for commands whose arguments are no secrets.
#[derive(Debug)]
pub struct Likeness {
    head: [u64; HEAD_BYTES / WORD_BYTES],
    head_mask: [u64; HEAD_BYTES / WORD_BYTES],
    tail: [u64; TAIL_BYTES / WORD_BYTES],
    tail_mask: [u64; TAIL_BYTES / WORD_BYTES],
    head_bytes: u32,
    tail_bytes: u32,
    /// The last key's length as it was written, with what follows it, and as it was read: keys of one length are many.
    last_header: [u8; 4],
    last_length: Length,
    /// The name, counted from the command's start.
    name: Span,
    /// The arguments behind the key, as the distances of their ends from the command's end; those beyond `arguments`
    /// mean nothing.
    behind: [Span; ARGUMENTS_MAX - 2],
    /// Arguments with the name and the key.
    arguments: usize,
}

impl Default for Likeness {
    /// Like no command: none begins with a zero byte.
    fn default() -> Likeness {
        Likeness {
            head: [0; HEAD_BYTES / WORD_BYTES],
            head_mask: [u64::MAX; HEAD_BYTES / WORD_BYTES],
            tail: [0; TAIL_BYTES / WORD_BYTES],
            tail_mask: [0; TAIL_BYTES / WORD_BYTES],
            head_bytes: 0,
            tail_bytes: 0,
            last_header: *b"0\r\n\r",
            last_length: Length { key_bytes: 0, header_bytes: 3 },
            name: Span::default(),
            behind: [Span::default(); ARGUMENTS_MAX - 2],
            arguments: 0,
        }
    }
}

/// A key's length and the bytes that state it, with their line end.
#[derive(Clone, Copy, Debug)]
struct Length {
    key_bytes: u32,
    header_bytes: u32,
}

/// A command that was recognised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Alike {
    /// Its key.
    pub key: Span,
    /// The first byte after it.
    pub end: u32,
}

impl Likeness {
    /// What is to be kept of the command in `buffer[start..end]`, whose arguments are `spans`. `None` if it has no
    /// second argument, or is too long, or has too many arguments, or is no array.
    pub fn of(buffer: &[u8], start: usize, end: usize, spans: &[Span]) -> Option<Likeness> {
        let (&[name, key, ..], 2..=ARGUMENTS_MAX) = (spans, spans.len()) else { return None };
        let command = buffer.get(start..end).filter(|command| command.starts_with(b"*"))?;
        let (name, key) = (name.moved_down(start), key.moved_down(start));
        let (key_start, key_end) = (usize::try_from(key.start).ok()?, usize::try_from(key.end).ok()?);
        let header = key.len().to_string();
        let head_bytes = key_start.checked_sub(header.len().checked_add(LINE_END.len())?)?;
        let length = command.get(head_bytes..key_start)?.strip_suffix(&LINE_END)?;
        if length != header.as_bytes() {
            return None;
        }
        let (head, tail) = (command.get(..head_bytes)?, command.get(key_end..)?);
        let [head_bytes, tail_bytes] = [head.len(), tail.len()].map(u32::try_from);
        let (head_bytes, tail_bytes) = (head_bytes.ok()?, tail_bytes.ok()?);
        let mut likeness = Likeness { head_bytes, tail_bytes, name, ..Likeness::default() };
        (likeness.head, likeness.head_mask) = words(head, 0)?;
        (likeness.tail, likeness.tail_mask) = words(tail, TAIL_BYTES.checked_sub(tail.len())?)?;
        let command_end = u32::try_from(end).ok()?;
        for (place, span) in likeness.behind.iter_mut().zip(spans.get(2..)?) {
            let back = |from: u32| command_end.checked_sub(from);
            *place = Span { start: back(span.start)?, end: back(span.end)? };
        }
        likeness.arguments = spans.len();
        Some(likeness)
    }

    /// If `buffer[start..]` begins with a command like the one that was kept, and all of it is there: where its key
    /// lies and where it ends. No key of more than 99 bytes is recognised. `buffer` must be at most
    /// [`crate::BUFFER_BYTES_MAX`] long.
    #[inline(always)]
    pub fn recognise(&mut self, buffer: &[u8], start: u32) -> Option<Alike> {
        let command = buffer.get(usize::try_from(start).ok()?..)?;
        let differs = difference(command.first_chunk::<HEAD_BYTES>()?, &self.head, &self.head_mask);
        if differs != 0 {
            return None;
        }
        let header = *command.get(usize::try_from(self.head_bytes).ok()?..)?.first_chunk()?;
        if header != self.last_header {
            self.last_length = read_length(&header)?;
            self.last_header = header;
        }
        let Length { key_bytes, header_bytes } = self.last_length;
        // No sum can wrap: each lies in the buffer or a hundred bytes behind it.
        let key_start = start.wrapping_add(self.head_bytes).wrapping_add(header_bytes);
        let key_end = key_start.wrapping_add(key_bytes);
        let end = key_end.wrapping_add(self.tail_bytes);
        let last = buffer.get(..usize::try_from(end).ok()?)?.last_chunk::<TAIL_BYTES>()?;
        if difference(last, &self.tail, &self.tail_mask) != 0 {
            return None;
        }
        Some(Alike { key: Span { start: key_start, end: key_end }, end })
    }

    /// Appends the spans of a command that began at `start` and was recognised.
    #[inline]
    pub fn push_spans(&self, alike: Alike, start: u32, spans: &mut Vec<Span>) {
        let Alike { key, end } = alike;
        let name = Span { start: self.name.start.wrapping_add(start), end: self.name.end.wrapping_add(start) };
        let [third, fourth] =
            self.behind.map(|back| Span { start: end.wrapping_sub(back.start), end: end.wrapping_sub(back.end) });
        let spans_before = spans.len();
        // All of them, as their number is then known beforehand; those too many are cut off.
        spans.extend_from_slice(&[name, key, third, fourth]);
        spans.truncate(spans_before.wrapping_add(self.arguments));
    }
}

/// `bytes` in words, behind `offset` bytes that do not count, and the mask of those that do. `None` if they are too
/// many.
fn words<const WORDS: usize>(bytes: &[u8], offset: usize) -> Option<([u64; WORDS], [u64; WORDS])> {
    let (mut image, mut mask) = ([[0u8; WORD_BYTES]; WORDS], [[0u8; WORD_BYTES]; WORDS]);
    let place = offset..offset.checked_add(bytes.len())?;
    image.as_flattened_mut().get_mut(place.clone())?.copy_from_slice(bytes);
    mask.as_flattened_mut().get_mut(place)?.fill(u8::MAX);
    Some((image.map(u64::from_le_bytes), mask.map(u64::from_le_bytes)))
}

/// Zero if the bytes are those of `image` where the mask has ones.
#[inline(always)]
fn difference<const BYTES: usize, const WORDS: usize>(
    bytes: &[u8; BYTES],
    image: &[u64; WORDS],
    mask: &[u64; WORDS],
) -> u64 {
    let mut difference = 0;
    // The mask comes last: the compiler then keeps to wide registers, where it would undo a plain comparison.
    for ((word, image), mask) in bytes.as_chunks::<WORD_BYTES>().0.iter().zip(image).zip(mask) {
        difference |= (u64::from_le_bytes(*word) ^ image) & mask;
    }
    difference
}

/// A length of one or two digits with its line end. A leading zero is refused, but for zero.
#[inline(never)]
fn read_length(header: &[u8; 4]) -> Option<Length> {
    let [first, second, third, fourth] = *header;
    let (tens, ones) = (u32::from(first.wrapping_sub(b'0')), u32::from(second.wrapping_sub(b'0')));
    if [third, fourth] == LINE_END && matches!(tens, 1..=9) && ones <= 9 {
        return Some(Length { key_bytes: tens * 10 + ones, header_bytes: 4 });
    }
    ([second, third] == LINE_END && tens <= 9).then_some(Length { key_bytes: tens, header_bytes: 3 })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Parser, RequestLimits, Step};

    fn on_the_wire(line: &str) -> Vec<u8> {
        let words: Vec<&str> = line.split(' ').collect();
        let bulks: String = words.iter().map(|word| format!("${}\r\n{word}\r\n", word.len())).collect();
        format!("*{}\r\n{bulks}", words.len()).into_bytes()
    }

    /// The end and the spans of the command at `start`, by the definition of what a command means.
    fn read(buffer: &[u8], start: usize) -> Option<(u32, Vec<Span>)> {
        let mut spans = Vec::new();
        match Parser::new(RequestLimits::AUTHENTICATED).step(buffer, start, &mut spans) {
            Ok(Step::Command { end }) => Some((end as u32, spans)),
            _ => None,
        }
    }

    fn likeness_of(wire: &[u8]) -> Option<Likeness> {
        let (end, spans) = read(wire, 0)?;
        Likeness::of(wire, 0, end as usize, &spans)
    }

    fn recognised(likeness: &mut Likeness, buffer: &[u8], start: u32, spans: &mut Vec<Span>) -> Option<Alike> {
        let alike = likeness.recognise(buffer, start)?;
        likeness.push_spans(alike, start, spans);
        Some(alike)
    }

    const LINES: [&str; 13] = [
        "RL.SLIDE user:000000000042 100 60",
        "RL.SLIDE user:1 100 60",
        "RL.SLIDE k 100 60",
        "RL.SLIDE  100 60",
        "RL.SLIDE user:000000000042 101 60",
        "RL.SLIDE user:000000000042 100 61",
        "RL.SLIDE user:000000000042 10 600",
        "RL.TOKEN user:000000000042 100 60",
        "rl.slide user:000000000042 100 60",
        "INCR a-counter-with-a-long-name",
        "INCRBY a-counter-with-a-long-name 5",
        "GETSET user:000000000042 15",
        "RL.SLIDE a\r\n$3\r\n100\r\n$2\r\n60\r\n 100 60",
    ];

    #[test]
    fn whatever_is_recognised_is_what_reading_it_finds() {
        for kept in LINES {
            let Some(mut likeness) = likeness_of(&on_the_wire(kept)) else { panic!("{kept} is not kept") };
            for other in LINES {
                let mut buffer = on_the_wire("PING");
                let start = buffer.len();
                buffer.extend(on_the_wire(other));
                let whole = buffer.len();
                for follows in ["", "*1\r\n$4\r\nPING\r\n*1\r\n$4\r\nPING\r\n"] {
                    buffer.truncate(whole);
                    buffer.extend_from_slice(follows.as_bytes());
                    let mut spans = vec![Span { start: 1, end: 2 }];
                    let found = recognised(&mut likeness, &buffer, start as u32, &mut spans);
                    let is_alike = kept.split_once(' ').map(|(name, rest)| (name, rest.split_once(' ').map(|r| r.1)))
                        == other.split_once(' ').map(|(name, rest)| (name, rest.split_once(' ').map(|r| r.1)));
                    assert_eq!(found.is_some(), is_alike && buffer.len() >= start + HEAD_BYTES, "{kept} / {other}");
                    if let Some(Alike { key, end }) = found {
                        let (read_end, read_spans) = read(&buffer, start).unwrap();
                        assert_eq!((end, &spans[1..], key), (read_end, &read_spans[..], read_spans[1]));
                    } else {
                        assert_eq!(spans.len(), 1, "{kept} / {other}");
                    }
                }
            }
        }
    }

    #[test]
    fn every_byte_but_the_keys_counts() {
        let wire = on_the_wire("RL.SLIDE user:000000000042 100 60");
        let mut likeness = likeness_of(&wire).unwrap();
        for place in 0..wire.len() {
            for byte in 0..=255u8 {
                let mut other = wire.clone();
                other[place] = byte;
                let mut spans = Vec::new();
                let found = recognised(&mut likeness, &other, 0, &mut spans).map(|alike| (alike.end, spans));
                assert!(found.is_none() || found == read(&other, 0), "byte {place} as {byte}");
                let in_key = (23..40).contains(&place);
                assert!(in_key || byte == wire[place] || found.is_none(), "byte {place} as {byte}");
            }
        }
        for end in 0..wire.len() {
            assert!(likeness.recognise(&wire[..end], 0).is_none(), "{end}");
        }
    }

    #[test]
    fn keys_of_all_lengths_are_recognised_up_to_99_bytes() {
        let mut likeness = likeness_of(&on_the_wire("RL.SLIDE k 100 60")).unwrap();
        for length in 0..=120usize {
            let wire = on_the_wire(&format!("RL.SLIDE {} 100 60", "k".repeat(length)));
            let mut spans = Vec::new();
            let found = recognised(&mut likeness, &wire, 0, &mut spans);
            assert_eq!(
                found.map(|alike| (alike.key.len(), alike.end)),
                (length < 100).then_some((length, wire.len() as u32))
            );
            assert!(length >= 100 || Some((wire.len() as u32, spans)) == read(&wire, 0), "{length}");
        }
        let zero_first = String::from_utf8(on_the_wire("RL.SLIDE keykey789 100 60")).unwrap().replace("$9", "$09");
        assert!(likeness.recognise(zero_first.as_bytes(), 0).is_none());
    }

    #[test]
    fn what_has_no_key_or_is_too_long_is_not_kept() {
        let long_tail = format!("SET key {}", "v".repeat(30));
        let long_name = format!("{} key", "N".repeat(20));
        for line in ["PING", &long_tail, &long_name, "CL.THROTTLE key 15 30 60"] {
            assert!(likeness_of(&on_the_wire(line)).is_none(), "{line}");
        }
        assert!(likeness_of(b"GET some-key-of-an-inline-command\r\n").is_none());
        assert!(likeness_of(b"*2\r\n$3\r\nGET\r\n$03\r\nkey\r\n").is_none());
        assert!(Likeness::default().recognise(&on_the_wire(LINES[0]), 0).is_none());
        assert!(Likeness::default().recognise(&[0; 100], 0).is_none());
    }
}
