//! Settings that change while the server runs: CONFIG SET writes them, everybody reads them.
//!
//! The problem: a setting that can change has as many readers as there are cores, some of them in every call. The idea:
//! one atomic for each setting, shared by all; what a core needs in every call it copies to where it is at hand
//! ([`crate::core::Core::follow_tunables`]), right after a change and again at each tick, so that two changes at once
//! leave no two cores with different values.
//!
//! **Invariant:** a value is checked before it is stored ([`Tunable::parse`]), so that readers need not.

use std::sync::atomic::{AtomicI64, Ordering};
use tollgate_store::Eviction;

/// A setting that CONFIG SET can change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tunable {
    /// Bytes that all keys together may take; 0 is no limit.
    MaxMemory,
    /// What happens to a new key where memory is full.
    MaxMemoryPolicy,
    /// Seconds after which a silent client is cut off; 0 is never.
    Timeout,
    /// Seconds without traffic after which the kernel asks for a client; 0 is never. For connections that come.
    TcpKeepalive,
    /// Microseconds from which on a command is in the slow log; -1 is none.
    SlowlogLogSlowerThan,
    /// The most entries of the slow log.
    SlowlogMaxLen,
    /// Milliseconds from which on a command is a latency sample; 0 is none.
    LatencyMonitorThreshold,
}

/// What a value may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// A whole number in this range, both ends included.
    Integer(i64, i64),
    /// Bytes, or a number with a unit.
    Memory,
    /// One of [`POLICIES`].
    Policy,
}

/// The values of maxmemory-policy.
const POLICIES: [(&str, Eviction); 2] = [("noeviction", Eviction::NoEviction), ("evict-least", Eviction::EvictLeast)];
/// The most entries of the slow log that may be asked for: each takes up to 4 KiB, on each core.
pub const SLOWLOG_LENGTH_MAX: i64 = 10_000;

impl Tunable {
    /// All, in the order of CONFIG GET.
    pub const ALL: [Tunable; 7] = [
        Tunable::MaxMemory,
        Tunable::MaxMemoryPolicy,
        Tunable::Timeout,
        Tunable::TcpKeepalive,
        Tunable::SlowlogLogSlowerThan,
        Tunable::SlowlogMaxLen,
        Tunable::LatencyMonitorThreshold,
    ];

