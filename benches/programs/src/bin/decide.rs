//! What a call costs the server without the kernel: parse, decide and encode, on a random one of many keys.
//!
//! A core of the server is filled with limits and then asked about random ones, in batches, from its own thread
//! ([`in_process`]). Two figures a call come out. `ns_per_call` is the time from the end of the server's read to the
//! beginning of its write: the batch is parsed, its records are fetched, each call is decided, and the replies lie in
//! the output buffer. `turn_ns_per_call` adds what lies between that write and the next read: the connection's turn
//! in its runtime, with a look at the (empty) event queue. The client's own work is in neither: it renders a batch
//! while the clock stands, which leaves the bytes in the cache as a read from a socket does.
//!
//! `floor_ns_per_call` is what the machine takes for the memory alone: two cache lines a call, at random places of as
//! many bytes as the keys' bytes lie in, nothing waiting for anything else. No store that keeps an index and records
//! apart can be below it.

use clap::Parser;
use serde_json::json;
use std::process::ExitCode;
use std::time::{Duration, Instant};
use tollgate_server::config::{Config, ServeArguments};
use tollgate_server::in_process::{self, Client};
use tollgate_server::{affinity, logging};

const PREFIX: &str = "rl:key:";
const KEY_BYTES: usize = 24;
const LIMIT: &str = "10000";
const WINDOW: &str = "3600";
/// About what a key takes in memory, index and record together.
const BYTES_A_KEY: usize = 60;
/// Rounds of the floor's measurement.
const FLOOR_ROUNDS: u32 = 101;
/// How each reply must begin: the call is admitted.
const ADMITTED: &[u8] = b"*5\r\n:1\r\n:10000\r\n:";

/// Measures parse, decide and encode of RL.SLIDE in process; prints a line of JSON for each number of keys.
#[derive(Parser, Clone)]
struct Arguments {
    /// Numbers of keys, growing; one store is filled to each in turn
    #[arg(long, value_delimiter = ',', default_value = "10000,1000000,10000000")]
    keys: Vec<u32>,
    /// Calls of a batch (1 to 200)
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=200))]
    batch: u32,
    /// Batches of a round: few, so that what else the machine does falls into few rounds
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..))]
    batches: u32,
    /// Rounds for each number of keys
    #[arg(long, default_value_t = 1001, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Run on this CPU only
    #[arg(long)]
    cpu: Option<usize>,
}

/// A server's flags, to get the settings that it has without any.
#[derive(Parser)]
struct Serve {
    #[command(flatten)]
    serve: ServeArguments,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    if let Err(text) = measure(arguments) {
        eprintln!("decide: {text}");
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}

fn measure(arguments: Arguments) -> Result<(), String> {
    let config = config()?;
    let _logging = logging::start(config.log_level, config.log_format).map_err(|error| error.to_string())?;
    let driver = in_process::serve(config, arguments.cpu, Driver::new(arguments)).map_err(|error| error.to_string())?;
    match driver.fault {
        Some(fault) => Err(fault),
        None => Ok(()),
    }
}

fn config() -> Result<Config, String> {
    let serve = Serve::parse_from(["decide", "--cores", "1"]).serve;
    let loaded = serve.load(std::iter::empty(), &affinity::inherited_cpus()).map_err(|errors| errors.to_string())?;
    Ok(loaded.config)
}

/// What the next batch is for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// Calls every key once, from this one on.
    Fill(u32),
    /// A round's batches, so many left; the first round is not counted.
    Round { number: u32, left: u32 },
}

/// The client: fills, then calls at random, and keeps the time.
struct Driver {
    arguments: Arguments,
    /// Which of the numbers of keys is being measured.
    stage: usize,
    phase: Phase,
    random: u64,
    calls: u32,
    begun: Option<Instant>,
    /// When the last write had been taken, and the time from its read to it.
    written: Option<(Instant, Duration)>,
    round: Times,
    rounds: Vec<(f64, f64)>,
    fault: Option<String>,
}

/// Time and calls of a round.
#[derive(Default)]
struct Times {
    decide: Duration,
    turn: Duration,
    calls: u32,
}

impl Driver {
    fn new(arguments: Arguments) -> Driver {
        Driver {
            arguments,
            stage: 0,
            phase: Phase::Fill(0),
            random: 0x9e37_79b9_7f4a_7c15,
            calls: 0,
            begun: None,
            written: None,
            round: Times::default(),
            rounds: Vec::new(),
            fault: None,
        }
    }

