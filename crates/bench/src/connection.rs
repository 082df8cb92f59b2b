//! One connection of the run: batches on the way, and their replies being counted.

use crate::error::BenchError;
use crate::latency::Latencies;
use crate::ring::{Batch, Ring};
use crate::scan::{Denial, ScanError, Scanner, Shape, Tally};
use crate::target::Socket;
use crate::verify::{Capture, Origin, Recorder};
use mio::event::Source;
use mio::{Interest, Registry, Token};
use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::time::Instant;

/// A connection and what is on its way.
#[derive(Debug)]
pub(crate) struct Connection {
    stream: Stream,
    scanner: Scanner,
    /// Where replies are looked into, not only counted.
    capture: Option<Box<Capture>>,
    /// Which ring the batches of this connection come from.
    ring_index: usize,
    /// Who answers.
    server: Origin,
    /// Batches whose replies have not all come, in the order in which they left.
    flights: VecDeque<Flight>,
    /// How many of them, from the back, the socket has not taken whole.
    unsent_flights: usize,
    /// It was given up: what its socket still tells is of no concern.
    is_gone: bool,
}

/// A batch on its way.
#[derive(Debug)]
struct Flight {
    /// What the socket has not taken yet, and the number of the next call to be answered.
    batch: Batch,
    /// Replies that have not come yet.
    awaited: u64,
    /// When the batch was due: what its latency is counted from.
    due: Instant,
    /// Not after the first of its bytes left.
    sent_at: Instant,
}

/// What came of reading.
#[derive(Debug)]
pub(crate) struct Progress {
    /// Replies that have come.
    pub(crate) replies: u64,
    /// Batches whose last reply has come.
    pub(crate) completed: usize,
    /// When the last reply of this reading came; before that, when the oldest batch was sent.
    pub(crate) at: Instant,
    /// Why nothing more will come, if it was found behind completed batches.
    pub(crate) gone: Option<BenchError>,
}

/// What the connections of a thread read into and count into.
#[derive(Debug)]
pub(crate) struct Counter {
    buffer: Vec<u8>,
    /// The shape that replies must have, once one has come.
    expected: Option<Shape>,
    /// What was counted in this phase.
    pub(crate) tally: Tally,
    /// Latencies of the batches of this phase.
    pub(crate) latencies: Latencies,
    /// Every call, where the run is verified.
    pub(crate) recorder: Option<Recorder>,
}

#[derive(Debug)]
enum Stream {
    Tcp(mio::net::TcpStream),
    Unix(mio::net::UnixStream),
}

/// What is said of calls that nobody waits for any longer.
const UNANSWERED: &str = "no reply until the run ended";

/// Large enough for the replies of a usual batch in one read.
const BUFFER_BYTES: usize = 64 << 10;

impl Counter {
    /// Nothing counted yet.
    pub(crate) fn new(recorder: Option<Recorder>) -> Result<Counter, BenchError> {
        Ok(Counter {
            buffer: vec![0; BUFFER_BYTES],
            expected: None,
            tally: Tally::default(),
            latencies: Latencies::new()?,
            recorder,
        })
    }
}

impl Connection {
    /// Takes over a prepared socket and registers it under `token`. `capture` looks into replies.
    pub(crate) fn new(
        socket: Socket,
        ring_index: usize,
        denial: Denial,
        capture: Option<Capture>,
        registry: &Registry,
        token: Token,
    ) -> io::Result<Connection> {
        let mut stream = Stream::from_socket(socket)?;
        stream.source().register(registry, token, Interest::READABLE | Interest::WRITABLE)?;
        Ok(Connection {
            stream,
            scanner: Scanner::new(denial),
            capture: capture.map(Box::new),
            ring_index,
            server: Origin::First,
            flights: VecDeque::with_capacity(1),
            unsent_flights: 0,
            is_gone: false,
        })
    }

    /// Which ring the batches of this connection come from.
    pub(crate) fn ring_index(&self) -> usize {
        self.ring_index
    }

    /// Whether it was given up and not replaced yet.
    pub(crate) fn is_gone(&self) -> bool {
        self.is_gone
    }

