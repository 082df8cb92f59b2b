//! The least that a server on sockets can do: every RESP command is answered with the same five integers.
//!
//! What the kernel takes for a call falls on every server alike. This one shows how much that is, so that what a
//! server takes beyond it can be told: one thread, one epoll, one read and one write for each batch, no state, and no
//! look into a command but to find its end. A command of one word is answered with PONG, which is how a client asks
//! whether anybody is there.
//!
//! Sockets are set up as Tollgate's are (no delay, not blocking), and a read asks for as many bytes. `--together`
//! writes the replies of all sockets that were ready after all of them have been read, as Tollgate does.

use clap::Parser;
use rustix::event::{Timespec, epoll};
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::process::ExitCode;

/// Bytes that a read asks for.
const READ_BYTES: usize = 16 * 1024;
/// Sockets that one wait reports.
const EVENTS_MAX: usize = 1024;
/// As RL.SLIDE on a fresh key of 100 in 60 seconds answers.
const FIVE: &[u8] = b"*5\r\n:1\r\n:100\r\n:99\r\n:0\r\n:119000\r\n";
const PONG: &[u8] = b"+PONG\r\n";
const LISTENER: u64 = u64::MAX;

/// Answers every command with five integers, on loopback, until it is ended.
#[derive(Parser)]
struct Arguments {
    /// The port; 0 is any that is free
    #[arg(long, default_value_t = 0)]
    port: u16,
    /// Read all sockets that are ready before any is written to
    #[arg(long)]
    together: bool,
}

fn main() -> ExitCode {
    let Err(error) = serve(&Arguments::parse());
    eprintln!("echo: {error}");
    ExitCode::FAILURE
}

fn serve(arguments: &Arguments) -> io::Result<std::convert::Infallible> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, arguments.port))?;
    listener.set_nonblocking(true)?;
    let mut server = Server::new(listener)?;
    println!("listening on {}", server.listener.local_addr()?);
    loop {
        server.turn(arguments.together, None)?;
    }
}

/// All clients of one thread.
struct Server {
    listener: TcpListener,
    epoll: rustix::fd::OwnedFd,
    /// By the number that its events carry.
    clients: Vec<Option<Client>>,
    events: Vec<epoll::Event>,
    /// The fixed buffer of every read.
    buffer: Vec<u8>,
}

