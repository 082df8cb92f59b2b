//! Settings that change while the server runs: CONFIG SET writes them, everybody reads them.
//!
//! The problem: a setting that can change has as many readers as there are cores, some of them in every call. The idea:
//! one atomic for each setting, shared by all; what a core needs in every call it copies to where it is at hand
//! ([`crate::core::Core::follow_tunables`]), right after a change and again at each tick, so that two changes at once
//! leave no two cores with different values.
//!
//! **Invariant:** a value is checked before it is stored ([`Tunable::parse`]), so that readers need not.

use std::sync::atomic::{AtomicI64, Ordering};
use tollgate_limits::parse_duration;
use tollgate_store::Eviction;
use tollgate_topology::change::{LEASE_MS_MAX, LEASE_MS_MIN};
use tollgate_topology::map::LEASE_MS_DEFAULT;

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
    /// Units that a failover may forget; -1 is any number.
    OvershootMax,
    /// Milliseconds after which a replica that does not acknowledge is out of step.
    ReplicaTimeout,
    /// Replicas in step that there should be.
    ReplicasRequired,
    /// Whether calls are refused with fewer: 1 if so.
    ReplicaLost,
    /// Milliseconds of a lease in a cluster: for so long a node may serve that reaches nobody.
    ClusterNodeTimeout,
}

/// What a value may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// A whole number in this range, both ends included.
    Integer(i64, i64),
    /// Bytes, or a number with a unit.
    Memory,
    /// One of these words; stored as its place.
    Word(&'static [&'static str]),
    /// A whole number up to this one, or nothing, which is stored as -1.
    Optional(i64),
    /// A time between these, in milliseconds.
    Time(u64, u64),
}

/// The values of maxmemory-policy.
const POLICY_NAMES: [&str; 2] = ["noeviction", "evict-least"];
const POLICIES: [Eviction; 2] = [Eviction::NoEviction, Eviction::EvictLeast];
/// The values of replica-lost.
const LOST: [&str; 2] = ["open", "deny"];
/// What replica-timeout may be, in milliseconds.
const REPLICA_TIMEOUTS: (u64, u64) = (100, 60_000);
/// The most replicas that may be required: a core tells no more.
pub const REPLICAS_MAX: i64 = 16;
/// The most entries of the slow log that may be asked for: each takes up to 4 KiB, on each core.
pub const SLOWLOG_LENGTH_MAX: i64 = 10_000;

