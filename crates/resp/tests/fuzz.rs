//! The fuzz harness without a fuzzer: a seeded mutator over the corpus, bounded by time, so that every change runs it
//! on stable Rust. `TOLLGATE_FUZZ_SECONDS` (default 2) and `TOLLGATE_FUZZ_SEED` set how long and from where.

#![allow(clippy::unwrap_used, reason = "an unwrap that fails is a test that fails")]

#[path = "harness/corpus.rs"]
mod corpus;
mod harness;

use std::time::{Duration, Instant};

use corpus::CORPUS;
use harness::{Random, check, encode};

/// The longest input that mutations build.
const INPUT_BYTES_MAX: usize = 4096;

#[test]
fn mutated_samples_keep_every_promise() {
    let seconds = setting("TOLLGATE_FUZZ_SECONDS", 2);
    let first_seed = setting("TOLLGATE_FUZZ_SEED", 1);
    let until = Instant::now() + Duration::from_secs(seconds);
    let mut runs: u64 = 0;
    while Instant::now() < until {
        let seed = first_seed + runs;
        let input = mutated(&mut Random::new(seed));
        let result = std::panic::catch_unwind(|| check(&input, seed));
        assert!(result.is_ok(), "seed {seed} fails on {}", input.escape_ascii());
        runs += 1;
    }
    println!("{runs} inputs from seed {first_seed}");
}

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().map_or(default, |text| text.parse().unwrap())
}

/// A sample, two in a row, or a run of commands of one shape, with up to eight changes.
fn mutated(random: &mut Random) -> Vec<u8> {
    if random.below(3) == 0 {
        return equal_shapes(random);
    }
    let mut input = CORPUS[random.below(CORPUS.len())].to_vec();
    if random.below(3) == 0 {
        input.extend_from_slice(CORPUS[random.below(CORPUS.len())]);
    }
    for _ in 0..random.below(9) {
        mutate(&mut input, random);
    }
    input.truncate(INPUT_BYTES_MAX);
    input
}

/// A run of commands that differ in the bytes of their arguments only, then now and then one that differs from them in
/// a single byte of anything, and more of the run. The arguments hold headers and line ends of their own.
fn equal_shapes(random: &mut Random) -> Vec<u8> {
    let lengths: Vec<usize> = (0..1 + random.below(8)).map(|_| ARGUMENT_BYTES[random.below(9)]).collect();
    let mut input = Vec::new();
    for _ in 0..3 + random.below(12) {
        let arguments: Vec<Vec<u8>> = lengths.iter().map(|length| argument(*length, random)).collect();
        let mut command = encode(&arguments);
        match random.below(12) {
            0 => {
                let at = random.below(command.len());
                command[at] ^= 1 << random.below(8);
            }
            1 => {
                let digits: Vec<usize> = (0..command.len()).filter(|at| command[*at].is_ascii_digit()).collect();
                command[digits[random.below(digits.len())]] = b'0' + random.next().to_le_bytes()[0] % 10;
            }
            2 => mutate(&mut command, random),
            _ => {}
        }
        input.extend_from_slice(&command);
    }
    input.truncate(INPUT_BYTES_MAX);
    input
}

/// Lengths on both sides of what the parser's quick ways take.
const ARGUMENT_BYTES: [usize; 9] = [0, 1, 2, 3, 8, 9, 10, 24, 99];

fn argument(length: usize, random: &mut Random) -> Vec<u8> {
    let mut bytes = Vec::new();
    while bytes.len() < length {
        bytes.extend_from_slice(PIECES[random.below(PIECES.len())]);
    }
    bytes.truncate(length);
    bytes
}

fn mutate(input: &mut Vec<u8>, random: &mut Random) {
    let at = random.below(input.len() + 1);
    let end = (at + 1 + random.below(12)).min(input.len());
    let removed = match random.below(6) {
        0 => return input.insert(at, random.next().to_le_bytes()[0]),
        1 => at..at,
        2 => at..end,
        3 if end > at => {
            input[at] ^= 1 << random.below(8);
            return;
        }
        4 => {
            let copy = input[at..end].repeat(1 + random.below(4));
            input.splice(at..at, copy);
            return;
        }
        _ => {
            input.drain(at..end);
            return;
        }
    };
    input.splice(removed, PIECES[random.below(PIECES.len())].iter().copied());
}

/// Pieces that mutations put in, because chance alone would hardly ever write them.
const PIECES: &[&[u8]] = &[
    b"\r\n",
    b"\r",
    b"\n",
    b"*",
    b"$",
    b"*1\r\n",
    b"*2\r\n",
    b"*0\r\n",
    b"*-1\r\n",
    b"$0\r\n\r\n",
    b"$1\r\na\r\n",
    b"$-1\r\n",
    b"*5\r\n",
    b"*6\r\n",
    b"$20\r\n",
    b"$21\r\n",
    b"*16386\r\n",
    b"*16387\r\n",
    b"$4096\r\n",
    b"$4097\r\n",
    b"$65536\r\n",
    b"$65537\r\n",
    b"9223372036854775807",
    b"-9223372036854775808",
    b"+1",
    b"00",
    b"\"",
    b"'",
    b"\\x",
    b"\\",
    b" ",
    b"\t",
    b" HTTP/1.1",
    b"POST ",
    b"$4\r\nPING\r\n",
    b":1\r\n",
    b"+OK\r\n",
    b"_\r\n",
    b"%1\r\n",
];
