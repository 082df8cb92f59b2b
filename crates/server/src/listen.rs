//! The sockets on which clients arrive: a TCP listener of its own for every core, and perhaps a Unix socket.
//!
//! Every core accepts from a listener of its own, and the kernel spreads connections over all listeners of one port
//! that have SO_REUSEPORT. But that option also lets a *second* server of the same user join the port: the kernel
//! would give it half of the connections, and every limit would hold twice. Nobody would see an error. So:
//!
//! ```text
//!   bind + listen without SO_REUSEPORT ── in use? ──> stop with a message
//!        │  the port is ours alone, and never let go from here on
//!   set SO_REUSEPORT on that very socket: it becomes the listener of core 0
//!        │
//!   bind + listen one more socket for each further core
//! ```
//!
//! The first step of a second Tollgate meets a listening socket and fails, at whatever moment it comes; there is no
//! instant at which the port is free. What remains possible: a program of the same user that sets SO_REUSEPORT at once,
//! without asking for the port alone first, is let in by the kernel. Only a program that means to does that.
//!
//! A server with one core never sets the option at all.

use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

use rustix::process::{Resource, getrlimit, setrlimit};
use socket2::{Domain, Protocol, SockAddr, Socket, Type};

use crate::config::{Config, PEER_PORT_ABOVE};

/// Connections that may wait to be accepted, per listener. The kernel lowers it to `net.core.somaxconn`, which is 4,096
/// on a current one: enough for every gateway of a fleet to reconnect at once.
const BACKLOG: i32 = 4_096;

/// How often another free port is tried if the one that the first address got is taken at a further address.
const FREE_PORT_TRIES: usize = 16;

/// File descriptors that are needed beside the clients' own: listeners, wake-ups, files, the admin port.
const DESCRIPTORS_BESIDE_CLIENTS: u64 = 512;

/// Sockets that listen, nonblocking.
#[derive(Debug)]
pub struct Listeners {
    /// The port of all TCP listeners: the one that was asked for, or the free one that was found. 0 if there are none.
    pub port: u16,
    /// For each core its listeners, one for each address that is served.
    pub per_core: Vec<Vec<TcpListener>>,
    /// The Unix socket.
    pub unix: Option<UnixListener>,
    /// The port at which other nodes of the cluster are heard; 0 if there is none.
    pub peer_port: u16,
    /// Its listeners, one for each address.
    pub peers: Vec<TcpListener>,
}

