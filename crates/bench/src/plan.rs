//! The checked plan of a run, made from the arguments before anything is connected.

use crate::arguments::{Arguments, Arrivals, KeyDistribution};
use crate::drive::Limit;
use crate::error::BenchError;
use crate::keys::KeyNames;
use crate::output::OutputArguments;
use crate::schedule::{Pace, calls_due};
use crate::sequence::Draw;
use crate::target::Target;
use crate::verify::ANY_OVERSHOOT;
use crate::workload::{Dialect, Terms, Workload};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tollgate_limits::Window;

/// More connections than this would need other socket limits on both sides.
const CONNECTIONS_MAX: usize = 10_000;

/// A batch of this many calls is far beyond what any client sends.
const PIPELINE_MAX: usize = 10_000;

/// The order of all keys is held in memory: 4 bytes each.
const KEYS_MAX: u32 = 100_000_000;

/// Keys of a verified run: the counting sort needs 4 bytes for each.
const VERIFIED_KEYS_MAX: u32 = 10_000_000;

/// Limits whose remaining fits what a verified run keeps of a reply.
const VERIFIED_LIMIT_MAX: u64 = 4_000_000_000;

/// Servers refuse longer keys.
const KEY_BYTES_MAX: usize = 1_024;

const THREADS_MAX: usize = 256;

const RATE_MAX: u64 = 100_000_000;

const DEFAULT_DURATION: Duration = Duration::from_secs(5);

const DEFAULT_LIMIT: u64 = 100;

const DEFAULT_WINDOW: &str = "60";

const DEFAULT_ZIPF_EXPONENT: f64 = 0.99;

/// A limit that nobody reaches, for calls that must not be denied.
const UNREACHED_LIMIT: u64 = 1_000_000_000;

/// A bucket refills no faster than 10^9 a second.
const BUCKET_UNITS_PER_MICRO: u64 = 1_000;

/// The largest limit that RL.LOG takes unless its server is told otherwise.
const UNREACHED_LOG_LIMIT: u64 = 100_000;

/// What every call does.
#[derive(Debug, Clone)]
pub(crate) enum Work {
    /// A command line of the caller's own, and the script it calls.
    Command { line: String, script: Option<String> },
    /// A workload, in the dialect that the server turns out to speak.
    Workload { workload: Workload, dialect: Dialect, terms: Terms },
}

impl Work {
    /// Whether calls have a key.
    fn has_key(&self) -> bool {
        match self {
            Work::Command { line, .. } => line.contains("{key}"),
            Work::Workload { workload, .. } => *workload != Workload::Ping,
        }
    }
}

/// Everything a run needs to know, in range and consistent.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    pub(crate) target: Target,
    /// Where calls go on whose connection is lost; none if that is at the target.
    pub(crate) failover: Option<Target>,
    pub(crate) work: Work,
    pub(crate) threads: usize,
    pub(crate) connections: usize,
    pub(crate) pipeline: usize,
    /// Names of all keys, those of denied calls included.
    pub(crate) names: KeyNames,
    /// Which key each call goes to.
    pub(crate) draw: Draw,
    /// The pace of an open loop; none for a closed one.
    pub(crate) pace: Option<Pace>,
    /// Admissions beyond the limits that are allowed, [`ANY_OVERSHOOT`] of any number; none if replies are not checked.
    pub(crate) verify: Option<u64>,
    pub(crate) reconnect: bool,
    pub(crate) limit: Limit,
    pub(crate) warmup: Duration,
    pub(crate) warm_keys: bool,
    pub(crate) pid: Option<u32>,
    pub(crate) cpus: Vec<usize>,
    pub(crate) own_core: bool,
    pub(crate) json: bool,
    pub(crate) output: OutputArguments,
}

