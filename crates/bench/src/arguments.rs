//! What a person can type after `tollgate bench`, as clap reads it.
//!
//! Nothing is checked here beyond the form of a single value: `plan` turns these raw values into a checked plan.

use crate::output::OutputArguments;
use std::path::PathBuf;
use std::time::Duration;

/// The flags of `tollgate bench`, before they are checked against each other.
#[derive(clap::Args, Debug, Clone)]
pub struct Arguments {
    /// The server: redis://[[user]:password@]host:port, host:port, or unix:/path
    #[arg(long, default_value = "redis://127.0.0.1:6379")]
    pub(crate) target: String,

    /// The command of every call, quoted as in a shell; {key} is replaced by a key, {sha} by the loaded script's SHA1
    #[arg(long, default_value = "RL.SLIDE {key} 100 60")]
    pub(crate) command: String,

    /// A Lua script that is loaded with SCRIPT LOAD first; its SHA1 stands for {sha} in the command
    #[arg(long, value_name = "FILE")]
    pub(crate) script: Option<PathBuf>,

    /// Connections, each with one batch on the way at a time (1 to 10000)
    #[arg(long, default_value_t = 50)]
    pub(crate) connections: usize,

    /// Calls in one batch: sent by one write, timed until the last reply (1 to 10000)
    #[arg(long, default_value_t = 16)]
    pub(crate) pipeline: usize,

    /// Different keys; 1 is one hot key (1 to 100000000)
    #[arg(long, default_value_t = 1_000_000)]
    pub(crate) keys: u32,

    /// Length of a key in bytes: the prefix, then a number padded with zeros
    #[arg(long, default_value_t = 24)]
    pub(crate) key_bytes: usize,

    /// What every key starts with; a {tag} in it puts all keys into one slot
    #[arg(long, default_value = "rl:key:")]
    pub(crate) key_prefix: String,

    /// Seed of the order in which keys are called
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

    /// Run this client on one CPU only
    #[arg(long, value_name = "N")]
    pub(crate) cpu: Option<usize>,

    /// Give each connection only keys of the core that serves it (Tollgate only)
    #[arg(long)]
    pub(crate) own_core: bool,

    /// Print the report as one JSON object
    #[arg(long)]
    pub(crate) json: bool,

    #[command(flatten)]
    pub(crate) output: OutputArguments,
}

/// Reads `5s`, `500ms`, `20us`, `2m` or a plain number of seconds; whole numbers only.
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
        _ => return Err(format!("unknown unit {unit:?}: use us, ms, s or m")),
    };
    count.checked_mul(unit_micros).map(Duration::from_micros).ok_or_else(|| "too long".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_whole_numbers_with_a_unit() {
        let good =
            [("5s", 5_000_000), ("500ms", 500_000), ("20us", 20), ("2m", 120_000_000), ("3", 3_000_000), ("0", 0)];
        for (text, micros) in good {
            assert_eq!(parse_duration(text), Ok(Duration::from_micros(micros)), "{text}");
        }
        for text in ["", "s", "-1s", "1.5s", "5 s", "5h", "99999999999999999999s", "18446744073709551615m"] {
            assert!(parse_duration(text).is_err(), "{text}");
        }
    }
}
