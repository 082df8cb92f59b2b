//! Where the server is: the address as a person writes it, and a blocking connection to it.

use crate::error::BenchError;
use std::fmt;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How long a server may take to accept a connection, and to answer a command of the preparation.
const PREPARATION_LIMIT: Duration = Duration::from_secs(10);

const DEFAULT_PORT: u16 = 6379;

/// Addresses that ask for an encrypted connection.
const TLS_SCHEMES: [&str; 2] = ["rediss://", "valkeys://"];

/// A server's address and the credentials for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Target {
    place: Place,
    pub(crate) user: Option<String>,
    pub(crate) password: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Place {
    Tcp { host: String, port: u16 },
    Unix { path: PathBuf },
}

/// A socket that still blocks, as the preparation uses it.
#[derive(Debug)]
pub(crate) enum Socket {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Target {
    /// Reads `redis://[[user]:password@]host[:port]`, `host[:port]` or `unix:/path`. An IPv6 address is written in
    /// brackets; `%40` and the like are decoded in user and password. `flag` is what messages call it by.
    pub(crate) fn parse(flag: &str, text: &str) -> Result<Target, BenchError> {
        if let Some(path) = text.strip_prefix("unix:") {
            let path = path.strip_prefix("//").unwrap_or(path);
            if path.is_empty() {
                return Err(unreadable(flag, text));
            }
            return Ok(Target { place: Place::Unix { path: PathBuf::from(path) }, user: None, password: None });
        }
        if let Some(scheme) = TLS_SCHEMES.into_iter().find(|scheme| text.starts_with(scheme)) {
            return Err(BenchError::Arguments(format!("{flag} {scheme}…: TLS is not supported, use redis://")));
        }
        let rest = text.strip_prefix("redis://").unwrap_or(text);
        let rest = rest.strip_suffix('/').unwrap_or(rest);
        let (credentials, address) = match rest.rsplit_once('@') {
            Some((credentials, address)) => (Some(credentials), address),
            None => (None, rest),
        };
        let (user, password) = match credentials {
            None => (None, None),
            Some(credentials) => match credentials.split_once(':') {
                Some((user, password)) => (Some(user).filter(|user| !user.is_empty()), Some(password)),
                None => (None, Some(credentials)),
            },
        };
        if let Some((_, database)) = address.split_once('/')
            && database.bytes().all(|byte| byte.is_ascii_digit())
        {
            let text = format!("{flag} …/{database}: databases are not supported, leave /{database} out");
            return Err(BenchError::Arguments(text));
        }
        let (host, port) = split_address(address).ok_or_else(|| unreadable(flag, text))?;
        Ok(Target {
            place: Place::Tcp { host, port },
            user: user.map(decode_percent).transpose()?,
            password: password.map(decode_percent).transpose()?,
        })
    }

    /// The same with the user and the password of another, if it has none of its own.
    pub(crate) fn or_as(self, other: &Target) -> Target {
        match self.password {
            Some(_) => self,
            None => Target { user: other.user.clone(), password: other.password.clone(), ..self },
        }
    }

    /// Opens one blocking connection, with time limits, ready for the preparation's commands.
    pub(crate) fn connect(&self) -> Result<Socket, BenchError> {
        self.open().map_err(|source| BenchError::Unreachable { target: self.to_string(), source })
    }

    /// The addresses of a TCP target; none for a Unix socket, or for a name that is not known.
    pub(crate) fn addresses(&self) -> Vec<SocketAddr> {
        match &self.place {
            Place::Tcp { host, port } => (host.as_str(), *port).to_socket_addrs().into_iter().flatten().collect(),
            Place::Unix { .. } => Vec::new(),
        }
    }

    /// The path of a Unix socket.
    pub(crate) fn unix_path(&self) -> Option<&Path> {
        match &self.place {
            Place::Tcp { .. } => None,
            Place::Unix { path } => Some(path),
        }
    }

    fn open(&self) -> io::Result<Socket> {
        match &self.place {
            Place::Unix { path } => {
                let stream = UnixStream::connect(path)?;
                stream.set_read_timeout(Some(PREPARATION_LIMIT))?;
                stream.set_write_timeout(Some(PREPARATION_LIMIT))?;
                Ok(Socket::Unix(stream))
            }
            Place::Tcp { host, port } => {
                let stream = connect_any(host, *port)?;
                stream.set_nodelay(true)?;
                stream.set_read_timeout(Some(PREPARATION_LIMIT))?;
                stream.set_write_timeout(Some(PREPARATION_LIMIT))?;
                Ok(Socket::Tcp(stream))
            }
        }
    }
}

impl fmt::Display for Target {
    /// The address without the credentials.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.place {
            Place::Unix { path } => write!(formatter, "unix:{}", path.display()),
            Place::Tcp { host, port } if host.contains(':') => write!(formatter, "redis://[{host}]:{port}"),
            Place::Tcp { host, port } => write!(formatter, "redis://{host}:{port}"),
        }
    }
}