    /// Batches on the way.
    pub(crate) fn flights(&self) -> usize {
        self.flights.len()
    }

    /// When the oldest batch on the way was due; none if nothing is on the way.
    pub(crate) fn waiting_since(&self) -> Option<Instant> {
        self.flights.front().map(|flight| flight.due)
    }

    /// Sends the next batch of the ring, which was due at `due`; it is now `now`.
    pub(crate) fn begin(
        &mut self,
        ring: &mut Ring,
        calls: usize,
        due: Instant,
        now: Instant,
    ) -> Result<(), BenchError> {
        let batch = ring.next_batch(calls);
        let awaited = u64::try_from(calls).unwrap_or(u64::MAX);
        self.flights.push_back(Flight { batch, awaited, due, sent_at: now });
        self.unsent_flights = self.unsent_flights.saturating_add(1);
        self.send(ring)
    }

    /// Sends what the socket did not take before, if anything.
    pub(crate) fn send(&mut self, ring: &Ring) -> Result<(), BenchError> {
        while self.unsent_flights > 0 {
            let place = self.flights.len().saturating_sub(self.unsent_flights);
            let Some(flight) = self.flights.get_mut(place) else { return Ok(()) };
            let unsent = &mut flight.batch.place;
            while unsent.start < unsent.end {
                match self.stream.write(ring.slice(unsent)) {
                    Ok(0) => return Err(BenchError::Closed { said: None }),
                    Ok(written) => unsent.start = unsent.start.saturating_add(written),
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    Err(error) => return Err(lost(error, None)),
                }
            }
            self.unsent_flights = self.unsent_flights.saturating_sub(1);
        }
        Ok(())
    }

    /// Reads what has come, until there is no more or nothing is on the way. `is_closing` says that the other side has
    /// sent its last: its end is then waiting behind what has come, and is read too.
    pub(crate) fn receive(
        &mut self,
        ring: &Ring,
        counter: &mut Counter,
        is_closing: bool,
    ) -> Result<Progress, BenchError> {
        let Some(oldest) = self.flights.front() else {
            return self.receive_unasked(counter);
        };
        let mut progress = Progress { replies: 0, completed: 0, at: oldest.sent_at, gone: None };
        loop {
            let length = match self.stream.read(&mut counter.buffer) {
                Ok(0) => {
                    return progress.ending(BenchError::Closed { said: self.scanner.last_error() });
                }
                Ok(length) => length,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(progress),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return progress.ending(lost(error, self.scanner.last_error())),
            };
            let bytes = counter.buffer.get(..length).unwrap_or_default();
            let before = counter.tally.replies;
            let (expected, tally) = (&mut counter.expected, &mut counter.tally);
            match &mut self.capture {
                None => self.scanner.feed(bytes, expected, tally, &mut ()).map_err(protocol)?,
                Some(capture) => self.scanner.feed(bytes, expected, tally, &mut **capture).map_err(protocol)?,
            }
            let replies = counter.tally.replies.saturating_sub(before);
            if replies > 0 {
                progress.at = Instant::now();
                progress.replies = progress.replies.saturating_add(replies);
                if self.capture.is_some() {
                    self.record(ring, replies, progress.at, counter)?;
                }
                progress.completed = progress.completed.saturating_add(self.settle(replies, progress.at, counter)?);
            }
            // A read that did not fill the buffer has emptied the socket, and more bytes raise a new event: the
            // read that would only say so is saved. The end raises none, as this event has told of it already.
            if !is_closing && (length < BUFFER_BYTES || self.flights.is_empty()) {
                return Ok(progress);
            }
        }
    }

    /// Nothing is on the way: what comes now is the connection's end, or what nobody asked for.
    fn receive_unasked(&mut self, counter: &mut Counter) -> Result<Progress, BenchError> {
        match self.stream.read(&mut counter.buffer) {
            Ok(0) => Err(BenchError::Closed { said: None }),
            Ok(_) => Err(BenchError::Protocol("more replies came than calls were sent".into())),
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {
                Ok(Progress { replies: 0, completed: 0, at: Instant::now(), gone: None })
            }
            Err(error) => Err(lost(error, None)),
        }
    }

