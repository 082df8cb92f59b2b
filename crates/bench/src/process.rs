//! What a process on this machine has used: its CPU time over all threads, and its memory.
//!
//! CPU time comes from the process's own CPU clock, which counts nanoseconds and keeps what ended threads used.
//! /proc has nothing as good: `stat` counts in clock ticks of 10 ms, `schedstat` shows the first thread only, and
//! the files of single threads go away with their threads. `stat` is read all the same, because only it tells user
//! from system time; its share is applied to the exact sum.

mod find;

pub(crate) use find::{Sighting, sight};

use crate::error::BenchError;
use nix::time::{clock_getcpuclockid, clock_gettime};
use nix::unistd::Pid;
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
    /// To the nanosecond; none where the kernel does not lend the clock of other processes.
    pub(crate) exact: Option<Duration>,
    /// In whole clock ticks.
    pub(crate) user: Duration,
    /// In whole clock ticks.
    pub(crate) system: Duration,
}

/// CPU time between two looks at a process.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct CpuUse {
    pub(crate) user: Duration,
    pub(crate) system: Duration,
    /// Whether the sum is exact, or made of clock ticks.
    pub(crate) is_exact: bool,
}

impl Process {
    /// Looks at a process; an error if there is none of this id.
    pub(crate) fn open(pid: u32) -> Result<Process, BenchError> {
        let process = Process { pid };
        process.cpu_time().map(|_| process)
    }

    /// CPU time used so far.
    pub(crate) fn cpu_time(self) -> Result<CpuTime, BenchError> {
        let text = self.read("stat")?;
        let (user, system) =
            parse_stat(&text, rustix::param::clock_ticks_per_second()).ok_or_else(|| self.unreadable("stat"))?;
        Ok(CpuTime { exact: self.exact_cpu_time(), user, system })
    }

    /// Resident memory in bytes.
    pub(crate) fn rss_bytes(self) -> Result<u64, BenchError> {
        let text = self.read("status")?;
        parse_rss_bytes(&text).ok_or_else(|| self.unreadable("status"))
    }

    /// The program's name as the kernel keeps it, 15 bytes at most; empty if it cannot be read.
    pub(crate) fn name(self) -> String {
        self.read("comm").map(|text| text.trim_end().to_owned()).unwrap_or_default()
    }

    fn exact_cpu_time(self) -> Option<Duration> {
        let clock = clock_getcpuclockid(Pid::from_raw(i32::try_from(self.pid).ok()?)).ok()?;
        clock_gettime(clock).ok().map(Duration::from)
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
    pub(crate) fn since(self, earlier: CpuTime) -> CpuUse {
        let user = self.user.saturating_sub(earlier.user);
        let system = self.system.saturating_sub(earlier.system);
        let (Some(now), Some(then)) = (self.exact, earlier.exact) else {
            return CpuUse { user, system, is_exact: false };
        };
        let exact = now.saturating_sub(then);
        // Less than a tick in between: the share over the process's whole life is the best guess there is.
        let share = user_share(user, system).or_else(|| user_share(self.user, self.system)).unwrap_or(1.0);
        let user = exact.mul_f64(share).min(exact);
        CpuUse { user, system: exact.saturating_sub(user), is_exact: true }
    }
}

impl CpuUse {
    /// User and system time together.
    pub(crate) fn total(self) -> Duration {
        self.user.saturating_add(self.system)
    }
}

/// The part of CPU time that was user time, 0 to 1; none if there was no time.
fn user_share(user: Duration, system: Duration) -> Option<f64> {
    let sum = user.saturating_add(system);
    (!sum.is_zero()).then(|| user.as_secs_f64() / sum.as_secs_f64())
}

/// Fields 14 and 15 of stat: user and system time. The second field is the program's name in parentheses and may
/// itself hold blanks and parentheses, so counting starts behind the last one.
fn parse_stat(text: &str, ticks_per_second: u64) -> Option<(Duration, Duration)> {
    let (_, after_name) = text.rsplit_once(')')?;
    let mut fields = after_name.split_ascii_whitespace().skip(11);
    let mut next = || -> Option<Duration> {
        let ticks: u64 = fields.next()?.parse().ok()?;
        ticks.checked_mul(1_000_000)?.checked_div(ticks_per_second).map(Duration::from_micros)
    };
    Some((next()?, next()?))
}

fn parse_rss_bytes(text: &str) -> Option<u64> {
    let value = text.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kibibytes: u64 = value.trim().strip_suffix("kB")?.trim_end().parse().ok()?;
    kibibytes.checked_mul(1_024)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    #[test]
    fn stat_is_read_behind_the_name() {
        let text = "42 (a) b (c) S 1 2 3 4 5 6 7 8 9 10 250 31 0 0 20";
        let expected = (Duration::from_millis(2_500), Duration::from_millis(310));
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
        assert!(!process.name().is_empty());
        assert!(Process::open(u32::MAX).is_err());
    }

    /// Milliseconds: exact, user and system of the earlier look, of the later one, then user and system expected.
    #[test]
    fn the_exact_sum_is_divided_as_the_ticks_are() {
        let milliseconds = |count: u64| Duration::from_millis(count);
        let at = |exact: Option<u64>, user, system| CpuTime {
            exact: exact.map(milliseconds),
            user: milliseconds(user),
            system: milliseconds(system),
        };
        let cases = [
            (at(Some(100), 50, 50), at(Some(504), 350, 150), (303, 101, true)),
            (at(Some(100), 75, 25), at(Some(104), 75, 25), (3, 1, true)),
            (at(Some(0), 0, 0), at(Some(4), 0, 0), (4, 0, true)),
            (at(None, 50, 50), at(Some(504), 350, 150), (300, 100, false)),
            (at(Some(9), 10, 0), at(Some(9), 10, 0), (0, 0, true)),
        ];
        for (before, after, (user, system, is_exact)) in cases {
            let expected = CpuUse { user: milliseconds(user), system: milliseconds(system), is_exact };
            assert_eq!(after.since(before), expected, "{before:?} {after:?}");
        }
    }

    #[test]
    fn ended_threads_are_counted() {
        let process = Process::open(std::process::id()).unwrap();
        let before = process.cpu_time().unwrap();
        let spun = Duration::from_millis(30);
        std::thread::spawn(move || {
            let started = Instant::now();
            while started.elapsed() < spun {
                std::hint::spin_loop();
            }
        })
        .join()
        .unwrap();
        let used = process.cpu_time().unwrap().since(before);
        // A busy machine may have given the thread only part of that time.
        assert!(used.total() > Duration::from_millis(1), "{used:?}");
    }
}