    /// Keys of the present stage; 0 when all is done.
    fn keys(&self) -> u32 {
        self.arguments.keys.get(self.stage).copied().unwrap_or(0)
    }

    fn render(&mut self, request: &mut Vec<u8>) {
        let keys = self.keys();
        match self.phase {
            Phase::Fill(first) => {
                let end = first.saturating_add(self.arguments.batch).min(keys);
                (first..end).for_each(|key| push_call(request, key));
                self.calls = end.saturating_sub(first);
                self.phase = if end < keys { Phase::Fill(end) } else { self.first_round() };
            }
            Phase::Round { number, left } => {
                self.calls = self.arguments.batch;
                for _ in 0..self.calls {
                    let key = below(&mut self.random, keys);
                    push_call(request, key);
                }
                self.phase = Phase::Round { number, left: left.saturating_sub(1) };
            }
        }
    }

    fn first_round(&self) -> Phase {
        Phase::Round { number: 0, left: self.arguments.batches }
    }

    /// Counts the batch that has just had its turn, and ends rounds and stages.
    fn account(&mut self, now: Instant) {
        let Some((written, decide)) = self.written.take() else { return };
        let Phase::Round { number, left } = self.phase else { return };
        if left == self.arguments.batches {
            // The last batch of the filling.
            return;
        }
        self.round.decide += decide;
        self.round.turn += decide + now.duration_since(written);
        self.round.calls = self.round.calls.saturating_add(self.calls);
        if left > 0 {
            return;
        }
        let times = std::mem::take(&mut self.round);
        let per_call = |time: Duration| time.as_secs_f64() * 1e9 / f64::from(times.calls.max(1));
        if number > 0 {
            self.rounds.push((per_call(times.decide), per_call(times.turn)));
        }
        self.phase = Phase::Round { number: number.saturating_add(1), left: self.arguments.batches };
        if number == self.arguments.rounds {
            self.report();
            let filled = self.keys();
            self.stage += 1;
            self.phase = if self.keys() > filled { Phase::Fill(filled) } else { self.first_round() };
        }
    }

    fn report(&mut self) {
        let floor = floor_ns(self.keys(), self.arguments.batch, self.arguments.batches, &mut self.random);
        let rounds = std::mem::take(&mut self.rounds);
        let [median, p10, p90] = [0.5, 0.1, 0.9].map(|part| quantile(rounds.iter().map(|round| round.0), part));
        let turn = quantile(rounds.iter().map(|round| round.1), 0.5);
        let rounded = |value: f64| (value * 10.0).round() / 10.0;
        let line = json!({
            "keys": self.keys(), "key_bytes": KEY_BYTES, "batch": self.arguments.batch, "rounds": rounds.len(),
            "calls_per_round": u64::from(self.arguments.batch) * u64::from(self.arguments.batches),
            "ns_per_call": rounded(median), "ns_per_call_p10": rounded(p10), "ns_per_call_p90": rounded(p90),
            "turn_ns_per_call": rounded(turn), "floor_ns_per_call": rounded(floor),
        });
        println!("{line}");
    }

    /// A figure of calls that failed would be worth nothing.
    fn check(&mut self, reply: &[u8]) {
        let replies = reply.iter().filter(|byte| **byte == b'*').count();
        let expected = usize::try_from(self.calls).unwrap_or(usize::MAX);
        if replies != expected || !reply.starts_with(ADMITTED) {
            let begin: String = String::from_utf8_lossy(reply).chars().take(80).collect();
            self.fault = Some(format!("{replies} replies instead of {expected}, beginning with {begin:?}"));
        }
    }
}

impl Client for Driver {
    fn request(&mut self, request: &mut Vec<u8>) {
        self.account(Instant::now());
        if self.fault.is_some() || self.keys() == 0 {
            return;
        }
        self.render(request);
        self.begun = Some(Instant::now());
    }

    fn reply(&mut self, reply: &[u8]) {
        let now = Instant::now();
        match self.begun.take() {
            Some(begun) => {
                self.check(reply);
                self.written = Some((Instant::now(), now.duration_since(begun)));
            }
            None => self.fault = Some("the replies of a batch came in more than one write".to_owned()),
        }
    }
}

