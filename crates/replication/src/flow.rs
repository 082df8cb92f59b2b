//! What one core of a primary tells a replica: a copy of all it holds, and every change.
//!
//! The problem: a replica must come to hold what the primary holds while that goes on being charged, from a moment of
//! its own choosing, without a stall, without a buffer that grows, and without a change that slips between the copy and
//! the stream. The idea: some hundred times a second the core takes the keys that changed, each once, and tells all
//! links the same bytes. A link that is new walks through the store beside that, a piece right after each such flush,
//! when no change is untold: what the walk has passed is told by its changes from then on, and what it has not it will
//! still come to. A copy that can no longer be told what it lacks begins anew.
//!
//! ```text
//! primary's core                             link                       replica
//!   store ──take_changes──> changes n  ────────────────────────────>  in order: put, then acknowledge n
//!         ──walk──────────> copy, after n  (a link that is new) ───>  put
//! ```
//!
//! A part's number is that of the flush it belongs to: of changes one more than before, of anything else the last one.
//!
//! **Invariant:** a replica that was told all up to a flush, its copy included, holds what the core held then, but for
//! what has expired.

use crate::part::{self, CHECKSUM_BYTES, HEAD_BYTES, Head};
use crate::record::write;
use crate::transfer::Export;
use bytes::{Buf, BufMut};
use std::collections::{BTreeMap, VecDeque};
use tollgate_limits::Micros;
use tollgate_store::{KeyChange, Store};

const HELLO: u8 = 16;
const CHANGES: u8 = 17;
const COPY: u8 = 18;
const COPIED: u8 = 19;
const BEAT: u8 = 20;
/// Flushes under way of which it is known how many units they tell; of those before them it is over-stated.
const FLUSHES_COUNTED_MAX: usize = 65_536;
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
}

/// A link of an [`Outflow`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LinkId(u64);

#[derive(Debug)]
struct Link {
    /// The walk through the store, until it is done.
    walk: Option<Export>,
    is_copied: bool,
    /// The last flush that was acknowledged.
    acknowledged: u32,
}

/// What a core tells, to any number of links.
#[derive(Debug)]
pub struct Outflow {
    hello: Hello,
    links: BTreeMap<LinkId, Link>,
    next_link: u64,
    /// The last flush.
    number: u32,
    /// Units admitted in all when a flush was made, of the flushes that some link has not acknowledged.
    units: VecDeque<(u32, u64)>,
    /// Units admitted in all when the last flush was made that every copied link has acknowledged.
    units_safe: u64,
}

/// The links cannot be told any more what they lack: each must begin anew.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("more has changed than can be told: the copies must be made anew")]
pub struct BeginAnew;

impl Outflow {
    /// One without links.
    pub fn new(hello: Hello) -> Outflow {
        Outflow { hello, links: BTreeMap::new(), next_link: 0, number: 0, units: VecDeque::new(), units_safe: 0 }
    }

    /// Whether nobody is told anything.
    pub fn is_idle(&self) -> bool {
        self.links.is_empty()
    }

    /// A link comes. What is to be told it first is appended to `out`.
    pub fn join(&mut self, store: &mut Store, now: Micros, out: &mut Vec<u8>) -> LinkId {
        if self.links.is_empty() {
            store.track_changes(true);
        }
        let link = LinkId(self.next_link);
        self.next_link += 1;
        self.links.insert(link, Link { walk: Some(Export::new(store)), is_copied: false, acknowledged: self.number });
        let Hello { version, run_id, core, cores } = self.hello;
        let mut body = vec![version];
        body.put_slice(&run_id);
        body.put_u16_le(core);
        body.put_u16_le(cores);
        self.part(out, HELLO, now, &body);
        link
    }

    /// A link has gone.
    pub fn leave(&mut self, store: &mut Store, link: LinkId) {
        self.links.remove(&link);
        if self.links.is_empty() {
            store.track_changes(false);
            self.units.clear();
            self.number = 0;
        }
        self.settle();
    }

    /// Takes what changed and appends to `out` what all links are to be told; nothing if nothing changed. `units`:
    /// admitted by this core since it started.
    ///
    /// # Errors
    /// [`BeginAnew`]: every link must be ended.
    pub fn flush(&mut self, store: &mut Store, units: u64, now: Micros, out: &mut Vec<u8>) -> Result<(), BeginAnew> {
        let (mut records, mut is_cleared, mut is_any) = (Vec::new(), false, false);
        let taken = store.take_changes(now, &mut |change| {
            is_any = true;
            match change {
                KeyChange::Clear => is_cleared = true,
                KeyChange::Holds(key, holding) => write(&mut records, key, Some(holding)),
                KeyChange::Gone(key) => write(&mut records, key, None),
            }
        });
        taken.map_err(|_| BeginAnew)?;
        if is_any {
            self.number = self.number.checked_add(1).ok_or(BeginAnew)?;
            let flag = [u8::from(is_cleared)];
            if records.len() > PART_BYTES_MAX / 2 {
                return Err(BeginAnew);
            }
            self.part_of(out, CHANGES, now, &[&flag, &records]);
        }
        // Where nothing changed that is told, what was admitted is in the copies that are under way.
        match self.units.back_mut() {
            Some((number, last)) if *number == self.number => *last = units,
            _ => self.units.push_back((self.number, units)),
        }
        if self.units.len() > FLUSHES_COUNTED_MAX {
            self.units.pop_front();
        }
        Ok(())
    }

