//! The replies of one read, in the order of its requests, though some are made on other cores.
//!
//! Replies made here are written straight to where they leave from. A command that went to another core leaves a mark
//! instead; once all have answered, the pieces are put together in order. Where nothing went elsewhere there is nothing
//! to put together.

use std::ops::Range;
use tollgate_engine::parcel::Parcel;

/// Replies in a row that another core makes: which core, and their positions in that core's parcel.
#[derive(Clone, Debug)]
struct Mark {
    /// Bytes of own replies that come before them.
    own_bytes: usize,
    core: usize,
    positions: Range<usize>,
}

/// Adds the next reply to the last mark, if it belongs there, or makes a mark for it.
#[inline]
fn add_to(marks: &mut Vec<Mark>, own_bytes: usize, core: usize, position: usize) {
    match marks.last_mut() {
        Some(last) if (last.own_bytes, last.core, last.positions.end) == (own_bytes, core, position) => {
            last.positions.end = position.saturating_add(1);
        }
        _ => marks.push(Mark { own_bytes, core, positions: position..position.saturating_add(1) }),
    }
}

/// Notes replies of other cores while own ones are being appended.
pub struct Marks<'a>(&'a mut Vec<Mark>);

impl Marks<'_> {
    /// As [`Outbox::mark`], behind `own_bytes` bytes of own replies.
    #[inline]
    pub fn add(&mut self, own_bytes: usize, core: usize, position: usize) {
        add_to(self.0, own_bytes, core, position);
    }
}

/// Replies on their way out.
#[derive(Debug, Default)]
pub struct Outbox {
    /// What can leave: replies in order, and after the first mark those that were made here only.
    pub bytes: Vec<u8>,
    marks: Vec<Mark>,
    spare: Vec<u8>,
}

/// A connection whose outbox grew beyond this gives the memory back after the write.
const KEPT_BYTES_MAX: usize = 16 * 1024;

impl Outbox {
    /// Notes that the next reply is made by `core`, at `position` of its parcel.
    #[inline]
    pub fn mark(&mut self, core: usize, position: usize) {
        add_to(&mut self.marks, self.bytes.len(), core, position);
    }

    /// What own replies are appended to, and what notes the others' among them.
    #[inline]
    pub fn split(&mut self) -> (&mut Vec<u8>, Marks<'_>) {
        (&mut self.bytes, Marks(&mut self.marks))
    }

    /// Whether replies of other cores are still to be put in.
    pub fn is_waiting(&self) -> bool {
        !self.marks.is_empty()
    }

    /// Puts the replies of other cores where they belong. `refusal` stands for those of a core without a parcel.
    pub fn assemble(&mut self, parcels: &[(usize, Box<Parcel>)], refusal: &[u8]) {
        let Some(first) = self.marks.first() else { return };
        let mut copied = first.own_bytes;
        self.spare.clear();
        for mark in &self.marks {
            self.spare.extend_from_slice(self.bytes.get(copied..mark.own_bytes).unwrap_or_default());
            copied = mark.own_bytes;
            match parcels.iter().find(|(core, _)| *core == mark.core) {
                Some((_, parcel)) => self.spare.extend_from_slice(parcel.replies(mark.positions.clone())),
                None => mark.positions.clone().for_each(|_| self.spare.extend_from_slice(refusal)),
            }
        }
        self.spare.extend_from_slice(self.bytes.get(copied..).unwrap_or_default());
        self.bytes.truncate(first.own_bytes);
        if self.bytes.is_empty() {
            std::mem::swap(&mut self.bytes, &mut self.spare);
        } else {
            self.bytes.extend_from_slice(&self.spare);
        }
        self.marks.clear();
    }

    /// Keeps only the last reply, which is one line.
    pub fn keep_last_line(&mut self) {
        let before_end = self.bytes.len().saturating_sub(b"\r\n".len());
        let earlier = self.bytes.get(..before_end).and_then(|bytes| bytes.iter().rposition(|byte| *byte == b'\n'));
        self.bytes.drain(..earlier.map_or(0, |end| end + 1));
    }

    /// Empties it after everything was written.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.bytes.shrink_to(KEPT_BYTES_MAX);
        self.spare.shrink_to(KEPT_BYTES_MAX);
    }
}
