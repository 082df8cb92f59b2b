//! Whose socket the target is: the process on this machine that listens there.
//!
//! A TCP listener's address stands in /proc/net/tcp or tcp6 with the inode of its socket, and the process that has
//! the socket open has a link to that inode among its files. The listener of a Unix socket is told by the kernel to
//! whoever connects. Nothing here is an error: where the server cannot be seen, the report says why in a line, and has
//! no figures of the server.

use super::Process;
use crate::target::Target;
use std::collections::{BTreeSet, HashSet};
use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::unix::net::UnixStream;
use std::path::Path;

/// The state of a listening socket in /proc/net/tcp.
const LISTENING: &str = "0A";

/// Programs that listen for a server inside a container: their CPU time is not the server's.
const PROXIES: [&str; 4] = ["docker-proxy", "rootlesskit", "rootlessport", "slirp4netns"];

/// The server's process, as far as it can be seen from here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Sighting {
    /// The process and its name.
    Seen {
        pid: u32,
        name: String,
        /// The process that listens at the target, where it was given another one than that.
        listener: Option<u32>,
    },
    /// Why there is none, as the end of a sentence.
    Unseen { reason: String },
}

impl Sighting {
    /// The id of the process.
    pub(crate) fn pid(&self) -> Option<u32> {
        match self {
            Sighting::Seen { pid, .. } => Some(*pid),
            Sighting::Unseen { .. } => None,
        }
    }
}

/// Takes the process that was given, or looks for the one that listens at the target.
pub(crate) fn sight(given_pid: Option<u32>, target: &Target) -> Sighting {
    let found = match given_pid {
        Some(pid) => return Sighting::Seen { pid, name: Process { pid }.name(), listener: other_than(pid, target) },
        None => find(target),
    };
    match found.and_then(|pid| usable(pid, std::process::id())) {
        Ok((pid, name)) => Sighting::Seen { pid, name, listener: None },
        Err(reason) => Sighting::Unseen { reason },
    }
}

/// The process that listens at the target, if it is known to be another than `pid` and no proxy of it.
fn other_than(pid: u32, target: &Target) -> Option<u32> {
    let listener = find(target).ok().filter(|listener| *listener != pid)?;
    (!PROXIES.contains(&Process { pid: listener }.name().as_str())).then_some(listener)
}

/// The id of the process that listens at the target, or why it is not known.
fn find(target: &Target) -> Result<u32, String> {
    if let Some(path) = target.unix_path() {
        return unix_listener(path);
    }
    let addresses = target.addresses();
    let local: Vec<SocketAddr> = addresses.into_iter().filter(|address| address.ip().is_loopback()).collect();
    if local.is_empty() {
        return Err("the server is not on a loopback address of this machine".to_owned());
    }
    let listeners = listeners();
    let inodes = local.iter().map(|address| inodes_at(&listeners, *address)).find(|inodes| !inodes.is_empty());
    let Some(inodes) = inodes else {
        return Err("no socket of this machine listens at the target".to_owned());
    };
    one_of(holders(Path::new("/proc"), &inodes))
}

fn one_of(pids: BTreeSet<u32>) -> Result<u32, String> {
    let mut rest = pids.iter();
    match (rest.next(), rest.next()) {
        (Some(pid), None) => Ok(*pid),
        (None, _) => Err("the process that listens at the target may not be looked at from here".to_owned()),
        (Some(first), Some(second)) => {
            Err(format!("several processes listen at the target, {first} and {second} among them"))
        }
    }
}

/// Refuses a process whose figures cannot be read or would be another's.
fn usable(pid: u32, own_pid: u32) -> Result<(u32, String), String> {
    let process = Process { pid };
    let name = process.name();
    if pid == own_pid {
        return Err("the server is part of this process".to_owned());
    }
    if PROXIES.contains(&name.as_str()) {
        return Err(format!("{name} listens at the target for a server in a container"));
    }
    match process.cpu_time().and_then(|_| process.rss_bytes()) {
        Ok(_) => Ok((pid, name)),
        Err(error) => Err(error.to_string()),
    }
}