impl Plan {
    /// Checks the arguments and reads the script's file.
    pub(crate) fn check(arguments: Arguments) -> Result<Plan, BenchError> {
        in_range("--threads", arguments.threads, 1, THREADS_MAX)?;
        in_range("--connections", arguments.connections, 1, CONNECTIONS_MAX)?;
        in_range("--pipeline", arguments.pipeline, 1, PIPELINE_MAX)?;
        in_range("--keys", arguments.keys, 1, KEYS_MAX)?;
        in_range("--key-bytes", arguments.key_bytes, 1, KEY_BYTES_MAX)?;
        if arguments.threads > arguments.connections {
            let (threads, connections) = (arguments.threads, arguments.connections);
            let message = format!("--threads {threads} needs as many --connections, not {connections}");
            return Err(BenchError::Arguments(message));
        }
        if !matches!(arguments.cpu.len(), 0 | 1) && arguments.cpu.len() != arguments.threads {
            let (cpus, threads) = (arguments.cpu.len(), arguments.threads);
            let message = format!("--cpu names {cpus} CPUs for {threads} threads: name one for all, or one each");
            return Err(BenchError::Arguments(message));
        }
        let work = check_work(&arguments)?;
        let verify = check_verify(&arguments, &work)?;
        let draw = check_draw(&arguments, &work)?;
        if arguments.warm_keys && !work.has_key() {
            return Err(BenchError::Arguments("--warm-keys: the calls have no key".into()));
        }
        let limit = match (arguments.requests, arguments.duration) {
            (Some(calls), _) => Limit::Calls(calls),
            (None, duration) => Limit::Time(duration.unwrap_or(DEFAULT_DURATION)),
        };
        let prefix = key_prefix(&arguments, &work, verify.is_some());
        let target = Target::parse("--target", &arguments.target)?;
        let failover = arguments.failover.as_deref().map(|text| Target::parse("--failover", text)).transpose()?;
        Ok(Plan {
            failover: failover.map(|second| second.or_as(&target)),
            target,
            work,
            threads: arguments.threads,
            connections: arguments.connections,
            pipeline: arguments.pipeline,
            names: KeyNames::new(&prefix, arguments.key_bytes, arguments.keys, draw.denied.is_some())?,
            draw,
            pace: check_pace(&arguments, limit)?,
            verify,
            reconnect: arguments.reconnect || arguments.failover.is_some(),
            limit,
            warmup: arguments.warmup,
            warm_keys: arguments.warm_keys,
            pid: arguments.pid,
            cpus: arguments.cpu,
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

fn check_work(arguments: &Arguments) -> Result<Work, BenchError> {
    if let Some(line) = one_of("--command", &arguments.command)? {
        let script = one_of("--script", &arguments.script)?.map(|path| {
            std::fs::read_to_string(path).map_err(|source| BenchError::File { path: path.clone(), source })
        });
        return Ok(Work::Command { line: line.clone(), script: script.transpose()? });
    }
    if !arguments.script.is_empty() {
        return Err(BenchError::Arguments("--script needs the --command that calls it".into()));
    }
    let workload = arguments.workload.unwrap_or(Workload::Slide);
    let limits = [("--limit", arguments.limit.is_some()), ("--window", arguments.window.is_some())];
    if let Some((flag, _)) = limits.iter().find(|(_, is_given)| *is_given && !workload.row().limits) {
        let name = workload.row().name;
        return Err(BenchError::Arguments(format!("{flag}: the workload {name} limits nothing")));
    }
    let window = arguments.window.as_deref().unwrap_or(DEFAULT_WINDOW);
    let window = tollgate_limits::parse_window(window.as_bytes()).map_err(|_| {
        BenchError::Arguments(format!("--window {window:?} is no time from 1ms to 3650d, such as 60, 0.5 or 500ms"))
    })?;
    let limit = arguments.limit.unwrap_or_else(|| default_limit(arguments, workload, window));
    in_range("--limit", limit, 1, tollgate_limits::AMOUNT_MAX)?;
    let terms = Terms { limit, window };
    for rule in workload.row().rules {
        terms.policy(*rule)?;
    }
    Ok(Work::Workload { workload, dialect: arguments.dialect, terms })
}

/// The limit of a run that does not name one. Where it would be used up, the run would measure something else than what
/// was asked for: with --denied, which says itself what is denied; with --compare, where the faster server would deny
/// more than the slower; and with one hot key, where all but the first calls would be denied. A run that checks every
/// reply wants denials.
fn default_limit(arguments: &Arguments, workload: Workload, window: Window) -> u64 {
    let is_compared = !arguments.output.compare.is_empty();
    let is_hot = arguments.keys == 1 && !arguments.verify;
    if arguments.denied.is_none() && !is_compared && !is_hot {
        return DEFAULT_LIMIT;
    }
    match workload {
        Workload::Log => UNREACHED_LOG_LIMIT,
        _ => UNREACHED_LIMIT.min(window.micros().saturating_mul(BUCKET_UNITS_PER_MICRO)),
    }
}

/// What was given once at most; an error if it was given several times.
fn one_of<'a, Value>(flag: &str, values: &'a [Value]) -> Result<Option<&'a Value>, BenchError> {
    match values {
        [] => Ok(None),
        [value] => Ok(Some(value)),
        several => {
            let text = format!("{flag} was given {} times: only --compare takes one for each server", several.len());
            Err(BenchError::Arguments(text))
        }
    }
}

fn check_verify(arguments: &Arguments, work: &Work) -> Result<Option<u64>, BenchError> {
    let Work::Workload { workload, terms, .. } = work else { return Ok(None) };
    if !arguments.verify {
        return Ok(None);
    }
    let row = workload.row();
    if row.rules.is_empty() {
        let text =
            format!("--verify has nothing to check in the workload {}: it has no limit of a known kind", row.name);
        return Err(BenchError::Arguments(text));
    }
    in_range("--keys with --verify", arguments.keys, 1, VERIFIED_KEYS_MAX)?;
    in_range("--limit with --verify", terms.limit, 1, VERIFIED_LIMIT_MAX)?;
    let otherwise = if arguments.failover.is_some() { ANY_OVERSHOOT } else { 0 };
    Ok(Some(arguments.overshoot_max.unwrap_or(otherwise)))
}

fn check_draw(arguments: &Arguments, work: &Work) -> Result<Draw, BenchError> {
    let is_zipf = arguments.key_distribution == KeyDistribution::Zipf;
    if arguments.zipf_exponent.is_some() && !is_zipf {
        return Err(BenchError::Arguments("--zipf-exponent needs --key-distribution zipf".into()));
    }
    let exponent = arguments.zipf_exponent.unwrap_or(DEFAULT_ZIPF_EXPONENT);
    in_range("--zipf-exponent", exponent, 0.01, 10.0)?;
    if let Some(share) = arguments.denied {
        in_range("--denied", share, 0.0, 1.0)?;
        if let Work::Workload { workload, .. } = work
            && !workload.row().limits
        {
            let name = workload.row().name;
            return Err(BenchError::Arguments(format!("--denied: the workload {name} denies nothing")));
        }
    }
    Ok(Draw { keys: arguments.keys, zipf: is_zipf.then_some(exponent), denied: arguments.denied, seed: arguments.seed })
}

fn check_pace(arguments: &Arguments, limit: Limit) -> Result<Option<Pace>, BenchError> {
    let Some(calls_per_second) = arguments.rate else {
        if arguments.arrivals == Arrivals::Poisson {
            return Err(BenchError::Arguments("--arrivals needs --rate".into()));
        }
        return Ok(None);
    };
    in_range("--rate", calls_per_second, 1, RATE_MAX)?;
    let (due, of) = match limit {
        Limit::Calls(calls) => (u128::from(calls), "--requests".to_owned()),
        Limit::Time(time) => (calls_due(calls_per_second, time), format!("--rate {calls_per_second} in {time:?}")),
    };
    let pipeline = arguments.pipeline;
    if due > 0 && u128::try_from(pipeline).unwrap_or(u128::MAX) > due {
        let text = format!("--pipeline {pipeline} is more than the {due} calls of {of}: they would all be due at once");
        return Err(BenchError::Arguments(text));
    }
    Ok(Some(Pace { calls_per_second, arrivals: arguments.arrivals, seed: arguments.seed }))
}

/// Workloads do not share keys: a key holds a limit of one kind.
fn key_prefix(arguments: &Arguments, work: &Work, is_verified: bool) -> String {
    let given = arguments.key_prefix.clone();
    if is_verified {
        // What an earlier run left would be taken for this one's.
        return given.unwrap_or_else(|| "rl:".to_owned()) + &nonce();
    }
    given.unwrap_or_else(|| match work {
        Work::Command { .. } => "rl:key:".to_owned(),
        Work::Workload { workload, .. } => format!("rl:{}:", workload.row().name),
    })
}

/// Six characters that no other run is likely to have.
fn nonce() -> String {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let mut left = (since.as_nanos() / 1_000) ^ u128::from(std::process::id()) << 20;
    let mut text = String::new();
    for _ in 0..6 {
        let digit = u32::try_from(left % 36).unwrap_or_default();
        text.extend(char::from_digit(digit, 36));
        left /= 36;
    }
    text.push(':');
    text
}

fn in_range<Number: PartialOrd + std::fmt::Display>(
    flag: &str,
    value: Number,
    least: Number,
    most: Number,
) -> Result<(), BenchError> {
    // Written so that what is no number is in no range.
    if value >= least && value <= most {
        return Ok(());
    }
    Err(BenchError::Arguments(format!("{flag} {value} is not between {least} and {most}")))
}
