//! What requests mean and what is refused: input and expected text.

#![allow(clippy::unwrap_used, reason = "an unwrap that fails is a test that fails")]

mod harness;

use harness::{Outcome, run};
use tollgate_resp::{Parser, ProtocolError, RequestLimits, Span, Step};

const BEFORE: RequestLimits = RequestLimits::UNAUTHENTICATED;
const AFTER: RequestLimits = RequestLimits::AUTHENTICATED;

/// An outcome as one line: commands as `[a|b]`, then the error, or `...` where more bytes are due.
fn shown(outcome: &Outcome) -> String {
    let mut parts: Vec<String> = Vec::new();
    for command in &outcome.commands {
        let words: Vec<String> = command.arguments.iter().map(|word| word.escape_ascii().to_string()).collect();
        parts.push(format!("[{}]", words.join("|")));
    }
    parts.extend(outcome.error.map(|error| error.to_string()));
    if outcome.mid_command {
        parts.push("...".to_owned());
    }
    parts.join(" ")
}

fn check(limits: RequestLimits, input: &[u8], expected: &str) {
    let outcome = run(input, limits, &[input.len()]);
    assert_eq!(shown(&outcome), expected, "{}", input.escape_ascii());
}

#[test]
fn commands() {
    check(AFTER, b"*1\r\n$4\r\nPING\r\n", "[PING]");
    check(AFTER, b"*3\r\n$3\r\nSET\r\n$0\r\n\r\n$4\r\na\r\nb\r\n", "[SET||a\\r\\nb]");
    check(AFTER, b"*1\r\n$4\r\nPING\r\n*1\r\n$4\r\nQUIT\r\n*1\r\n$4\r\nPI", "[PING] [QUIT] ...");
    check(AFTER, b"*0\r\n*-1\r\n\r\n\n*1\r\n$1\r\na\r\n", "[] [] [] [] [a]");
    check(AFTER, b"*2\r\n$12\r\n\0\x01\x02\xff23456789\r\n$1\r\n*\r\n", "[\\x00\\x01\\x02\\xff23456789|*]");
    check(AFTER, b"", "");
    check(AFTER, b"*", "...");
    check(AFTER, b"*1\r", "...");
}

#[test]
fn broken_requests() {
    let count = "Protocol error: invalid multibulk length";
    for input in [
        "*x\r\n",
        "*\r\n",
        "*01\r\n",
        "*+1\r\n",
        "*1 \r\n",
        "*-0\r\n",
        "*2147483648\r\n",
        "*1\rx",
        "*9223372036854775808\r\n",
    ] {
        check(AFTER, input.as_bytes(), count);
        check(BEFORE, input.as_bytes(), count);
    }
    let length = "Protocol error: invalid bulk length";
    for input in ["$x\r\n", "$\r\n", "$01\r\n", "$-1\r\n", "$-0\r\n", "$+1\r\n", "$4\rP"] {
        check(AFTER, format!("*1\r\n{input}").as_bytes(), length);
        check(BEFORE, format!("*1\r\n{input}").as_bytes(), length);
    }
    check(BEFORE, b"*1\r\n$536870913\r\n", length);
    check(AFTER, b"*1\r\nx", "Protocol error: expected '$', got 'x'");
    check(AFTER, b"*1\r\n\r\n", "Protocol error: expected '$', got '?'");
    check(AFTER, b"*2\r\n$4\r\nPING\r\n*1\r\n", "Protocol error: expected '$', got '*'");
    check(AFTER, b"*1\r\n$4\r\nPINGPONG", "Protocol error: expected a line end after an argument");
    check(AFTER, &[b"*".to_vec(), vec![b'1'; 30]].concat(), "Protocol error: too big mbulk count string");
    check(AFTER, &[b"*1\r\n$".to_vec(), vec![b'1'; 30]].concat(), "Protocol error: too big bulk count string");
    check(AFTER, &[b"*".to_vec(), vec![b'1'; 29]].concat(), "...");
    check(AFTER, b"*1\r\n$4\r\nPING\r\n*x\r\n", "[PING] Protocol error: invalid multibulk length");
}