    /// Goes on with the walk of a link, right after [`Outflow::flush`], by about `count` records. What that link alone
    /// is to be told is appended to `out`; nothing if its copy is whole.
    pub fn walk(&mut self, link: LinkId, store: &mut Store, count: usize, now: Micros, out: &mut Vec<u8>) {
        let Some(Link { walk: place @ Some(_), .. }) = self.links.get_mut(&link) else { return };
        let Some(mut walk) = place.take() else { return };
        let mut records = Vec::new();
        walk.step_and_track(store, count, now, &mut records);
        if !records.is_empty() {
            self.part(out, COPY, now, &records);
        }
        if walk.is_done() {
            self.part(out, COPIED, now, &[]);
        } else if let Some(link) = self.links.get_mut(&link) {
            link.walk = Some(walk);
        }
    }

    /// The last flush.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// Whether the walk of a link is still under way.
    pub fn is_walking(&self, link: LinkId) -> bool {
        self.links.get(&link).is_some_and(|link| link.walk.is_some())
    }

    /// Appends a sign of life, which carries the time.
    pub fn beat(&self, now: Micros, out: &mut Vec<u8>) {
        self.part(out, BEAT, now, &[]);
    }

    /// A link has put all up to a flush; `is_copied`: and its copy is whole.
    pub fn acknowledged(&mut self, link: LinkId, number: u32, is_copied: bool) {
        let last = self.number;
        if let Some(link) = self.links.get_mut(&link) {
            link.acknowledged = link.acknowledged.max(number.min(last));
            link.is_copied |= is_copied && link.walk.is_none();
        }
        self.settle();
    }

    /// Units that a failover may forget: those admitted of which not every link with a whole copy knows, out of
    /// `units` in all. With no such link, all since there was one.
    pub fn overshoot(&self, units: u64) -> u64 {
        units.saturating_sub(self.units_safe)
    }

    fn settle(&mut self) {
        let copied = self.links.values().filter(|link| link.is_copied);
        let Some(safe) = copied.map(|link| link.acknowledged).min() else { return };
        while self.units.front().is_some_and(|(number, _)| *number <= safe)
            && let Some((_, units)) = self.units.pop_front()
        {
            self.units_safe = units;
        }
    }

    fn part(&self, out: &mut Vec<u8>, kind: u8, now: Micros, body: &[u8]) {
        self.part_of(out, kind, now, &[body]);
    }

    fn part_of(&self, out: &mut Vec<u8>, kind: u8, now: Micros, body: &[&[u8]]) {
        let time = now.to_le_bytes();
        let pieces: Vec<&[u8]> = std::iter::once(&time[..]).chain(body.iter().copied()).collect();
        // All parts are bounded far below the 4 GiB that this refuses.
        let _ = part::write(out, kind, self.number, &pieces);
    }
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
    /// A sign of life.
    Beat,
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

    /// Who tells, once that is known.
    pub fn hello(&self) -> Option<Hello> {
        self.hello
    }

    fn follow(&mut self, told: &Told<'_>, number: u32) -> Result<(), Broken> {
        let expected = match told {
            Told::Hello(hello) if self.hello.is_none() => {
                self.hello = Some(*hello);
                number
            }
            _ if self.hello.is_none() => return Err(Broken::OutOfOrder),
            Told::Hello(_) => return Err(Broken::OutOfOrder),
            Told::Changes { .. } => self.number.checked_add(1).ok_or(Broken::OutOfOrder)?,
            Told::Copy(_) | Told::Copied if self.is_copied => return Err(Broken::OutOfOrder),
            Told::Copy(_) | Told::Copied | Told::Beat => self.number,
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
            Told::Hello(Hello { version, run_id, core, cores })
        }
        CHANGES => {
            let clears = rest.try_get_u8().map_err(|_| Broken::Damaged)? != 0;
            Told::Changes { records: std::mem::take(&mut rest), clears }
        }
        COPY => Told::Copy(std::mem::take(&mut rest)),
        COPIED => Told::Copied,
        BEAT => Told::Beat,
        _ => return Err(Broken::Damaged),
    };
    if rest.is_empty() { Ok(told) } else { Err(Broken::Damaged) }
}
