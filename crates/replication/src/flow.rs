//! What one core of a primary and a replica say to each other.
//!
//! The problem: a replica takes what it is told for the truth, so what is damaged, missing or out of order must be seen
//! before anything is made of it. The idea: parts with a length and a checksum, whose number is that of the flush that
//! they belong to: of changes one more than before, of anything else the last one. [`crate::outflow`] is who tells.

use crate::part::{self, CHECKSUM_BYTES, HEAD_BYTES, Head};
use bytes::{Buf, BufMut};
use tollgate_limits::Micros;
use tollgate_store::SLOTS;

pub(crate) const HELLO: u8 = 16;
pub(crate) const CHANGES: u8 = 17;
pub(crate) const COPY: u8 = 18;
pub(crate) const COPIED: u8 = 19;
pub(crate) const BEAT: u8 = 20;
pub(crate) const SLOTS_ANEW: u8 = 21;
/// The longest body of a part that is read.
pub const PART_BYTES_MAX: usize = 128 * 1024 * 1024;
/// Bytes of a run id.
pub const RUN_ID_BYTES: usize = 40;

/// How a flow begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hello {
    /// The version of parts and records.
    pub version: u8,
    /// The process that tells.
    pub run_id: [u8; RUN_ID_BYTES],
    /// The core that tells, and how many there are.
    pub core: u16,
    /// See `core`.
    pub cores: u16,
    /// Which of the process's tellings it is: what was told in another cannot be gone on with.
    pub telling: u64,
    /// The process whose state this one went on from, having had all of it.
    pub continues: Option<[u8; RUN_ID_BYTES]>,
    /// Whether it goes on from what the replica said it has, so that only the slots that are named next are copied
    /// anew.
    pub resumes: bool,
}

impl Hello {
    pub(crate) fn bytes(&self) -> Vec<u8> {
        let mut body = vec![self.version];
        body.put_slice(&self.run_id);
        body.put_u16_le(self.core);
        body.put_u16_le(self.cores);
        body.put_u64_le(self.telling);
        body.put_u8(u8::from(self.resumes));
        // No process has this one.
        body.put_slice(&self.continues.unwrap_or([0; RUN_ID_BYTES]));
        body
    }
}

/// What a replica says that it has of a core of its primary when it comes again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Has {
    /// The process that told it.
    pub run_id: [u8; RUN_ID_BYTES],
    /// See [`Hello::telling`].
    pub telling: u64,
    /// All up to this flush, its copy included.
    pub number: u32,
}

/// What a replica says back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ack {
    /// It has put all up to this flush.
    pub number: u32,
    /// And its copy is whole.
    pub is_copied: bool,
}

impl Ack {
    /// How long one is.
    pub const BYTES: usize = 8;

    /// One as it is sent.
    pub fn bytes(self) -> [u8; Ack::BYTES] {
        (u64::from(self.number) | u64::from(self.is_copied) << 32).to_le_bytes()
    }

    /// One that was sent.
    pub fn read(bytes: [u8; Ack::BYTES]) -> Ack {
        let word = u64::from_le_bytes(bytes);
        Ack { number: u32::try_from(word & u64::from(u32::MAX)).unwrap_or(0), is_copied: word >> 32 & 1 == 1 }
    }
}

/// Why a flow cannot be gone on with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Broken {
    /// A part is not what was sent.
    #[error("a part is damaged")]
    Damaged,
    /// It is longer than any part is: a primary ends a link for which so much waits.
    #[error("a part is too long")]
    TooLong,
    /// It is of a later version.
    #[error("it has version {0}, and this Tollgate reads up to {version}", version = crate::VERSION)]
    Newer(u8),
    /// A part is missing, or comes where it cannot.
    #[error("a part is missing or out of order")]
    OutOfOrder,
}

/// What a replica is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Told<'a> {
    /// Who tells.
    Hello(Hello),
    /// Changes, in records. `clears`: all that this core held before is gone.
    Changes {
        /// The records.
        records: &'a [u8],
        /// See there.
        clears: bool,
    },
    /// A piece of the copy, in records.
    Copy(&'a [u8]),
    /// The copy is whole.
    Copied,
    /// The slots that are copied anew, 16 bits each: all others are as the replica has them.
    Slots(&'a [u8]),
    /// A sign of life.
    Beat {
        /// For so many microseconds from the part's time the replica is in step; 0: it is not.
        promised: u64,
    },
}

/// The slots that [`Told::Slots`] names.
pub fn slots_of(body: &[u8]) -> impl Iterator<Item = u16> + '_ {
    body.chunks_exact(2).filter_map(|pair| pair.try_into().ok().map(u16::from_le_bytes)).filter(|slot| *slot < SLOTS)
}

/// One part of a flow, read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Heard<'a> {
    /// What it says.
    pub told: Told<'a>,
    /// The time on the primary's timeline when it was sent.
    pub time: Micros,
    /// The last flush that it comes after or is.
    pub number: u32,
}