impl Tunable {
    /// All, in the order of CONFIG GET.
    pub const ALL: [Tunable; 12] = [
        Tunable::MaxMemory,
        Tunable::MaxMemoryPolicy,
        Tunable::Timeout,
        Tunable::TcpKeepalive,
        Tunable::SlowlogLogSlowerThan,
        Tunable::SlowlogMaxLen,
        Tunable::LatencyMonitorThreshold,
        Tunable::OvershootMax,
        Tunable::ReplicaTimeout,
        Tunable::ReplicasRequired,
        Tunable::ReplicaLost,
        Tunable::ClusterNodeTimeout,
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
            Tunable::OvershootMax => "failover-overshoot-max",
            Tunable::ReplicaTimeout => "replica-timeout",
            Tunable::ReplicasRequired => "replicas-required",
            Tunable::ReplicaLost => "replica-lost",
            Tunable::ClusterNodeTimeout => "cluster-node-timeout",
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
            Tunable::OvershootMax => 7,
            Tunable::ReplicaTimeout => 8,
            Tunable::ReplicasRequired => 9,
            Tunable::ReplicaLost => 10,
            Tunable::ClusterNodeTimeout => 11,
        }
    }

    const fn kind(self) -> Kind {
        match self {
            Tunable::MaxMemory => Kind::Memory,
            Tunable::MaxMemoryPolicy => Kind::Word(&POLICY_NAMES),
            Tunable::Timeout => Kind::Integer(0, 31_536_000),
            Tunable::TcpKeepalive => Kind::Integer(0, 32_767),
            Tunable::SlowlogLogSlowerThan => Kind::Integer(-1, i64::MAX),
            Tunable::SlowlogMaxLen => Kind::Integer(0, SLOWLOG_LENGTH_MAX),
            Tunable::LatencyMonitorThreshold => Kind::Integer(0, i64::MAX),
            Tunable::OvershootMax => Kind::Optional(1_000_000_000_000),
            Tunable::ReplicaTimeout => Kind::Time(REPLICA_TIMEOUTS.0, REPLICA_TIMEOUTS.1),
            Tunable::ReplicasRequired => Kind::Integer(0, REPLICAS_MAX),
            Tunable::ReplicaLost => Kind::Word(&LOST),
            Tunable::ClusterNodeTimeout => Kind::Integer(LEASE_MS_MIN as i64, LEASE_MS_MAX as i64),
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
            Kind::Word(words) => {
                let place = words.iter().position(|word| word.eq_ignore_ascii_case(text));
                let number = place.and_then(|place| i64::try_from(place).ok());
                number.ok_or_else(|| format!("argument(s) must be one of the following: {}", words.join(", ")))
            }
            Kind::Optional(_) if text.is_empty() => Ok(-1),
            Kind::Optional(most) => {
                let number = text.parse().ok().filter(|number| (0..=most).contains(number) && !text.starts_with('+'));
                number.ok_or_else(|| format!("argument must be between 0 and {most} inclusive, or empty"))
            }
            Kind::Time(least, most) => {
                let milliseconds = parse_duration(text.as_bytes()).ok().map(|micros| micros / 1_000);
                let fits = milliseconds.filter(|milliseconds| (least..=most).contains(milliseconds));
                let number = fits.and_then(|milliseconds| i64::try_from(milliseconds).ok());
                number.ok_or_else(|| format!("argument must be a time between {least}ms and {most}ms"))
            }
        }
    }

    /// Whether its value is written as a number.
    pub fn is_number(self) -> bool {
        matches!(self.kind(), Kind::Integer(..) | Kind::Memory)
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
        tunables.set(Tunable::OvershootMax, -1);
        tunables.set(Tunable::ReplicaTimeout, 1_000);
        tunables.set(Tunable::ClusterNodeTimeout, i64::from(LEASE_MS_DEFAULT));
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
        let value = self.get(tunable);
        match tunable.kind() {
            Kind::Word(words) => self.word(tunable, words).to_owned(),
            Kind::Optional(_) if value < 0 => String::new(),
            Kind::Time(..) => format!("{value}ms"),
            Kind::Integer(..) | Kind::Memory | Kind::Optional(_) => value.to_string(),
        }
    }

    fn word(&self, tunable: Tunable, words: &[&'static str]) -> &'static str {
        let place = usize::try_from(self.count(tunable)).unwrap_or(0);
        words.get(place).copied().unwrap_or_default()
    }

    /// `noeviction` or `evict-least`.
    pub fn policy_name(&self) -> &'static str {
        self.word(Tunable::MaxMemoryPolicy, &POLICY_NAMES)
    }

    /// What happens to a new key where memory is full.
    pub fn eviction(&self) -> Eviction {
        let place = usize::try_from(self.count(Tunable::MaxMemoryPolicy)).unwrap_or(0);
        POLICIES.get(place).copied().unwrap_or(Eviction::NoEviction)
    }

    /// Units that a failover may forget; `None`: any number.
    pub fn overshoot_max(&self) -> Option<u64> {
        u64::try_from(self.get(Tunable::OvershootMax)).ok()
    }

    /// Microseconds after which a replica that does not acknowledge is out of step.
    pub fn replica_timeout_micros(&self) -> u64 {
        self.count(Tunable::ReplicaTimeout).saturating_mul(1_000)
    }

    /// Replicas in step without which calls are refused; 0: they never are.
    pub fn replicas_needed(&self) -> u64 {
        if self.get(Tunable::ReplicaLost) == 1 { self.count(Tunable::ReplicasRequired) } else { 0 }
    }

    /// Sets what happens to a new key where memory is full.
    pub fn set_eviction(&self, eviction: Eviction) {
        let place = POLICIES.iter().position(|other| *other == eviction);
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
        let table: [(&str, &str, Result<i64, &str>); 24] = [
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
            ("failover-overshoot-max", "", Ok(-1)),
            ("failover-overshoot-max", "1000", Ok(1_000)),
            ("failover-overshoot-max", "-1", Err("argument must be between 0 and 1000000000000 inclusive, or empty")),
            ("replica-timeout", "250ms", Ok(250)),
            ("replica-timeout", "1m", Ok(60_000)),
            ("replica-timeout", "99ms", Err("argument must be a time between 100ms and 60000ms")),
            ("replica-lost", "DENY", Ok(1)),
            ("replicas-required", "17", Err("argument must be between 0 and 16 inclusive")),
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
        assert_eq!(Tunable::ALL.map(Tunable::place), [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]);
    }
}