    /// The name in CONFIG GET and SET, on the command line and in the file.
    pub const fn name(self) -> &'static str {
        match self {
            Tunable::MaxMemory => "maxmemory",
            Tunable::MaxMemoryPolicy => "maxmemory-policy",
            Tunable::Timeout => "timeout",
            Tunable::TcpKeepalive => "tcp-keepalive",
            Tunable::SlowlogLogSlowerThan => "slowlog-log-slower-than",
            Tunable::SlowlogMaxLen => "slowlog-max-len",
            Tunable::LatencyMonitorThreshold => "latency-monitor-threshold",
        }
    }

    /// Its place in [`Tunable::ALL`].
    const fn place(self) -> usize {
        match self {
            Tunable::MaxMemory => 0,
            Tunable::MaxMemoryPolicy => 1,
            Tunable::Timeout => 2,
            Tunable::TcpKeepalive => 3,
            Tunable::SlowlogLogSlowerThan => 4,
            Tunable::SlowlogMaxLen => 5,
            Tunable::LatencyMonitorThreshold => 6,
        }
    }

    const fn kind(self) -> Kind {
        match self {
            Tunable::MaxMemory => Kind::Memory,
            Tunable::MaxMemoryPolicy => Kind::Policy,
            Tunable::Timeout => Kind::Integer(0, 31_536_000),
            Tunable::TcpKeepalive => Kind::Integer(0, 32_767),
            Tunable::SlowlogLogSlowerThan => Kind::Integer(-1, i64::MAX),
            Tunable::SlowlogMaxLen => Kind::Integer(0, SLOWLOG_LENGTH_MAX),
            Tunable::LatencyMonitorThreshold => Kind::Integer(0, i64::MAX),
        }
    }

    /// The setting of this name, in any case.
    pub fn find(name: &[u8]) -> Option<Tunable> {
        Tunable::ALL.into_iter().find(|tunable| tunable.name().as_bytes().eq_ignore_ascii_case(name))
    }

    /// The stored form of a value that was written as text.
    ///
    /// # Errors
    /// What is wrong with it, in Redis's words.
    pub fn parse(self, text: &[u8]) -> Result<i64, String> {
        let text = std::str::from_utf8(text).unwrap_or_default();
        match self.kind() {
            Kind::Integer(least, most) => {
                let number: i64 = text.parse().map_err(|_| "argument couldn't be parsed into an integer".to_owned())?;
                let fits = (least..=most).contains(&number) && !text.starts_with('+');
                fits.then_some(number).ok_or_else(|| format!("argument must be between {least} and {most} inclusive"))
            }
            Kind::Memory => memory_bytes(text).ok_or_else(|| "argument must be a memory value".to_owned()),
            Kind::Policy => {
                let place = POLICIES.iter().position(|(name, _)| name.eq_ignore_ascii_case(text));
                let number = place.and_then(|place| i64::try_from(place).ok());
                let names = POLICIES.map(|(name, _)| name).join(", ");
                number.ok_or_else(|| format!("argument(s) must be one of the following: {names}"))
            }
        }
    }

    /// Whether its value is written as a number.
    pub fn is_number(self) -> bool {
        self.kind() != Kind::Policy
    }
}

/// A size in Redis's units, in any case: `k`, `m`, `g` count in thousands, `kb`, `mb`, `gb` in 1024s.
fn memory_bytes(text: &str) -> Option<i64> {
    let end = text.bytes().position(|byte| !byte.is_ascii_digit()).unwrap_or(text.len());
    let (digits, unit) = text.split_at_checked(end)?;
    let unit_bytes: i64 = match unit.to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "k" => 1_000,
        "kb" => 1 << 10,
        "m" => 1_000_000,
        "mb" => 1 << 20,
        "g" => 1_000_000_000,
        "gb" => 1 << 30,
        _ => return None,
    };
    digits.parse::<i64>().ok()?.checked_mul(unit_bytes)
}

/// The values of all [`Tunable`]s.
#[derive(Debug)]
pub struct Tunables([AtomicI64; Tunable::ALL.len()]);

impl Default for Tunables {
    /// What Redis has where nobody sets anything.
    fn default() -> Tunables {
        let tunables = Tunables(Default::default());
        tunables.set(Tunable::TcpKeepalive, 300);
        tunables.set(Tunable::SlowlogLogSlowerThan, 10_000);
        tunables.set(Tunable::SlowlogMaxLen, 128);
        tunables
    }
}

impl Tunables {
    #[inline]
    fn cell(&self, tunable: Tunable) -> Option<&AtomicI64> {
        self.0.get(tunable.place())
    }

    /// A value in its stored form.
    #[inline]
    pub fn get(&self, tunable: Tunable) -> i64 {
        self.cell(tunable).map_or(0, |cell| cell.load(Ordering::Relaxed))
    }

    /// A value that is never negative.
    #[inline]
    pub fn count(&self, tunable: Tunable) -> u64 {
        u64::try_from(self.get(tunable)).unwrap_or(0)
    }

    /// Stores a value that [`Tunable::parse`] has made or the configuration has checked.
    pub fn set(&self, tunable: Tunable, value: i64) {
        if let Some(cell) = self.cell(tunable) {
            cell.store(value, Ordering::Relaxed);
        }
    }

    /// A value as CONFIG GET shows it.
    pub fn text(&self, tunable: Tunable) -> String {
        match tunable {
            Tunable::MaxMemoryPolicy => self.policy_name().to_owned(),
            _ => self.get(tunable).to_string(),
        }
    }

