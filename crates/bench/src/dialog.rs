//! The conversation before the clock starts: one command, one whole reply, on a socket that blocks.
//!
//! It authenticates, loads the script and asks which core serves a connection. Speed does not matter here, clear
//! errors do. It ends with nothing left unread, so that the run can take the socket over.

use crate::error::BenchError;
use crate::target::{Socket, Target};
use crate::template;
use std::fmt;
use std::io::{self, Read, Write};

/// A reply of the preparation that is larger than this is not one that was asked for.
const REPLY_BYTES_MAX: usize = 1 << 20;

/// A connection that is being prepared.
#[derive(Debug)]
pub(crate) struct Dialog {
    socket: Socket,
    target: String,
}

/// Arrays inside arrays deeper than this are no answer to anything that is asked here.
const DEPTH_MAX: usize = 16;

/// Elements of one array, for the same reason.
const ELEMENTS_MAX: usize = 1 << 16;

/// A message repeats no more of a reply than this.
const SHOWN_CHARS_MAX: usize = 100;

/// What a command of the preparation was answered with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Reply {
    /// A line, a bulk or the digits of an integer.
    Text(String),
    /// The text of an error.
    Error(String),
    /// No value.
    Null,
    /// Elements in their order.
    Array(Vec<Reply>),
}

impl fmt::Display for Reply {
    /// In a few words, for a message.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reply::Text(text) => write!(formatter, "{:?}", shortened(text)),
            Reply::Error(text) => write!(formatter, "the error {:?}", shortened(text)),
            Reply::Null => formatter.write_str("nothing"),
            Reply::Array(elements) => write!(formatter, "a list of {}", elements.len()),
        }
    }
}

/// What a reply says, as far as a line holds it.
fn shortened(text: &str) -> String {
    text.chars().take(SHOWN_CHARS_MAX).collect()
}

impl Dialog {
    /// Connects, authenticates if the target has a password, and sees that the server takes commands.
    pub(crate) fn open(target: &Target) -> Result<Dialog, BenchError> {
        let mut dialog = Dialog { socket: target.connect()?, target: target.to_string() };
        if let Some(password) = &target.password {
            let reply = match &target.user {
                Some(user) => dialog.exchange(&["AUTH", user, password])?,
                None => dialog.exchange(&["AUTH", password])?,
            };
            if let Reply::Error(reply) = reply {
                return Err(BenchError::Authentication { target: dialog.target, reply });
            }
        }
        match dialog.exchange(&["PING"])? {
            Reply::Text(_) => Ok(dialog),
            Reply::Error(reply) if reply.starts_with("NOAUTH") || reply.starts_with("DENIED") => {
                Err(BenchError::Authentication { target: dialog.target, reply })
            }
            Reply::Error(reply) => Err(BenchError::Preparation { command: "PING".into(), reply }),
            other => Err(BenchError::Preparation { command: "PING".into(), reply: other.to_string() }),
        }
    }

    /// The server's address without credentials.
    pub(crate) fn target(&self) -> &str {
        &self.target
    }

    /// Asks anything.
    pub(crate) fn ask(&mut self, arguments: &[&str]) -> Result<Reply, BenchError> {
        self.exchange(arguments)
    }

    /// The server's time in microseconds since 1970: RL.CLOCK if `native`, else TIME. None if it has no such command.
    pub(crate) fn time_micros(&mut self, native: bool) -> Result<Option<u64>, BenchError> {
        let digits = |reply: &Reply| match reply {
            Reply::Text(text) => text.parse::<u64>().ok(),
            _ => None,
        };
        let reply = if native { self.exchange(&["RL.CLOCK"])? } else { self.exchange(&["TIME"])? };
        match &reply {
            Reply::Array(parts) => {
                let mut numbers = parts.iter().map(digits);
                let (seconds, micros) = (numbers.next().flatten(), numbers.next().flatten());
                Ok(seconds
                    .zip(micros)
                    .and_then(|(seconds, micros)| seconds.checked_mul(1_000_000)?.checked_add(micros)))
            }
            other => Ok(digits(other)),
        }
    }

    /// How many keys the server holds; none if it does not say.
    pub(crate) fn key_count(&mut self) -> Result<Option<u64>, BenchError> {
        match self.exchange(&["DBSIZE"])? {
            Reply::Text(text) => Ok(text.parse().ok()),
            _ => Ok(None),
        }
    }

    /// An error if the server says that it follows another, and so takes no calls; one that does not know ROLE takes
    /// them.
    pub(crate) fn refuse_replica(&mut self) -> Result<(), BenchError> {
        match self.exchange(&["ROLE"])? {
            Reply::Array(words) => match words.first() {
                Some(Reply::Text(role)) if role == "slave" => {
                    Err(BenchError::Preparation { command: "ROLE".into(), reply: "it follows another server".into() })
                }
                _ => Ok(()),
            },
            Reply::Error(reply) if reply.starts_with("LOADING") => {
                Err(BenchError::Preparation { command: "ROLE".into(), reply })
            }
            _ => Ok(()),
        }
    }

    /// What a failover would forget now, in units, from the field `failover_overshoot` of INFO; none if it has none.
    pub(crate) fn failover_overshoot(&mut self) -> Result<Option<u64>, BenchError> {
        match self.exchange(&["INFO", "replication"])? {
            Reply::Text(info) => {
                let field = info.lines().find_map(|line| line.strip_prefix("failover_overshoot:"));
                Ok(field.and_then(|text| text.trim_end().parse().ok()))
            }
            _ => Ok(None),
        }
    }