#[test]
fn bounds_are_checked_on_what_is_declared() {
    check(BEFORE, b"*10\r\n", "...");
    check(BEFORE, b"*11\r\n", "Protocol error: unauthenticated multibulk length");
    check(BEFORE, b"*1\r\n$4096\r\n", "...");
    check(BEFORE, b"*1\r\n$4097\r\n", "Protocol error: unauthenticated bulk length");
    check(AFTER, b"*16386\r\n", "...");
    check(AFTER, b"*16387\r\n", "Protocol error: invalid multibulk length");
    check(AFTER, b"*2\r\n$65536\r\n", "...");
    for length in ["65537", "536870912", "536870913", "9223372036854775807"] {
        let too_long = "Protocol error: invalid bulk length, at most 65536 bytes (proto-max-bulk-len)";
        check(AFTER, format!("*2\r\n${length}\r\n").as_bytes(), too_long);
    }
    let filled = |count: usize, bytes: usize| harness::encode(&vec![vec![b'x'; bytes]; count]);
    check(BEFORE, &filled(5, 4096), "Protocol error: too big command");
    check(AFTER, &filled(17, 65_000), "Protocol error: too big command");
    let most = run(&filled(16_386, 3), AFTER, &[16_386 * 9 + 8]);
    assert_eq!((most.commands.len(), most.commands[0].arguments.len(), most.error), (1, 16_386, None));
}

#[test]
fn a_command_may_be_as_long_as_its_bound_and_no_longer() {
    let wire = harness::encode(&[b"SET".to_vec(), vec![b'x'; 100]]);
    for (command_bytes_max, error) in [(wire.len(), None), (wire.len() - 1, Some(ProtocolError::TooBigCommand))] {
        let limits = RequestLimits { command_bytes_max, ..AFTER };
        assert_eq!(run(&wire, limits, &[wire.len()]).error, error);
    }
}

