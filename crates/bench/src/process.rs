//! What a process on this machine has used, from /proc: its CPU time over all threads, and its memory.

use crate::error::BenchError;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

/// A process that is looked at from outside.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Process {
    pid: u32,
}

/// CPU time since the process began, all its threads together, those that have ended included.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct CpuTime {
    pub(crate) user: Duration,
    pub(crate) system: Duration,
}

impl Process {
    /// Looks at a process; an error if there is none of this id.
    pub(crate) fn open(pid: u32) -> Result<Process, BenchError> {
        let process = Process { pid };
        process.cpu_time().map(|_| process)
    }

    /// CPU time used so far, in steps of the kernel's clock tick (usually 10 ms).
    pub(crate) fn cpu_time(self) -> Result<CpuTime, BenchError> {
        let text = self.read("stat")?;
        parse_stat(&text, rustix::param::clock_ticks_per_second()).ok_or_else(|| self.unreadable("stat"))
    }

    /// Resident memory in bytes.
    pub(crate) fn rss_bytes(self) -> Result<u64, BenchError> {
        let text = self.read("status")?;
        parse_rss_bytes(&text).ok_or_else(|| self.unreadable("status"))
    }

    fn read(self, name: &str) -> Result<String, BenchError> {
        let path = self.path(name);
        std::fs::read_to_string(&path).map_err(|source| BenchError::File { path, source })
    }

    fn path(self, name: &str) -> PathBuf {
        PathBuf::from(format!("/proc/{}/{name}", self.pid))
    }

    fn unreadable(self, name: &str) -> BenchError {
        BenchError::File { path: self.path(name), source: io::Error::from(io::ErrorKind::InvalidData) }
    }
}

impl CpuTime {
    /// What was used since an earlier look.
    pub(crate) fn since(self, earlier: CpuTime) -> CpuTime {
        CpuTime { user: self.user.saturating_sub(earlier.user), system: self.system.saturating_sub(earlier.system) }
    }

    /// User and system time together.
    pub(crate) fn total(self) -> Duration {
        self.user.saturating_add(self.system)
    }
}

/// Fields 14 and 15 of stat. The second field is the program's name in parentheses and may itself hold blanks and
/// parentheses, so counting starts behind the last one.
fn parse_stat(text: &str, ticks_per_second: u64) -> Option<CpuTime> {
    let (_, after_name) = text.rsplit_once(')')?;
    let mut fields = after_name.split_ascii_whitespace().skip(11);
    let mut next = || -> Option<Duration> {
        let ticks: u64 = fields.next()?.parse().ok()?;
        ticks.checked_mul(1_000_000)?.checked_div(ticks_per_second).map(Duration::from_micros)
    };
    Some(CpuTime { user: next()?, system: next()? })
}

fn parse_rss_bytes(text: &str) -> Option<u64> {
    let value = text.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kibibytes: u64 = value.trim().strip_suffix("kB")?.trim_end().parse().ok()?;
    kibibytes.checked_mul(1_024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stat_is_read_behind_the_name() {
        let text = "42 (a) b (c) S 1 2 3 4 5 6 7 8 9 10 250 31 0 0 20";
        let expected = CpuTime { user: Duration::from_millis(2_500), system: Duration::from_millis(310) };
        assert_eq!(parse_stat(text, 100), Some(expected));
        for text in ["", "42 (a) S 1 2", "42 (a) S 1 2 3 4 5 6 7 8 9 10 x 31"] {
            assert_eq!(parse_stat(text, 100), None, "{text}");
        }
    }

    #[test]
    fn memory_is_read_from_status() {
        assert_eq!(parse_rss_bytes("VmPeak:\t 9 kB\nVmRSS:\t    12 kB\n"), Some(12_288));
        assert_eq!(parse_rss_bytes("VmPeak:\t 9 kB\n"), None);
    }

    #[test]
    fn this_process_can_be_looked_at() {
        let process = Process::open(std::process::id()).unwrap();
        assert!(process.rss_bytes().unwrap() > 100_000);
        assert!(Process::open(u32::MAX).is_err());
    }
}