fn unix_listener(path: &Path) -> Result<u32, String> {
    let unseen = || "the process behind the socket may not be looked at from here".to_owned();
    // A socket that nobody answers is told better by the run itself.
    let stream = UnixStream::connect(path).map_err(|_| unseen())?;
    let peer = rustix::net::sockopt::socket_peercred(&stream).map_err(|_| unseen())?;
    u32::try_from(peer.pid.as_raw_nonzero().get()).map_err(|_| unseen())
}

/// A listening socket: where, and its inode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Listener {
    address: SocketAddr,
    inode: u64,
}

fn listeners() -> Vec<Listener> {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let (four, six) = (read("/proc/net/tcp"), read("/proc/net/tcp6"));
    four.lines().chain(six.lines()).filter_map(parse_listener).collect()
}

/// The inodes of the sockets that take a connection to `address`: those bound to it, else those bound to all addresses
/// of its family, else those of all IPv6 addresses, which take IPv4 too.
fn inodes_at(listeners: &[Listener], address: SocketAddr) -> HashSet<u64> {
    let mapped = match address.ip() {
        IpAddr::V4(four) => IpAddr::V6(four.to_ipv6_mapped()),
        six => six,
    };
    let any = if address.is_ipv4() { IpAddr::V4(Ipv4Addr::UNSPECIFIED) } else { IpAddr::V6(Ipv6Addr::UNSPECIFIED) };
    for bound in [address.ip(), mapped, any, IpAddr::V6(Ipv6Addr::UNSPECIFIED)] {
        let wanted = SocketAddr::new(bound, address.port());
        let inodes: HashSet<u64> =
            listeners.iter().filter(|listener| listener.address == wanted).map(|listener| listener.inode).collect();
        if !inodes.is_empty() {
            return inodes;
        }
    }
    HashSet::new()
}

/// A line of /proc/net/tcp or tcp6: number, local address, remote address, state, …, inode in the tenth place.
fn parse_listener(line: &str) -> Option<Listener> {
    let mut fields = line.split_ascii_whitespace();
    let (ip, port) = fields.nth(1)?.split_once(':')?;
    if fields.nth(1)? != LISTENING {
        return None;
    }
    let inode = fields.nth(5)?.parse().ok()?;
    Some(Listener { address: SocketAddr::new(parse_ip(ip)?, u16::from_str_radix(port, 16).ok()?), inode })
}

/// The kernel prints the four-byte words of an address as numbers of this machine's byte order.
fn parse_ip(hex: &str) -> Option<IpAddr> {
    let mut bytes = Vec::with_capacity(16);
    let mut rest = hex;
    while !rest.is_empty() {
        let (word, after) = rest.split_at_checked(8)?;
        bytes.extend(u32::from_str_radix(word, 16).ok()?.to_ne_bytes());
        rest = after;
    }
    match <[u8; 4]>::try_from(bytes.as_slice()) {
        Ok(four) => Some(IpAddr::from(four)),
        Err(_) => <[u8; 16]>::try_from(bytes.as_slice()).ok().map(IpAddr::from),
    }
}

