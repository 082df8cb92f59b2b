//! When and on what a run was made: figures mean nothing without it.

use super::fields;
use crate::format;
use serde::Serialize;
use std::fs;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The machine of the client, which is the server's too where its CPU time is known.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Machine {
    /// When the run began, in UTC.
    started: String,
    /// The first processor's name.
    cpu_model: String,
    /// Processors that this program may use.
    cpus: usize,
    memory: String,
    kernel: String,
    /// The version of this program.
    tollgate_version: &'static str,
}

impl Machine {
    /// Looks at this machine, now. To be called before the client is pinned to one processor.
    pub(crate) fn look() -> Machine {
        let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let uname = rustix::system::uname();
        let kernel =
            [uname.sysname(), uname.release(), uname.machine()].map(|part| part.to_string_lossy().into_owned());
        Machine {
            started: utc(since_1970),
            cpu_model: field("/proc/cpuinfo", "model name").unwrap_or_else(|| "unknown".to_owned()),
            cpus: std::thread::available_parallelism().map_or(1, usize::from),
            memory: memory(),
            kernel: kernel.join(" "),
            tollgate_version: env!("CARGO_PKG_VERSION"),
        }
    }

    /// Names and what they are.
    pub(crate) fn fields(&self) -> Vec<(String, String)> {
        fields::of(self)
    }

    /// When the run began, in UTC.
    pub(crate) fn started(&self) -> &str {
        &self.started
    }
}

fn memory() -> String {
    let kibibytes = field("/proc/meminfo", "MemTotal").and_then(|text| text.strip_suffix(" kB")?.trim().parse().ok());
    kibibytes.map_or_else(|| "unknown".to_owned(), |kibibytes: f64| format::bytes(kibibytes * 1_024.0))
}

/// What stands behind `name` and a colon in the first such line of a file.
fn field(path: &str, name: &str) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    let line = text.lines().find(|line| line.starts_with(name))?;
    line.split_once(':').map(|(_, value)| value.trim().to_owned())
}

/// A moment as `2026-11-30 07:05:09 UTC`, by the Gregorian calendar.
fn utc(since_1970: Duration) -> String {
    let seconds = since_1970.as_secs();
    let (mut days, of_day) = (seconds / 86_400, seconds % 86_400);
    let mut year: u64 = 1970;
    let is_leap = |year: u64| year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    while days >= 365 + u64::from(is_leap(year)) {
        days = days.saturating_sub(365 + u64::from(is_leap(year)));
        year = year.saturating_add(1);
    }
    let mut month: u64 = 1;
    for length in [31, 28 + u64::from(is_leap(year)), 31, 30, 31, 30, 31, 31, 30, 31, 30] {
        if days < length {
            break;
        }
        days = days.saturating_sub(length);
        month = month.saturating_add(1);
    }
    let day = days.saturating_add(1);
    let (hour, minute, second) = (of_day / 3_600, of_day / 60 % 60, of_day % 60);
    format!("{year}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02} UTC")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_in_utc() {
        let cases = [
            (0, "1970-01-01 00:00:00 UTC"),
            (951_782_399, "2000-02-28 23:59:59 UTC"),
            (951_782_400, "2000-02-29 00:00:00 UTC"),
            (1_735_689_599, "2024-12-31 23:59:59 UTC"),
            (1_796_022_309, "2026-11-30 07:05:09 UTC"),
            (4_107_542_400, "2100-03-01 00:00:00 UTC"),
        ];
        for (seconds, expected) in cases {
            assert_eq!(utc(Duration::from_secs(seconds)), expected);
        }
    }

    #[test]
    fn this_machine_can_be_looked_at() {
        let machine = Machine::look();
        assert!(machine.cpus >= 1 && machine.kernel.contains(' ') && machine.memory.contains("iB"), "{machine:?}");
    }
}