    fn policy(&self) -> (&'static str, Eviction) {
        let place = usize::try_from(self.count(Tunable::MaxMemoryPolicy)).unwrap_or(0);
        POLICIES.get(place).copied().unwrap_or(("noeviction", Eviction::NoEviction))
    }

    /// `noeviction` or `evict-least`.
    pub fn policy_name(&self) -> &'static str {
        self.policy().0
    }

    /// What happens to a new key where memory is full.
    pub fn eviction(&self) -> Eviction {
        self.policy().1
    }

    /// Sets what happens to a new key where memory is full.
    pub fn set_eviction(&self, eviction: Eviction) {
        let place = POLICIES.iter().position(|(_, other)| *other == eviction);
        self.set(Tunable::MaxMemoryPolicy, place.and_then(|place| i64::try_from(place).ok()).unwrap_or(0));
    }

    /// The bound on memory of all cores together, in bytes; 0 is none.
    pub fn memory_max_bytes(&self) -> u64 {
        self.count(Tunable::MaxMemory)
    }

    /// Sets the bound on memory. What passes 2^63 bytes is no other bound than 2^63.
    pub fn set_memory_max_bytes(&self, bytes: u64) {
        self.set(Tunable::MaxMemory, i64::try_from(bytes).unwrap_or(i64::MAX));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_taken_and_refused_in_redis_words() {
        let integer = "argument couldn't be parsed into an integer";
        let memory = "argument must be a memory value";
        let table: [(&str, &str, Result<i64, &str>); 16] = [
            ("maxmemory", "0", Ok(0)),
            ("maxmemory", "100mb", Ok(104_857_600)),
            ("MaxMemory", "1K", Ok(1_000)),
            ("maxmemory", "-1", Err(memory)),
            ("maxmemory", "", Err(memory)),
            ("maxmemory", "9223372036854775807gb", Err(memory)),
            ("maxmemory", "1.5gb", Err(memory)),
            ("timeout", "60", Ok(60)),
            ("timeout", "x", Err(integer)),
            ("timeout", "-1", Err("argument must be between 0 and 31536000 inclusive")),
            ("slowlog-log-slower-than", "-1", Ok(-1)),
            ("slowlog-log-slower-than", "-2", Err("argument must be between -1 and 9223372036854775807 inclusive")),
            ("slowlog-max-len", "10001", Err("argument must be between 0 and 10000 inclusive")),
            ("latency-monitor-threshold", "5", Ok(5)),
            ("maxmemory-policy", "EVICT-least", Ok(1)),
            (
                "maxmemory-policy",
                "allkeys-lru",
                Err("argument(s) must be one of the following: noeviction, evict-least"),
            ),
        ];
        for (name, text, expected) in table {
            let tunable = Tunable::find(name.as_bytes()).unwrap();
            assert_eq!(tunable.parse(text.as_bytes()), expected.map_err(str::to_owned), "{name} {text}");
        }
        assert_eq!(Tunable::find(b"port"), None);
        assert!(Tunable::Timeout.parse(b"\xff").is_err());
    }

    #[test]
    fn what_is_shown_can_be_set_again() {
        let tunables = Tunables::default();
        tunables.set_eviction(Eviction::EvictLeast);
        tunables.set_memory_max_bytes(u64::MAX);
        for tunable in Tunable::ALL {
            assert_eq!(tunable.parse(tunables.text(tunable).as_bytes()), Ok(tunables.get(tunable)), "{tunable:?}");
        }
        assert_eq!((tunables.policy_name(), tunables.eviction()), ("evict-least", Eviction::EvictLeast));
        assert_eq!(tunables.memory_max_bytes(), u64::MAX >> 1);
        assert_eq!(Tunable::ALL.map(Tunable::place), [0, 1, 2, 3, 4, 5, 6]);
    }
}