impl Server {
    fn new(listener: TcpListener) -> io::Result<Server> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        epoll::add(&epoll, &listener, epoll::EventData::new_u64(LISTENER), epoll::EventFlags::IN)?;
        let events = Vec::with_capacity(EVENTS_MAX);
        Ok(Server { listener, epoll, clients: Vec::new(), events, buffer: vec![0; READ_BYTES] })
    }

    /// Waits for sockets that are ready and serves them. `timeout`: for so long at most, otherwise for ever.
    fn turn(&mut self, together: bool, timeout: Option<&Timespec>) -> io::Result<()> {
        self.events.clear();
        let events = &mut self.events;
        rustix::io::retry_on_intr(|| epoll::wait(&self.epoll, rustix::buffer::spare_capacity(events), timeout))?;
        let count = self.events.len();
        for place in 0..count {
            match self.number(place) {
                LISTENER => self.accept()?,
                number => {
                    self.with_client(number, |client, buffer, _| client.read(buffer));
                    if !together {
                        self.write(number);
                    }
                }
            }
        }
        for place in (0..count).filter(|_| together) {
            self.write(self.number(place));
        }
        Ok(())
    }

    fn number(&self, place: usize) -> u64 {
        self.events.get(place).map_or(LISTENER, |event| event.data.u64())
    }

    fn accept(&mut self) -> io::Result<()> {
        loop {
            match self.listener.accept() {
                Ok((stream, _)) => {
                    stream.set_nonblocking(true)?;
                    stream.set_nodelay(true)?;
                    let free = self.clients.iter().position(Option::is_none);
                    let place = free.unwrap_or(self.clients.len());
                    let data = epoll::EventData::new_u64(u64::try_from(place).unwrap_or(LISTENER));
                    epoll::add(&self.epoll, &stream, data, epoll::EventFlags::IN)?;
                    let client = Some(Client { stream, held: Vec::new(), replies: Vec::new(), waits: false });
                    match self.clients.get_mut(place) {
                        Some(empty) => *empty = client,
                        None => self.clients.push(client),
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            }
        }
    }

    fn write(&mut self, number: u64) {
        self.with_client(number, |client, _, epoll| client.write(number, epoll));
    }

    /// Lets `act` work on a client, which is dropped where that fails.
    fn with_client(
        &mut self,
        number: u64,
        act: impl FnOnce(&mut Client, &mut [u8], &rustix::fd::OwnedFd) -> io::Result<()>,
    ) {
        let place = usize::try_from(number).ok().and_then(|place| self.clients.get_mut(place));
        if let Some(place) = place
            && let Some(client) = place
            && act(client, &mut self.buffer, &self.epoll).is_err()
        {
            // Closing the socket takes it out of the epoll.
            *place = None;
        }
    }
}

/// One socket.
struct Client {
    stream: TcpStream,
    /// The beginning of a command that is not whole yet.
    held: Vec<u8>,
    /// What is to be written.
    replies: Vec<u8>,
    /// Whether the socket takes no more at the moment.
    waits: bool,
}

impl Client {
    /// Reads once and answers every whole command in the buffer.
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<()> {
        if self.waits {
            return Ok(());
        }
        let held = self.held.len();
        let (Some(before), true) = (buffer.get_mut(..held), held < READ_BYTES) else {
            return Err(io::Error::other("a command is larger than the buffer"));
        };
        before.copy_from_slice(&self.held);
        let count = match self.stream.read(buffer.get_mut(held..).unwrap_or_default()) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
            Err(error) => return Err(error),
        };
        let bytes = buffer.get(..held + count).unwrap_or_default();
        let mut start = 0;
        while let Some((words, end)) = next_command(bytes, start)? {
            self.replies.extend_from_slice(if words == 1 { PONG } else { FIVE });
            start = end;
        }
        self.held.clear();
        self.held.extend_from_slice(bytes.get(start..).unwrap_or_default());
        Ok(())
    }

    /// Writes what there is; where the socket takes less, it is watched for room.
    fn write(&mut self, number: u64, epoll: &rustix::fd::OwnedFd) -> io::Result<()> {
        if self.replies.is_empty() {
            return Ok(());
        }
        let written = match self.stream.write(&self.replies) {
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => 0,
            Err(error) => return Err(error),
        };
        let is_whole = written == self.replies.len();
        if is_whole {
            self.replies.clear();
        } else {
            self.replies.drain(..written);
        }
        if self.waits == is_whole {
            self.waits = !is_whole;
            let flags = if is_whole { epoll::EventFlags::IN } else { epoll::EventFlags::OUT };
            epoll::modify(epoll, &self.stream, epoll::EventData::new_u64(number), flags)?;
        }
        Ok(())
    }
}

/// The number of words of the command that begins at `start`, and where it ends; `None` if it is not whole.
fn next_command(bytes: &[u8], start: usize) -> io::Result<Option<(usize, usize)>> {
    let Some((words, mut position)) = number_line(bytes, start, b'*')? else { return Ok(None) };
    for _ in 0..words {
        let Some((length, body)) = number_line(bytes, position, b'$')? else { return Ok(None) };
        position = body + length + 2;
        if position > bytes.len() {
            return Ok(None);
        }
    }
    Ok(Some((words, position)))
}

