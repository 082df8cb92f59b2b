//! Arguments as places in a buffer rather than copies of it.

use std::fmt;

use crate::printable::printable;

/// A byte range in the buffer that was handed to the parser.
///
/// 32 bits are enough because a command is bounded far below 4 GiB, and they keep a span in one register.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Span {
    /// The first byte.
    pub start: u32,
    /// One past the last byte.
    pub end: u32,
}

impl Span {
    /// The bytes of this span in `buffer`; empty if the span does not lie inside it.
    #[inline(always)]
    pub fn of(self, buffer: &[u8]) -> &[u8] {
        match (usize::try_from(self.start), usize::try_from(self.end)) {
            (Ok(start), Ok(end)) => buffer.get(start..end).unwrap_or_default(),
            _ => &[],
        }
    }

    /// How many bytes the span covers.
    pub fn len(self) -> usize {
        usize::try_from(self.end.saturating_sub(self.start)).unwrap_or_default()
    }

    /// Whether the span covers nothing.
    pub fn is_empty(self) -> bool {
        self.end <= self.start
    }

    /// The span of `start..end`. The parser never looks beyond 4 GiB, so saturation is out of reach; it stands here
    /// so that no number can wrap.
    pub(crate) fn new(start: usize, end: usize) -> Span {
        Span { start: u32::try_from(start).unwrap_or(u32::MAX), end: u32::try_from(end).unwrap_or(u32::MAX) }
    }

    /// The same span counted from a point `by` bytes further back.
    pub(crate) fn moved_up(self, by: usize) -> Span {
        let by = u32::try_from(by).unwrap_or(u32::MAX);
        Span { start: self.start.saturating_add(by), end: self.end.saturating_add(by) }
    }

    /// The same span counted from a point `by` bytes further on.
    pub(crate) fn moved_down(self, by: usize) -> Span {
        let by = u32::try_from(by).unwrap_or(u32::MAX);
        Span { start: self.start.saturating_sub(by), end: self.end.saturating_sub(by) }
    }
}

/// One command's arguments, its name first: spans and the buffer they lie in.
#[derive(Clone, Copy)]
pub struct Args<'a> {
    buffer: &'a [u8],
    spans: &'a [Span],
}

impl<'a> Args<'a> {
    /// The arguments that `spans` mark in `buffer`.
    #[inline(always)]
    pub fn new(buffer: &'a [u8], spans: &'a [Span]) -> Args<'a> {
        Args { buffer, spans }
    }

    /// How many arguments there are.
    #[inline(always)]
    pub fn len(&self) -> usize {
        self.spans.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.spans.is_empty()
    }

    /// The argument at `index`, counted from 0; `None` past the last.
    #[inline(always)]
    pub fn get(&self, index: usize) -> Option<&'a [u8]> {
        self.spans.get(index).map(|span| span.of(self.buffer))
    }

    /// The arguments at `index` and after it, as they lie in the buffer, with what lies between them. `None` if there
    /// are not both, or if they do not lie in order.
    #[inline(always)]
    pub fn stretch(&self, index: usize) -> Option<Stretch<'a>> {
        let (first, second) = (self.spans.get(index)?, self.spans.get(index.checked_add(1)?)?);
        if first.end > second.start {
            return None;
        }
        let bytes = self.buffer.get(usize::try_from(first.start).ok()?..usize::try_from(second.end).ok()?)?;
        let (first_bytes, second_bytes) = (first.end.checked_sub(first.start)?, second.end.checked_sub(second.start)?);
        Some(Stretch { bytes, first_bytes, second_bytes })
    }

    /// All arguments in order.
    pub fn iter(&self) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        let buffer = self.buffer;
        self.spans.iter().map(move |span| span.of(buffer))
    }

    /// The arguments from index `from` on; none if there are not so many.
    pub fn tail(&self, from: usize) -> Args<'a> {
        Args { buffer: self.buffer, spans: self.spans.get(from..).unwrap_or_default() }
    }
}

/// Two arguments that follow each other, in one piece. Two stretches that are equal hold the same two arguments.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Stretch<'a> {
    /// From the first byte of the one to the last byte of the other.
    pub bytes: &'a [u8],
    /// Bytes of the first argument.
    pub first_bytes: u32,
    /// Bytes of the second argument.
    pub second_bytes: u32,
}

/// The name and the number of arguments, never the arguments: they may hold a password.
impl fmt::Debug for Args<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = printable(self.get(0).unwrap_or_default());
        formatter.debug_struct("Args").field("name", &name).field("len", &self.len()).finish()
    }
}

