//! What all cores of a process share and none changes: configuration and facts, given by the shell.

use std::fmt;

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
}

/// Says whether a password is the right one, in a time that tells nothing about it.
pub type PasswordCheck = Box<dyn Fn(&[u8]) -> bool + Send + Sync>;

/// Shared and unchanging.
pub struct Settings {
    /// `None`: no password is asked for.
    pub password: Option<PasswordCheck>,
    /// What CONFIG GET knows, by name.
    pub parameters: Vec<(String, String)>,
    /// The top of RL.LOG's limit.
    pub log_limit_max: u64,
    /// Whether RL.CLOCK may move the time.
    pub test_clock: bool,
    /// Bound per core in bytes times cores; 0: none.
    pub memory_max_bytes: u64,
    /// `noeviction` or `evict-least`.
    pub memory_policy: &'static str,
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
