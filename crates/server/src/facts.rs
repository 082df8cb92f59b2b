//! What the operating system knows of this process, for INFO and /metrics.

use crate::clock::boot_micros;
use crate::config::{self, Config};
use crate::flows::Replicas;
use crate::following::{By, Following, Primary};
use crate::hub::SharedClock;
use crate::saving::Saving;
use crate::tenure::Tenure;
use rustix::param::page_size;
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use tollgate_engine::settings::{NotStarted, Pace, Persistence, Process, ReplicaSeen};
use tollgate_engine::tunables::Tunables;

/// The facts of this process.
#[derive(Debug)]
pub struct Facts {
    started_micros: u64,
    clock: SharedClock,
    config_file: Option<PathBuf>,
    is_clustered: bool,
    saving: Arc<Saving>,
    following: Arc<Following>,
    replicas: Arc<Replicas>,
    tenure: Arc<Tenure>,
}

/// Kernel ticks a second of the times in /proc, fixed on Linux.
const TICKS_PER_SECOND: u64 = 100;
/// Fields of /proc/self/stat after the command's name: user and kernel time.
const STAT_USER_FIELD: usize = 11;

impl Facts {
    /// Of a process that starts now.
    pub fn new(
        clock: SharedClock,
        config: &Config,
        saving: Arc<Saving>,
        (following, replicas, tenure): (Arc<Following>, Arc<Replicas>, Arc<Tenure>),
    ) -> Facts {
        let (config_file, is_clustered) = (config.file.clone(), config.cluster.is_some());
        Facts { started_micros: boot_micros(), clock, config_file, is_clustered, saving, following, replicas, tenure }
    }
}

impl Process for Facts {
    fn resident_bytes(&self) -> u64 {
        let text = fs::read_to_string("/proc/self/statm").unwrap_or_default();
        let pages = text.split_whitespace().nth(1).and_then(|pages| pages.parse::<u64>().ok()).unwrap_or(0);
        pages.saturating_mul(u64::try_from(page_size()).unwrap_or(0))
    }

    fn cpu_micros(&self) -> (u64, u64) {
        let text = fs::read_to_string("/proc/self/stat").unwrap_or_default();
        // The command's name stands in parentheses and may hold spaces.
        let after_name = text.rsplit_once(')').map_or("", |(_, rest)| rest);
        let mut times = after_name.split_whitespace().skip(STAT_USER_FIELD).map(|field| {
            let ticks = field.parse::<u64>().unwrap_or(0);
            ticks.saturating_mul(1_000_000 / TICKS_PER_SECOND)
        });
        (times.next().unwrap_or(0), times.next().unwrap_or(0))
    }

    fn uptime_seconds(&self) -> u64 {
        boot_micros().saturating_sub(self.started_micros) / 1_000_000
    }

    fn clock_steps(&self) -> u64 {
        self.clock.steps()
    }

    fn wall_offset_micros(&self) -> i64 {
        self.clock.wall_offset_micros()
    }

    fn machine_memory_bytes(&self) -> u64 {
        let text = fs::read_to_string("/proc/meminfo").unwrap_or_default();
        let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:")).unwrap_or_default();
        let kibibytes = line.split_whitespace().next().and_then(|number| number.parse::<u64>().ok());
        kibibytes.unwrap_or(0).saturating_mul(1024)
    }

    fn fill_random(&self, bytes: &mut [u8]) -> bool {
        let length = bytes.len();
        let filled = rustix::rand::getrandom(bytes, rustix::rand::GetRandomFlags::empty());
        filled.is_ok_and(|filled| filled == length)
    }

    fn follow(&self, primary: Option<(String, u16)>) -> Result<(), String> {
        if self.is_clustered {
            return Err("REPLICAOF not allowed in cluster mode.".to_owned());
        }
        self.following
            .follow(primary.map(|(host, port)| Primary { host, port }), By::Operator)
            .map_err(|error| error.to_string())
    }

    fn following(&self) -> Option<tollgate_engine::settings::Following> {
        self.following.shown()
    }

    fn lease_left_micros(&self) -> Option<u64> {
        self.tenure.left_micros()
    }

    fn replicas(&self) -> Vec<ReplicaSeen> {
        self.replicas.seen()
    }

    fn start_snapshot(&self, pace: Pace) -> Result<u64, NotStarted> {
        self.saving.start(pace)
    }

    fn schedule_snapshot(&self) {
        self.saving.schedule();
    }

    fn persistence(&self) -> Persistence {
        self.saving.persistence()
    }

    fn rewrite_config(&self, tunables: &Tunables) -> Result<(), String> {
        match &self.config_file {
            Some(path) => config::rewrite(path, tunables),
            None => Err("The server is running without a config file".to_owned()),
        }
    }

    fn operating_system(&self) -> String {
        let name = rustix::system::uname();
        let text = |words: &std::ffi::CStr| words.to_string_lossy().into_owned();
        format!("{} {} {}", text(name.sysname()), text(name.release()), text(name.machine()))
    }
}