/// Arguments that lie in a buffer of their own: because what the client wrote is not what it meant, as the words of an
/// inline command with quotes and escapes in it, or because they outlive what was read.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct OwnedArgs {
    bytes: Vec<u8>,
    spans: Vec<Span>,
}

impl OwnedArgs {
    /// The arguments, as any command's.
    pub fn args(&self) -> Args<'_> {
        Args::new(&self.bytes, &self.spans)
    }

    /// The buffer that [`OwnedArgs::spans`] refer to.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Where each argument lies in [`OwnedArgs::bytes`].
    pub fn spans(&self) -> &[Span] {
        &self.spans
    }

    /// How many bytes it holds, what it needs to tell the arguments apart included.
    pub fn held_bytes(&self) -> usize {
        self.bytes.len() + self.spans.len() * size_of::<Span>()
    }

    /// Appends one byte to the argument that is being written.
    pub(crate) fn push_byte(&mut self, byte: u8) {
        self.bytes.push(byte);
    }

    /// Ends the argument that is being written and gives its length in bytes.
    pub(crate) fn finish_argument(&mut self) -> usize {
        let start = self.spans.last().map_or(0, |span| span.end);
        let span = Span { start, end: u32::try_from(self.bytes.len()).unwrap_or(u32::MAX) };
        self.spans.push(span);
        span.len()
    }
}

/// Copies of arguments.
impl<'a> FromIterator<&'a [u8]> for OwnedArgs {
    fn from_iter<I: IntoIterator<Item = &'a [u8]>>(arguments: I) -> OwnedArgs {
        let mut owned = OwnedArgs::default();
        for argument in arguments {
            owned.bytes.extend_from_slice(argument);
            owned.finish_argument();
        }
        owned
    }
}

impl fmt::Debug for OwnedArgs {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.args().fmt(formatter)
    }
}

#[cfg(test)]
mod tests {
    use super::{Args, Span};

    #[test]
    fn a_span_outside_the_buffer_is_empty() {
        let samples = [
            ((0, 3), "abc"),
            ((1, 2), "b"),
            ((3, 3), ""),
            ((2, 4), ""),
            ((9, 12), ""),
            ((2, 1), ""),
            ((0, u32::MAX), ""),
        ];
        for ((start, end), expected) in samples {
            assert_eq!(Span { start, end }.of(b"abc"), expected.as_bytes(), "{start}..{end}");
        }
        assert_eq!(Span { start: 5, end: 3 }.len(), 0);
        assert!(Span { start: 5, end: 3 }.is_empty() && Span::default().is_empty());
        assert_eq!(Span { start: 3, end: 5 }.len(), 2);
    }

    #[test]
    fn arguments_are_read_by_index_and_tail() {
        let spans = [Span { start: 0, end: 3 }, Span { start: 4, end: 5 }, Span { start: 5, end: 5 }];
        let args = Args::new(b"GET k", &spans);
        assert_eq!((args.len(), args.is_empty()), (3, false));
        assert_eq!((args.get(0), args.get(2), args.get(3)), (Some(&b"GET"[..]), Some(&b""[..]), None));
        assert_eq!(args.iter().collect::<Vec<_>>(), [&b"GET"[..], b"k", b""]);
        assert_eq!(args.tail(1).iter().collect::<Vec<_>>(), [&b"k"[..], b""]);
        assert!(args.tail(3).is_empty() && args.tail(99).is_empty());
    }

    #[test]
    fn a_stretch_holds_two_arguments_and_what_is_between() {
        let spans = [(0, 3), (5, 7), (8, 8), (4, 6), (6, 4), (9, 10)].map(|(start, end)| Span { start, end });
        let args = Args::new(b"100, 60 x", &spans);
        let stretch = |index| args.stretch(index).map(|found| (found.bytes, found.first_bytes, found.second_bytes));
        assert_eq!(stretch(0), Some((&b"100, 60"[..], 3, 2)));
        assert_eq!(stretch(1), Some((&b"60 "[..], 2, 0)));
        assert_eq!(
            (stretch(2), stretch(3), stretch(4), stretch(5), stretch(usize::MAX)),
            (None, None, None, None, None)
        );
    }

    #[test]
    fn debugging_shows_no_argument() {
        let spans = [Span { start: 0, end: 4 }, Span { start: 5, end: 11 }];
        let shown = format!("{:?}", Args::new(b"AUTH secret", &spans));
        assert_eq!(shown, r#"Args { name: "AUTH", len: 2 }"#);
    }
}
