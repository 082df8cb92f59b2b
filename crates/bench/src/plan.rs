//! The checked plan of a run, made from the arguments before anything is connected.

use crate::arguments::Arguments;
use crate::drive::Limit;
use crate::error::BenchError;
use crate::keys::KeyNames;
use crate::output::OutputArguments;
use crate::target::Target;
use std::time::Duration;

/// More connections than this would need other socket limits on both sides.
const CONNECTIONS_MAX: usize = 10_000;

/// A batch of this many calls is far beyond what any client sends.
const PIPELINE_MAX: usize = 10_000;

/// The order of all keys is held in memory: 4 bytes each.
const KEYS_MAX: u32 = 100_000_000;

/// Servers refuse longer keys.
const KEY_BYTES_MAX: usize = 1_024;

const DEFAULT_DURATION: Duration = Duration::from_secs(5);

/// Everything a run needs to know, in range and consistent.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    pub(crate) target: Target,
    pub(crate) command: String,
    pub(crate) script: Option<String>,
    pub(crate) connections: usize,
    pub(crate) pipeline: usize,
    pub(crate) names: KeyNames,
    pub(crate) seed: u64,
    pub(crate) limit: Limit,
    pub(crate) warmup: Duration,
    pub(crate) warm_keys: bool,
    pub(crate) pid: Option<u32>,
    pub(crate) cpu: Option<usize>,
    pub(crate) own_core: bool,
    pub(crate) json: bool,
    pub(crate) output: OutputArguments,
}

impl Plan {
    /// Checks the arguments and reads the script's file.
    pub(crate) fn check(arguments: Arguments) -> Result<Plan, BenchError> {
        in_range("--connections", arguments.connections, 1, CONNECTIONS_MAX)?;
        in_range("--pipeline", arguments.pipeline, 1, PIPELINE_MAX)?;
        in_range("--keys", arguments.keys, 1, KEYS_MAX)?;
        in_range("--key-bytes", arguments.key_bytes, 1, KEY_BYTES_MAX)?;
        let script = match arguments.script {
            None => None,
            Some(path) => Some(std::fs::read_to_string(&path).map_err(|source| BenchError::File { path, source })?),
        };
        let limit = match (arguments.requests, arguments.duration) {
            (Some(calls), _) => Limit::Calls(calls),
            (None, duration) => Limit::Time(duration.unwrap_or(DEFAULT_DURATION)),
        };
        Ok(Plan {
            target: Target::parse(&arguments.target)?,
            command: arguments.command,
            script,
            connections: arguments.connections,
            pipeline: arguments.pipeline,
            names: KeyNames::new(&arguments.key_prefix, arguments.key_bytes, arguments.keys)?,
            seed: arguments.seed,
            limit,
            warmup: arguments.warmup,
            warm_keys: arguments.warm_keys,
            pid: arguments.pid,
            cpu: arguments.cpu,
            own_core: arguments.own_core,
            json: arguments.json,
            output: arguments.output,
        })
    }

    /// Whether no call follows the touching of the keys.
    pub(crate) fn only_touches(&self) -> bool {
        self.limit == Limit::Calls(0) && self.warmup.is_zero()
    }
}

fn in_range<Number: PartialOrd + std::fmt::Display>(
    flag: &str,
    value: Number,
    least: Number,
    most: Number,
) -> Result<(), BenchError> {
    if value < least || value > most {
        return Err(BenchError::Arguments(format!("{flag} {value} is not between {least} and {most}")));
    }
    Ok(())
}
