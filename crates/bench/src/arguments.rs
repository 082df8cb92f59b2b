//! What a person can type after `tollgate bench`, as clap reads it.
//!
//! Nothing is checked here beyond the form of a single value: `plan` turns these raw values into a checked plan.

use crate::output::OutputArguments;
use crate::workload::{Dialect, Workload};
use std::path::PathBuf;
use std::time::Duration;

/// The flags of `tollgate bench`, before they are checked against each other.
#[derive(clap::Args, Debug, Clone)]
pub struct Arguments {
    /// The server: redis://[[user]:password@]host:port, host:port, or unix:/path
    #[arg(long, default_value = "redis://127.0.0.1:6379")]
    pub(crate) target: String,

    /// What every call does [default: slide]
    #[arg(long, value_enum)]
    pub(crate) workload: Option<Workload>,

    /// The language of the server, for --workload
    #[arg(long, value_enum, default_value_t = Dialect::Auto, conflicts_with = "command")]
    pub(crate) dialect: Dialect,

    /// Calls a workload admits in a window; a bucket's capacity [default: 100, and one that nobody reaches
    /// with --denied, --compare or --keys 1]
    #[arg(long, value_name = "N", conflicts_with = "command")]
    pub(crate) limit: Option<u64>,

    /// The window of a workload's limit, in seconds or with a unit, such as 60 or 500ms; a bucket refills in it
    /// [default: 60]
    #[arg(long, value_name = "SECONDS", conflicts_with = "command")]
    pub(crate) window: Option<String>,

    /// Share of the calls that are denied, 0 to 1: they go to keys of their own whose limit is spent beforehand
    #[arg(long, value_name = "SHARE", conflicts_with = "command")]
    pub(crate) denied: Option<f64>,

    /// A command of your own instead of a workload, quoted as in a shell; {key} is replaced by a key, {sha} by the
    /// loaded script's SHA1. With --compare once for all servers, or once for each in their order. Of the replies to
    /// EVAL, EVALSHA and FCALL, 0 or an array that begins with 0 counts as denied
    #[arg(long, conflicts_with = "workload")]
    pub(crate) command: Vec<String>,

    /// A Lua script that is loaded with SCRIPT LOAD first; its SHA1 stands for {sha} in the command. With several
    /// commands once for all that hold {sha}, or once for each of these in their order
    #[arg(long, value_name = "FILE")]
    pub(crate) script: Vec<PathBuf>,

    /// Threads of this client, among which the connections are dealt (1 to 256)
    #[arg(long, default_value_t = 1)]
    pub(crate) threads: usize,

    /// Connections, each with one batch on the way at a time, or several with --rate (1 to 10000)
    #[arg(long, default_value_t = 50)]
    pub(crate) connections: usize,

    /// Calls in one batch: sent by one write, timed until the last reply (1 to 10000)
    #[arg(long, default_value_t = 16)]
    pub(crate) pipeline: usize,

    /// Different keys; 1 is one hot key (1 to 100000000)
    #[arg(long, default_value_t = 1_000_000)]
    pub(crate) keys: u32,

    /// How often each key is called
    #[arg(long, value_enum, default_value_t = KeyDistribution::Uniform)]
    pub(crate) key_distribution: KeyDistribution,

    /// With zipf: the key of rank r is called in proportion to 1 / r to this power (0.01 to 10) [default: 0.99]
    #[arg(long, value_name = "S")]
    pub(crate) zipf_exponent: Option<f64>,

    /// Length of a key in bytes: the prefix, then a number padded with zeros
    #[arg(long, default_value_t = 24)]
    pub(crate) key_bytes: usize,

    /// What every key starts with; a {tag} in it puts all keys into one slot [default: rl:<workload>:, with --command
    /// rl:key:]
    #[arg(long)]
    pub(crate) key_prefix: Option<String>,

    /// Open loop: this many calls a second over all connections, whether the server keeps up or not; latency counts
    /// from when a call was due. Without it a connection's next batch leaves when the last one is answered
    #[arg(long, value_name = "N")]
    pub(crate) rate: Option<u64>,

    /// With --rate: batches due in even steps, or at random as independent callers would send them
    #[arg(long, value_enum, default_value_t = Arrivals::Even)]
    pub(crate) arrivals: Arrivals,

    /// Check every reply against the limit; one that breaks it makes the exit code 1
    #[arg(long, conflicts_with = "command")]
    pub(crate) verify: bool,