/// The processes that have one of these sockets open; those whose files may not be read are passed over.
fn holders(proc_folder: &Path, inodes: &HashSet<u64>) -> BTreeSet<u32> {
    let links: HashSet<String> = inodes.iter().map(|inode| format!("socket:[{inode}]")).collect();
    let mut pids = BTreeSet::new();
    for entry in fs::read_dir(proc_folder).into_iter().flatten().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else { continue };
        let files = fs::read_dir(entry.path().join("fd")).into_iter().flatten().flatten();
        let has_one = files
            .filter_map(|file| fs::read_link(file.path()).ok())
            .any(|link| link.to_str().is_some_and(|link| links.contains(link)));
        if has_one {
            pids.insert(pid);
        }
    }
    pids
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;
    use std::os::unix::net::UnixListener;

    fn listener(address: &str, inode: u64) -> Listener {
        Listener { address: address.parse().unwrap(), inode }
    }

    #[cfg(target_endian = "little")]
    #[test]
    fn lines_of_the_kernels_tables() {
        let four = "   0: 0100007F:18EB 00000000:0000 0A 00000000:00000000 00:00000000 00000000   999        0 4711 1";
        assert_eq!(parse_listener(four), Some(listener("127.0.0.1:6379", 4_711)));
        let six = "   1: 00000000000000000000000001000000:18EB 00000000000000000000000000000000:0000 0A \
                   00000000:00000000 00:00000000 00000000     0        0 4712 1 0000000000000000 100 0 0 10 0";
        assert_eq!(parse_listener(six), Some(listener("[::1]:6379", 4_712)));
        let established = four.replace(" 0A ", " 01 ");
        let others = ["  sl  local_address rem_address   st", "", "0: 0100007F:18EB", &established];
        for line in others {
            assert_eq!(parse_listener(line), None, "{line}");
        }
    }

    #[test]
    fn the_most_exact_address_wins() {
        let all = [
            listener("127.0.0.1:1", 11),
            listener("0.0.0.0:1", 12),
            listener("0.0.0.0:2", 21),
            listener("[::]:2", 22),
            listener("[::]:3", 31),
            listener("[::ffff:127.0.0.1]:4", 41),
            listener("127.0.0.1:5", 51),
            listener("127.0.0.1:5", 52),
        ];
        let cases: [(&str, &[u64]); 8] = [
            ("127.0.0.1:1", &[11]),
            ("127.0.0.2:1", &[12]),
            ("127.0.0.1:2", &[21]),
            ("[::1]:2", &[22]),
            ("127.0.0.1:3", &[31]),
            ("127.0.0.1:4", &[41]),
            ("127.0.0.1:5", &[51, 52]),
            ("[::1]:1", &[]),
        ];
        for (address, inodes) in cases {
            let expected: HashSet<u64> = inodes.iter().copied().collect();
            assert_eq!(inodes_at(&all, address.parse().unwrap()), expected, "{address}");
        }
    }

    #[test]
    fn several_processes_or_none_are_not_guessed_between() {
        assert_eq!(one_of(BTreeSet::from([7])), Ok(7));
        assert!(one_of(BTreeSet::new()).unwrap_err().contains("may not be looked at"));
        assert!(one_of(BTreeSet::from([7, 8, 9])).unwrap_err().contains("7 and 8"));
    }

    #[test]
    fn a_listener_of_this_process_is_found_by_its_address() {
        let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
        let path = std::env::temp_dir().join(format!("tollgate-bench-find-{}.sock", std::process::id()));
        let _unix = UnixListener::bind(&path).unwrap();
        let targets = [tcp.local_addr().unwrap().to_string(), format!("unix:{}", path.display())];
        for text in targets {
            let target = Target::parse("--target", &text).unwrap();
            assert_eq!(find(&target), Ok(std::process::id()), "{text}");
            let own = std::process::id();
            for (given, expected) in [(own, None), (1, Some(own))] {
                let Sighting::Seen { listener, .. } = sight(Some(given), &target) else { panic!("{given} was given") };
                assert_eq!(listener, expected, "{text}");
            }
            let Sighting::Unseen { reason } = sight(None, &target) else { panic!("{text} is this process") };
            assert!(reason.contains("part of this process"), "{reason}");
        }
        fs::remove_file(&path).unwrap();
    }

    #[test]
    fn what_cannot_be_seen_is_said() {
        let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
        let cases = [
            (closed.as_str(), "no socket of this machine"),
            ("192.0.2.1:6379", "not on a loopback address"),
            ("unix:/nowhere/at.all", "may not be looked at"),
        ];
        for (text, expected) in cases {
            let reason = find(&Target::parse("--target", text).unwrap()).unwrap_err();
            assert!(reason.contains(expected), "{text}: {reason}");
        }
        assert!(usable(std::process::id(), 0).is_ok());
        assert!(usable(u32::MAX, 0).is_err());
    }
}