/// Why clients cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    /// Something else listens there.
    #[error(
        "{address} is already in use: another Tollgate or Redis may be running there \
         (see `redis-cli -p {} INFO server`); stop it, or choose another port with --port",
        address.port()
    )]
    InUse {
        /// The address that was asked for.
        address: SocketAddr,
    },
    /// The host has no such address.
    #[error("{address} is not an address of this host; name one that is with --bind")]
    NotHere {
        /// The address that was asked for.
        address: SocketAddr,
    },
    /// The system refused for another reason.
    #[error("cannot listen on {address}: {source}")]
    Refused {
        /// The address that was asked for.
        address: SocketAddr,
        /// What the system said.
        source: io::Error,
    },
    /// A living server has the Unix socket.
    #[error(
        "the Unix socket {} is in use by another process; stop it, or choose another path with --unixsocket",
        path.display()
    )]
    UnixInUse {
        /// The path that was asked for.
        path: PathBuf,
    },
    /// Something that is no socket is at the path, and is not removed.
    #[error("{} exists and is not a socket; move it away, or choose another path with --unixsocket", path.display())]
    UnixNotASocket {
        /// The path that was asked for.
        path: PathBuf,
    },
    /// The system refused for another reason.
    #[error("cannot listen on the Unix socket {}: {source}", path.display())]
    UnixRefused {
        /// The path that was asked for.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

impl Listeners {
    /// Listens on everything that `config` names.
    ///
    /// # Errors
    ///
    /// An address or path is in use, is not of this host, or may not be used. Nothing stays bound then.
    pub fn open(config: &Config) -> Result<Listeners, ListenError> {
        let (port, alone) = alone_on_every_address(&config.bind, config.port)?;
        let mut per_core: Vec<Vec<TcpListener>> = Vec::new();
        per_core.resize_with(config.cores, Vec::new);
        for (address, first) in alone {
            let sockets = one_for_each_core(first, address, config.cores)
                .map_err(|source| ListenError::Refused { address, source })?;
            for (listeners, socket) in per_core.iter_mut().zip(sockets) {
                listeners.push(socket.into());
            }
        }
        let unix = match &config.unix_socket {
            Some(path) => Some(listen_on_path(path, config.unix_socket_mode)?),
            None => None,
        };
        let (peer_port, peers) = match &config.cluster {
            // A free port was found for clients where any was asked for: so for nodes.
            Some(cluster) => match (cluster.port, config.port) {
                (0, 0) => alone_on_every_address(&config.bind, 0)?,
                (0, port) => alone_on_every_address(&config.bind, port.saturating_add(PEER_PORT_ABOVE))?,
                (port, _) => alone_on_every_address(&config.bind, port)?,
            },
            None => (0, Vec::new()),
        };
        let peers = peers.into_iter().map(|(_, socket)| socket.into()).collect();
        Ok(Listeners { port, per_core, unix, peer_port, peers })
    }
}

/// Raises this process's limit on open files, as far as it may, so that `clients_max` clients fit, and gives back how
/// many clients do fit.
pub fn make_room_for(clients_max: usize) -> usize {
    let wanted = u64::try_from(clients_max).unwrap_or(u64::MAX).saturating_add(DESCRIPTORS_BESIDE_CLIENTS);
    let mut limit = getrlimit(Resource::Nofile);
    // No limit is the same as enough.
    if limit.current.is_some_and(|current| current < wanted) {
        limit.current = Some(limit.maximum.map_or(wanted, |maximum| maximum.min(wanted)));
        // A refusal leaves the limit as it is, and that is what is read next.
        let _ = setrlimit(Resource::Nofile, limit);
    }
    let current = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    let room = usize::try_from(current.saturating_sub(DESCRIPTORS_BESIDE_CLIENTS)).unwrap_or(usize::MAX);
    room.clamp(1, clients_max)
}

/// Removes the Unix socket's file at the end, so that clients are told at once that nobody is there.
pub fn remove_unix_socket(path: &Path) {
    // One that cannot be removed is replaced at the next start.
    let _ = std::fs::remove_file(path);
}

type Bound = (SocketAddr, Socket);

/// A listening socket without SO_REUSEPORT on each address, all on one port.
fn alone_on_every_address(addresses: &[IpAddr], port: u16) -> Result<(u16, Vec<Bound>), ListenError> {
    let mut tries_left = if port == 0 { FREE_PORT_TRIES } else { 1 };
    loop {
        tries_left -= 1;
        match alone_on_one_port(addresses, port) {
            Err(ListenError::InUse { .. }) if tries_left > 0 => {}
            result => return result,
        }
    }
}

fn alone_on_one_port(addresses: &[IpAddr], port_asked: u16) -> Result<(u16, Vec<Bound>), ListenError> {
    let mut port = if addresses.is_empty() { 0 } else { port_asked };
    let mut bound: Vec<Bound> = Vec::new();
    let mut family_missing: Option<ListenError> = None;
    for &ip in addresses {
        let asked = SocketAddr::new(ip, port);
        match listening_socket(asked, false).and_then(|socket| Ok((address_of(&socket)?, socket))) {
            Ok((address, socket)) => {
                port = address.port();
                bound.push((address, socket));
            }
            // `--bind *` must work on a host without IPv6, as long as one address is left.
            Err(error) if is_family_missing(&error) => {
                family_missing = Some(ListenError::Refused { address: asked, source: error });
            }
            Err(error) => return Err(refusal(asked, error)),
        }
    }
    match family_missing {
        Some(error) if bound.is_empty() => Err(error),
        Some(error) => {
            tracing::warn!(reason = %error, "an address family is missing and not served");
            Ok((port, bound))
        }
        None => Ok((port, bound)),
    }
}

/// The listeners of all cores at one address: `first`, which has the port alone, and one more for each further core.
fn one_for_each_core(first: Socket, address: SocketAddr, cores: usize) -> io::Result<Vec<Socket>> {
    if cores > 1 {
        // From here on further sockets of this user can join. `first` listens already, so whoever asks for the port
        // alone, as every Tollgate does first, is still refused.
        first.set_reuse_port(true)?;
    }
    let mut sockets = vec![first];
    for _ in 1..cores {
        sockets.push(listening_socket(address, true)?);
    }
    Ok(sockets)
}

fn listening_socket(address: SocketAddr, share_port: bool) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    // Connections of a server that has just ended keep the port for a minute; this lets a new one start meanwhile. It
    // does not let two listen: of two that bind at the same moment, the second one's listen() fails.
    socket.set_reuse_address(true)?;
    if share_port {
        socket.set_reuse_port(true)?;
    }
    if address.is_ipv6() {
        // `::` is IPv6 alone, so that `0.0.0.0` can stand beside it and means what it says by itself.
        socket.set_only_v6(true)?;
    }
    socket.set_nonblocking(true)?;
    socket.bind(&SockAddr::from(address))?;
    socket.listen(BACKLOG)?;
    Ok(socket)
}

