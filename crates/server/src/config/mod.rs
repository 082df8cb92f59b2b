//! What an operator asks for, as one checked value.
//!
//! People set things in three places: a TOML file, `TOLLGATE_*` in the environment, and flags. Three places make three
//! spellings of every mistake, so each setting is one row in one table ([`setting`]): its name, default, what is
//! allowed, and its help. The file, the environment and the flags are all read into the same raw form ([`raw`]), text
//! with a note of where it came from; a flag wins over the environment and that over the file. Only then is anything
//! judged ([`check`]), by one parser a kind of value ([`value`]), and every mistake is reported at once.
//!
//! ```text
//!   file ──┐
//!   env  ──┼──> RawSettings (text + source) ──check──> Config (all decided)  ──> CONFIG GET, --check-config
//!   flags ─┘                                   └─────> ConfigErrors (all of them)
//! ```
//!
//! **Invariant:** a password is hashed here and its text goes no further: no error, no `Debug`, no printed
//! configuration shows it.

mod check;
mod error;
mod password;
mod raw;
mod rewrite;
mod setting;
mod show;
mod value;

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use crate::following::Primary;

pub use error::{ConfigError, ConfigErrors};
pub use password::PasswordHash;
pub use raw::{Loaded, ServeArguments};
pub(crate) use rewrite::rewrite;
pub use setting::{SETTINGS, Setting};
pub use tollgate_store::Eviction;

/// The most cores one server can use: `slot / 64` names 256 groups of slots, and a core needs at least one of them.
pub const CORES_MAX: usize = 256;

/// How far the port for nodes lies above the one for clients, if nothing else is said: as far as in Redis.
pub const PEER_PORT_ABOVE: u16 = 10_000;

/// How much a server may be asked to hold in one value. Half of the 1 MiB that one command may have, so that a value
/// of this size always fits in the command that carries it.
pub const BULK_BYTES_CEILING: usize = 512 * 1024;

/// Everything the server needs to know to start, checked: each value is inside its range and they fit each other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// Addresses on which clients are served. Empty only if there is a Unix socket.
    pub bind: Vec<IpAddr>,
    /// The TCP port of all of `bind`; 0 means any port that is free.
    pub port: u16,
    /// Path of the Unix socket, if one is served. At most 107 bytes long.
    pub unix_socket: Option<PathBuf>,
    /// Permission bits of the Unix socket (0 to 0o777); none leaves what the process's umask gives.
    pub unix_socket_mode: Option<u32>,
    /// Number of core threads, 1 to [`CORES_MAX`].
    pub cores: usize,
    /// The CPUs of the affinity mask that the process inherited, ascending, never empty.
    pub cpus: Vec<usize>,
    /// The directory that is locked for this process and holds what it keeps; none keeps nothing.
    pub dir: Option<PathBuf>,
    /// A snapshot is written so often while there are changes; none: only when asked for.
    pub save_interval: Option<Duration>,
    /// The primary to follow; none: be one.
    pub primary: Option<Primary>,
    /// The user to log in to it as; none: the default one.
    pub primary_user: Option<String>,
    /// What to prove to it.
    pub primary_password: Option<Secret>,
    /// Units that a failover may forget; none: as many as there are.
    pub overshoot_max: Option<u64>,
    /// A replica that does not acknowledge for this long is out of step.
    pub replica_timeout: Duration,
    /// Replicas in step that there should be.
    pub replicas_required: usize,
    /// With fewer, calls are refused.
    pub denies_without_replicas: bool,
    /// How it is a node of a cluster; none: it is none.
    pub cluster: Option<ClusterConfig>,
    /// Milliseconds of a lease in a cluster.
    pub cluster_node_timeout_ms: i64,
    /// Where `/livez`, `/readyz` and `/metrics` are served; none if they are off.
    pub admin: Option<SocketAddr>,
    /// Time stands still and moves by `RL.CLOCK` only.
    pub test_clock: bool,
    /// What a client must prove to know; none lets everybody in (but see `protected_mode`).
    pub password: Option<PasswordHash>,
    /// Without a password, serve only clients on loopback.
    pub protected_mode: bool,
    /// Bytes that all keys together may take; 0 is no limit. Each core holds an equal share.
    pub memory_max_bytes: u64,
    /// What happens to a new key where memory is full.
    pub eviction: Eviction,
    /// Clients served at a time, at least 1.
    pub clients_max: usize,
    /// A client that sends nothing for this long is cut off; none waits for ever.
    pub idle_timeout: Option<Duration>,
    /// Time without traffic after which the kernel asks whether a client is still there; none never asks.
    pub keepalive: Option<Duration>,
    /// The longest argument a client may send, in bytes: 1 KiB to [`BULK_BYTES_CEILING`].
    pub bulk_bytes_max: usize,
    /// The largest `limit` that RL.LOG takes: one entry of memory is kept for each admitted unit.
    pub log_limit_max: u64,
    /// Microseconds from which on a command is in the slow log; -1 is none.
    pub slowlog_log_slower_than: i64,
    /// The most entries of the slow log.
    pub slowlog_max_len: i64,
    /// Milliseconds from which on a command is a latency sample; 0 is none.
    pub latency_monitor_threshold: i64,
    /// The busiest keys are counted and RL.TOP names them.
    pub top_keys: bool,
    /// Log lines of at least this weight are written.
    pub log_level: LogLevel,
    /// The shape of a log line.
    pub log_format: LogFormat,
    /// The configuration file that was read, if any, by its whole path.
    pub file: Option<PathBuf>,
}

/// How a process is a node of a cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClusterConfig {
    /// The port at which other nodes are heard; 0: ten thousand above that of clients.
    pub port: u16,
    /// Where clients and nodes are told that it is.
    pub announced_host: String,
    /// At which port clients are told that it is; 0: its own.
    pub announced_port: u16,
    /// At which port nodes are told that it is; 0: its own.
    pub announced_cluster_port: u16,
    /// What nodes prove to each other to know; none: only nodes on this host are heard.
    pub secret: Option<Secret>,
}

/// What must be sent in the clear and never shown.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(pub(crate) String);

impl std::fmt::Debug for Secret {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Secret")
    }
}

/// How heavy a log line must be to be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogLevel {
    /// Nothing is written.
    Off,
    /// Only what failed.
    Error,
    /// Also what an operator should look at.
    Warn,
    /// Also what happened: start, stop, changes. The default.
    Info,
    /// Also what helps to find a fault.
    Debug,
    /// Everything.
    Trace,
}

/// The shape of a log line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogFormat {
    /// Text if standard error is a terminal, JSON otherwise.
    Auto,
    /// One line of text for a person.
    Text,
    /// One JSON object a line for a machine.
    Json,
}

#[cfg(test)]
mod tests;