    /// Loads a script and returns its SHA1.
    pub(crate) fn load_script(&mut self, text: &str) -> Result<String, BenchError> {
        self.text(&["SCRIPT", "LOAD", text], "SCRIPT LOAD")
    }

    /// The core that serves this connection, from the field `core=` of CLIENT INFO.
    pub(crate) fn core(&mut self) -> Result<usize, BenchError> {
        let info = self.text(&["CLIENT", "INFO"], "CLIENT INFO")?;
        let field = info.split_ascii_whitespace().find_map(|field| field.strip_prefix("core="));
        number(field, || format!("no field core= (--own-core needs Tollgate): {}", info.trim_end()), "CLIENT INFO")
    }

    /// The server's number of cores, from the field `tollgate_cores` of INFO.
    pub(crate) fn cores(&mut self) -> Result<usize, BenchError> {
        let info = self.text(&["INFO", "server"], "INFO server")?;
        let field = info.lines().find_map(|line| line.strip_prefix("tollgate_cores:"));
        number(field, || "no field tollgate_cores (--own-core needs Tollgate)".to_owned(), "INFO server")
    }

    /// Gives the socket to the run.
    pub(crate) fn into_socket(self) -> Socket {
        self.socket
    }

    fn text(&mut self, arguments: &[&str], name: &str) -> Result<String, BenchError> {
        match self.exchange(arguments)? {
            Reply::Text(text) => Ok(text),
            Reply::Error(reply) => Err(BenchError::Preparation { command: name.to_owned(), reply }),
            other => Err(BenchError::Preparation { command: name.to_owned(), reply: other.to_string() }),
        }
    }

    fn exchange(&mut self, arguments: &[&str]) -> Result<Reply, BenchError> {
        let mut request = Vec::new();
        template::write_request(arguments, &mut request);
        self.socket.write_all(&request).map_err(|source| self.lost(source))?;
        self.read_reply(0)
    }

    fn read_reply(&mut self, depth: usize) -> Result<Reply, BenchError> {
        let header = self.read_line()?;
        let (kind, rest) = header.split_at_checked(1).unwrap_or_default();
        match kind {
            "+" | ":" => Ok(Reply::Text(rest.to_owned())),
            "-" => Ok(Reply::Error(rest.to_owned())),
            "_" => Ok(Reply::Null),
            "$" | "*" if rest == "-1" => Ok(Reply::Null),
            "$" => self.read_bulk(rest).map(Reply::Text),
            "*" if depth < DEPTH_MAX => self.read_array(rest, depth),
            _ => Err(BenchError::Protocol(format!("a reply that starts with {:?}: is this a RESP server?", header))),
        }
    }

    fn read_array(&mut self, count: &str, depth: usize) -> Result<Reply, BenchError> {
        let count = count.parse::<usize>().ok().filter(|count| *count <= ELEMENTS_MAX);
        let count = count.ok_or_else(|| BenchError::Protocol("an array of no usable length".into()))?;
        let mut elements = Vec::new();
        for _ in 0..count {
            elements.push(self.read_reply(depth.saturating_add(1))?);
        }
        Ok(Reply::Array(elements))
    }

    fn read_bulk(&mut self, length: &str) -> Result<String, BenchError> {
        let length: usize = length
            .parse()
            .ok()
            .filter(|length| *length <= REPLY_BYTES_MAX)
            .ok_or_else(|| BenchError::Protocol(format!("a bulk reply of length {length}")))?;
        let mut body = vec![0; length.saturating_add(2)];
        self.socket.read_exact(&mut body).map_err(|source| self.lost(source))?;
        body.truncate(length);
        Ok(String::from_utf8_lossy(&body).into_owned())
    }

    /// Reads byte by byte, so that nothing after the line is taken.
    fn read_line(&mut self) -> Result<String, BenchError> {
        let mut line = Vec::new();
        let mut byte = [0; 1];
        loop {
            self.socket.read_exact(&mut byte).map_err(|source| self.lost(source))?;
            match byte {
                [b'\n'] => break,
                [other] => line.push(other),
            }
            if line.len() > REPLY_BYTES_MAX {
                return Err(BenchError::Protocol("a reply line without an end".into()));
            }
        }
        if line.last() == Some(&b'\r') {
            line.pop();
        }
        Ok(String::from_utf8_lossy(&line).into_owned())
    }

    fn lost(&self, source: io::Error) -> BenchError {
        match source.kind() {
            io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe => {
                BenchError::Closed { said: None }
            }
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => BenchError::Unreachable {
                target: self.target.clone(),
                source: io::Error::new(io::ErrorKind::TimedOut, "connected, but it does not answer"),
            },
            _ => BenchError::Unreachable { target: self.target.clone(), source },
        }
    }
}

fn number(field: Option<&str>, missing: impl FnOnce() -> String, command: &str) -> Result<usize, BenchError> {
    let value = field.and_then(|text| text.trim_end().parse().ok());
    value.ok_or_else(|| BenchError::Preparation { command: command.to_owned(), reply: missing() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_are_told_in_a_few_words() {
        let text = |text: &str| Reply::Text(text.to_owned());
        let cases = [
            (text("OK"), "\"OK\""),
            (text("a\u{1b}[2J"), "\"a\\u{1b}[2J\""),
            (Reply::Error("ERR no".to_owned()), "the error \"ERR no\""),
            (Reply::Null, "nothing"),
            (Reply::Array(vec![text("a"), Reply::Array(vec![Reply::Null; 400])]), "a list of 2"),
        ];
        for (reply, expected) in cases {
            assert_eq!(reply.to_string(), expected);
        }
        assert_eq!(text(&"x".repeat(5_000)).to_string().len(), SHOWN_CHARS_MAX + 2);
    }
}
