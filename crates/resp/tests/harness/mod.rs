//! What must hold for any bytes at all: the one function that the seeded test and the fuzz target both call.
//!
//! For each input, under three sets of bounds:
//! 1. Cut anywhere, moved anywhere in the buffer, the input gives the same commands and the same error.
//! 2. Thrown away instead of buffered, it has the same number of commands and the same error, and only a header's
//!    worth of bytes is ever kept.
//! 3. A command that is accepted is exactly the bytes that redis-protocol makes of its arguments, and redis-protocol
//!    reads it likewise. What it reads as such a command, and this parser refuses, is above a bound.
//! 4. The parser's memory grows with the bytes that came, not with those that were declared.

#![allow(clippy::unwrap_used, reason = "an unwrap that fails is a test that fails")]
// Each test and the fuzz target use a part of this module.
#![allow(dead_code)]

use redis_protocol::resp2::decode::decode;
use redis_protocol::resp2::types::OwnedFrame;
use tollgate_resp::{Args, Parser, ProtocolError, RequestLimits, Span, Step};

/// The longest header line, and so the most bytes that stay buffered of a command that is thrown away.
const HEADER_BYTES_MAX: usize = 32;

/// The oracle recurses for each nested array, so it is not asked about inputs that could nest deeper than this.
const ORACLE_STARS_MAX: usize = 64;

/// One command and where it lies in the input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Command {
    pub start: usize,
    pub end: usize,
    pub arguments: Vec<Vec<u8>>,
}

/// All that an input says: its commands, and how it ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    pub commands: Vec<Command>,
    pub error: Option<ProtocolError>,
    pub mid_command: bool,
}

/// Small bounds, so that short inputs reach them.
pub const TIGHT: RequestLimits = RequestLimits {
    arguments_max: 5,
    bulk_bytes_max: 20,
    command_bytes_max: 90,
    inline_bytes_max: 40,
    authenticated: false,
};

/// Checks all four promises on `input`, with cuts drawn from `seed`.
pub fn check(input: &[u8], seed: u64) {
    for limits in [RequestLimits::AUTHENTICATED, RequestLimits::UNAUTHENTICATED, TIGHT] {
        let whole = run(input, limits, &[input.len()]);
        let mut random = Random::new(seed);
        let cuts = random_cuts(input.len(), &mut random);
        assert_eq!(run(input, limits, &cuts), whole, "cut into {cuts:?}: {}", input.escape_ascii());
        check_discarding(input, limits, &cuts, &whole);
        check_against_oracle(input, limits, &whole);
    }
}

/// Feeds `input` in chunks of the given lengths, moving the unfinished bytes about in the buffer between reads.
pub fn run(input: &[u8], limits: RequestLimits, chunks: &[usize]) -> Outcome {
    let mut parser = Parser::new(limits);
    let mut outcome = Outcome { commands: Vec::new(), error: None, mid_command: false };
    let mut spans = vec![Span { start: 7, end: 9 }];
    let (mut buffer, mut start, mut consumed, mut fed) = (Vec::new(), 0, 0, 0);
    for (turn, chunk) in chunks.iter().enumerate() {
        // The unfinished bytes move to another place: behind some bytes that were dealt with long ago.
        let unfinished = buffer.split_off(start);
        buffer = b"*1\r\n$9\r\n"[..turn % 9].to_vec();
        start = buffer.len();
        buffer.extend_from_slice(&unfinished);
        buffer.extend_from_slice(&input[fed..fed + chunk]);
        fed += chunk;
        loop {
            let step = parser.step(&buffer, start, &mut spans);
            assert!(parser.memory_bytes() <= 4 * (buffer.len() - start) + 256, "memory without bytes");
            let (end, arguments) = match step {
                Ok(Step::Command { end }) => (end, copied(Args::new(&buffer, &spans[1..]))),
                Ok(Step::Inline { end, arguments }) => (end, copied(arguments.args())),
                Ok(Step::Incomplete { name }) => {
                    check_name(name, &buffer, start, input, consumed, limits);
                    break;
                }
                Ok(Step::Discarded { .. }) => panic!("discarded what nobody asked to discard"),
                Err(error) => {
                    assert_eq!(spans.len(), 1, "an error leaves no spans");
                    return Outcome { error: Some(error), ..outcome };
                }
            };
            assert!(end > start && end <= buffer.len(), "the command's end lies in the buffer");
            outcome.commands.push(Command { start: consumed, end: consumed + end - start, arguments });
            consumed += end - start;
            start = end;
            spans.truncate(1);
        }
        assert_eq!(spans, [Span { start: 7, end: 9 }], "an unfinished command leaves no spans");
        assert_eq!(parser.is_mid_command(), start < buffer.len());
    }
    Outcome { mid_command: parser.is_mid_command(), ..outcome }
}

fn copied(arguments: Args<'_>) -> Vec<Vec<u8>> {
    arguments.iter().map(<[u8]>::to_vec).collect()
}

