//! What all cores of a process share: configuration and facts, given by the shell, and what of it can change.

use crate::shared::Shared;
use crate::tunables::Tunables;
use std::fmt;

/// How much a snapshot may be in the way of calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// As little as can be.
    Gentle,
    /// Somebody waits for it.
    AtOnce,
}

/// Why no snapshot was begun.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotStarted {
    /// There is no directory to write it into.
    NoDirectory,
    /// One is being written.
    IsRunning,
    /// Anything else.
    Failed(String),
}

impl fmt::Display for NotStarted {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NotStarted::NoDirectory => formatter.write_str("no snapshot can be written without --dir"),
            NotStarted::IsRunning => formatter.write_str("Background save already in progress"),
            NotStarted::Failed(why) => write!(formatter, "no snapshot can be written: {why}"),
        }
    }
}

/// What is known of snapshots.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Persistence {
    /// Whether there is a directory to write them into.
    pub can_save: bool,
    /// Changes since the last one; may be more than there were, never none where there were some.
    pub changes: u64,
    /// For how long one is being written, in seconds.
    pub running_seconds: Option<u64>,
    /// When the last one was written, in seconds since 1970; before there was one, when the server started.
    pub last_save_seconds: u64,
    /// Whether the last attempt went well, or there was none.
    pub last_is_ok: bool,
    /// How long it took, in seconds.
    pub last_took_seconds: Option<u64>,
    /// Snapshots begun since the start.
    pub snapshots: u64,
}

/// A replica of this process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplicaSeen {
    /// Its address.
    pub host: String,
    /// The port on which it serves clients.
    pub port: u16,
    /// Whether it holds all that this process holds, but for what is on its way.
    pub is_online: bool,
    /// Whether it is in step: what a failover to it may forget is what is said.
    pub is_in_step: bool,
}

/// How far a replica is with its primary, in the order of ROLE's words.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FollowingState {
    /// It will try again.
    #[default]
    Connect,
    /// It tries.
    Connecting,
    /// It is told what the primary holds.
    Sync,
    /// It holds all of it, and hears of each change.
    Connected,
}

/// Whom this process follows, and how that goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Following {
    /// Where the primary serves clients.
    pub host: String,
    /// See `host`.
    pub port: u16,
    /// How far it is.
    pub state: FollowingState,
    /// Whether the primary says that this replica is in step.
    pub is_in_step: bool,
    /// For how long nothing was heard, in seconds; `None`: nothing was, so far.
    pub silent_seconds: Option<u64>,
    /// Why the primary is not followed; empty while it is.
    pub why_down: String,
}

impl Following {
    /// Whether it is in step: it holds all, hears of each change, and its primary says that it waits for it.
    pub fn is_up(&self) -> bool {
        self.state == FollowingState::Connected && self.is_in_step
    }
}

/// Facts about the process that only the operating system knows. The shell asks it; the engine only shows the answers.
pub trait Process: Send + Sync {
    /// Resident memory in bytes.
    fn resident_bytes(&self) -> u64;
    /// Processor time in user and in kernel mode, in microseconds.
    fn cpu_micros(&self) -> (u64, u64);
    /// Seconds since start, on a real clock.
    fn uptime_seconds(&self) -> u64;
    /// Steps of the wall clock seen since start.
    fn clock_steps(&self) -> u64;
    /// The wall clock minus the server's timeline, in microseconds, at this moment: what converts the Unix times of
    /// callers. 0 under a test clock.
    fn wall_offset_micros(&self) -> i64;
    /// The operating system, as `uname` names it.
    fn operating_system(&self) -> String;
    /// Memory of the machine in bytes; 0 if that is not known.
    fn machine_memory_bytes(&self) -> u64 {
        0
    }
    /// Fills `bytes` with what nobody can guess. False, and nothing is said of what they hold, if it cannot.
    fn fill_random(&self, _bytes: &mut [u8]) -> bool {
        false
    }
    /// Has a snapshot begun. Answers its number.
    ///
    /// # Errors
    /// Why none was.
    fn start_snapshot(&self, _pace: Pace) -> Result<u64, NotStarted> {
        Err(NotStarted::NoDirectory)
    }
    /// Has another snapshot begun once the one that runs has ended.
    fn schedule_snapshot(&self) {}
    /// What is known of snapshots.
    fn persistence(&self) -> Persistence {
        Persistence::default()
    }
    /// Follows the primary at this host and port from now on, or nobody.
    ///
    /// # Errors
    /// Why that cannot be.
    fn follow(&self, _primary: Option<(String, u16)>) -> Result<(), String> {
        Err("this process has no replication".to_owned())
    }
    /// Whom it follows. `None`: it is a primary.
    fn following(&self) -> Option<Following> {
        None
    }
    /// How much is left of the lease under which a node of a cluster serves. `None`: it is no such node.
    fn lease_left_micros(&self) -> Option<u64> {
        None
    }
    /// Who follows it.
    fn replicas(&self) -> Vec<ReplicaSeen> {
        Vec::new()
    }
    /// Brings the values that differ from those in the configuration file into it.
    ///
    /// # Errors
    /// Why that cannot be, in Redis's words where it has some. The file is as it was then.
    fn rewrite_config(&self, _tunables: &Tunables) -> Result<(), String> {
        Err("The server is running without a config file".to_owned())
    }
}

/// Says whether a password is the right one, in a time that tells nothing about it.
pub type PasswordCheck = Box<dyn Fn(&[u8]) -> bool + Send + Sync>;

/// Shared by all cores; only `tunables` and `shared` change.
pub struct Settings {
    /// `None`: no password is asked for.
    pub password: Option<PasswordCheck>,
    /// What CONFIG GET knows, by name. Where a tunable has the same name, that is what holds.
    pub parameters: Vec<(String, String)>,
    /// The top of RL.LOG's limit.
    pub log_limit_max: u64,
    /// The longest value, in bytes.
    pub value_bytes_max: usize,
    /// Whether RL.CLOCK may move the time.
    pub test_clock: bool,
    /// What CONFIG SET changes.
    pub tunables: Tunables,
    /// What the cores write together.
    pub shared: Shared,
    /// Whether the busiest keys are counted, for RL.TOP.
    pub top_keys: bool,
    /// Whether this process is a node of a cluster.
    pub cluster: bool,
    /// The most clients.
    pub clients_max: u64,
    /// The TCP port.
    pub port: u16,
    /// Forty hexadecimal digits, new at each start.
    pub run_id: String,
    /// Of this process.
    pub process_id: u32,
    /// The configuration file, if one was given.
    pub config_file: String,
    /// The operating system's facts.
    pub process: Box<dyn Process>,
}

impl fmt::Debug for Settings {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Settings").field("run_id", &self.run_id).finish_non_exhaustive()
    }
}

/// The version of Redis whose replies clients are told to expect.
pub const REDIS_VERSION: &str = "7.2.4";
/// The version of Tollgate.
pub const TOLLGATE_VERSION: &str = env!("CARGO_PKG_VERSION");