/// What a replica hears of one core of its primary.
#[derive(Debug, Default)]
pub struct Inflow {
    hello: Option<Hello>,
    number: u32,
    is_copied: bool,
    is_named: bool,
}

impl Inflow {
    /// The part that `input` begins with, and how many bytes it takes. `None`: it is not all there yet.
    ///
    /// # Errors
    /// [`Broken`]: nothing more can be made of this flow.
    pub fn hear<'a>(&mut self, input: &'a [u8]) -> Result<Option<(Heard<'a>, usize)>, Broken> {
        let Some((head_bytes, rest)) = input.split_first_chunk::<HEAD_BYTES>() else { return Ok(None) };
        let head = Head::read(head_bytes);
        if head.length > PART_BYTES_MAX {
            return Err(Broken::TooLong);
        }
        let Some((body, rest)) = rest.split_at_checked(head.length) else { return Ok(None) };
        let Some(checksum) = rest.first_chunk::<CHECKSUM_BYTES>() else { return Ok(None) };
        if part::checksum(&[head_bytes, body]) != u32::from_le_bytes(*checksum) {
            return Err(Broken::Damaged);
        }
        let mut body = body;
        let time = body.try_get_u64_le().map_err(|_| Broken::Damaged)?;
        let told = told(head.kind, body)?;
        self.follow(&told, head.number)?;
        let taken = HEAD_BYTES + head.length + CHECKSUM_BYTES;
        Ok(Some((Heard { told, time, number: head.number }, taken)))
    }

    /// Whether the copy was told to its end.
    pub fn is_copied(&self) -> bool {
        self.is_copied
    }

    /// What can be said of it when the link is made anew: nothing before its copy is whole.
    pub fn has(&self) -> Option<Has> {
        let Hello { run_id, telling, .. } = self.hello.filter(|_| self.is_copied)?;
        Some(Has { run_id, telling, number: self.number })
    }

    /// Who tells, once that is known.
    pub fn hello(&self) -> Option<Hello> {
        self.hello
    }

    fn follow(&mut self, told: &Told<'_>, number: u32) -> Result<(), Broken> {
        let resumes = self.hello.is_some_and(|hello| hello.resumes);
        let expected = match told {
            Told::Hello(hello) if self.hello.is_none() => {
                self.hello = Some(*hello);
                number
            }
            _ if self.hello.is_none() => return Err(Broken::OutOfOrder),
            Told::Hello(_) => return Err(Broken::OutOfOrder),
            Told::Slots(_) if !resumes || self.is_named => return Err(Broken::OutOfOrder),
            Told::Slots(_) => {
                self.is_named = true;
                self.number
            }
            // Before it is said what is copied anew, nothing else can be understood.
            _ if resumes && !self.is_named => return Err(Broken::OutOfOrder),
            Told::Changes { .. } => self.number.checked_add(1).ok_or(Broken::OutOfOrder)?,
            Told::Copy(_) | Told::Copied if self.is_copied => return Err(Broken::OutOfOrder),
            Told::Copy(_) | Told::Copied | Told::Beat { .. } => self.number,
        };
        if number != expected {
            return Err(Broken::OutOfOrder);
        }
        self.number = number;
        self.is_copied |= *told == Told::Copied;
        Ok(())
    }
}

fn told(kind: u8, body: &[u8]) -> Result<Told<'_>, Broken> {
    let mut rest = body;
    let told = match kind {
        HELLO => {
            let version = rest.try_get_u8().map_err(|_| Broken::Damaged)?;
            if version != crate::VERSION {
                return Err(Broken::Newer(version));
            }
            let mut run_id = [0; RUN_ID_BYTES];
            rest.try_copy_to_slice(&mut run_id).map_err(|_| Broken::Damaged)?;
            let core = rest.try_get_u16_le().map_err(|_| Broken::Damaged)?;
            let cores = rest.try_get_u16_le().map_err(|_| Broken::Damaged)?;
            let telling = rest.try_get_u64_le().map_err(|_| Broken::Damaged)?;
            let resumes = rest.try_get_u8().map_err(|_| Broken::Damaged)? != 0;
            let mut continues = [0; RUN_ID_BYTES];
            rest.try_copy_to_slice(&mut continues).map_err(|_| Broken::Damaged)?;
            let continues = (continues != [0; RUN_ID_BYTES]).then_some(continues);
            Told::Hello(Hello { version, run_id, core, cores, telling, continues, resumes })
        }
        CHANGES => {
            let clears = rest.try_get_u8().map_err(|_| Broken::Damaged)? != 0;
            Told::Changes { records: std::mem::take(&mut rest), clears }
        }
        COPY => Told::Copy(std::mem::take(&mut rest)),
        COPIED => Told::Copied,
        BEAT => Told::Beat { promised: rest.try_get_u64_le().map_err(|_| Broken::Damaged)? },
        SLOTS_ANEW => Told::Slots(std::mem::take(&mut rest)),
        _ => return Err(Broken::Damaged),
    };
    if rest.is_empty() { Ok(told) } else { Err(Broken::Damaged) }
}