impl Read for Socket {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Socket::Tcp(stream) => stream.read(buffer),
            Socket::Unix(stream) => stream.read(buffer),
        }
    }
}

impl Write for Socket {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Socket::Tcp(stream) => stream.write(bytes),
            Socket::Unix(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Tries each address of a name in turn; the last refusal is the one that is told.
fn connect_any(host: &str, port: u16) -> io::Result<TcpStream> {
    let mut refusal = io::Error::new(io::ErrorKind::NotFound, "the host name has no address");
    for address in (host, port).to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, PREPARATION_LIMIT) {
            Ok(stream) => return Ok(stream),
            Err(error) => refusal = error,
        }
    }
    Err(refusal)
}

fn split_address(address: &str) -> Option<(String, u16)> {
    if let Some(bracketed) = address.strip_prefix('[') {
        let (host, rest) = bracketed.split_once(']')?;
        let port = match rest.strip_prefix(':') {
            Some(port) => port.parse().ok()?,
            None if rest.is_empty() => DEFAULT_PORT,
            None => return None,
        };
        return Some((host.to_owned(), port)).filter(|(host, _)| !host.is_empty());
    }
    let (host, port) = match address.split_once(':') {
        Some((host, port)) => (host, port.parse().ok()?),
        None => (address, DEFAULT_PORT),
    };
    if host.is_empty() || host.contains('/') { None } else { Some((host.to_owned(), port)) }
}

/// Turns `%41` into `A`; anything else stays as it is.
fn decode_percent(text: &str) -> Result<String, BenchError> {
    let mut decoded = Vec::with_capacity(text.len());
    let mut parts = text.split('%');
    decoded.extend_from_slice(parts.next().unwrap_or_default().as_bytes());
    for part in parts {
        let bad =
            || BenchError::Arguments("the target's credentials hold a % that is not followed by two digits".into());
        let (digits, rest) = part.split_at_checked(2).ok_or_else(bad)?;
        if digits.starts_with('+') {
            return Err(bad());
        }
        decoded.push(u8::from_str_radix(digits, 16).map_err(|_| bad())?);
        decoded.extend_from_slice(rest.as_bytes());
    }
    String::from_utf8(decoded).map_err(|_| BenchError::Arguments("the target's credentials are not UTF-8".into()))
}

/// The credentials in a wrong target are not repeated.
fn unreadable(flag: &str, text: &str) -> BenchError {
    let shown = text.rsplit_once('@').map_or(text, |(_, address)| address);
    BenchError::Arguments(format!(
        "{flag} {shown:?} is not understood: use redis://[[user]:password@]host:port, host:port or unix:/path"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, shown: &str, user: Option<&str>, password: Option<&str>) {
        let target = Target::parse("--target", text).unwrap();
        assert_eq!(target.to_string(), shown, "{text}");
        assert_eq!(target.user.as_deref(), user, "{text}");
        assert_eq!(target.password.as_deref(), password, "{text}");
    }

    #[test]
    fn targets_as_people_write_them() {
        check("redis://127.0.0.1:7000", "redis://127.0.0.1:7000", None, None);
        check("redis://localhost", "redis://localhost:6379", None, None);
        check("localhost:1/", "redis://localhost:1", None, None);
        check("redis://:secret@h:1", "redis://h:1", None, Some("secret"));
        check("redis://me:a%40b%3a@h:1", "redis://h:1", Some("me"), Some("a@b:"));
        check("redis://only@h:1", "redis://h:1", None, Some("only"));
        check("[::1]:7", "redis://[::1]:7", None, None);
        check("redis://[::1]", "redis://[::1]:6379", None, None);
        check("unix:/run/t.sock", "unix:/run/t.sock", None, None);
        check("unix:///run/t.sock", "unix:/run/t.sock", None, None);
    }

    #[test]
    fn wrong_targets_are_told_without_their_password() {
        let wrong = [
            "",
            "unix:",
            "redis://",
            "h:x",
            "h:70000",
            "http://h:1",
            "[::1",
            "[::1]7",
            "redis://:p%4@h",
            "redis://:%+1@h",
        ];
        for text in wrong {
            assert!(Target::parse("--target", text).is_err(), "{text}");
        }
        let explained = [
            ("redis://:hidden@h:x", "is not understood"),
            ("rediss://:hidden@h:1", "TLS is not supported"),
            ("redis://:hidden@h:1/3", "databases are not supported"),
            ("redis://:hidden@h/0", "databases are not supported"),
        ];
        for (text, expected) in explained {
            let message = Target::parse("--target", text).unwrap_err().to_string();
            assert!(message.contains(expected) && !message.contains("hidden"), "{message}");
        }
    }
}
