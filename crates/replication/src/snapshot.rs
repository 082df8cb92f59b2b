//! A file of records, in parts.
//!
//! The problem: a snapshot is read by a process that knows nothing but the file, which may be cut off, damaged, of a
//! later version or no snapshot at all; and what is wrongly taken for a whole one gives callers their budgets back. The
//! idea: parts with a length and a checksum each, numbered, and a last part that says how many came before it.
//!
//! ```text
//! file   magic (8 bytes) | version (8 bits) | part (part.rs) ...
//!   1    records  count (64 bits), then records (record.rs)
//!   2    end      records of all parts (64), timeline (64), wall clock (64); the last part, after which nothing comes
//! ```
//!
//! Parts hold records of any slots, so that the cores write them side by side and a process with another number of
//! cores reads them. A record is as it was at some moment while the snapshot was written: later than its begin, which
//! is what it vouches for.

use crate::part::{self, CHECKSUM_BYTES, HEAD_BYTES, Head};
use crate::planted::{Planted, is_planted};
use bytes::Buf;
use std::io::{self, Read, Seek, SeekFrom, Write};
use tollgate_limits::Micros;

/// What a snapshot begins with.
pub const MAGIC: [u8; 8] = *b"TOLLGATE";
/// The version of the file, and with it of its records.
pub const SNAPSHOT_VERSION: u8 = crate::VERSION;

const RECORDS: u8 = 1;
const END: u8 = 2;
const END_BODY_BYTES: usize = 24;
/// How much is read at once of what a part says it holds.
const READ_BYTES: usize = 64 * 1024;

/// When a snapshot was finished.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// The time by which limits are decided, in microseconds.
    pub timeline: Micros,
    /// What the wall clock said, in microseconds since 1970.
    pub wall: Micros,
}

/// What says nothing of when a snapshot was finished.
const NEVER: Stamp = Stamp { timeline: 0, wall: 0 };

/// Why a file cannot be read as a snapshot.
#[derive(Debug, thiserror::Error)]
pub enum Unreadable {
    /// The system says so.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// It begins otherwise.
    #[error("it is not a snapshot of Tollgate")]
    Foreign,
    /// A later version wrote it.
    #[error("it has version {0}, and this Tollgate reads up to {SNAPSHOT_VERSION}: start the version that wrote it")]
    Newer(u8),
    /// It has a version that never was.
    #[error("it has version {0}, which no Tollgate wrote")]
    Unknown(u8),
    /// It ends before its end.
    #[error("it is cut off after {0} parts")]
    CutOff(u32),
    /// A part is not what was written.
    #[error("part {0} is damaged: {1}")]
    Damaged(u32, &'static str),
    /// A record in a part is none.
    #[error("part {0}: {1}")]
    Record(u32, crate::NotImported),
}

/// Writes a snapshot.
#[derive(Debug)]
pub struct Writer<W> {
    out: W,
    parts: u32,
    records: u64,
    part: Vec<u8>,
}

impl<W: Write> Writer<W> {
    /// Begins one.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn new(mut out: W) -> io::Result<Writer<W>> {
        out.write_all(&MAGIC)?;
        out.write_all(&[SNAPSHOT_VERSION])?;
        Ok(Writer { out, parts: 0, records: 0, part: Vec::new() })
    }

    /// Adds a part of so many records, written by [`crate::write`].
    ///
    /// # Errors
    /// It cannot be written, or is longer than 4 GiB.
    pub fn records(&mut self, records: &[u8], count: u64) -> io::Result<()> {
        self.records += count;
        self.part(RECORDS, &[&count.to_le_bytes(), records])
    }

    /// Adds the end, and gives back what it was written to.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn end(mut self, stamp: Stamp) -> io::Result<W> {
        let [records, timeline, wall] = [self.records, stamp.timeline, stamp.wall].map(u64::to_le_bytes);
        self.part(END, &[&records, &timeline, &wall])?;
        Ok(self.out)
    }

    fn part(&mut self, kind: u8, body: &[&[u8]]) -> io::Result<()> {
        self.part.clear();
        part::write(&mut self.part, kind, self.parts, body).ok_or_else(|| io::Error::other("a part above 4 GiB"))?;
        self.parts = self.parts.checked_add(1).ok_or_else(|| io::Error::other("more than 2^32 parts"))?;
        self.out.write_all(&self.part)
    }
}

/// A part of a snapshot that was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// So many records, which lie in the buffer.
    Records(u64),
    /// The end, and when that was.
    End(Stamp),
}

/// Reads a snapshot.
#[derive(Debug)]
pub struct Reader<R> {
    input: R,
    parts: u32,
    records: u64,
}

impl<R: Read> Reader<R> {
    /// Begins to read one.
    ///
    /// # Errors
    /// It is none, or of another version.
    pub fn new(mut input: R) -> Result<Reader<R>, Unreadable> {
        let mut begin = [0; 9];
        read_whole(&mut input, &mut begin).map_err(|error| error.unwrap_or(Unreadable::Foreign))?;
        let [magic @ .., version] = begin;
        match version {
            _ if magic != MAGIC => Err(Unreadable::Foreign),
            SNAPSHOT_VERSION => Ok(Reader { input, parts: 0, records: 0 }),
            newer if newer > SNAPSHOT_VERSION => Err(Unreadable::Newer(newer)),
            unknown => Err(Unreadable::Unknown(unknown)),
        }
    }

