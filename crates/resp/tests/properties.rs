//! Round trips over random commands and values.

#![allow(clippy::unwrap_used, reason = "an unwrap that fails is a test that fails")]

mod harness;

use harness::{check, encode, run};
use proptest::collection::vec;
use proptest::prelude::*;
use redis_protocol::resp2::decode::decode as decode_resp2;
use redis_protocol::resp2::types::OwnedFrame as Frame2;
use redis_protocol::resp3::decode::complete::decode as decode_resp3;
use redis_protocol::resp3::types::OwnedFrame as Frame3;
use tollgate_resp::{Protocol, Reply, RequestLimits};

fn arguments() -> impl Strategy<Value = Vec<Vec<u8>>> {
    vec(prop_oneof![vec(any::<u8>(), 0..12), vec(any::<u8>(), 90..110), vec(any::<u8>(), 990..1010)], 1..10)
}

fn written(protocol: Protocol, write: impl Fn(&mut Reply<'_>)) -> Vec<u8> {
    let mut out = Vec::new();
    write(&mut Reply::new(&mut out, protocol));
    out
}

/// A word as a person would have to quote it on an inline line.
fn quoted(word: &[u8]) -> Vec<u8> {
    let mut line = b"\"".to_vec();
    for &byte in word {
        match byte {
            b' '..=b'~' if byte != b'"' && byte != b'\\' => line.push(byte),
            _ => line.extend_from_slice(format!("\\x{byte:02x}").as_bytes()),
        }
    }
    line.push(b'"');
    line
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(200) })]

    #[test]
    fn commands_come_back_as_they_were_sent(commands in vec(arguments(), 1..4), seed: u64) {
        let wire: Vec<u8> = commands.iter().flat_map(|arguments| encode(arguments)).collect();
        let outcome = run(&wire, RequestLimits::AUTHENTICATED, &[wire.len()]);
        let read: Vec<_> = outcome.commands.into_iter().map(|command| command.arguments).collect();
        prop_assert_eq!(read, commands);
        prop_assert_eq!(outcome.error, None);
        check(&wire, seed);
    }

    #[test]
    fn any_bytes_can_be_quoted(words in vec(vec(any::<u8>(), 0..20), 1..6)) {
        let mut line = words.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(&b' ');
        prop_assume!(!line.windows(6).any(|bytes| bytes == b" HTTP/"));
        line.extend_from_slice(b"\r\n");
        let outcome = run(&line, RequestLimits::AUTHENTICATED, &[line.len()]);
        prop_assert_eq!(&outcome.commands[0].arguments, &words);
    }

    #[test]
    fn any_bytes_keep_every_promise(input in vec(any::<u8>(), 0..300), seed: u64) {
        check(&input, seed);
    }

    #[test]
    fn integers_read_back(values: [i64; 5], shift in 0_u32..64) {
        let values = values.map(|value| value >> shift);
        let wire = written(Protocol::Resp2, |reply| reply.five(values));
        let text: String = values.iter().map(|value| format!(":{value}\r\n")).collect();
        prop_assert_eq!(String::from_utf8(wire).unwrap(), format!("*5\r\n{text}"));
        let wire = written(Protocol::Resp3, |reply| reply.integer(values[0]));
        prop_assert_eq!(String::from_utf8(wire).unwrap(), format!(":{}\r\n", values[0]));
    }

    #[test]
    fn strings_read_back(bytes in vec(any::<u8>(), 0..200)) {
        let wire = written(Protocol::Resp2, |reply| reply.bulk(&bytes));
        prop_assert_eq!(decode_resp2(&wire).unwrap(), Some((Frame2::BulkString(bytes.clone()), wire.len())));
        let (frame, length) = decode_resp3(&wire).unwrap().unwrap();
        prop_assert_eq!(length, wire.len());
        prop_assert_eq!(frame, Frame3::BlobString { data: bytes, attributes: None });
    }

    #[test]
    fn no_text_leaves_its_line(text: String) {
        let error = written(Protocol::Resp2, |reply| reply.error(&text));
        let simple = written(Protocol::Resp2, |reply| reply.simple(&text));
        for wire in [error, simple] {
            prop_assert!(wire.ends_with(b"\r\n") && wire.len() <= 1024 + 3);
            let inside = std::str::from_utf8(&wire[1..wire.len() - 2]).unwrap();
            prop_assert!(!inside.chars().any(char::is_control));
        }
    }

    #[test]
    fn doubles_read_back(bits: u64) {
        let value = f64::from_bits(bits);
        prop_assume!(!value.is_nan());
        let wire = written(Protocol::Resp3, |reply| reply.double(value));
        let text = std::str::from_utf8(&wire[1..wire.len() - 2]).unwrap();
        prop_assert_eq!(text.parse::<f64>().unwrap(), value);
        let (frame, _) = decode_resp3(&wire).unwrap().unwrap();
        prop_assert_eq!(frame, Frame3::Double { data: value, attributes: None });
    }
}