/// A name that is given early is the one that the finished command would have.
fn check_name(name: Option<Span>, buffer: &[u8], start: usize, input: &[u8], consumed: usize, limits: RequestLimits) {
    let Some(name) = name else { return };
    let end = usize::try_from(name.end).unwrap();
    assert!(usize::try_from(name.start).unwrap() > start && end <= buffer.len());
    // The same command with its name alone must parse to that name.
    let header = input[consumed..].iter().position(|&byte| byte == b'\n').unwrap() + 1;
    let mut alone = b"*1\r\n".to_vec();
    alone.extend_from_slice(&buffer[start + header..end + 2]);
    let mut spans = Vec::new();
    let step = Parser::new(limits).step(&alone, 0, &mut spans);
    assert_eq!(step, Ok(Step::Command { end: alone.len() }));
    assert_eq!(spans[0].of(&alone), name.of(buffer));
}

/// Throws away every command as soon as its name is known, as a server does that refuses it.
fn check_discarding(input: &[u8], limits: RequestLimits, chunks: &[usize], whole: &Outcome) {
    let mut parser = Parser::new(limits);
    let (mut buffer, mut fed, mut commands) = (Vec::new(), 0, 0);
    let mut error = None;
    'input: for chunk in chunks {
        buffer.extend_from_slice(&input[fed..fed + chunk]);
        fed += chunk;
        loop {
            let (end, done) = match parser.step(&buffer, 0, &mut Vec::new()) {
                Ok(Step::Command { end } | Step::Inline { end, .. }) => (end, true),
                Ok(Step::Discarded { end, done }) => (end, done),
                Ok(Step::Incomplete { name: Some(_) }) => {
                    parser.discard();
                    assert_eq!(parser.memory_bytes() / 256, 0, "nothing is kept of a command that is thrown away");
                    continue;
                }
                Ok(Step::Incomplete { name: None }) => break,
                Err(found) => {
                    error = Some(found);
                    break 'input;
                }
            };
            buffer.drain(..end);
            commands += usize::from(done);
            if !done {
                assert!(buffer.len() < HEADER_BYTES_MAX, "more than a header is kept");
                break;
            }
        }
    }
    assert_eq!((commands, error), (whole.commands.len(), whole.error), "thrown away: {}", input.escape_ascii());
}

/// Compares with redis-protocol, command by command, and at the place where reading stopped.
fn check_against_oracle(input: &[u8], limits: RequestLimits, whole: &Outcome) {
    let mut stopped = 0;
    for command in &whole.commands {
        let wire = &input[command.start..command.end];
        stopped = command.end;
        if wire[0] != b'*' || command.arguments.is_empty() {
            continue;
        }
        assert_eq!(wire, encode(&command.arguments), "accepted another spelling");
        assert_eq!(oracle(wire), Some((command.arguments.clone(), wire.len())), "{}", wire.escape_ascii());
    }
    let rest = &input[stopped..];
    let Some((arguments, end)) = oracle(rest) else { return };
    let canonical = !arguments.is_empty() && encode(&arguments) == rest[..end];
    assert!(!canonical || above_a_bound(&arguments, end, limits), "refused {}", rest[..end].escape_ascii());
}

/// What redis-protocol reads from the front of `wire`, if it is a command: an array of bulk strings.
fn oracle(wire: &[u8]) -> Option<(Vec<Vec<u8>>, usize)> {
    let stars = wire.iter().filter(|&&byte| byte == b'*').count();
    if wire.first() != Some(&b'*') || stars > ORACLE_STARS_MAX {
        return None;
    }
    let (OwnedFrame::Array(frames), length) = decode(wire).ok()?? else { return None };
    let arguments: Option<Vec<Vec<u8>>> = frames
        .into_iter()
        .map(|frame| if let OwnedFrame::BulkString(bytes) = frame { Some(bytes) } else { None })
        .collect();
    Some((arguments?, length))
}

fn above_a_bound(arguments: &[Vec<u8>], bytes: usize, limits: RequestLimits) -> bool {
    arguments.len() > limits.arguments_max
        || arguments.iter().any(|argument| argument.len() > limits.bulk_bytes_max)
        || bytes > limits.command_bytes_max
}

/// A command as clients send it.
pub fn encode(arguments: &[Vec<u8>]) -> Vec<u8> {
    let mut wire = format!("*{}\r\n", arguments.len()).into_bytes();
    for argument in arguments {
        wire.extend_from_slice(format!("${}\r\n", argument.len()).as_bytes());
        wire.extend_from_slice(argument);
        wire.extend_from_slice(b"\r\n");
    }
    wire
}

/// Lengths of chunks that add up to `len`: single bytes, short ones or long ones.
fn random_cuts(len: usize, random: &mut Random) -> Vec<usize> {
    let chunk_max = [1, 3, 40, 2000][random.below(4)];
    let (mut cuts, mut left) = (Vec::new(), len);
    while left > 0 {
        let chunk = (1 + random.below(chunk_max)).min(left);
        cuts.push(chunk);
        left -= chunk;
    }
    cuts
}

/// A small generator of repeatable numbers (an xorshift with a multiplied output).
pub struct Random {
    state: u64,
}

impl Random {
    pub fn new(seed: u64) -> Random {
        Random { state: seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1 }
    }

    pub fn next(&mut self) -> u64 {
        self.state ^= self.state >> 12;
        self.state ^= self.state << 25;
        self.state ^= self.state >> 27;
        self.state.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// A number from 0 up to but not including `bound`; 0 if there is none.
    pub fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.next() >> 33).unwrap() % bound.max(1)
    }
}
