//! One connection of the run: a batch on the way, and its replies being counted.

use crate::error::BenchError;
use crate::ring::Ring;
use crate::scan::{Denial, ScanError, Scanner, Shape, Tally};
use crate::target::Socket;
use mio::event::Source;
use mio::{Interest, Registry, Token};
use std::io::{self, Read, Write};
use std::ops::Range;
use std::time::Instant;

/// A connection with at most one batch on the way.
#[derive(Debug)]
pub(crate) struct Connection {
    stream: Stream,
    scanner: Scanner,
    /// Which ring the batches of this connection come from.
    ring_index: usize,
    /// What of the batch the socket has not taken yet.
    unsent: Range<usize>,
    /// Replies of the batch that have not come yet.
    awaited: u64,
    sent_at: Instant,
}

/// How far a batch is after a read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Progress {
    /// Replies are still to come.
    Waiting,
    /// The last reply has come.
    Complete,
}

/// What the connections of a run read into and count into.
#[derive(Debug)]
pub(crate) struct Counter {
    buffer: Vec<u8>,
    /// The shape that replies must have, once one has come.
    expected: Option<Shape>,
    /// What was counted in this phase.
    pub(crate) tally: Tally,
}

#[derive(Debug)]
enum Stream {
    Tcp(mio::net::TcpStream),
    Unix(mio::net::UnixStream),
}

/// Large enough for the replies of a usual batch in one read.
const BUFFER_BYTES: usize = 64 << 10;

impl Counter {
    /// Nothing counted yet.
    pub(crate) fn new() -> Counter {
        Counter { buffer: vec![0; BUFFER_BYTES], expected: None, tally: Tally::default() }
    }
}

impl Connection {
    /// Takes over a prepared socket and registers it under `token`.
    pub(crate) fn new(
        socket: Socket,
        ring_index: usize,
        denial: Denial,
        registry: &Registry,
        token: Token,
    ) -> io::Result<Connection> {
        let mut stream = Stream::from_socket(socket)?;
        stream.source().register(registry, token, Interest::READABLE | Interest::WRITABLE)?;
        let scanner = Scanner::new(denial);
        Ok(Connection { stream, scanner, ring_index, unsent: 0..0, awaited: 0, sent_at: Instant::now() })
    }

    /// Which ring the batches of this connection come from.
    pub(crate) fn ring_index(&self) -> usize {
        self.ring_index
    }

    /// When the present batch was begun.
    pub(crate) fn sent_at(&self) -> Instant {
        self.sent_at
    }

    /// Sends the next batch of the ring; `now` is the time of the batch.
    pub(crate) fn begin(&mut self, ring: &mut Ring, calls: usize, now: Instant) -> Result<(), BenchError> {
        self.unsent = ring.next_batch(calls);
        self.awaited = u64::try_from(calls).unwrap_or(u64::MAX);
        self.sent_at = now;
        self.send(ring)
    }

    /// Sends what the socket did not take before, if anything.
    pub(crate) fn send(&mut self, ring: &Ring) -> Result<(), BenchError> {
        while !self.unsent.is_empty() {
            match self.stream.write(ring.slice(&self.unsent)) {
                Ok(0) => return Err(BenchError::Closed { said: None }),
                Ok(written) => self.unsent.start = self.unsent.start.saturating_add(written),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(lost(error, None)),
            }
        }
        Ok(())
    }

    /// Reads what has come, until there is no more or the batch is complete.
    pub(crate) fn receive(&mut self, counter: &mut Counter) -> Result<Progress, BenchError> {
        loop {
            let length = match self.stream.read(&mut counter.buffer) {
                Ok(0) => return Err(BenchError::Closed { said: counter.tally.first_error.take() }),
                Ok(length) => length,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(Progress::Waiting),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(lost(error, counter.tally.first_error.take())),
            };
            let bytes = counter.buffer.get(..length).unwrap_or_default();
            let before = counter.tally.replies;
            self.scanner.feed(bytes, &mut counter.expected, &mut counter.tally).map_err(protocol)?;
            let replies = counter.tally.replies.saturating_sub(before);
            self.awaited = self
                .awaited
                .checked_sub(replies)
                .ok_or_else(|| BenchError::Protocol("more replies came than calls were sent".into()))?;
            if self.awaited == 0 && replies > 0 {
                return Ok(Progress::Complete);
            }
            // A read that did not fill the buffer has emptied the socket, and more bytes raise a new event: the
            // read that would only say so is saved.
            if length < BUFFER_BYTES {
                return Ok(Progress::Waiting);
            }
        }
    }
}

impl Stream {
    fn from_socket(socket: Socket) -> io::Result<Stream> {
        match socket {
            Socket::Tcp(stream) => {
                stream.set_nonblocking(true)?;
                Ok(Stream::Tcp(mio::net::TcpStream::from_std(stream)))
            }
            Socket::Unix(stream) => {
                stream.set_nonblocking(true)?;
                Ok(Stream::Unix(mio::net::UnixStream::from_std(stream)))
            }
        }
    }

    fn source(&mut self) -> &mut dyn Source {
        match self {
            Stream::Tcp(stream) => stream,
            Stream::Unix(stream) => stream,
        }
    }

    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Stream::Tcp(stream) => stream.read(buffer),
            Stream::Unix(stream) => stream.read(buffer),
        }
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Stream::Tcp(stream) => stream.write(bytes),
            Stream::Unix(stream) => stream.write(bytes),
        }
    }
}

fn lost(error: io::Error, said: Option<String>) -> BenchError {
    match error.kind() {
        io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe => BenchError::Closed { said },
        _ => BenchError::System { what: "a connection failed", source: error },
    }
}

fn protocol(error: ScanError) -> BenchError {
    BenchError::Protocol(match error {
        ScanError::UnknownKind(byte) => format!("a reply starts with {:?}", byte.escape_ascii().to_string()),
        ScanError::BadLength => "a length that is no number or is too large".to_owned(),
    })
}