    /// With --verify: units that may be admitted above the limits in all, as a failover may cost [default: 0, and any
    /// number with --failover]
    #[arg(long, value_name = "N", requires = "verify")]
    pub(crate) overshoot_max: Option<u64>,

    /// With --verify: the server that takes over. Where a connection is lost the calls go on there, as soon as it takes
    /// them, and both servers are held against the limits as one. A host and a port, or a URL; without a user and
    /// password of its own it has those of --target
    #[arg(long, value_name = "HOST:PORT", requires = "verify", conflicts_with_all = ["own_core", "compare"])]
    pub(crate) failover: Option<String>,

    /// Go on when the server closes a connection: its calls count as errors, and it is opened again
    #[arg(long)]
    pub(crate) reconnect: bool,

    /// Seed of the order in which keys are called, and of random arrivals
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,

    /// Stop after exactly this many measured calls; 0 only warms
    #[arg(long, conflicts_with = "duration")]
    pub(crate) requests: Option<u64>,

    /// Stop after this time of measured calls, such as 5s or 500ms [default: 5s]
    #[arg(long, value_parser = parse_duration)]
    pub(crate) duration: Option<Duration>,

    /// Calls for this long before the clock starts; 0 for none
    #[arg(long, default_value = "1s", value_parser = parse_duration)]
    pub(crate) warmup: Duration,

    /// Call every key once before the warm-up
    #[arg(long)]
    pub(crate) warm_keys: bool,

    /// Process id of the server on this machine, for its CPU time and memory [default: who listens at the target]
    #[arg(long)]
    pub(crate) pid: Option<u32>,

    /// Run this client on one CPU only, or each thread on one of its own: 0,1
    #[arg(long, value_name = "N", value_delimiter = ',')]
    pub(crate) cpu: Vec<usize>,

    /// Give each connection only keys of the core that serves it (Tollgate only)
    #[arg(long)]
    pub(crate) own_core: bool,

    /// Print the report as one JSON object
    #[arg(long)]
    pub(crate) json: bool,

    #[command(flatten)]
    pub(crate) output: OutputArguments,
}

/// How often each key is called.
#[derive(clap::ValueEnum, Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum KeyDistribution {
    /// All keys equally often, in a random order
    Uniform,
    /// Few keys very often, most of them rarely
    Zipf,
}

/// When the calls of an open loop are due.
#[derive(clap::ValueEnum, Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Arrivals {
    /// One batch after the other in equal steps
    Even,
    /// As independent callers come: a Poisson process
    Poisson,
}

impl Arrivals {
    /// As it is typed.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Arrivals::Even => "even",
            Arrivals::Poisson => "poisson",
        }
    }
}

/// Reads `5s`, `500ms`, `20us`, `2m`, `1h`, `1d` or a plain number of seconds; whole numbers only.
fn parse_duration(text: &str) -> Result<Duration, String> {
    let digits_end = text.find(|character: char| !character.is_ascii_digit()).unwrap_or(text.len());
    let (digits, unit) = text.split_at(digits_end);
    let count: u64 =
        digits.parse().map_err(|_| "expected a whole number and a unit, such as 5s or 500ms".to_owned())?;
    let unit_micros: u64 = match unit {
        "us" => 1,
        "ms" => 1_000,
        "s" | "" => 1_000_000,
        "m" => 60_000_000,
        "h" => 3_600_000_000,
        "d" => 86_400_000_000,
        _ => return Err(format!("unknown unit {unit:?}: use us, ms, s, m, h or d")),
    };
    count.checked_mul(unit_micros).map(Duration::from_micros).ok_or_else(|| "too long".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_whole_numbers_with_a_unit() {
        let good = [
            ("5s", 5_000_000),
            ("500ms", 500_000),
            ("20us", 20),
            ("2m", 120_000_000),
            ("1h", 3_600_000_000),
            ("2d", 172_800_000_000),
            ("3", 3_000_000),
            ("0", 0),
        ];
        for (text, micros) in good {
            assert_eq!(parse_duration(text), Ok(Duration::from_micros(micros)), "{text}");
        }
        for text in ["", "s", "-1s", "1.5s", "5 s", "5w", "99999999999999999999s", "18446744073709551615m"] {
            assert!(parse_duration(text).is_err(), "{text}");
        }
    }
}