#[test]
fn inline_commands() {
    check(AFTER, b"PING\r\nPING\n  RL.SLIDE\tk 100   1 \r\n", "[PING] [PING] [RL.SLIDE|k|100|1]");
    check(AFTER, b"PING", "...");
    check(AFTER, br#"SET "a b" 'c d' "" '' e"f"#, "...");
    check(AFTER, b"SET \"a b\" 'c d' \"\" '' e\"f g\"\r\n", "[SET|a b|c d|||ef g]");
    check(AFTER, b"ECHO \"\\x00\\xFf\\n\\r\\t\\b\\a\\\\\\\"\\q\"\n", "[ECHO|\\x00\\xff\\n\\r\\t\\x08\\x07\\\\\\\"q]");
    check(AFTER, b"ECHO \"\\x4\\xg1\" 'it\\'s' '\\n' a\\nb\n", "[ECHO|x4xg1|it\\'s|\\\\n|a\\\\nb]");
    check(AFTER, b"ECHO it\\'s'\n", "[ECHO|it\\\\s]");
    let unbalanced = "Protocol error: unbalanced quotes in request";
    for line in ["\"a", "'a", "\"a\"b", "'a'b", "'a''b'", "\"a\\\"", "'a\\'", "\"", "a \"b\\"] {
        check(AFTER, format!("{line}\r\n").as_bytes(), unbalanced);
    }
}

#[test]
fn inline_bounds() {
    let too_big = "Protocol error: too big inline request";
    check(BEFORE, &[b'x'; 4096], "...");
    check(BEFORE, &[b'x'; 4097], too_big);
    check(BEFORE, &[vec![b' '; 4096], b"\n".to_vec()].concat(), "[]");
    check(BEFORE, &[vec![b' '; 4097], b"\n".to_vec()].concat(), too_big);
    check(AFTER, &[b'x'; 65_537], too_big);
    check(BEFORE, b"0 1 2 3 4 5 6 7 8 9\n", "[0|1|2|3|4|5|6|7|8|9]");
    check(BEFORE, b"0 1 2 3 4 5 6 7 8 9 10\n", "Protocol error: unauthenticated multibulk length");
    check(BEFORE, b"0 1 2 3 4 5 6 7 8 9 '10'\n", "Protocol error: unauthenticated multibulk length");
    check(AFTER, &b"a ".repeat(16_387), "...");
    check(AFTER, &[b"a ".repeat(16_387), b"\n".to_vec()].concat(), "Protocol error: invalid multibulk length");
    let short = RequestLimits { bulk_bytes_max: 3, ..AFTER };
    let too_long = "Protocol error: invalid bulk length, at most 3 bytes (proto-max-bulk-len)";
    check(short, b"abc abcd\n", too_long);
    check(short, b"'abc' 'abcd'\n", too_long);
}

#[test]
fn http_is_recognised() {
    let http = "Protocol error: HTTP request on a RESP port";
    for line in
        ["GET / HTTP/1.1", "POST / HTTP/1.1", "post", "Host: a", "host: a", "OPTIONS * HTTP/1.0", "GET /\" HTTP/1.1"]
    {
        check(AFTER, format!("{line}\r\n").as_bytes(), http);
    }
    check(AFTER, b"GET key\r\nGET HTTP/1.1\r\nSET k v HTTP/1.1\r\n", "[GET|key] [GET|HTTP/1.1] [SET|k|v|HTTP/1.1]");
    check(AFTER, b"*1\r\n$4\r\nPOST\r\n", "[POST]");
}

#[test]
fn an_early_name_is_given_and_the_rest_is_dropped_unbuffered() {
    let mut parser = Parser::new(AFTER);
    let mut spans = Vec::new();
    let first = b"..*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$9\r\n1234";
    let step = parser.step(first, 2, &mut spans);
    assert_eq!(step, Ok(Step::Incomplete { name: Some(Span { start: 10, end: 13 }) }));
    assert!(parser.is_mid_command());
    parser.discard();
    assert_eq!(parser.step(first, 2, &mut spans), Ok(Step::Discarded { end: first.len(), done: false }));
    assert_eq!(parser.step(b"", 0, &mut spans), Ok(Step::Discarded { end: 0, done: false }));
    assert_eq!(parser.step(b"56789\r", 0, &mut spans), Ok(Step::Discarded { end: 5, done: false }));
    assert_eq!(parser.step(b"\r\nPING\r\n", 0, &mut spans), Ok(Step::Discarded { end: 2, done: true }));
    assert!(!parser.is_mid_command() && spans.is_empty());
    assert_eq!(parser.step(b"\r\nPING\r\n", 2, &mut spans), Ok(Step::Command { end: 8 }));
    assert_eq!(spans, [Span { start: 2, end: 6 }]);
}

#[test]
fn what_is_thrown_away_is_still_checked() {
    let start_discarding = || {
        let mut parser = Parser::new(BEFORE);
        parser.step(b"*9\r\n$3\r\nSET\r\n", 0, &mut Vec::new()).unwrap();
        parser.discard();
        parser.step(b"*9\r\n$3\r\nSET\r\n", 0, &mut Vec::new()).unwrap();
        parser
    };
    let refused: [(&[u8], ProtocolError); 4] = [
        (b"$4097\r\n", ProtocolError::UnauthenticatedBulkLength),
        (b":1\r\n", ProtocolError::ExpectedBulk { found: b':' }),
        (b"$1\r\nabc", ProtocolError::ExpectedLineEnd),
        (b"$x\r\n", ProtocolError::InvalidBulkLength),
    ];
    for (input, error) in refused {
        assert_eq!(start_discarding().step(input, 0, &mut Vec::new()), Err(error));
    }
    let mut parser = start_discarding();
    let bulk = [b"$4096\r\n".to_vec(), vec![b'x'; 4096], b"\r\n".to_vec()].concat();
    for _ in 0..3 {
        let dropped = Step::Discarded { end: bulk.len(), done: false };
        assert_eq!(parser.step(&bulk, 0, &mut Vec::new()), Ok(dropped));
    }
    assert_eq!(parser.step(&bulk, 0, &mut Vec::new()), Err(ProtocolError::TooBigCommand));
}

#[test]
fn discarding_means_nothing_between_commands() {
    let mut parser = Parser::new(AFTER);
    parser.discard();
    assert!(!parser.is_mid_command());
    for begun in [&b"PI"[..], b"*", b"*2\r\n$3\r\nGE"] {
        assert_eq!(parser.step(begun, 0, &mut Vec::new()), Ok(Step::Incomplete { name: None }));
        assert!(parser.is_mid_command());
        parser = Parser::new(AFTER);
    }
}

#[test]
fn a_start_outside_the_buffer_reads_nothing() {
    for start in [4, 5, usize::MAX] {
        let mut parser = Parser::new(AFTER);
        assert_eq!(parser.step(b"PING", start, &mut Vec::new()), Ok(Step::Incomplete { name: None }));
        assert!(!parser.is_mid_command());
    }
    // A caller that loses bytes of an unfinished command gets no panic either, nor an end beyond its buffer.
    let mut parser = Parser::new(AFTER);
    parser.step(b"*3\r\n$3\r\nSET\r\n", 0, &mut Vec::new()).unwrap();
    assert!(matches!(parser.step(b"", 0, &mut Vec::new()), Ok(Step::Incomplete { name: Some(_) })));
    parser.discard();
    assert_eq!(parser.step(b"*3", 0, &mut Vec::new()), Ok(Step::Discarded { end: 2, done: false }));
}

#[test]
fn nothing_of_a_refused_command_is_left() {
    let mut parser = Parser::new(AFTER);
    let mut spans = Vec::new();
    parser.step(b"*3\r\n$3\r\nSET\r\n", 0, &mut spans).unwrap();
    let refused = parser.step(b"*3\r\n$3\r\nSET\r\nx", 0, &mut spans);
    assert_eq!(refused, Err(ProtocolError::ExpectedBulk { found: b'x' }));
    assert!(spans.is_empty() && !parser.is_mid_command());
    parser.step(b"*2\r\n$1\r\na\r\n", 0, &mut spans).unwrap();
    parser.step(b"*2\r\n$1\r\na\r\n$1\r\nb\r\n", 0, &mut spans).unwrap();
    assert_eq!(spans.len(), 2);
}

/// The same form many times over, and then each of its bytes changed: what is remembered of a form must not be taken
/// for what is there.
#[test]
fn a_command_that_differs_by_one_byte_is_read_anew() {
    let command = |key: &[u8]| harness::encode(&[b"RL.SLIDE".to_vec(), key.to_vec(), b"100".to_vec(), b"60".to_vec()]);
    let run_up =
        [command(b"rl:{user:1}:orders"), command(b"$3\r\n100\r\n*4\r\n\r\nabc"), command(&[b'x'; 18])].concat();
    let follow_up = command(b"rl:{user:2}:orders");
    for at in 0..follow_up.len() {
        for byte in *b"0123459*$\r\nx\xff\0" {
            let mut changed = follow_up.clone();
            changed[at] = byte;
            let alone = [changed.clone(), follow_up.repeat(3)].concat();
            let after = [run_up.clone(), alone.clone()].concat();
            let (alone, after) = (run(&alone, AFTER, &[alone.len()]), run(&after, AFTER, &[after.len()]));
            let read = |outcome: &Outcome, from: usize| -> Vec<Vec<Vec<u8>>> {
                outcome.commands.iter().skip(from).map(|command| command.arguments.clone()).collect()
            };
            assert_eq!(read(&after, 3), read(&alone, 0), "byte {at} is {byte}");
            assert_eq!((after.error, after.mid_command), (alone.error, alone.mid_command), "byte {at} is {byte}");
        }
    }
}

#[test]
fn a_form_that_was_read_is_forgotten_with_its_bounds() {
    let wire = harness::encode(&[b"GET".to_vec(), vec![b'k'; 30]]).repeat(6);
    let mut parser = Parser::new(AFTER);
    let mut start = 0;
    for _ in 0..3 {
        let Ok(Step::Command { end }) = parser.step(&wire, start, &mut Vec::new()) else { panic!("not read") };
        start = end;
    }
    parser.set_limits(RequestLimits { bulk_bytes_max: 29, ..AFTER });
    assert_eq!(parser.step(&wire, start, &mut Vec::new()), Err(ProtocolError::TooLongBulk { bytes_max: 29 }));
}

#[test]
fn new_bounds_hold_from_the_next_header_on() {
    let wire = harness::encode(&[b"GET".to_vec(), vec![b'k'; 5000]]);
    let mut parser = Parser::new(BEFORE);
    assert_eq!(parser.step(&wire, 0, &mut Vec::new()), Err(ProtocolError::UnauthenticatedBulkLength));
    let mut parser = Parser::new(BEFORE);
    parser.set_limits(AFTER);
    assert_eq!(parser.step(&wire, 0, &mut Vec::new()), Ok(Step::Command { end: wire.len() }));
}

#[test]
fn a_command_in_single_bytes_is_read_once() {
    // 16,386 arguments in about 150,000 reads: quadratic work would take minutes, not a moment.
    let wire = harness::encode(&vec![b"abc".to_vec(); 16_386]);
    let mut parser = Parser::new(AFTER);
    let mut spans = Vec::new();
    for end in 1..wire.len() {
        let step = parser.step(&wire[..end], 0, &mut spans);
        assert!(matches!(step, Ok(Step::Incomplete { .. })) && spans.is_empty());
    }
    assert!(parser.memory_bytes() < 2 * wire.len());
    assert_eq!(parser.step(&wire, 0, &mut spans), Ok(Step::Command { end: wire.len() }));
    assert_eq!(spans.len(), 16_386);
    assert!(parser.memory_bytes() <= 256, "memory goes with the command");
}