fn push_call(request: &mut Vec<u8>, key: u32) {
    let digits = KEY_BYTES - PREFIX.len();
    request.extend_from_slice(b"*4\r\n$8\r\nRL.SLIDE\r\n");
    request.extend_from_slice(format!("${KEY_BYTES}\r\n{PREFIX}{key:0digits$}\r\n").as_bytes());
    let [limit, window] = [LIMIT, WINDOW].map(|word| format!("${}\r\n{word}\r\n", word.len()));
    request.extend_from_slice(limit.as_bytes());
    request.extend_from_slice(window.as_bytes());
}

/// A random number below `count`, by xorshift.
fn below(state: &mut u64, count: u32) -> u32 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    u32::try_from(((*state >> 32) * u64::from(count)) >> 32).unwrap_or(0)
}

/// Nanoseconds that two random reads of as much memory as `keys` take cost, in batches of `batch` pairs: the median
/// over some rounds.
fn floor_ns(keys: u32, batch: u32, batches: u32, random: &mut u64) -> f64 {
    let bytes = usize::try_from(keys).unwrap_or(usize::MAX).saturating_mul(BYTES_A_KEY);
    let words = vec![1_u64; bytes.div_ceil(size_of::<u64>()).max(1)];
    let count = u32::try_from(words.len()).unwrap_or(u32::MAX);
    let mut places = Vec::new();
    let mut rounds = Vec::new();
    for _ in 0..FLOOR_ROUNDS {
        let mut time = Duration::ZERO;
        let mut sum = 0_u64;
        for _ in 0..batches {
            places.clear();
            places.extend((0..2 * batch).map(|_| usize::try_from(below(random, count)).unwrap_or(0)));
            let begun = Instant::now();
            for place in &places {
                sum = sum.wrapping_add(words.get(*place).copied().unwrap_or(0));
            }
            // What nobody uses, the compiler does not read.
            sum = std::hint::black_box(sum);
            time += begun.elapsed();
        }
        rounds.push(time.as_secs_f64() * 1e9 / (f64::from(batch) * f64::from(batches)));
    }
    quantile(rounds.into_iter(), 0.5)
}

/// The value that `part` of the values lie below, by nearest rank.
fn quantile(values: impl Iterator<Item = f64>, part: f64) -> f64 {
    let mut sorted: Vec<f64> = values.collect();
    sorted.sort_by(f64::total_cmp);
    let last = f64::from(u32::try_from(sorted.len()).unwrap_or(u32::MAX).saturating_sub(1));
    let rank = (0..sorted.len()).find(|rank| f64::from(u32::try_from(*rank).unwrap_or(u32::MAX)) >= part * last);
    rank.and_then(|rank| sorted.get(rank)).copied().unwrap_or(f64::NAN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_values_by_rank() {
        let values = [5.0, 1.0, 4.0, 2.0, 3.0];
        for (part, expected) in [(0.0, 1.0), (0.1, 2.0), (0.5, 3.0), (0.9, 5.0), (1.0, 5.0)] {
            assert_eq!(quantile(values.into_iter(), part), expected, "{part}");
        }
        assert!(quantile(std::iter::empty(), 0.5).is_nan());
    }

    #[test]
    fn random_numbers_reach_both_ends_and_not_beyond() {
        let mut state = 1;
        let drawn: Vec<u32> = (0..1_000).map(|_| below(&mut state, 7)).collect();
        assert_eq!((drawn.iter().min(), drawn.iter().max()), (Some(&0), Some(&6)));
    }

    #[test]
    fn a_small_run_calls_every_stage_and_finds_no_fault() {
        let arguments = Arguments { keys: vec![10, 1_000], batch: 64, batches: 3, rounds: 2, cpu: None };
        let driver = in_process::serve(config().unwrap(), None, Driver::new(arguments)).unwrap();
        assert_eq!((driver.fault, driver.stage), (None, 2));
    }

    #[test]
    fn a_refused_call_is_a_fault() {
        let mut driver = Driver::new(Arguments::parse_from(["decide"]));
        driver.calls = 1;
        driver.check(b"*5\r\n:1\r\n:10000\r\n:9999\r\n:0\r\n:7200000\r\n");
        assert_eq!(driver.fault, None);
        driver.check(b"-OOM no room\r\n");
        assert!(driver.fault.is_some());
    }
}