fn address_of(socket: &Socket) -> io::Result<SocketAddr> {
    socket.local_addr()?.as_socket().ok_or_else(|| io::Error::other("the socket has no IP address"))
}

fn is_family_missing(error: &io::Error) -> bool {
    let code = error.raw_os_error();
    [rustix::io::Errno::AFNOSUPPORT, rustix::io::Errno::PROTONOSUPPORT].iter().any(|e| code == Some(e.raw_os_error()))
}

fn refusal(address: SocketAddr, source: io::Error) -> ListenError {
    match source.kind() {
        io::ErrorKind::AddrInUse => ListenError::InUse { address },
        io::ErrorKind::AddrNotAvailable => ListenError::NotHere { address },
        _ => ListenError::Refused { address, source },
    }
}

fn listen_on_path(path: &Path, mode: Option<u32>) -> Result<UnixListener, ListenError> {
    remove_if_stale(path)?;
    let refused = |source: io::Error| match source.kind() {
        io::ErrorKind::AddrInUse => ListenError::UnixInUse { path: path.to_path_buf() },
        _ => ListenError::UnixRefused { path: path.to_path_buf(), source },
    };
    let socket = Socket::new(Domain::UNIX, Type::STREAM, None).map_err(refused)?;
    socket.bind(&SockAddr::unix(path).map_err(refused)?).map_err(refused)?;
    if let Some(mode) = mode {
        // Before listen(), so that nobody connects whom the mode shuts out.
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).map_err(refused)?;
    }
    socket.listen(BACKLOG).map_err(refused)?;
    socket.set_nonblocking(true).map_err(refused)?;
    Ok(socket.into())
}

/// Removes the socket's file if the server that made it is gone. Only a socket that refuses connections is removed.
fn remove_if_stale(path: &Path) -> Result<(), ListenError> {
    let refused = |source: io::Error| ListenError::UnixRefused { path: path.to_path_buf(), source };
    let metadata = match std::fs::symlink_metadata(path) {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(refused(error)),
    };
    if !metadata.file_type().is_socket() {
        return Err(ListenError::UnixNotASocket { path: path.to_path_buf() });
    }
    // Without blocking: a server that is alive but behind with accepting would hold us up, and answers "again" so.
    let probe = Socket::new(Domain::UNIX, Type::STREAM, None).map_err(refused)?;
    probe.set_nonblocking(true).map_err(refused)?;
    match probe.connect(&SockAddr::unix(path).map_err(refused)?) {
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => std::fs::remove_file(path).map_err(refused),
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Err(refused(error)),
        _ => Err(ListenError::UnixInUse { path: path.to_path_buf() }),
    }
}

#[cfg(test)]
mod tests;