/// The number of a line such as `*4` or `$24`, and where the next line begins; `None` if the line is not whole.
#[inline]
fn number_line(bytes: &[u8], start: usize, kind: u8) -> io::Result<Option<(usize, usize)>> {
    let mut number = 0_usize;
    for (position, byte) in bytes.iter().enumerate().skip(start) {
        match byte {
            b'0'..=b'9' if position > start && number < READ_BYTES => {
                number = number * 10 + usize::from(byte - b'0');
            }
            b'\r' if position > start => {
                let end = position + 2;
                return Ok(Some((number, end)).filter(|_| end <= bytes.len()));
            }
            byte if position == start && *byte == kind => {}
            _ => return Err(io::Error::other("no RESP command")),
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    const CALL: &[u8] = b"*4\r\n$8\r\nRL.SLIDE\r\n$5\r\na\r\n*4\r\n$3\r\n100\r\n$2\r\n60\r\n";
    const PING: &[u8] = b"*1\r\n$4\r\nPING\r\n";

    #[test]
    fn a_command_is_found_only_when_it_is_whole() {
        for end in 0..CALL.len() {
            assert_eq!(next_command(&CALL[..end], 0).unwrap(), None, "{end} bytes");
        }
        assert_eq!(next_command(CALL, 0).unwrap(), Some((4, CALL.len())));
        let two = [CALL, PING].concat();
        assert_eq!(next_command(&two, CALL.len()).unwrap(), Some((1, two.len())));
    }

    #[test]
    fn what_is_no_command_is_an_error() {
        for text in ["PING\r\n", "*-1\r\n", "*1\r\n:4\r\n", "*\n", "*1x\r\n", "*99999999999\r\n"] {
            assert!(next_command(text.as_bytes(), 0).is_err(), "{text:?}");
        }
    }

    /// Sends `parts`, one after the other, and reads `expected_bytes` of answers, the server taking turns meanwhile.
    fn converse(together: bool, parts: &[&[u8]], expected_bytes: usize) -> Vec<u8> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        listener.set_nonblocking(true).unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let mut server = Server::new(listener).unwrap();
        let patience = Timespec { tv_sec: 5, tv_nsec: 0 };
        server.turn(together, Some(&patience)).unwrap();
        for part in parts {
            client.write_all(part).unwrap();
            server.turn(together, Some(&patience)).unwrap();
        }
        client.set_nonblocking(true).unwrap();
        let mut answers = Vec::new();
        while answers.len() < expected_bytes {
            match client.read_to_end(&mut answers) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                other => panic!("{other:?} after {} bytes", answers.len()),
            }
            if answers.len() < expected_bytes {
                server.turn(together, Some(&patience)).unwrap();
            }
        }
        answers
    }

    #[test]
    fn commands_in_pieces_are_each_answered_once() {
        let text = [PING, CALL, CALL, CALL].concat();
        let expected = [PONG, FIVE, FIVE, FIVE].concat();
        for together in [false, true] {
            for end in 1..text.len() {
                let answers = converse(together, &[&text[..end], &text[end..]], expected.len());
                assert_eq!(answers, expected, "cut at {end}");
            }
        }
    }

    #[test]
    fn a_client_that_reads_late_gets_everything() {
        const COUNT: usize = 400_000;
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        listener.set_nonblocking(true).unwrap();
        let mut writer = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let mut reader = writer.try_clone().unwrap();
        let mut server = Server::new(listener).unwrap();
        // More than all buffers on the way hold, so the server must stop reading until its answers are read.
        let sending = std::thread::spawn(move || writer.write_all(&CALL.repeat(COUNT)));
        let patience = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
        while !server.clients.iter().flatten().any(|client| client.waits) {
            server.turn(false, Some(&patience)).unwrap();
        }
        let reading = std::thread::spawn(move || {
            let mut answers = vec![0; FIVE.len() * COUNT];
            reader.read_exact(&mut answers).map(|()| answers)
        });
        while !reading.is_finished() {
            server.turn(false, Some(&patience)).unwrap();
        }
        sending.join().unwrap().unwrap();
        assert!(reading.join().unwrap().unwrap().chunks(FIVE.len()).all(|answer| answer == FIVE));
    }
}
