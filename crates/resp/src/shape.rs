//! Recognises the command that looks like the one before it.
//!
//! A client that asks about limits sends the same command again and again; only the bytes of its arguments differ. What
//! it says about its form, the counts, lengths and line ends, is then the same at the same places:
//!
//! ```text
//! command   *4 \r\n$8\r\n RL.SLIDE \r\n$5\r\n user1 \r\n$3\r\n 100 \r\n
//! framing   ## ########## ........ ########## ..... ########## ... ####
//! ```
//!
//! So the framing of a command that was read is kept with a mask over it, and the next one is compared with it as a few
//! words, all at once and without a branch. If it is equal, the arguments lie where the others lay, moved.
//!
//! **Invariant.** Every byte of a command that is not an argument's is compared, so whatever is recognised here is what
//! reading it would find. An argument that holds a header of its own cannot look like one: its bytes are not looked at.

use crate::span::Span;

/// The longest command that is recognised, in bytes. That many must be in the buffer, though they may be the next
/// command's. It holds a limit by a key of 40 bytes with a cost, and takes six steps of 16 bytes to compare.
pub(crate) const SHAPE_BYTES: usize = 96;

/// The most arguments of a command that is recognised: a limit with a cost.
const SHAPE_ARGUMENTS: usize = 6;

const WORD_BYTES: usize = 8;
const WORDS: usize = SHAPE_BYTES / WORD_BYTES;

/// The bytes from a command's start on.
pub(crate) type Window = [u8; SHAPE_BYTES];

/// What is kept of a command: all but its arguments.
#[derive(Debug)]
pub(crate) struct Shape {
    /// Ones where the framing lies.
    mask: [u64; WORDS],
    /// The framing, and zeros where an argument was.
    framing: [u64; WORDS],
    /// The arguments, counted from the command's start; those beyond `arguments` mean nothing.
    spans: [Span; SHAPE_ARGUMENTS],
    arguments: usize,
    bytes: usize,
    /// How long the last command was, if it was not recognised. To keep a shape costs as much as to read a command, so
    /// it is done only for two of a length in a row: a client whose keys differ in length, or that sends two shapes in
    /// turn, does not pay for it each time.
    unrecognised_bytes: usize,
}

impl Shape {
    /// A shape that no command has: one without arguments is not recognised.
    pub(crate) const NONE: Shape = Shape {
        mask: [0; WORDS],
        framing: [0; WORDS],
        spans: [Span { start: 0, end: 0 }; SHAPE_ARGUMENTS],
        arguments: 0,
        bytes: 0,
        unrecognised_bytes: 0,
    };

    /// If the command in `window`, which begins at `start` of its buffer, has this shape: appends its spans, and gives
    /// its end. The window's end must be a number of 32 bits.
    #[inline]
    pub(crate) fn recognise(&mut self, window: &Window, start: usize, spans: &mut Vec<Span>) -> Option<usize> {
        let (words, _) = window.as_chunks::<WORD_BYTES>();
        let mut difference = 0;
        // The mask comes last: the compiler then keeps to wide registers, where it would undo a plain comparison.
        for ((word, mask), framing) in words.iter().zip(&self.mask).zip(&self.framing) {
            difference |= (u64::from_le_bytes(*word) ^ framing) & mask;
        }
        if difference != 0 || self.arguments == 0 {
            return None;
        }
        self.unrecognised_bytes = 0;
        let base = u32::try_from(start).ok()?;
        let spans_before = spans.len();
        // All of them, as their number is then known beforehand; those too many are cut off. No sum can wrap: a span
        // lies inside the window, and the vector is at most made as long as it is.
        spans.extend_from_slice(
            &self.spans.map(|span| Span { start: span.start.wrapping_add(base), end: span.end.wrapping_add(base) }),
        );
        spans.truncate(spans_before.wrapping_add(self.arguments));
        Some(start.wrapping_add(self.bytes))
    }

    /// Takes note of a command of `bytes` bytes that was not recognised, and may keep its shape. `spans` are its
    /// arguments, and `start` is where the window begins in what they count from.
    pub(crate) fn note(&mut self, window: &Window, start: usize, bytes: usize, spans: &[Span]) {
        let again = bytes == self.unrecognised_bytes;
        self.unrecognised_bytes = bytes;
        if again && let Some(shape) = Shape::of(window, start, bytes, spans) {
            *self = shape;
        }
    }

    /// The shape of a command; `None` if it is too long, or has too many arguments or none.
    fn of(window: &Window, start: usize, bytes: usize, spans: &[Span]) -> Option<Shape> {
        let mut shape = Shape { arguments: spans.len(), bytes, unrecognised_bytes: bytes, ..Shape::NONE };
        let mut mask = [0; SHAPE_BYTES];
        mask.get_mut(..bytes)?.fill(u8::MAX);
        for (place, span) in shape.spans.get_mut(..spans.len())?.iter_mut().zip(spans) {
            *place = span.moved_down(start);
            mask.get_mut(usize::try_from(place.start).ok()?..usize::try_from(place.end).ok()?)?.fill(0);
        }
        let (words, masks) = (window.as_chunks::<WORD_BYTES>().0, mask.as_chunks::<WORD_BYTES>().0);
        for (index, (word, mask)) in words.iter().zip(masks).enumerate() {
            *shape.mask.get_mut(index)? = u64::from_le_bytes(*mask);
            // Masked, so that no argument, which may be a password, is kept.
            *shape.framing.get_mut(index)? = u64::from_le_bytes(*word) & u64::from_le_bytes(*mask);
        }
        Some(shape)
    }
}

const _: () = assert!(SHAPE_BYTES.is_multiple_of(WORD_BYTES));
