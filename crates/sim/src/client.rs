//! One client and its connection: batches of requests, and how far the present one has come.

use crate::errand::{Note, RequestId};
use crate::link::Message;
use crate::request::Request;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use tollgate_engine::all::AllPlan;
use tollgate_engine::client_state::ClientState;
use tollgate_engine::parcel::Parcel;
use tollgate_engine::session::{Client as Person, Session};
use tollgate_limits::Micros;
use tollgate_limits::Policy;
use tollgate_resp::{Args, Protocol, Span};

/// One request of a batch.
#[derive(Clone, Debug)]
pub struct Asked {
    /// Its name.
    pub id: RequestId,
    /// What it asks.
    pub request: Rc<Request>,
    /// As it came over the wire.
    pub words: Words,
}

/// Arguments in a buffer of their own.
#[derive(Clone, Debug, Default)]
pub struct Words {
    bytes: Vec<u8>,
    spans: Vec<Span>,
}

impl Words {
    /// Of these arguments.
    pub fn new<'a>(arguments: impl Iterator<Item = &'a [u8]>) -> Words {
        let mut words = Words::default();
        for argument in arguments {
            let start = place(words.bytes.len());
            words.bytes.extend_from_slice(argument);
            words.spans.push(Span { start, end: place(words.bytes.len()) });
        }
        words
    }

    /// As the engine takes them.
    pub fn args(&self) -> Args<'_> {
        Args::new(&self.bytes, &self.spans)
    }

    /// Those at these positions.
    pub fn pick(&self, positions: &[usize]) -> Words {
        let args = self.args();
        Words::new(positions.iter().map(|position| args.get(*position).unwrap_or_default()))
    }
}

fn place(bytes: usize) -> u32 {
    // Simulated requests have some hundred bytes.
    u32::try_from(bytes).unwrap_or(u32::MAX)
}

/// What a batch has for one other core.
#[derive(Debug, Default)]
pub struct Outgoing {
    /// The commands.
    pub parcel: Box<Parcel>,
    /// What each of them is.
    pub notes: Vec<Note>,
    /// Where in the batch its reply belongs.
    pub places: Vec<usize>,
    /// The limit of the plain calls among them that go in rows.
    pub policy: Option<Policy>,
}

/// What a connection waits for.
#[derive(Debug, Default)]
pub enum Waiting {
    /// Nothing: it runs, or has nothing to do.
    #[default]
    No,
    /// Room in the lanes to all of these cores, to send what the batch has for them.
    RoomForBatch(Vec<usize>),
    /// The same, for the parts of the command whose turn it is.
    RoomForParts(Vec<usize>),
    /// Answers of other cores.
    Answers(Away),
}

/// Messages that are out.
#[derive(Debug)]
pub struct Away {
    /// How many have not come back.
    pub left: usize,
    /// Those that have, and from where.
    pub returned: Vec<(usize, Message)>,
    /// What for.
    pub errand: Errand,
}

/// What the messages are for.
#[derive(Debug)]
pub enum Errand {
    /// Commands of the batch, by core: where their replies belong.
    Batch(BTreeMap<usize, Vec<usize>>),
    /// Parts of a command, with the fragment that was made here.
    Parts(Vec<u8>),
    /// Charges of an RL.ALL.
    Charges(AllPlan),
    /// Undos of an RL.ALL, and the cores whose room is held.
    Undos(AllPlan, Vec<usize>),
}

/// A client and its connection.
#[derive(Debug)]
pub struct Client {
    /// The core that serves it.
    pub core: usize,
    /// Its session.
    pub session: Session,
    /// Whether it went away: what runs for it runs to its end, and nobody reads the replies.
    pub is_gone: bool,
    /// Batches that it is still to send in this phase.
    pub batches_left: u64,
    /// Requests sent so far.
    pub sent: u64,
    /// The present batch.
    pub batch: Vec<Asked>,
    /// The replies to it.
    pub replies: Vec<Option<Vec<u8>>>,
    /// The first request of the batch that has not run.
    pub next: usize,
    /// Commands for other cores that were not sent yet.
    pub outgoing: BTreeMap<usize, Outgoing>,
    /// What it waits for.
    pub waiting: Waiting,
    /// Counts its waits for room, so that a wait that is over is not ended again.
    pub waits: u64,
}

impl Client {
    /// A client of `core` that came at `now`.
    pub fn new(number: usize, core: usize, now: Micros) -> Client {
        let person = Person {
            id: u64::try_from(number).unwrap_or(0) + 1,
            address: format!("10.0.0.{number}:1"),
            local_address: "10.0.1.1:6379".to_owned(),
            descriptor: 0,
            since: now,
            core: u16::try_from(core).unwrap_or(0),
            active: Cell::new(now),
            protocol: Cell::new(Protocol::Resp2),
            last_command: Cell::new("NULL"),
            name: RefCell::default(),
            lib_name: RefCell::default(),
            lib_version: RefCell::default(),
            input_bytes: Cell::new(0),
            output_bytes: Cell::new(0),
            commands: Cell::new(0),
            state: ClientState::default(),
        };
        Client {
            core,
            session: Session::new(Rc::new(person), true),
            is_gone: false,
            batches_left: 0,
            sent: 0,
            batch: Vec::new(),
            replies: Vec::new(),
            next: 0,
            outgoing: BTreeMap::new(),
            waiting: Waiting::No,
            waits: 0,
        }
    }
}