    /// Takes replies off the batches on the way, and answers how many batches are complete.
    fn settle(&mut self, mut replies: u64, now: Instant, counter: &mut Counter) -> Result<usize, BenchError> {
        let mut completed: usize = 0;
        while replies > 0 {
            let flight = self.flights.front_mut();
            let flight = flight.ok_or_else(|| BenchError::Protocol("more replies came than calls were sent".into()))?;
            let taken = replies.min(flight.awaited);
            replies = replies.saturating_sub(taken);
            flight.awaited = flight.awaited.saturating_sub(taken);
            if flight.awaited == 0 {
                counter.latencies.record(now.saturating_duration_since(flight.due));
                self.flights.pop_front();
                completed = completed.saturating_add(1);
            }
        }
        Ok(completed)
    }

    /// Writes down the calls that the replies just read belong to.
    fn record(&mut self, ring: &Ring, replies: u64, now: Instant, counter: &mut Counter) -> Result<(), BenchError> {
        let (Some(capture), Some(recorder)) = (&mut self.capture, &mut counter.recorder) else { return Ok(()) };
        let mut answers = capture.take();
        let mut left = replies;
        for flight in &mut self.flights {
            let calls = left.min(flight.awaited);
            for _ in 0..calls {
                if let (Some(answer), Some(key)) = (answers.next(), ring.key(flight.batch.first_call)) {
                    recorder.answered(key, flight.sent_at, now, &answer, self.server)?;
                }
                flight.batch.first_call = flight.batch.first_call.saturating_add(1);
            }
            left = left.saturating_sub(calls);
            if left == 0 {
                break;
            }
        }
        Ok(())
    }

    /// The connection is gone: whatever was on the way is lost, and whether it was counted nobody knows. Answers how
    /// many batches that were.
    pub(crate) fn give_up(&mut self, ring: &Ring, said: &str, counter: &mut Counter) -> Result<usize, BenchError> {
        let lost = self.flights.len();
        for flight in self.flights.drain(..) {
            counter.tally.add_lost(flight.awaited, said);
            if let Some(recorder) = &mut counter.recorder {
                for call in 0..flight.awaited {
                    let number = flight.batch.first_call.saturating_add(usize::try_from(call).unwrap_or(usize::MAX));
                    if let Some(key) = ring.key(number) {
                        recorder.lost(key, flight.sent_at)?;
                    }
                }
            }
        }
        self.unsent_flights = 0;
        self.is_gone = true;
        Ok(lost)
    }

    /// The run ends before what is on the way was answered: the time that each batch has waited is the least that its
    /// latency would have been.
    pub(crate) fn leave_unanswered(
        &mut self,
        ring: &Ring,
        now: Instant,
        counter: &mut Counter,
    ) -> Result<(), BenchError> {
        for flight in &self.flights {
            counter.latencies.record(now.saturating_duration_since(flight.due));
        }
        self.give_up(ring, UNANSWERED, counter).map(|_| ())
    }

    /// Goes on with a fresh socket, which leads to `server`, in place of one that is gone.
    pub(crate) fn replace(
        &mut self,
        socket: Socket,
        server: Origin,
        registry: &Registry,
        token: Token,
    ) -> io::Result<()> {
        // The old one may be closed already: what it answers to that does not matter.
        let _ = self.stream.source().deregister(registry);
        self.stream = Stream::from_socket(socket)?;
        self.stream.source().register(registry, token, Interest::READABLE | Interest::WRITABLE)?;
        self.server = server;
        self.is_gone = false;
        self.scanner.restart();
        if let Some(capture) = &mut self.capture {
            capture.restart();
        }
        Ok(())
    }
}

impl Progress {
    /// The connection is gone: an error, or something to tell beside what was completed.
    fn ending(self, error: BenchError) -> Result<Progress, BenchError> {
        if self.completed == 0 { Err(error) } else { Ok(Progress { gone: Some(error), ..self }) }
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