    /// Reads the next part; records go into `body`, whose content is replaced.
    ///
    /// # Errors
    /// It is damaged, or missing. After the end, and after an error, there is nothing more to read.
    pub fn next(&mut self, body: &mut Vec<u8>) -> Result<Part, Unreadable> {
        let number = self.parts;
        let cut_off = |error: Option<Unreadable>| error.unwrap_or(Unreadable::CutOff(number));
        let damaged = |why| Unreadable::Damaged(number, why);
        let mut head_bytes = [0; HEAD_BYTES];
        match read_whole(&mut self.input, &mut head_bytes) {
            Err(None) if is_planted(Planted::CutSnapshotAccepted) => return Ok(Part::End(NEVER)),
            read => read.map_err(cut_off)?,
        }
        let head = Head::read(&head_bytes);
        read_bounded(&mut self.input, head.length, body).map_err(cut_off)?;
        let mut checksum = [0; CHECKSUM_BYTES];
        read_whole(&mut self.input, &mut checksum).map_err(cut_off)?;
        if part::checksum(&[&head_bytes, body]) != u32::from_le_bytes(checksum) {
            return Err(damaged("its checksum is another"));
        }
        if head.number != number {
            return Err(damaged("it has another part's number"));
        }
        self.parts = number.checked_add(1).ok_or(damaged("there are too many"))?;
        match head.kind {
            RECORDS => {
                let count = body.as_slice().try_get_u64_le().map_err(|_| damaged("it is too short"))?;
                body.drain(..size_of::<u64>());
                self.records = self.records.checked_add(count).ok_or(damaged("its count is none"))?;
                Ok(Part::Records(count))
            }
            END => {
                let (records, stamp) = read_end(body).ok_or(damaged("it is too short"))?;
                if records != self.records {
                    return Err(damaged("records are missing before it"));
                }
                let mut more = [0];
                match read_whole(&mut self.input, &mut more) {
                    Err(None) => Ok(Part::End(stamp)),
                    Err(Some(error)) => Err(error),
                    Ok(()) => Err(damaged("something comes after the end")),
                }
            }
            _ => Err(damaged("it is of an unknown kind")),
        }
    }
}

/// When a snapshot was finished, by its last part alone: a short look before all of it is read.
///
/// # Errors
/// It is none, of another version, or cut off.
pub fn stamp_of<R: Read + Seek>(input: &mut R) -> Result<Stamp, Unreadable> {
    input.rewind()?;
    Reader::new(&mut *input)?;
    let end_bytes = HEAD_BYTES + END_BODY_BYTES + CHECKSUM_BYTES;
    let bytes = input.seek(SeekFrom::End(0))?;
    let cut_off = || Unreadable::CutOff(0);
    let from = bytes.checked_sub(u64::try_from(end_bytes).unwrap_or(u64::MAX)).ok_or_else(cut_off)?;
    input.seek(SeekFrom::Start(from))?;
    let mut end = [0; HEAD_BYTES + END_BODY_BYTES + CHECKSUM_BYTES];
    input.read_exact(&mut end)?;
    let (part, checksum) = end.split_at(HEAD_BYTES + END_BODY_BYTES);
    let is_end = part.first() == Some(&END) && part::checksum(&[part]).to_le_bytes() == checksum;
    if !is_end && is_planted(Planted::CutSnapshotAccepted) {
        input.rewind()?;
        return Ok(NEVER);
    }
    let (_, stamp) = part.get(HEAD_BYTES..).and_then(read_end).filter(|_| is_end).ok_or_else(not_at_end)?;
    input.rewind()?;
    Ok(stamp)
}

fn not_at_end() -> Unreadable {
    Unreadable::Io(io::Error::other("it is cut off: its end is missing"))
}

fn read_end(mut body: &[u8]) -> Option<(u64, Stamp)> {
    let records = body.try_get_u64_le().ok()?;
    let stamp = Stamp { timeline: body.try_get_u64_le().ok()?, wall: body.try_get_u64_le().ok()? };
    body.is_empty().then_some((records, stamp))
}

/// Fills `bytes`. `None` as the error: there are fewer.
fn read_whole(input: &mut impl Read, bytes: &mut [u8]) -> Result<(), Option<Unreadable>> {
    input.read_exact(bytes).map_err(|error| match error.kind() {
        io::ErrorKind::UnexpectedEof => None,
        _ => Some(Unreadable::Io(error)),
    })
}

/// Puts `length` bytes into `body`. What is taken for it grows with what is there, whatever the length says.
fn read_bounded(input: &mut impl Read, length: usize, body: &mut Vec<u8>) -> Result<(), Option<Unreadable>> {
    body.clear();
    while body.len() < length {
        let from = body.len();
        body.resize(length.min(from.saturating_add(READ_BYTES.max(from))), 0);
        read_whole(input, body.get_mut(from..).unwrap_or_default())?;
    }
    Ok(())
}
